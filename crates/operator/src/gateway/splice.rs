//! Upgraded connections: bytes go both ways until one side ends, nothing moves, the visitor may no
//! longer, or we stop.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio_util::sync::CancellationToken;

use super::Revoked;
use super::connection_activity::ConnectionActivity;
use super::limits::Permit;

/// How long both sides may take to begin after they agreed.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Two sides that agreed to talk.
pub(crate) struct Splice {
    pub visitor: OnUpgrade,
    pub instance: OnUpgrade,
    pub connection_activity: Arc<ConnectionActivity>,
    pub idle: Duration,
    pub closing: CancellationToken,
    /// Ends when the visitor may no longer.
    pub revoked: Revoked,
    pub permit: Permit,
}

impl Splice {
    pub(crate) async fn run(self) {
        let Self { visitor, instance, connection_activity, idle, closing, revoked, permit } = self;
        let both = async { tokio::try_join!(visitor, instance) };
        let (visitor, instance) = match tokio::time::timeout(UPGRADE_TIMEOUT, both).await {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return tracing::debug!(%error, "an upgrade was broken off"),
            Err(_) => return tracing::debug!("an upgrade took too long"),
        };
        let mut visitor = MonitoredStream {
            stream: TokioIo::new(visitor),
            connection_activity: connection_activity.clone(),
        };
        let mut instance = MonitoredStream {
            stream: TokioIo::new(instance),
            connection_activity: connection_activity.clone(),
        };
        tokio::select! {
            ended = copy_bidirectional(&mut visitor, &mut instance) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an upgraded connection broke off");
                }
            }
            () = connection_activity.idle_for(idle) => tracing::debug!("an upgraded connection was silent"),
            () = revoked => tracing::debug!("an upgraded connection is no longer allowed"),
            () = closing.cancelled() => {}
        }
        drop(permit);
    }
}

/// A stream of which every read is noticed.
struct MonitoredStream<S> {
    stream: S,
    connection_activity: Arc<ConnectionActivity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection_activity.record();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
