//! Tasks that somebody watches: a controller that died must not look healthy.

use std::fmt;
use std::future::Future;

use futures::FutureExt as _;
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

#[cfg(test)]
mod tests {
    use super::*;

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
