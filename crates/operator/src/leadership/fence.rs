//! A way to the API that is open only to whoever leads.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Service;

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
        Client::new(Fenced { inner, fence: self.clone() }, namespace)
    }
}

#[derive(Clone)]
struct Fenced {
    inner: Client,
    fence: Fence,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Self::Response, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, fence } = self.clone();
        async move {
            if !fence.is_open() {
                return Err(NotLeading.into());
            }
            Ok(inner.send(request).await?)
        }
        .boxed()
    }
}
