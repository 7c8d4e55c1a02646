//! Kubernetes Events: what people see in `kubectl describe`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use ring::digest::{SHA256, digest};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;

/// Events that wait to be written; what is over that is left out and counted.
const MAX_WAITING_EVENTS: usize = 10_000;
/// How many are written at once.
const EVENT_WRITERS: usize = 16;
const COMPONENT: &str = "sojourn";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One thing that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) severity: Severity,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Transition {
    Transition { severity: Severity::Normal, reason, message: message.into() }
}

pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Transition {
    Transition { severity: Severity::Warning, reason, message: message.into() }
}

/// Writes Events, several at once; those about one object in order.
#[derive(Clone)]
pub struct Events {
    client: Client,
    clock: Arc<dyn Clock>,
    /// All Events about an object go through one lane; `room` bounds the length of all lanes
    /// together.
    lanes: Arc<[UnboundedSender<Waiting>]>,
    room: Arc<Semaphore>,
    left_out: Arc<LeftOut>,
}

/// An Event on its way, with its share of the room.
struct Waiting {
    event: Event,
    room: OwnedSemaphorePermit,
}

/// What there was no room for.
#[derive(Debug)]
struct LeftOut {
    /// So many may wait.
    max_waiting: usize,
    total: Counter,
    /// Left out since the last warning in the log.
    unlogged: AtomicU64,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// The writer, and the work that somebody has to run. `left_out` counts what is not written.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        left_out: Counter,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::with_room(client, clock, left_out, MAX_WAITING_EVENTS)
    }

    fn with_room(
        client: Client,
        clock: Arc<dyn Clock>,
        left_out: Counter,
        max_waiting: usize,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (lanes, ends): (Vec<_>, Vec<_>) =
            (0..EVENT_WRITERS).map(|_| mpsc::unbounded_channel()).unzip();
        let room = Arc::new(Semaphore::new(max_waiting));
        let left_out =
            Arc::new(LeftOut { max_waiting, total: left_out, unlogged: AtomicU64::new(0) });
        let work = join_all(
            ends.into_iter()
                .map(|lane| write(client.clone(), lane, room.clone(), left_out.clone())),
        );
        let events = Self { client, clock, lanes: lanes.into(), room, left_out };
        (events, async move {
            work.await;
        })
    }

    /// Says something about an object. `id` makes it one Event however often it is said.
    pub fn publish(
        &self,
        about: &ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
        id: &str,
    ) {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            self.left_out.add();
            return;
        };
        let event = event(about, severity, reason, message, id, self.clock.now());
        if let Some(lane) = self.lanes.get(lane_of(about)) {
            // Without a receiver the process is ending.
            drop(lane.send(Waiting { event, room }));
        }
    }

    /// Says what happened to an object. The same is said once, however often it is published; two
    /// things of one kind may happen at the same time.
    pub(crate) fn publish_transitions(
        &self,
        about: &ObjectReference,
        transitions: &[Transition],
        at: Timestamp,
    ) {
        for transition in transitions {
            let id = format!("{}.{}", at.as_second(), transition.message);
            let Transition { severity, reason, message } = transition;
            self.publish(about, *severity, reason, message, &id);
            let namespace = about.namespace.as_deref().unwrap_or_default();
            let name = about.name.as_deref().unwrap_or_default();
            tracing::info!(namespace, name, reason, "{message}");
        }
    }

    /// Says it and waits until it is written, as a channel of notices must.
    pub async fn tell(
        &self,
        about: &ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
        id: &str,
    ) -> Result<(), kube::Error> {
        create(&self.client, &event(about, severity, reason, message, id, self.clock.now())).await
    }
}

/// The same for all that is said about an object.
fn lane_of(about: &ObjectReference) -> usize {
    let mut hasher = DefaultHasher::new();
    (&about.uid, &about.namespace, &about.name).hash(&mut hasher);
    usize::try_from(hasher.finish() % EVENT_WRITERS as u64).unwrap_or_default()
}

/// Writes the Events of one lane until every sender is gone.
async fn write(
    client: Client,
    mut lane: UnboundedReceiver<Waiting>,
    room: Arc<Semaphore>,
    left_out: Arc<LeftOut>,
) {
    while let Some(Waiting { event, room: taken }) = lane.recv().await {
        if let Err(error) = create(&client, &event).await
            && !is_ending(&error)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot write an Event");
        }
        drop(taken);
        // The burst is over.
        if room.available_permits() == left_out.max_waiting {
            left_out.log();
        }
    }
}

impl LeftOut {
    fn add(&self) {
        self.total.inc();
        // A burst that does not end is logged from time to time.
        if self.unlogged.fetch_add(1, Ordering::Relaxed) + 1 >= self.max_waiting as u64 {
            self.log();
        }
    }

    fn log(&self) {
        let count = self.unlogged.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(
                count,
                "Events came faster than they could be written; so many were left out"
            );
        }
    }
}

/// Nothing can be created in a namespace that is being deleted; its last Events are only in the
/// log.
fn is_ending(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

async fn create(client: &Client, event: &Event) -> Result<(), kube::Error> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match api.create(&PostParams::default(), event).await {
        Ok(_) => Ok(()),
        // The same Event was written before.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

fn event(
    about: &ObjectReference,
    severity: Severity,
    reason: &str,
    message: &str,
    id: &str,
    now: Timestamp,
) -> Event {
    let name = about.name.as_deref().unwrap_or("unknown");
    let uid = about.uid.as_deref().unwrap_or_default();
    let said = digest(&SHA256, format!("{uid}\n{reason}\n{id}").as_bytes());
    let suffix = hex::encode(&said.as_ref()[..8]);
    let namespace = about.namespace.clone().filter(|namespace| !namespace.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{suffix}")),
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: about.clone(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        type_: Some(severity.as_str().to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
