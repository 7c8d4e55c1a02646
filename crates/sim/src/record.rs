//! A record that observers write to while tests wait for what it will hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// A value that is shared by all who add to it. Clones share it.
#[derive(Debug)]
pub struct SharedRecord<T> {
    value: Arc<Mutex<T>>,
    /// Counts what observers saw, so that whoever waits looks again.
    changes: watch::Sender<u64>,
}

impl<T> Clone for SharedRecord<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), changes: self.changes.clone() }
    }
}

impl<T> SharedRecord<T> {
    pub fn new(value: T) -> Self {
        Self { value: Arc::new(Mutex::new(value)), changes: watch::Sender::new(0) }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits, at most so long, until `find` finds something; it looks after every change.
    pub async fn wait_for<R>(&self, limit: Duration, find: impl Fn(&T) -> Option<R>) -> Option<R> {
        let mut changed = self.changes.subscribe();
        let looking = async {
            loop {
                if let Some(found) = find(&self.lock()) {
                    return found;
                }
                // This record holds a sender, so the channel is never closed.
                drop(changed.changed().await);
            }
        };
        tokio::time::timeout(limit, looking).await.ok()
    }
}
