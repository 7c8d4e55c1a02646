//! A cluster whose status is lost: what can be known of it again.

use super::observed::{Listing, Observed};
use super::state::ClusterState;
use crate::known::Known;

/// What can be known of a cluster of which nothing is on record. The rest follows: the next decision begins an
/// operation towards what its spec asks for, which finds out where every machine is and forgets none that is
/// listed or that an actuator has on record.
pub fn recover(seen: &Observed<'_>) -> ClusterState {
    let mut state = ClusterState::default();
    match seen.records {
        Known::Is(records) => state.inventory.add_records(records),
        Known::Absent | Known::Unknown => {}
    }
    match seen.machines {
        Listing::Listed(machines) => {
            state.inventory.add_listed(machines);
        }
        Listing::NotListed | Listing::Failed(_) => {}
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::inventory::InventoryMachine;
    use crate::cluster::machine::{MachineState, ObservedMachine};

    fn machine(id: &str) -> ObservedMachine {
        ObservedMachine {
            id: id.to_owned(),
            name: id.to_owned(),
            state: MachineState::Stopped,
            spot: false,
            node_name: None,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn what_is_listed_and_what_is_on_record_is_known_again() {
        assert_eq!(recover(&Observed::NOTHING), ClusterState::default());
        let records = Known::Is(vec![InventoryMachine::from(&machine("b"))]);
        let listing = Listing::Listed(vec![machine("c"), machine("a")]);
        let seen = Observed { records: &records, machines: &listing, ..Observed::NOTHING };
        let ids: Vec<_> =
            recover(&seen).inventory.machines.into_iter().map(|machine| machine.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }
}
