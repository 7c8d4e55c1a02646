//! Sees everything that becomes of the objects of one collection in one namespace.

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The collections that cases speak of, as group, version, kind.
const COLLECTIONS: &[(&str, &str, &str, &str)] = &[
    ("pods", "", "v1", "Pod"),
    ("configmaps", "", "v1", "ConfigMap"),
    ("secrets", "", "v1", "Secret"),
    ("events", "", "v1", "Event"),
    ("persistentvolumeclaims", "", "v1", "PersistentVolumeClaim"),
    ("jobs", "batch", "v1", "Job"),
];

/// The interface to a collection in a namespace.
pub(crate) fn api(client: &Client, namespace: &str, collection: &str) -> Api<DynamicObject> {
    let known = COLLECTIONS.iter().find(|(plural, ..)| *plural == collection);
    let (plural, group, version, kind) =
        known.unwrap_or_else(|| panic!("no case may speak of {collection}"));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// One state of one object.
#[derive(Debug, Clone)]
pub(crate) struct ObservedStates {
    pub(crate) name: String,
    pub(crate) object: Value,
    /// This is what it was last.
    pub(crate) is_gone: bool,
}

/// What was seen so far. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    seen: watch::Receiver<Vec<ObservedStates>>,
    watching: JoinHandle<()>,
}

impl Observer {
    pub(crate) async fn start(api: Api<DynamicObject>) -> Self {
        let stream = api.watch(&WatchParams::default(), "").await;
        let mut stream = stream.expect("a watch").boxed();
        let (sender, seen) = watch::channel(Vec::new());
        let watching = tokio::spawn(async move {
            while let Some(Ok(event)) = stream.next().await {
                let (object, is_gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                let name = object.metadata.name.clone().unwrap_or_default();
                let object = serde_json::to_value(&object).expect("an object is JSON");
                sender.send_modify(|seen| seen.push(ObservedStates { name, object, is_gone }));
            }
        });
        Self { seen, watching }
    }

    /// Asks until there is an answer, again whenever something happened.
    pub(crate) async fn until<T>(
        &self,
        mut ask: impl FnMut(&[ObservedStates]) -> Option<T>,
    ) -> Option<T> {
        let mut seen = self.seen.clone();
        loop {
            if let Some(answer) = ask(&seen.borrow_and_update()) {
                return Some(answer);
            }
            seen.changed().await.ok()?;
        }
    }

    /// Every state of an object, in order.
    pub(crate) fn states(&self, name: &str) -> Vec<Value> {
        let seen = self.seen.borrow();
        seen.iter().filter(|seen| seen.name == name).map(|seen| seen.object.clone()).collect()
    }

    /// What is there now.
    pub(crate) fn present(&self) -> Vec<Value> {
        let seen = self.seen.borrow();
        let latest = |seen: &&ObservedStates, all: &[ObservedStates]| {
            all.iter().rfind(|other| other.name == seen.name).is_some_and(|last| {
                !last.is_gone && last.object["metadata"] == seen.object["metadata"]
            })
        };
        let present = seen.iter().filter(|one| latest(one, &seen));
        present.map(|seen| seen.object.clone()).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// The latest state of an object, unless it is gone.
pub(crate) fn latest<'a>(seen: &'a [ObservedStates], name: &str) -> Option<&'a Value> {
    let last = seen.iter().rfind(|seen| seen.name == name)?;
    (!last.is_gone).then_some(&last.object)
}
