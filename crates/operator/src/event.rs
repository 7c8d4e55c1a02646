//! Kubernetes Events: what people see in `kubectl describe`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use tokio::sync::mpsc;

use crate::clock::Clock;

/// Events that wait to be written; what is over that is left out and counted in the log.
const MOST_WAITING: usize = 1000;
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

/// Writes Events, in order, one at a time.
#[derive(Clone)]
pub struct Events {
    client: Client,
    clock: Arc<dyn Clock>,
    queue: mpsc::Sender<Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// The writer, and the work that somebody has to run.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, mut waiting) = mpsc::channel::<Event>(MOST_WAITING);
        let events = Self { client: client.clone(), clock, queue };
        let work = async move {
            while let Some(event) = waiting.recv().await {
                if let Err(error) = create(&client, &event).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cannot write an Event"
                    );
                }
            }
        };
        (events, work)
    }

    /// Says something about an object. `id` makes it one Event however often it is said.
    pub fn say(
        &self,
        about: &ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
        id: &str,
    ) {
        let event = event(about, severity, reason, message, id, self.clock.now());
        if self.queue.try_send(event).is_err() {
            tracing::warn!(reason, "too many Events wait; one is left out");
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

async fn create(client: &Client, event: &Event) -> Result<(), kube::Error> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match api.create(&PostParams::default(), event).await {
        Ok(_) => Ok(()),
        // It has been said.
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
