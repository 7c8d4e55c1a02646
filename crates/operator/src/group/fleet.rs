//! How many rotations are open in all groups together, so that a changed default or template does not
//! roll every group at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sojourn_core::decision::Decision;
use sojourn_core::group::effect::Effect;
use sojourn_core::group::intent::Fleet;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state::{self, GroupState};
use sojourn_core::key::Key;
use tokio::sync::OwnedMutexGuard;

/// The count over all groups.
#[derive(Debug, Default)]
pub(crate) struct OpenRotations {
    counts: Mutex<OpenCounts>,
    /// Held from the time that a group sees what is open in the others until what was decided about it
    /// is counted: two groups must not begin the same last rotation.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A group's turn to use what is left of the budget. Whoever drops it unused has counted nothing.
#[derive(Debug)]
pub(crate) struct BudgetTurn {
    /// How many are open in the other groups.
    pub(crate) others: u32,
    turn: Mutex<Option<OwnedMutexGuard<()>>>,
}

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
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what is on record when a process starts. Without it the first groups that are decided
    /// about would take all others for idle.
    pub(crate) fn load(&self, machines: impl Iterator<Item = (Key, state::Machine)>) {
        let mut all = self.lock();
        for (group, _) in machines.filter(|(_, machine)| counts(machine)) {
            *all.by_group.entry(group).or_default() += 1;
        }
    }

    /// What is open in the other groups, which does not become more until the turn is over.
    pub(super) async fn begin_turn(&self, group: &Key) -> BudgetTurn {
        let turn = self.turn.clone().lock_owned().await;
        let all = self.lock();
        let own = all.by_group.get(group).copied().unwrap_or_default();
        let sum = all.by_group.values().fold(0, |sum: u32, open| sum.saturating_add(*open));
        BudgetTurn { others: sum.saturating_sub(own), turn: Mutex::new(Some(turn)) }
    }

    /// Counts what was decided about a group, and ends its turn. Returns the groups to wake, because there
    /// may be room now.
    pub(super) fn end_turn(
        &self,
        group: &Key,
        turn: &BudgetTurn,
        decided: Option<RotationCount>,
    ) -> Vec<Key> {
        let turn = turn.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(_turn), Some(RotationCount { open, waits })) = (turn, decided) else {
            return Vec::new();
        };
        let mut all = self.lock();
        if waits {
            all.waiting.insert(group.clone());
        } else {
            all.waiting.remove(group);
        }
        let before = all.by_group.get(group).copied().unwrap_or_default();
        all.set(group, before, open)
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

/// What a decision means for the budget.
pub(super) fn count(decision: &Decision<GroupState, Effect, Reason>) -> RotationCount {
    let open = decision.next.machines.values().filter(|machine| counts(machine)).count();
    let waits = |why: &Reason| matches!(why, Reason::FleetBudget { .. });
    RotationCount {
        open: u32::try_from(open).unwrap_or(u32::MAX),
        waits: decision.why.iter().any(waits),
    }
}

fn counts(machine: &state::Machine) -> bool {
    machine.rotation.as_ref().is_some_and(|rotation| Fleet::COUNTS.contains(&rotation.cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiting_group_is_woken_when_another_has_fewer_open() {
        let rotations = OpenRotations::default();
        let (a, b) = (Key::new("x", "a"), Key::new("x", "b"));
        let count = async |group: &Key, open, waits| {
            let turn = rotations.begin_turn(group).await;
            let counted = Some(RotationCount { open, waits });
            (turn.others, rotations.end_turn(group, &turn, counted))
        };
        assert_eq!(count(&a, 2, false).await, (0, vec![]));
        assert_eq!(count(&b, 0, true).await, (2, vec![]));
        assert_eq!(count(&a, 2, false).await, (0, vec![]), "nothing has ended");
        assert_eq!(count(&a, 1, false).await, (0, vec![b.clone()]));
        assert_eq!(count(&b, 1, false).await, (1, vec![]));
        assert_eq!(count(&a, 1, true).await, (1, vec![]));
        assert_eq!(rotations.forget(&b), [a]);
    }

    #[tokio::test]
    async fn while_one_group_is_decided_about_no_other_takes_the_same_room() {
        let rotations = OpenRotations::default();
        let (a, b) = (Key::new("x", "a"), Key::new("x", "b"));
        let turn = rotations.begin_turn(&a).await;
        let mut next = Box::pin(rotations.begin_turn(&b));
        assert!(futures::poll!(&mut next).is_pending(), "it is another's turn");
        rotations.end_turn(&a, &turn, Some(RotationCount { open: 1, waits: false }));
        assert_eq!(next.await.others, 1);
        // The last turn was dropped by whoever could not decide.
        assert_eq!(rotations.begin_turn(&a).await.others, 0);
    }
}
