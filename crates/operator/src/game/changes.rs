//! Who waits for a change of which server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sojourn_core::key::Key;
use tokio::sync::watch;

/// Tells those who watch a server, and nobody else, that it is another now.
#[derive(Debug, Default)]
pub(crate) struct ServerChanges(Mutex<HashMap<Key, watch::Sender<()>>>);

impl ServerChanges {
    /// Hears every change of a server from now on; several at a time may be told as one.
    pub(crate) fn subscribe(&self, key: &Key) -> watch::Receiver<()> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(key.clone()).or_default().subscribe()
    }

    pub(crate) fn changed(&self, key: &Key) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = watched.get(key) else { return };
        if sender.send(()).is_err() {
            // Nobody watches it any more.
            watched.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_is_told_to_those_who_watch_that_server_and_kept_for_nobody() {
        let changes = ServerChanges::default();
        let (one, other) = (Key::new("play", "one"), Key::new("play", "other"));
        changes.changed(&one);
        let (mut first, mut second) = (changes.subscribe(&one), changes.subscribe(&one));
        let third = changes.subscribe(&other);
        changes.changed(&one);
        first.changed().await.expect("a change");
        second.changed().await.expect("a change");
        assert!(!third.has_changed().expect("it can be watched"));
        drop((first, second));
        changes.changed(&one);
        let kept = changes.0.lock().expect("the keys").keys().cloned().collect::<Vec<_>>();
        assert_eq!(kept, [other]);
    }
}
