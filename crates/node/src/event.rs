//! Events about Pods and the Node, as a kubelet writes them.
//!
//! [`Recorder::record`] never waits: what cannot be written soon is dropped, for nothing may depend
//! on an Event. What repeats raises the count of the Event that is there ([`series`]).

mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::request::{Backoff, RequestError, ask, in_full};
use series::{Series, Write};

/// Notes that wait to be written: those of 500 Pods that start at once, several times over.
const MAX_QUEUED_EVENTS: usize = 4096;
/// Events a second, and how many at once before that counts, as of a kubelet.
const RATE: u32 = 50;
const BURST: u32 = 100;
/// An Event that could not be written after so many times is not worth a place in the queue.
const MAX_ATTEMPTS: u32 = 5;

/// What a node calls itself in Events, as those who look for them expect.
const KUBELET: &str = "kubelet";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

impl EventType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone)]
struct NodeEvent {
    about: ObjectReference,
    kind: EventType,
    reason: String,
    message: String,
    at: Timestamp,
}

/// Records Events; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    notes: mpsc::Sender<NodeEvent>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A node's recorder, and the work of writing down what it is told. That ends when every
    /// recorder is gone and all is written.
    pub(crate) fn new(
        client: kube::Client,
        node: &str,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        Self::of(
            client,
            EventSource { component: Some(KUBELET.to_owned()), host: Some(node.to_owned()) },
        )
    }

    /// The same of a controller, which is on no node.
    pub(crate) fn of_component(
        client: kube::Client,
        component: &str,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        Self::of(client, EventSource { component: Some(component.to_owned()), host: None })
    }

    fn of(
        client: kube::Client,
        source: EventSource,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (notes, queue) = mpsc::channel(MAX_QUEUED_EVENTS);
        let dropped = Arc::new(AtomicU64::new(0));
        let work = write_all(client, Series::new(source), queue, Arc::clone(&dropped));
        (Self { notes, dropped }, work)
    }

    /// Returns at once, whatever the API server does.
    pub(crate) fn record(
        &self,
        about: &ObjectReference,
        kind: EventType,
        reason: &str,
        message: &str,
    ) {
        let note = NodeEvent {
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            message: series::bounded(message),
            at: Timestamp::now(),
        };
        if self.notes.try_send(note).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs a controller while the Events that it records are written.
pub(crate) async fn with_recorder<F, E>(
    client: kube::Client,
    component: &str,
    work: impl FnOnce(Recorder) -> F,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let (recorder, writing) = Recorder::of_component(client, component);
    tokio::select! {
        outcome = work(recorder) => outcome,
        // Only when nobody takes notes any more.
        () = writing => Ok(()),
    }
}

/// What an Event about a whole Pod refers to.
pub(crate) fn about_pod(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// What an Event about one container refers to.
pub(crate) fn about_container(pod: &Pod, container: &str) -> ObjectReference {
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    let is_init = init.is_some_and(|all| all.iter().any(|one| one.name == container));
    let list = if is_init { "initContainers" } else { "containers" };
    ObjectReference { field_path: Some(format!("spec.{list}{{{container}}}")), ..about_pod(pod) }
}

/// What an Event about the Node refers to. Kubelets put its name where its uid would be.
pub(crate) fn about_node(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

async fn write_all(
    client: kube::Client,
    mut series: Series,
    mut queue: mpsc::Receiver<NodeEvent>,
    dropped: Arc<AtomicU64>,
) {
    let mut pace = RateLimiter::new(Instant::now());
    while let Some(note) = queue.recv().await {
        let missed = dropped.swap(0, Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(missed, "events were dropped because too many wait to be written");
        }
        let Some(write) = series.take(&note) else { continue };
        tokio::time::sleep_until(pace.next(Instant::now())).await;
        if let Err(error) = persist(&client, &write).await {
            let cause = in_full(&error);
            let reason = &note.reason;
            tracing::debug!(%cause, %reason, "an event could not be written");
        }
    }
}

/// Writes one Event, trying again while that may help.
async fn persist(client: &kube::Client, write: &Write) -> Result<(), RequestError> {
    let mut backoff = Backoff::new();
    let mut tries = 1;
    loop {
        match try_once(client, write).await {
            Err(error) if !error.is_final() && tries < MAX_ATTEMPTS => {
                tries += 1;
                tokio::time::sleep(backoff.next()).await;
            }
            result => return result,
        }
    }
}

async fn try_once(client: &kube::Client, write: &Write) -> Result<(), RequestError> {
    let event = &write.event;
    let (Some(namespace), Some(name)) = (&event.metadata.namespace, &event.metadata.name) else {
        return Ok(());
    };
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    if write.raises {
        let patch = Patch::Merge(json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        }));
        let raised =
            ask("raise an event", events.patch(name, &PatchParams::default(), &patch)).await;
        match raised {
            // It has expired meanwhile; the count goes on in a new one.
            Err(error) if error.code() == Some(404) => {}
            result => return result.map(drop),
        }
    }
    match ask("write an event", events.create(&PostParams::default(), event)).await {
        // A try whose answer was lost had arrived after all.
        Err(error) if error.code() == Some(409) => Ok(()),
        result => result.map(drop),
    }
}

/// Limits the rate of writes: [`BURST`] at once, then [`RATE`] a second.
#[derive(Debug)]
struct RateLimiter {
    /// When the allowance would be full again.
    full: Instant,
}

impl RateLimiter {
    const STEP: Duration = Duration::from_nanos(1_000_000_000 / RATE as u64);

    const fn new(now: Instant) -> Self {
        Self { full: now }
    }

    /// The moment of the next write.
    fn next(&mut self, now: Instant) -> Instant {
        self.full = self.full.max(now) + Self::STEP;
        let at = self.full.checked_sub(Self::STEP * BURST).unwrap_or(now);
        at.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_spread() {
        let start = Instant::now();
        let mut pace = RateLimiter::new(start);
        for number in 0..BURST {
            assert_eq!(pace.next(start), start, "{number}");
        }
        assert_eq!(pace.next(start), start + Duration::from_millis(20));
        assert_eq!(pace.next(start), start + Duration::from_millis(40));
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.next(later), later);
    }

    #[test]
    fn references_are_a_kubelets() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5" },
            "spec": { "initContainers": [{ "name": "first" }], "containers": [{ "name": "main" }] },
        }))
        .unwrap();
        for (container, want) in
            [("first", "spec.initContainers{first}"), ("main", "spec.containers{main}")]
        {
            assert_eq!(about_container(&pod, container).field_path.as_deref(), Some(want));
        }
        assert_eq!(
            serde_json::to_value(about_pod(&pod)).unwrap(),
            json!({ "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web",
                "uid": "u", "resourceVersion": "5" })
        );
        assert_eq!(
            serde_json::to_value(about_node("here")).unwrap(),
            json!({ "kind": "Node", "name": "here", "uid": "here" })
        );
    }
}
