//! How many rotations are open in all groups together, so that a changed default or template does not
//! roll every group at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_core::group::intent::Fleet;
use sojourn_core::group::state::{self, GroupState};
use sojourn_core::key::Key;

/// The count over all groups.
#[derive(Debug, Default)]
pub(crate) struct OpenRotations(Mutex<OpenCounts>);

#[derive(Debug, Default)]
struct OpenCounts {
    by_group: HashMap<Key, u32>,
    /// Groups that could begin one if others had fewer open.
    waiting: BTreeSet<Key>,
}

/// The rotations of one group after a decision.
pub(super) struct RotationCount {
    pub(super) open: u32,
    /// It would begin one more if it might.
    pub(super) waits: bool,
}

impl OpenRotations {
    fn lock(&self) -> MutexGuard<'_, OpenCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what is on record when a process starts. Without it the first groups that are decided
    /// about would take all others for idle.
    pub(crate) fn load(&self, machines: impl Iterator<Item = (Key, state::Machine)>) {
        let mut all = self.lock();
        for (group, _) in machines.filter(|(_, machine)| counts(machine)) {
            *all.by_group.entry(group).or_default() += 1;
        }
    }

    /// Decides about a group with what is open in the others, which does not change meanwhile.
    /// Returns the groups to wake, because there may be room now.
    pub(super) fn decide<T>(
        &self,
        group: &Key,
        decide: impl FnOnce(u32) -> (T, RotationCount),
    ) -> (T, Vec<Key>) {
        let mut all = self.lock();
        let before = all.by_group.get(group).copied().unwrap_or_default();
        let sum = all.by_group.values().fold(0, |sum: u32, open| sum.saturating_add(*open));
        let (decided, RotationCount { open, waits }) = decide(sum.saturating_sub(before));
        if waits {
            all.waiting.insert(group.clone());
        } else {
            all.waiting.remove(group);
        }
        (decided, all.set(group, before, open))
    }

    /// The group is gone. Returns the groups to wake.
    pub(super) fn forget(&self, group: &Key) -> Vec<Key> {
        let mut all = self.lock();
        all.waiting.remove(group);
        let before = all.by_group.get(group).copied().unwrap_or_default();
        all.set(group, before, 0)
    }
}

impl OpenCounts {
    fn set(&mut self, group: &Key, before: u32, open: u32) -> Vec<Key> {
        if open == 0 {
            self.by_group.remove(group);
        } else {
            self.by_group.insert(group.clone(), open);
        }
        let freed = open < before;
        self.waiting.iter().filter(|key| freed && *key != group).cloned().collect()
    }
}

/// The rotations of a group that count.
pub(super) fn open(state: &GroupState) -> u32 {
    let open = state.machines.values().filter(|machine| counts(machine)).count();
    u32::try_from(open).unwrap_or(u32::MAX)
}

fn counts(machine: &state::Machine) -> bool {
    machine.rotation.as_ref().is_some_and(|rotation| Fleet::COUNTS.contains(&rotation.cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_group_is_woken_when_another_has_fewer_open() {
        let rotations = OpenRotations::default();
        let (a, b) = (Key::new("x", "a"), Key::new("x", "b"));
        let count = |group: &Key, open, waits| {
            rotations.decide(group, |others| (others, RotationCount { open, waits }))
        };
        assert_eq!(count(&a, 2, false), (0, vec![]));
        assert_eq!(count(&b, 0, true), (2, vec![]));
        assert_eq!(count(&a, 2, false), (0, vec![]), "nothing has ended");
        assert_eq!(count(&a, 1, false), (0, vec![b.clone()]));
        assert_eq!(count(&b, 1, false), (1, vec![]));
        assert_eq!(count(&a, 1, true), (1, vec![]));
        assert_eq!(rotations.forget(&b), [a]);
    }
}
