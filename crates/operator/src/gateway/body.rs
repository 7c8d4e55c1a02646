//! Forwarded bodies: each frame is passed on as it comes and recorded as activity; the connection's
//! permit is held until the end.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep_until};

use super::Revoked;
use super::connection_activity::ConnectionActivity;

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the other side broke off: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("nothing moved for too long")]
    Idle,
    #[error("the visitor may no longer pass")]
    Revoked,
}

/// A body whose frames count as activity, and that ends when the visitor's right is revoked. `H` is held
/// until its end.
#[derive(Debug)]
pub(crate) struct MonitoredBody<B, H> {
    body: B,
    connection_activity: Arc<ConnectionActivity>,
    idle: Duration,
    idle_timer: Pin<Box<Sleep>>,
    revoked: Revoked,
    _held: H,
}

impl<B, H> MonitoredBody<B, H> {
    pub(crate) fn new(
        body: B,
        connection_activity: Arc<ConnectionActivity>,
        idle: Duration,
        revoked: Revoked,
        held: H,
    ) -> Self {
        let idle_timer = Box::pin(sleep_until(connection_activity.deadline(idle)));
        Self { body, connection_activity, idle, idle_timer, revoked, _held: held }
    }
}

impl<B, H> Body for MonitoredBody<B, H>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    H: Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if Pin::new(&mut this.revoked).poll(context).is_ready() {
            return Poll::Ready(Some(Err(BodyError::Revoked)));
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if matches!(frame, Some(Ok(_))) {
                this.connection_activity.record();
            }
            return Poll::Ready(
                frame.map(|frame| frame.map_err(|error| BodyError::Broken(error.into()))),
            );
        }
        // The other direction may move meanwhile, or this one was not asked for long.
        loop {
            ready!(this.idle_timer.as_mut().poll(context));
            let deadline = this.connection_activity.deadline(this.idle);
            if deadline <= this.idle_timer.deadline() {
                return Poll::Ready(Some(Err(BodyError::Idle)));
            }
            this.idle_timer.as_mut().reset(deadline);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
