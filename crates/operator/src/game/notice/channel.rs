//! How notices of the family reach people: one that names an address goes by mail, the other one to the webhooks.
//! Each is told on its own, so that whoever took it is not told again because somebody else did not.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use sojourn_drivers::notify::{Channel, Notice, SendError};

use crate::outbox::Channels;

/// The channels of the family.
#[derive(Debug)]
pub(in crate::game) struct GameChannels {
    configured: Arc<dyn Channels>,
}

impl GameChannels {
    pub(in crate::game) fn new(configured: Arc<dyn Channels>) -> Self {
        Self { configured }
    }
}

impl Channels for GameChannels {
    fn current(&self) -> Vec<Arc<dyn Channel>> {
        vec![Arc::new(RoutingChannel { channels: self.configured.current() })]
    }
}

/// All configured channels as one, each for the notices that are meant for it.
#[derive(Debug)]
struct RoutingChannel {
    channels: Vec<Arc<dyn Channel>>,
}

impl Channel for RoutingChannel {
    fn name(&self) -> &'static str {
        "notices"
    }

    /// Of several that it is meant for, one that accepts is enough.
    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        async move {
            let has_address = !notice.to.email.is_empty();
            let meant = self.channels.iter().filter(|one| one.is_addressed() == has_address);
            let meant: Vec<&Arc<dyn Channel>> = meant.collect();
            if meant.is_empty() {
                // The configuration was another when it was recorded.
                let nobody = "no channel is configured that would take it";
                return Err(SendError::Transient(nobody.to_owned()));
            }
            let answers = join_all(meant.iter().map(|channel| channel.send(notice))).await;
            if answers.iter().any(Result::is_ok) {
                return Ok(());
            }
            let failed = meant.iter().zip(answers);
            let failed = failed.filter_map(|(channel, answer)| Some((channel, answer.err()?)));
            let failed: Vec<(bool, String)> = failed
                .map(|(one, error)| (error.is_permanent(), format!("{}: {error}", one.name())))
                .collect();
            let permanent = failed.iter().all(|(permanent, _)| *permanent);
            let words: Vec<String> = failed.into_iter().map(|(_, words)| words).collect();
            let words = words.join("; ");
            Err(if permanent { SendError::Refused(words) } else { SendError::Transient(words) })
        }
        .boxed()
    }
}
