//! ServiceAccounts.

use serde_json::{Map, Value};

use super::Kind;
use crate::json::{Access, Object};
use crate::warning::Warnings;

const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Kind for ServiceAccount {
    fn prepare_create(&self, obj: &mut Object) {
        keep_secret_names(obj);
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object) {
        keep_secret_names(new);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        let enforces =
            |obj: &Object| obj.at("metadata").at("annotations").get(ENFORCE_MOUNTABLE).is_some();
        if !enforces(new) || old.is_some_and(enforces) {
            return out;
        }
        out.push(format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE}]: deprecated in v1.32+; prefer separate \
             namespaces to isolate access to mounted secrets"
        ));
        out
    }
}

/// A reference to a secret is its name and nothing else.
fn keep_secret_names(obj: &mut Object) {
    let Some(Value::Array(secrets)) = obj.get_mut("secrets") else {
        return;
    };
    for secret in secrets {
        let name = secret.as_object_mut().and_then(|secret| secret.remove("name"));
        *secret = Value::Object(
            name.map(|name| ("name".to_owned(), name)).into_iter().collect::<Map<_, _>>(),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_referred_to_by_name() {
        let mut obj = json!({"secrets": [{"name": "a", "kind": "Secret"}, {"kind": "z"}]});
        ServiceAccount.prepare_create(obj.as_object_mut().unwrap());
        assert_eq!(obj, json!({"secrets": [{"name": "a"}, {}]}));
    }

    #[test]
    fn the_deprecated_annotation_is_warned_of_once() {
        let plain = json!({"metadata": {}});
        let enforcing = json!({"metadata": {"annotations": {ENFORCE_MOUNTABLE: "true"}}});
        let (plain, enforcing) = (plain.as_object().unwrap(), enforcing.as_object().unwrap());
        let warning = [
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated \
                        in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
        ];
        assert_eq!(ServiceAccount.warnings(enforcing, None).into_texts(), warning);
        assert_eq!(ServiceAccount.warnings(enforcing, Some(plain)).into_texts(), warning);
        assert!(ServiceAccount.warnings(enforcing, Some(enforcing)).into_texts().is_empty());
        assert!(ServiceAccount.warnings(plain, None).into_texts().is_empty());
    }
}
