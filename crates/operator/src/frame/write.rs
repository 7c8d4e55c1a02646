//! Writes to the very object that was looked at: each carries what makes it harmless when it comes too
//! late or twice.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::RequestError;

/// An object as it was when something was decided about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectVersion<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
}

impl<'a> ObjectVersion<'a> {
    pub(crate) fn of(object: &'a impl Resource) -> Self {
        let meta = object.meta();
        Self {
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            version: meta.resource_version.as_deref().unwrap_or_default(),
        }
    }
}

/// Changes the object, if nobody changed it since.
pub(crate) async fn patch<K>(
    api: &Api<K>,
    target: ObjectVersion<'_>,
    mut change: Value,
    what: &'static str,
) -> Result<K, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    change["metadata"]["uid"] = json!(target.uid);
    change["metadata"]["resourceVersion"] = json!(target.version);
    api.patch(target.name, &PatchParams::default(), &Patch::Merge(&change))
        .await
        .map_err(|error| RequestError::of(what, error))
}

/// Changes the object, however it has changed since: for what replaces nothing that others write.
pub(crate) async fn patch_any_version<K>(
    api: &Api<K>,
    (name, uid): (&str, &str),
    mut change: Value,
    what: &'static str,
) -> Result<K, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    change["metadata"]["uid"] = json!(uid);
    api.patch(name, &PatchParams::default(), &Patch::Merge(&change))
        .await
        .map_err(|error| RequestError::of(what, error))
}

/// Deletes the object, if nobody changed it since. The answer is the object while a finalizer keeps it.
pub(crate) async fn delete<K>(
    api: &Api<K>,
    target: ObjectVersion<'_>,
    what: &'static str,
) -> Result<Option<K>, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let version = Some(target.version.to_owned());
    delete_under(api, target.name, target.uid, version, what).await
}

/// The same, however it has changed since.
pub(crate) async fn delete_any_version<K>(
    api: &Api<K>,
    (name, uid): (&str, &str),
    what: &'static str,
) -> Result<Option<K>, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    delete_under(api, name, uid, None, what).await
}

async fn delete_under<K>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    resource_version: Option<String>,
    what: &'static str,
) -> Result<Option<K>, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let only = Preconditions { uid: Some(uid.to_owned()), resource_version };
    let params = DeleteParams::background().preconditions(only);
    let deleted = api.delete(name, &params).await.map_err(|error| RequestError::of(what, error))?;
    Ok(deleted.left())
}

/// The finalizers with this one; nothing, if it is among them.
pub(crate) fn with_finalizer(all: &[String], finalizer: &str) -> Option<Vec<String>> {
    let missing = all.iter().all(|one| one != finalizer);
    missing.then(|| all.iter().cloned().chain([finalizer.to_owned()]).collect())
}

/// The finalizers without this one; nothing, if it is not among them.
pub(crate) fn without_finalizer(all: &[String], finalizer: &str) -> Option<Vec<String>> {
    let kept: Vec<String> = all.iter().filter(|one| *one != finalizer).cloned().collect();
    (kept.len() < all.len()).then_some(kept)
}

/// What a patch of finalizers changes.
pub(crate) fn finalizers(all: &[String]) -> Value {
    json!({"metadata": {"finalizers": all}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_added_once_and_taken_away_alone() {
        let [foreground, ours] = ["foregroundDeletion", "sojourn.dev/x"].map(str::to_owned);
        let both = vec![foreground.clone(), ours.clone()];
        assert_eq!(with_finalizer(std::slice::from_ref(&foreground), &ours), Some(both.clone()));
        assert_eq!(with_finalizer(&both, &ours), None);
        assert_eq!(without_finalizer(&both, &ours), Some(vec![foreground.clone()]));
        assert_eq!(without_finalizer(&[foreground], &ours), None);
        assert_eq!(without_finalizer(&[], &ours), None);
    }
}
