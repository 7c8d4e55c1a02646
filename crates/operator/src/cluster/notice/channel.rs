//! How notices of the family reach people: by every configured channel, one mail for each contact. What goes to one
//! place, such as a chat, is told there once.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sojourn_drivers::notify::{Channel, Notice, SendError};

use crate::outbox::Channels;

/// The channels of the family.
#[derive(Debug)]
pub(in crate::cluster) struct ClusterChannels {
    configured: Arc<dyn Channels>,
}

impl ClusterChannels {
    pub(in crate::cluster) fn new(configured: Arc<dyn Channels>) -> Self {
        Self { configured }
    }
}

impl Channels for ClusterChannels {
    fn current(&self) -> Vec<Arc<dyn Channel>> {
        let configured = self.configured.current().into_iter();
        configured.map(|channel| Arc::new(EachContact(channel)) as Arc<dyn Channel>).collect()
    }
}

/// A channel that tells every contact of a cluster.
#[derive(Debug)]
struct EachContact(Arc<dyn Channel>);

impl Channel for EachContact {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is_addressed(&self) -> bool {
        self.0.is_addressed()
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        async move {
            if !self.0.is_addressed() || notice.copies.is_empty() {
                return self.0.send(notice).await;
            }
            let (mut accepted, mut refused) = (false, Ok(()));
            for one in notice.for_each() {
                match self.0.send(&one).await {
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
