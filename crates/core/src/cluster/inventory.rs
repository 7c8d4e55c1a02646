//! The inventory: which machines belong to a cluster, written down before any of them is touched.

use jiff::Timestamp;

use super::machine::{MachineState, ObservedMachine};
use super::operation::OperationId;

/// A machine as it is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryMachine {
    pub id: String,
    pub name: String,
    pub spot: bool,
    pub node_name: Option<String>,
    pub addresses: Vec<String>,
}

impl From<&ObservedMachine> for InventoryMachine {
    fn from(machine: &ObservedMachine) -> Self {
        Self {
            id: machine.id.clone(),
            name: machine.name.clone(),
            spot: machine.spot,
            node_name: machine.node_name.clone(),
            addresses: machine.addresses.clone(),
        }
    }
}

/// What was written down, and for which operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    pub recorded_by: Option<OperationId>,
    pub recorded_at: Option<Timestamp>,
    /// The cluster was seen to run since: only now may a machine that is gone be forgotten.
    pub verified: bool,
    /// In the order of their ids.
    pub machines: Vec<InventoryMachine>,
}

impl Inventory {
    pub fn find(&self, id: &str) -> Option<&InventoryMachine> {
        self.machines.iter().find(|machine| machine.id == id)
    }

    /// Writes down what was listed, for an operation that begins. What was on record before stays, unless the
    /// cluster was seen to run without it.
    pub(super) fn record(
        &mut self,
        listed: &[ObservedMachine],
        operation: OperationId,
        now: Timestamp,
    ) {
        if self.verified {
            let there = |id: &str| {
                listed.iter().any(|one| one.id == id && one.state != MachineState::Missing)
            };
            self.machines.retain(|machine| there(&machine.id));
        }
        self.add_listed(listed);
        self.recorded_by = Some(operation);
        self.recorded_at = Some(now);
        self.verified = false;
    }

    /// Takes in what was listed, and forgets nothing. Whether that is more than was on record.
    pub(super) fn add_listed(&mut self, listed: &[ObservedMachine]) -> bool {
        let before = self.machines.len();
        for machine in listed {
            // Of a machine that is only a name there is nothing to bring back.
            if machine.state != MachineState::Missing || self.find(&machine.id).is_some() {
                self.add(InventoryMachine::from(machine));
            }
        }
        self.machines.len() > before
    }

    /// Takes in what an actuator has on record of machines that it removed.
    pub(super) fn add_records(&mut self, records: &[InventoryMachine]) {
        for machine in records {
            if self.find(&machine.id).is_none() {
                self.add(machine.clone());
            }
        }
    }

    fn add(&mut self, new: InventoryMachine) {
        match self.machines.binary_search_by(|machine| machine.id.cmp(&new.id)) {
            Err(index) => self.machines.insert(index, new),
            Ok(index) => {
                let old = &mut self.machines[index];
                // A machine that is off may have no address, and is still known by those that it had.
                let node_name = new.node_name.or_else(|| old.node_name.take());
                let addresses = if new.addresses.is_empty() {
                    std::mem::take(&mut old.addresses)
                } else {
                    new.addresses
                };
                *old = InventoryMachine { node_name, addresses, ..new };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(id: &str, state: MachineState) -> ObservedMachine {
        ObservedMachine {
            id: id.to_owned(),
            name: id.to_owned(),
            state,
            spot: false,
            node_name: Some(format!("node-{id}")),
            addresses: vec!["10.0.0.1".to_owned()],
        }
    }

    fn ids(inventory: &Inventory) -> Vec<&str> {
        inventory.machines.iter().map(|machine| machine.id.as_str()).collect()
    }

    #[test]
    fn what_was_on_record_stays_until_the_cluster_ran_without_it() {
        let now = Timestamp::UNIX_EPOCH;
        let mut inventory = Inventory::default();
        let both = [machine("b", MachineState::Running), machine("a", MachineState::Running)];
        inventory.record(&both, OperationId(1), now);
        assert_eq!(ids(&inventory), ["a", "b"]);
        // The first stop removed one of them, and another operation began.
        inventory.record(&both[..1], OperationId(2), now);
        assert_eq!(ids(&inventory), ["a", "b"]);
        inventory.verified = true;
        inventory.record(&both[..1], OperationId(3), now);
        assert_eq!(ids(&inventory), ["b"]);
        assert!(!inventory.verified && inventory.recorded_by == Some(OperationId(3)));
    }

    #[test]
    fn a_machine_that_is_off_keeps_its_names_and_addresses() {
        let mut inventory = Inventory::default();
        inventory.add_listed(&[machine("a", MachineState::Running)]);
        let off = ObservedMachine {
            node_name: None,
            addresses: Vec::new(),
            ..machine("a", MachineState::Stopped)
        };
        assert!(!inventory.add_listed(&[off]));
        let kept = inventory.find("a").unwrap();
        assert_eq!(kept.node_name.as_deref(), Some("node-a"));
        assert_eq!(kept.addresses, ["10.0.0.1"]);
    }

    #[test]
    fn a_name_without_a_machine_is_not_taken_in() {
        let mut inventory = Inventory::default();
        assert!(!inventory.add_listed(&[machine("a", MachineState::Missing)]));
        inventory.add_records(&[InventoryMachine::from(&machine("a", MachineState::Missing))]);
        assert_eq!(ids(&inventory), ["a"]);
    }
}
