//! Views that are derived from tables and kept in step by pulling: before a view is read, it takes
//! in what changed since. No task stands in between, so a write that was acknowledged is in force.

use std::sync::Arc;

use crate::store::{Gone, Stored, Table};

/// The place in a table's history up to which a view has read.
#[derive(Debug)]
pub(crate) struct Follower {
    table: Arc<Table>,
    seen: Option<u64>,
}

/// What a view is told.
pub(crate) enum News<'a> {
    /// Forget everything: what follows is the whole state.
    Reset,
    Put(&'a Stored),
    Removed(&'a Stored),
}

impl Follower {
    pub(crate) const fn new(table: Arc<Table>) -> Self {
        Self { table, seen: None }
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.seen.is_none_or(|seen| seen < self.table.ticked())
    }

    /// Waits until there is something new; `false` when there never will be.
    pub(crate) async fn changed(&self) -> bool {
        let mut changes = self.table.subscribe();
        let seen = self.seen.unwrap_or(0);
        changes.wait_for(|ticked| *ticked > seen).await.is_ok()
    }

    /// Whether the table's history no longer reaches back to what was seen last.
    pub(crate) fn has_lost_track(&self) -> bool {
        self.seen.is_some_and(|seen| self.table.events_after(seen, 0).is_err())
    }

    /// Forgets what was seen: the next drain tells the whole state.
    pub(crate) const fn reset(&mut self) {
        self.seen = None;
    }

    /// Tells everything that is new, oldest first.
    pub(crate) fn drain(&mut self, mut tell: impl FnMut(News<'_>)) {
        let ticked = self.table.ticked();
        let changes = match self.seen {
            Some(seen) => self.table.events_after(seen, usize::MAX),
            None => Err(Gone),
        };
        match changes {
            Ok(events) => {
                for event in &events {
                    if event.removed {
                        tell(News::Removed(&event.object));
                    } else {
                        tell(News::Put(&event.object));
                    }
                }
                let last = events.last().map_or(0, |e| e.version);
                self.seen = Some(last.max(ticked));
            }
            Err(Gone) => {
                let (objects, last) = self.table.snapshot();
                tell(News::Reset);
                objects.values().for_each(|object| tell(News::Put(object)));
                self.seen = Some(last.max(ticked));
            }
        }
    }
}
