use super::*;
use MachineState::{Deleting, Failed, Missing, Paused, Pending, Running, Stopped as Off, Stopping};

fn census(states: &[MachineState], direction: Direction) -> Census {
    let names: Vec<String> = (0..states.len()).map(|index| format!("m{index}")).collect();
    let machines = names.iter().map(String::as_str).zip(states);
    Census::of(machines, direction, Stopped::Kept)
}

fn to_stop(states: &[MachineState]) -> usize {
    census(states, Direction::Hibernate).to_call.len()
}

fn to_start(states: &[MachineState]) -> usize {
    census(states, Direction::Resume).to_call.len()
}

fn all_stopped(states: &[MachineState]) -> bool {
    census(states, Direction::Hibernate).tally() == Tally::AllSettled
}

fn all_running(states: &[MachineState]) -> bool {
    census(states, Direction::Resume).tally() == Tally::AllSettled
}

// case: cluster W01, W02, W03
#[test]
fn what_runs_or_starts_is_stopped_and_nothing_else() {
    assert_eq!(to_stop(&[Missing, Stopping, Off]), 0);
    assert_eq!(to_stop(&[Running, Running, Missing, Missing]), 2);
    assert_eq!(to_stop(&[Pending, Running, Running, Running, Missing, Off, Stopping]), 4);
}

// case: cluster W04, G03
#[test]
fn what_is_stopped_or_stops_is_started() {
    assert_eq!(to_start(&[Off, Off, Off, Stopping]), 4);
    assert_eq!(to_start(&[Off, Stopping, Off, Missing, Running]), 3, "what is gone is not started");
}

// case: cluster W06, W07, Z04
#[test]
fn all_are_stopped_when_none_runs_or_starts() {
    assert!(all_stopped(&[Off, Off, Missing]));
    for state in [Running, Pending, Stopping, Deleting, Paused] {
        assert!(!all_stopped(&[Off, state.clone()]), "{state}");
    }
}

// case: cluster W08, W09, O11
#[test]
fn all_run_when_none_is_on_its_way_or_off() {
    assert!(all_running(&[Running, Running, Missing]));
    for state in [Pending, Stopping, Off, Deleting, Paused, Failed] {
        assert!(!all_running(&[Running, state.clone()]), "{state}");
    }
    let census = census(&[Running, Off], Direction::Resume);
    assert_eq!(census.to_call, ["m1"]);
}

// case: cluster X03
#[test]
fn no_machines_are_neither_all_stopped_nor_all_running() {
    for states in [&[][..], &[Missing, Missing][..]] {
        for direction in Direction::ALL {
            assert_eq!(census(states, direction).tally(), Tally::NoneMatched);
        }
    }
}

// case: cluster X04
#[test]
fn a_machine_in_a_state_that_nobody_knows_is_neither_and_is_named() {
    let odd = MachineState::Unknown("REPAIRING".to_owned());
    for direction in Direction::ALL {
        let census = census(&[Running, Off, odd.clone()], direction);
        assert_eq!(census.tally(), Tally::SomeLeft);
        assert_eq!(census.unknown, ["m2"]);
    }
    assert_eq!(odd.to_string(), "Unknown (REPAIRING)");
}

#[test]
fn where_stopping_removes_what_is_missing_is_stopped_and_has_to_be_made_again() {
    let standing = |direction| Missing.standing(direction, Stopped::Removed);
    assert_eq!(standing(Direction::Hibernate), Standing::Settled);
    assert_eq!(standing(Direction::Resume), Standing::ToCall);
}

#[test]
fn no_state_is_settled_both_ways() {
    for state in MachineState::KNOWN {
        for stopped in [Stopped::Kept, Stopped::Removed] {
            let both = Direction::ALL.map(|direction| state.standing(direction, stopped));
            assert_ne!(both, [Standing::Settled; 2], "{state}");
        }
    }
}

#[test]
fn what_drifted_has_to_be_called() {
    for state in MachineState::KNOWN {
        for direction in Direction::ALL {
            if state.is_drift(direction) {
                assert_eq!(state.standing(direction, Stopped::Kept), Standing::ToCall, "{state}");
            }
        }
    }
}

#[test]
fn states_are_known_by_their_names() {
    for state in MachineState::KNOWN {
        assert_eq!(MachineState::of(state.as_str()), state);
    }
    let foreign = MachineState::of("hibernated");
    assert_eq!(foreign, MachineState::Unknown("hibernated".to_owned()));
    assert_eq!(foreign.to_string(), "Unknown (hibernated)");
    assert_eq!(Running.to_string(), "Running");
}
