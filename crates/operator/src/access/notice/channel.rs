//! How notices of the family reach people: by the configured channels, one for each address. Where nobody has an
//! address, an Event says it, and nothing fails.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use kube::Resource as _;
use sojourn_core::key::Key;
use sojourn_drivers::notify::{Channel, Notice, SendError};

use crate::access::caches::AccessCaches;
use crate::event::Events;
use crate::notice::EventChannel;
use crate::outbox::Channels;

/// The channels of the family.
#[derive(Debug)]
pub(in crate::access) struct AccessChannels {
    /// What is configured; Events, where nothing is.
    configured: Arc<dyn Channels>,
    events: Arc<EventChannel>,
}

impl AccessChannels {
    pub(in crate::access) fn new(
        configured: Arc<dyn Channels>,
        events: Events,
        caches: Arc<AccessCaches>,
    ) -> Self {
        let events = EventChannel::new(events, move |object| {
            let key = Key::new(object.namespace.clone(), object.name.clone());
            caches.get(&key).map(|session| session.object_ref(&()))
        });
        Self { configured, events: Arc::new(events) }
    }

    /// What takes notices where nothing is configured.
    pub(in crate::access) fn events(&self) -> Arc<dyn Channel> {
        self.events.clone()
    }
}

impl Channels for AccessChannels {
    fn current(&self) -> Vec<Arc<dyn Channel>> {
        let configured = self.configured.current();
        vec![Arc::new(AddressedChannel { configured, events: self.events.clone() })]
    }
}

/// All configured channels as one, for every address of a notice.
#[derive(Debug)]
struct AddressedChannel {
    configured: Vec<Arc<dyn Channel>>,
    events: Arc<EventChannel>,
}

impl AddressedChannel {
    /// One that accepts is enough.
    async fn send_to(&self, notice: &Notice) -> Result<(), SendError> {
        let answers = join_all(self.configured.iter().map(|channel| channel.send(notice))).await;
        let mut errors = Vec::new();
        for (channel, answer) in self.configured.iter().zip(&answers) {
            match answer {
                Ok(()) => {}
                Err(error) => {
                    errors.push((error.is_permanent(), format!("{}: {error}", channel.name())));
                }
            }
        }
        if answers.is_empty() || answers.iter().any(Result::is_ok) {
            return Ok(());
        }
        let permanent = errors.iter().all(|(permanent, _)| *permanent);
        let words: Vec<String> = errors.into_iter().map(|(_, words)| words).collect();
        let words = words.join("; ");
        Err(if permanent { SendError::Refused(words) } else { SendError::Transient(words) })
    }
}

impl Channel for AddressedChannel {
    fn name(&self) -> &'static str {
        "notices"
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        async move {
            if notice.to.email.is_empty() {
                return self.events.send(notice).await;
            }
            let (mut accepted, mut refused) = (false, Ok(()));
            for one in notice.for_each() {
                match self.send_to(&one).await {
                    Ok(()) => accepted = true,
                    Err(error) => refused = Err(error),
                }
            }
            // Told again, those who were told already would be told twice.
            if accepted { Ok(()) } else { refused }
        }
        .boxed()
    }
}
