//! Work that takes long is run with `block_in_place`, so that the async workers answer others meanwhile.
//!
//! The thread that does it stops being a worker and another one takes its place, so the work stays
//! in its task: it ends with it, and what it waits for wakes it as always. How many do so at once is
//! bounded by the seats that such work takes. A runtime of one thread has nobody to hand over to;
//! there, and on a paused clock, everything is done in line.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Polls a future beside the async workers.
#[derive(Debug)]
pub(crate) struct BlockInPlace<'a, F> {
    work: Pin<&'a mut F>,
    blocks: bool,
}

impl<'a, F: Future> BlockInPlace<'a, F> {
    /// `heavy` says whether the work is worth the change of threads.
    pub(crate) fn new(heavy: bool, work: Pin<&'a mut F>) -> Self {
        Self { work, blocks: heavy && can_block_in_place() }
    }
}

impl<F: Future> Future for BlockInPlace<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.blocks {
            tokio::task::block_in_place(|| self.work.as_mut().poll(context))
        } else {
            self.work.as_mut().poll(context)
        }
    }
}

/// The same for work that waits for nothing.
pub(crate) fn run<T>(heavy: bool, work: impl FnOnce() -> T) -> T {
    if heavy && can_block_in_place() { tokio::task::block_in_place(work) } else { work() }
}

fn can_block_in_place() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
