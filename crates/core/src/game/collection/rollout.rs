//! How a collection comes from what there is to what there should be, without more at once than a quarter more or less.

use jiff::Timestamp;

use super::super::server::Server;
use super::{CollectionIntent, SURGE_PERCENT, UpdateStrategy};

/// The members that count, by whether their template is the present one.
#[derive(Debug)]
pub(super) struct Rollout<'a> {
    replicas: u32,
    strategy: UpdateStrategy,
    current: u32,
    old: Vec<&'a Server>,
    /// Those of `old` on which nobody is.
    empty: Vec<&'a Server>,
    available: u32,
    /// Made, and not ready yet.
    pending: u32,
}

impl<'a> Rollout<'a> {
    /// `unseen` were made a moment ago.
    pub(super) fn of(
        working: &[&'a Server],
        intent: &CollectionIntent,
        unseen: u32,
        now: Timestamp,
    ) -> Self {
        let count = |servers: usize| u32::try_from(servers).unwrap_or(u32::MAX);
        let (current, mut old): (Vec<&Server>, Vec<&Server>) =
            working.iter().partition(|one| one.revision == intent.revision);
        old.sort_by(|a, b| (a.is_available(), &a.name).cmp(&(b.is_available(), &b.name)));
        let empty = old.iter().copied().filter(|one| one.is_empty(now)).collect();
        let available = working.iter().filter(|one| one.is_available()).count();
        let starting = working.iter().filter(|one| !one.is_available()).count();
        Self {
            replicas: intent.replicas,
            strategy: intent.update_strategy,
            current: count(current.len()).saturating_add(unseen),
            old,
            empty,
            available: count(available),
            pending: count(starting).saturating_add(unseen),
        }
    }

    pub(super) fn old(&self) -> u32 {
        u32::try_from(self.old.len()).unwrap_or(u32::MAX)
    }

    pub(super) const fn pending(&self) -> u32 {
        self.pending
    }

    fn total(&self) -> u32 {
        self.current.saturating_add(self.old())
    }

    /// So many more than asked for there may be while old ones are replaced.
    fn surge(&self) -> u32 {
        if self.old.is_empty() { 0 } else { (self.replicas * SURGE_PERCENT).div_ceil(100).max(1) }
    }

    /// So many more than should be there.
    pub(super) fn surplus(&self) -> u32 {
        self.total().saturating_sub(self.replicas.saturating_add(self.surge()))
    }

    /// So many more of the present template may be made.
    pub(super) fn missing(&self) -> u32 {
        let room = self.replicas.saturating_add(self.surge()).saturating_sub(self.total());
        self.replicas.saturating_sub(self.current).min(room)
    }

    /// Old members that may go now: nobody is on them, and enough others can be played on.
    pub(super) fn replaceable(&self) -> Vec<&'a Server> {
        let unavailable = match self.strategy {
            UpdateStrategy::Recreate => self.replicas,
            UpdateStrategy::Rolling | UpdateStrategy::OnEmpty => {
                self.replicas * SURGE_PERCENT / 100
            }
        };
        let mut left = self.available;
        let least = self.replicas.saturating_sub(unavailable);
        let mut going = Vec::new();
        for server in &self.empty {
            if !server.is_available() {
                going.push(*server);
            } else if left > least {
                left -= 1;
                going.push(*server);
            }
        }
        going
    }
}
