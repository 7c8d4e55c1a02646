//! A connection's writing half, which fails when the peer takes nothing of what it is sent. Without it, whoever asks
//! for something and never reads holds a place for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

pub(super) struct WriteTimeout<W> {
    writer: W,
    timeout: Duration,
    /// Running while a write waits for the peer.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<W: AsyncWrite + Unpin> WriteTimeout<W> {
    pub(super) const fn new(writer: W, timeout: Duration) -> Self {
        Self { writer, timeout, waiting: None }
    }

    fn within_time<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut W>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.writer), context) {
            self.waiting = None;
            return Poll::Ready(written);
        }
        let timeout = self.timeout;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.within_time(context, |writer, context| writer.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.within_time(context, |writer, context| writer.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within_time(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within_time(context, AsyncWrite::poll_shutdown)
    }
}
