//! Tasks that somebody watches: a controller that died must not look healthy.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;

use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

/// The tasks of one program. When one ends, the program is told which.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<&'static str>,
}

/// A task ended that should not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Ended {
    pub task: &'static str,
    pub panicked: bool,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked" } else { "ended by itself" };
        write!(f, "the task {:?} {how}", self.task)
    }
}

impl Tasks {
    pub fn spawn(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(async move {
            if std::panic::AssertUnwindSafe(work).catch_unwind().await.is_err() {
                // The panic hook has printed the panic; this adds the name of the task.
                tracing::error!(task = name, "a task panicked");
                std::panic::resume_unwind(Box::new(name));
            }
            name
        });
    }

    /// Waits until any of them ends.
    pub async fn any_ended(&mut self) -> Ended {
        match self.running.join_next().await {
            Some(Ok(task)) => Ended { task, panicked: false },
            Some(Err(error)) => {
                let task = match error.try_into_panic() {
                    Ok(panic) => panic.downcast_ref::<&'static str>().copied(),
                    Err(_) => None,
                };
                Ended { task: task.unwrap_or("unknown"), panicked: true }
            }
            None => std::future::pending().await,
        }
    }

    /// Ends them all; every await is a point at which a task may be ended.
    pub async fn stop(mut self) {
        self.running.shutdown().await;
    }
}

/// Work that goes on side by side within one task, and is begun and ended piece by piece, by name. What is
/// ended, or dropped with all of it, does nothing any more.
#[derive(Default)]
pub(crate) struct NamedWork<'a> {
    running: FuturesUnordered<Abortable<BoxFuture<'a, ()>>>,
    handles: BTreeMap<String, AbortHandle>,
}

impl fmt::Debug for NamedWork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handles.keys()).finish()
    }
}

impl<'a> NamedWork<'a> {
    /// Begins it, in place of what has that name.
    pub(crate) fn start(&mut self, name: &str, work: impl Future<Output = ()> + Send + 'a) {
        self.end(name);
        let (handle, registration) = AbortHandle::new_pair();
        self.running.push(Abortable::new(work.boxed(), registration));
        self.handles.insert(name.to_owned(), handle);
    }

    pub(crate) fn end(&mut self, name: &str) {
        if let Some(handle) = self.handles.remove(name) {
            handle.abort();
        }
    }

    /// Ends what is not to go on.
    pub(crate) fn retain(&mut self, goes_on: impl Fn(&String) -> bool) {
        self.handles.retain(|name, handle| {
            let goes_on = goes_on(name);
            if !goes_on {
                handle.abort();
            }
            goes_on
        });
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.handles.contains_key(name)
    }

    /// Goes on with all of it, until it is dropped. What panics, panics here.
    pub(crate) async fn run(&mut self) -> Infallible {
        while self.running.next().await.is_some() {}
        // Nothing can be added meanwhile.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_begun_replaced_and_ended_by_name() {
        let counts = [0, 0, 0].map(std::sync::atomic::AtomicU32::new);
        let count = |index: usize| counts[index].load(std::sync::atomic::Ordering::Relaxed);
        let step = |index: usize| {
            let counts = &counts;
            async move {
                loop {
                    counts[index].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        };
        let mut work = NamedWork::default();
        work.start("a", step(0));
        work.start("b", step(1));
        let passes = async |work: &mut NamedWork<'_>, until: &dyn Fn() -> bool| {
            let waiting = async {
                while !until() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                () = waiting => {}
                never = work.run() => match never {},
            }
        };
        passes(&mut work, &|| count(0) > 1 && count(1) > 1).await;
        work.start("a", step(2));
        let replaced = count(0);
        passes(&mut work, &|| count(2) > 1).await;
        assert_eq!(count(0), replaced, "it does nothing any more");
        work.retain(|name| name == "a");
        let ended = count(1);
        let before = count(2);
        passes(&mut work, &|| count(2) > before + 1).await;
        assert_eq!(count(1), ended);
        assert!(work.contains("a") && !work.contains("b"));
        assert_eq!(format!("{work:?}"), r#"{"a"}"#);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("waits", std::future::pending());
        tasks.spawn("fails", async { panic!("on purpose") });
        assert_eq!(tasks.any_ended().await, Ended { task: "fails", panicked: true });
        tasks.spawn("ends", async {});
        assert_eq!(tasks.any_ended().await, Ended { task: "ends", panicked: false });
        tasks.stop().await;
    }
}
