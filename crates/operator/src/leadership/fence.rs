//! A way to the API that is open only to whoever leads.

use std::sync::Arc;

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use super::RENEW_DEADLINE;
use crate::clock::Clock;

/// When the last renewal that took effect was sent, by both of our clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    pub(super) sent: Instant,
    pub(super) sent_at: Timestamp,
}

/// Whether somebody leads, asked right before every request.
///
/// A process that was stopped and goes on, or a machine that slept, comes to its timers late; what was
/// about to be written is written first. So the time is looked at here, too, and by the wall clock
/// beside the monotonic one, which may stand still while a machine sleeps.
#[derive(Debug, Clone)]
pub struct Fence {
    pub(super) renewal: watch::Receiver<Option<Renewal>>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The request was not sent, because another replica may lead by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this replica does not hold the lease any more")]
pub struct NotLeading;

impl Fence {
    pub fn is_open(&self) -> bool {
        let renewal = *self.renewal.borrow();
        renewal.is_some_and(|Renewal { sent, sent_at }| {
            let passed = self.clock.now().duration_since(sent_at);
            let longest = SignedDuration::try_from(RENEW_DEADLINE).unwrap_or(SignedDuration::MAX);
            sent.elapsed() < RENEW_DEADLINE && passed < longest
        })
    }

    /// A client whose requests are sent only while this is open.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let fence = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, fence) = (inner.clone(), fence.clone());
            async move {
                if !fence.is_open() {
                    return Err(BoxError::from(NotLeading));
                }
                Ok(inner.send(request).await?)
            }
        });
        Client::new(service, namespace)
    }
}
