//! Events go away an hour after they were last written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::registry::Resource;
use crate::store::StoredObject;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let Some(events) = engine.registry().resource("", "events") else { return };
    let mut follower = Follower::new(events.table.clone());
    let mut changes = events.table.subscribe();
    let mut queue = ExpiryQueue::default();
    let mut backoff = Backoff::new();
    loop {
        changes.mark_unchanged();
        follower.drain(|change| queue.apply_change(&change));
        let now = engine.clock.now().as_second();
        while let Some(key) = queue.next_due(now) {
            match expire(&engine, &events, &key, now).await {
                Ok(()) => backoff.reset(),
                Err(()) => {
                    queue.due.insert((now, key));
                    backoff.wait().await;
                }
            }
        }
        let wait = queue.due.first().map(|(at, _)| at.saturating_sub(now).max(1).unsigned_abs());
        let wait = Duration::from_secs(wait.unwrap_or(3_600).min(3_600));
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(wait) => {}
        }
    }
}

#[derive(Default)]
struct ExpiryQueue {
    due: BTreeSet<(i64, Arc<str>)>,
}

impl ExpiryQueue {
    fn apply_change(&mut self, change: &TableChange<'_>) {
        match change {
            TableChange::Reset => self.due.clear(),
            TableChange::Put(event) => self.add(event),
            // An entry of an event that is gone finds nothing when it is due.
            TableChange::Removed(_) => {}
        }
    }

    fn add(&mut self, event: &StoredObject) {
        if let Some(expires) = event.index.expires {
            self.due.insert((expires, event.key.clone()));
        }
    }

    fn next_due(&mut self, now: i64) -> Option<Arc<str>> {
        let due = self.due.first().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.due.pop_first()).flatten().map(|(_, key)| key)
    }
}

async fn expire(
    engine: &Arc<Shared>,
    events: &Arc<Resource>,
    key: &str,
    now: i64,
) -> Result<(), ()> {
    // It may have been written again since it was queued.
    let still_due =
        events.table.get(key).is_some_and(|e| e.index.expires.is_some_and(|at| at <= now));
    if !still_due {
        return Ok(());
    }
    let removed = internal::edit(engine, events, key, FIELD_MANAGER, |_| Edit::Remove).await;
    removed.map(|_| ()).map_err(|error| {
        tracing::warn!(key, message = error.message, "cannot remove an expired event");
    })
}
