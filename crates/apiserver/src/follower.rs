//! Views that are derived from tables and updated by pulling: before a view is read, it applies the
//! changes since. No task is involved, so a view includes every acknowledged write.

use std::sync::Arc;

use crate::store::{Gone, ResourceTable, StoredObject};

/// The version in a table's history up to which a view has read.
#[derive(Debug)]
pub(crate) struct Follower {
    table: Arc<ResourceTable>,
    version: Option<u64>,
}

/// One change that a view applies.
pub(crate) enum TableChange<'a> {
    /// Forget everything: what follows is the whole state.
    Reset,
    Put(&'a StoredObject),
    Removed(&'a StoredObject),
}

impl Follower {
    pub(crate) const fn new(table: Arc<ResourceTable>) -> Self {
        Self { table, version: None }
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.version.is_none_or(|version| version < self.table.ticked())
    }

    /// Waits until there is something new; `false` when there never will be.
    pub(crate) async fn changed(&self) -> bool {
        let mut changes = self.table.subscribe();
        let version = self.version.unwrap_or(0);
        changes.wait_for(|ticked| *ticked > version).await.is_ok()
    }

    /// Whether the table's history no longer reaches back to the version that was read last.
    pub(crate) fn has_missed_changes(&self) -> bool {
        self.version.is_some_and(|version| self.table.events_after(version, 0).is_err())
    }

    /// Forgets the version: the next drain starts with the whole state.
    pub(crate) const fn reset(&mut self) {
        self.version = None;
    }

    /// Applies everything that is new, oldest first.
    pub(crate) fn drain(&mut self, mut apply: impl FnMut(TableChange<'_>)) {
        let ticked = self.table.ticked();
        let changes = match self.version {
            Some(version) => self.table.events_after(version, usize::MAX),
            None => Err(Gone),
        };
        match changes {
            Ok(events) => {
                for event in &events {
                    if event.removed {
                        apply(TableChange::Removed(&event.object));
                    } else {
                        apply(TableChange::Put(&event.object));
                    }
                }
                let last = events.last().map_or(0, |e| e.version);
                self.version = Some(last.max(ticked));
            }
            Err(Gone) => {
                let (objects, last) = self.table.snapshot();
                apply(TableChange::Reset);
                objects.values().for_each(|object| apply(TableChange::Put(object)));
                self.version = Some(last.max(ticked));
            }
        }
    }
}
