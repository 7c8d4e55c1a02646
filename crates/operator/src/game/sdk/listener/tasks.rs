//! The tasks of one HTTP/2 connection, a task for each call. None of them outlives it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper::rt::Executor;
use tokio::task::JoinSet;

/// Whoever drops this ends them.
#[derive(Default)]
pub(super) struct ConnectionTasks(Arc<Mutex<JoinSet<()>>>);

impl ConnectionTasks {
    /// Where the connection starts its calls. It keeps none of them alive, whoever holds it.
    pub(super) fn executor(&self) -> ConnectionExecutor {
        ConnectionExecutor(Arc::downgrade(&self.0))
    }
}

#[derive(Clone)]
pub(super) struct ConnectionExecutor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ConnectionExecutor {
    fn execute(&self, call: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(call);
    }
}
