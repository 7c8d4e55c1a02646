//! The machines that really are at a provider: whatever is said of them elsewhere is checked by this.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sojourn_core::cluster::MachineState;
use tokio::time::Instant;

/// A machine, and what becomes of it by itself.
#[derive(Debug, Clone)]
struct FleetMachine {
    state: MachineState,
    becomes: Option<(MachineState, Instant)>,
    /// Moves that were asked for and have not begun.
    late: Vec<Move>,
    /// When somebody else than the operator last moved it.
    moved_by_others: Option<Instant>,
}

impl FleetMachine {
    fn state(&self, now: Instant) -> MachineState {
        match &self.becomes {
            Some((state, at)) if now >= *at => state.clone(),
            Some(_) | None => self.state.clone(),
        }
    }
}

/// Which way a machine is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Stop,
    Start,
}

impl Move {
    /// What a machine is while it is moved, and what it is then.
    const fn states(self) -> (MachineState, MachineState) {
        match self {
            Self::Stop => (MachineState::Stopping, MachineState::Stopped),
            Self::Start => (MachineState::Pending, MachineState::Running),
        }
    }
}

/// All machines, by what those of a cluster are known by. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Fleet(Arc<Mutex<BTreeMap<String, BTreeMap<String, FleetMachine>>>>);

impl Fleet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, FleetMachine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine that runs.
    pub fn add(&self, infra_id: &str, id: &str) {
        let machine = FleetMachine {
            state: MachineState::Running,
            becomes: None,
            late: Vec::new(),
            moved_by_others: None,
        };
        self.lock().entry(infra_id.to_owned()).or_default().insert(id.to_owned(), machine);
    }

    /// Every machine of a cluster, as it is now.
    pub fn machines(&self, infra_id: &str) -> BTreeMap<String, MachineState> {
        let now = Instant::now();
        let all = self.lock();
        let machines = all.get(infra_id).into_iter().flatten();
        machines.map(|(id, machine)| (id.clone(), machine.state(now))).collect()
    }

    /// Since when nobody but the operator has moved a machine of a cluster; nothing, if nobody ever did.
    pub fn moved_by_others(&self, infra_id: &str) -> Option<Instant> {
        let all = self.lock();
        all.get(infra_id)?.values().filter_map(|machine| machine.moved_by_others).max()
    }

    /// The machines of a cluster that are yet to begin to move that way.
    pub fn late(&self, infra_id: &str, way: Move) -> Vec<String> {
        let all = self.lock();
        let machines = all.get(infra_id).into_iter().flatten();
        let late = machines.filter(|(_, machine)| machine.late.contains(&way));
        late.map(|(id, _)| id.clone()).collect()
    }

    /// A machine will begin to move, or does now what it was to.
    pub(super) fn set_late(&self, infra_id: &str, id: &str, way: Move, late: bool) {
        let mut all = self.lock();
        let found = all.get_mut(infra_id).and_then(|machines| machines.get_mut(id));
        let Some(machine) = found else { return };
        if late {
            machine.late.push(way);
        } else if let Some(index) = machine.late.iter().position(|one| *one == way) {
            machine.late.remove(index);
        }
    }

    /// Begins to move a machine, unless it is there or on its way. When it will be there.
    pub(super) fn begin(
        &self,
        infra_id: &str,
        id: &str,
        way: Move,
        until: Instant,
    ) -> Option<Instant> {
        let now = Instant::now();
        let (moving, there) = way.states();
        let mut all = self.lock();
        let machine = all.get_mut(infra_id)?.get_mut(id)?;
        let state = machine.state(now);
        if state == moving || state == there {
            return None;
        }
        machine.state = moving;
        machine.becomes = Some((there, until));
        Some(until)
    }

    /// Somebody else moves a machine, at once.
    pub(super) fn meddle(&self, infra_id: &str, id: &str, way: Move) {
        let mut all = self.lock();
        let found = all.get_mut(infra_id).and_then(|machines| machines.get_mut(id));
        let Some(machine) = found else { return };
        machine.state = way.states().1;
        machine.becomes = None;
        machine.moved_by_others = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SPAN: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_machine_moves_for_a_while_and_is_there_then() {
        let fleet = Fleet::default();
        fleet.add("blue", "a");
        let state = || fleet.machines("blue")["a"].clone();
        let at = Instant::now() + SPAN;
        assert_eq!(fleet.begin("blue", "a", Move::Stop, at), Some(at));
        assert_eq!(fleet.begin("blue", "a", Move::Stop, at), None, "it is on its way");
        assert_eq!(state(), MachineState::Stopping);
        tokio::time::sleep(SPAN).await;
        assert_eq!(state(), MachineState::Stopped);
        fleet.meddle("blue", "a", Move::Start);
        assert_eq!(state(), MachineState::Running);
        assert_eq!(fleet.moved_by_others("blue"), Some(Instant::now()));
        assert_eq!(fleet.begin("green", "a", Move::Stop, at), None, "there is none");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_begun_is_known() {
        let fleet = Fleet::default();
        fleet.add("blue", "a");
        fleet.set_late("blue", "a", Move::Stop, true);
        fleet.set_late("blue", "a", Move::Stop, true);
        assert_eq!(fleet.late("blue", Move::Start), [""; 0]);
        fleet.set_late("blue", "a", Move::Stop, false);
        assert_eq!(fleet.late("blue", Move::Stop), ["a"], "one of two");
        fleet.set_late("blue", "a", Move::Stop, false);
        assert_eq!(fleet.late("blue", Move::Stop), [""; 0]);
    }
}
