//! The machines of an operation: written down, called one by one as often as it takes, and waited for.

use super::super::call::ErrorClass;
use super::super::effect::{Effect, StopCall};
use super::super::inventory::InventoryMachine;
use super::super::machine::{
    Census, MachineState, ObservedMachine, Standing, StopMode, Stopped, Tally,
};
use super::super::observed::Listing;
use super::super::operation::{ErrorKind, MachineProgress, Operation, Step};
use super::super::power::{ConditionStatus, Conditions, Direction, HibernatingReason, ReadyReason};
use super::super::reason::Reason;
use super::builder::Builder;
use super::{readiness, steering};
use crate::known::Known;
use crate::moment::ceil_second;

/// Takes an operation as far as it goes now.
pub(super) fn advance(builder: &mut Builder<'_>, operation: &mut Operation, stopped: Stopped) {
    take_outcomes(builder, operation);
    let listed = see(builder, operation, stopped);
    if operation.step == Step::Record {
        return record(builder, operation, listed);
    }
    let census = census(builder, operation, stopped);
    if !census.unknown.is_empty() {
        builder.because(Reason::UnknownStates { names: census.unknown.clone() });
    }
    if listed {
        builder.next.no_machines_found = match census.tally() {
            Tally::NoneMatched => ConditionStatus::True,
            Tally::AllSettled | Tally::SomeLeft => ConditionStatus::False,
        };
    }
    match census.tally() {
        Tally::NoneMatched => {
            builder.because(Reason::NoMachinesFound);
            if makes_others(builder, operation, stopped) {
                return readiness::await_replacements(builder, operation, stopped);
            }
            operation.enter(Step::Machines, builder.now);
            poll(builder, operation);
        }
        Tally::SomeLeft => {
            operation.enter(Step::Machines, builder.now);
            call(builder, operation, stopped);
            wait(builder, operation, stopped);
        }
        // What was seen before proves nothing by now.
        Tally::AllSettled if !listed && operation.step == Step::Machines => {
            poll(builder, operation);
        }
        Tally::AllSettled => {
            operation.succeeded(ErrorKind::Call);
            match operation.direction {
                Direction::Hibernate => finish(builder, operation, stopped),
                Direction::Resume => readiness::advance(builder, operation, stopped),
            }
        }
    }
}

/// Whether the cluster can be had to make machines for those that are gone: its API may be elsewhere.
fn makes_others(builder: &Builder<'_>, operation: &Operation, stopped: Stopped) -> bool {
    operation.direction == Direction::Resume
        && builder.intent.has_kubeconfig
        && !builder.reports(operation)
        && operation.machines.iter().any(|machine| machine.is_lost_spot(stopped))
}

fn finish(builder: &mut Builder<'_>, operation: &mut Operation, stopped: Stopped) {
    operation.enter(Step::Done, builder.now);
    operation.last_error = None;
    if stopped == Stopped::Removed {
        builder.effects.push(Effect::TellRecordsKept);
    }
    steering::arrive(builder, operation);
}

/// Looks again soon; at what is only reported, as seldom as at a cluster that has settled. When machines cannot be
/// listed, that says itself when to look.
fn poll(builder: &mut Builder<'_>, operation: &Operation) {
    if let Some(at) = operation.waits_after(ErrorKind::List, builder.now) {
        return builder.wake_at(at);
    }
    if builder.reports(operation) {
        return builder.wake_drift_check();
    }
    builder.wake_poll(builder.settings.machine_poll, operation.step_since);
}

fn census(builder: &Builder<'_>, operation: &Operation, stopped: Stopped) -> Census {
    let standing =
        |machine: &MachineProgress| machine.standing(operation.direction, stopped, builder.now);
    Census::count(operation.machines.iter().map(|one| (one.name.as_str(), standing(one))))
}

/// Takes in what came of calls that this operation made.
fn take_outcomes(builder: &Builder<'_>, operation: &mut Operation) {
    let mut failed = Vec::new();
    for outcome in builder.seen.outcomes {
        if outcome.operation != operation.id {
            continue;
        }
        let found = operation.machines.iter_mut().find(|machine| machine.id == outcome.machine);
        let Some(machine) = found else { continue };
        match &outcome.result {
            Ok(()) => {
                machine.failures = 0;
                machine.error = None;
            }
            Err(failure) => {
                machine.failures = machine.failures.saturating_add(1);
                let at = outcome.at.min(builder.now);
                let retry = builder.settings.retry.after_failure(failure, machine.failures, at);
                machine.retry_at = Some(retry);
                machine.error = Some(failure.clone());
                failed.push(format!("{}: {failure}", machine.name));
            }
        }
    }
    if let Some(message) = failed.pop() {
        operation.failed(ErrorKind::Call, message, builder.now, |_| builder.now);
    }
}

/// Takes in what was listed. Whether anything was.
fn see(builder: &mut Builder<'_>, operation: &mut Operation, stopped: Stopped) -> bool {
    match builder.seen.machines {
        Listing::NotListed => false,
        Listing::Failed(failure) => {
            builder.because(Reason::CannotList { message: failure.to_string() });
            let (retry, now) = (builder.settings.retry, builder.now);
            let message = format!("machines could not be listed: {failure}");
            operation.failed(ErrorKind::List, message, now, |failures| {
                ceil_second(retry.after_failure(failure, failures, now))
            });
            false
        }
        Listing::Listed(listed) => {
            operation.succeeded(ErrorKind::List);
            if operation.step != Step::Record && builder.next.inventory.add_listed(listed) {
                // Machines that were not there before are on record first, too.
                builder.wake_now();
            }
            let before = std::mem::take(&mut operation.machines);
            operation.machines = progress(builder, before, Some(listed));
            clear_flights(operation, stopped);
            true
        }
    }
}

/// Every machine of the inventory, as it is now; what is on record of its calls is `before`.
pub(super) fn progress(
    builder: &Builder<'_>,
    before: Vec<MachineProgress>,
    listed: Option<&[ObservedMachine]>,
) -> Vec<MachineProgress> {
    let mut before = before;
    let inventory = &builder.next.inventory.machines;
    let machines = inventory.iter().map(|machine| {
        let known = before.iter().position(|one| one.id == machine.id);
        let known = known.map(|index| before.swap_remove(index));
        let mut progress = known.unwrap_or_else(|| MachineProgress::unseen(machine));
        progress.name.clone_from(&machine.name);
        progress.spot = machine.spot;
        if let Some(listed) = listed {
            let found = listed.iter().find(|one| one.id == machine.id);
            progress.state = found.map_or(MachineState::Missing, |one| one.state.clone());
        }
        progress
    });
    machines.collect()
}

/// A call of the operation before is in flight no more once a machine shows it.
fn clear_flights(operation: &mut Operation, stopped: Stopped) {
    let before = operation.direction.wanted().opposite().direction();
    for machine in &mut operation.machines {
        if steering::is_visible(&machine.state, before, stopped) {
            machine.in_flight_until = None;
        }
    }
}

/// Writes the inventory down. Machines are called by a later decision, which finds it on record.
fn record(builder: &mut Builder<'_>, operation: &mut Operation, listed: bool) {
    let Listing::Listed(machines) = builder.seen.machines else {
        if operation.failures(ErrorKind::List) > 0 {
            fail(builder, operation);
        }
        return poll(builder, operation);
    };
    debug_assert!(listed, "what is listed was seen");
    builder.next.inventory.record(machines, operation.id, builder.now);
    if let Known::Is(records) = builder.seen.records {
        builder.next.inventory.add_records(records);
    }
    let before = std::mem::take(&mut operation.machines);
    operation.machines = progress(builder, before, Some(machines));
    if operation.machines.is_empty() {
        builder.because(Reason::NoMachinesFound);
        builder.next.no_machines_found = ConditionStatus::True;
        return poll(builder, operation);
    }
    builder.because(Reason::InventoryRecorded { machines: operation.machines.len() });
    operation.enter(Step::Machines, builder.now);
    builder.wake_now();
}

/// Calls every machine that has to be called, is on record, and whose time has come.
fn call(builder: &mut Builder<'_>, operation: &mut Operation, stopped: Stopped) {
    let reports = builder.reports(operation);
    if reports || builder.intent.observe {
        let names = operation.waiting_for(stopped, builder.now);
        builder.because(if reports {
            Reason::DriftReported { names }
        } else {
            Reason::ObserveOnly
        });
        return;
    }
    let (now, direction) = (builder.now, operation.direction);
    let mut due: Vec<(InventoryMachine, StopMode)> = Vec::new();
    for index in 0..operation.machines.len() {
        let machine = &operation.machines[index];
        let is_due = machine.standing(direction, stopped, now) == Standing::ToCall
            && machine.retry_at.is_none_or(|at| at <= now)
            && builder.stored.may_call(operation, &machine.id);
        let Some(found) = builder.next.inventory.find(&machine.id).filter(|_| is_due) else {
            continue;
        };
        let ends = machine.spot && stopped == Stopped::Kept;
        due.push((found.clone(), if ends { StopMode::End } else { StopMode::Stop }));
        let machine = &mut operation.machines[index];
        machine.attempts = machine.attempts.saturating_add(1);
        machine.retry_at = Some(builder.settings.retry.after_call(machine.attempts, now));
    }
    if due.is_empty() {
        return;
    }
    let names = due.iter().map(|(machine, _)| machine.name.clone()).collect();
    builder.because(Reason::Called { direction, names });
    let id = operation.id;
    builder.effects.push(match direction {
        Direction::Hibernate => {
            let calls = due.into_iter().map(|(machine, mode)| StopCall { machine, mode });
            Effect::Stop { operation: id, machines: calls.collect() }
        }
        Direction::Resume => {
            let machines = due.into_iter().map(|(machine, _)| machine).collect();
            Effect::Start { operation: id, machines }
        }
    });
}

/// Shows what is waited for, and looks again in time.
fn wait(builder: &mut Builder<'_>, operation: &Operation, stopped: Stopped) {
    let (now, direction) = (builder.now, operation.direction);
    for machine in &operation.machines {
        let called = machine.standing(direction, stopped, now) == Standing::ToCall;
        let times = [machine.retry_at.filter(|_| called), machine.in_flight_until];
        for at in times.into_iter().flatten().filter(|at| *at > now) {
            builder.wake_at(at);
        }
    }
    poll(builder, operation);
    if operation.machines.iter().any(|machine| is_failing(machine, direction, stopped, builder)) {
        return fail(builder, operation);
    }
    let names = operation.waiting_for(stopped, now);
    builder.because(Reason::WaitsFor { step: Step::Machines, names });
    // Only a machine that was called in an earlier decision is waited for.
    let first = operation.machines.iter().all(|machine| machine.attempts <= 1)
        && builder.effects.iter().any(is_call);
    builder.next.conditions = Some(match (direction, first) {
        (Direction::Hibernate, true) => Conditions::stopping(HibernatingReason::Stopping),
        (Direction::Hibernate, false) => {
            Conditions::stopping(HibernatingReason::WaitingForMachinesToStop)
        }
        (Direction::Resume, true) => Conditions::resuming(ReadyReason::StartingMachines),
        (Direction::Resume, false) => Conditions::resuming(ReadyReason::WaitingForMachines),
    });
}

fn is_call(effect: &Effect) -> bool {
    match effect {
        Effect::Stop { .. } | Effect::Start { .. } => true,
        Effect::WritePowerState { .. }
        | Effect::Replace { .. }
        | Effect::Approve { .. }
        | Effect::Notify(_)
        | Effect::AddFinalizer
        | Effect::RemoveFinalizer
        | Effect::RemoveRecords
        | Effect::TellRecordsKept => false,
    }
}

/// Whether the last call for a machine failed. That a machine on its way cannot be called is no failure.
fn is_failing(
    machine: &MachineProgress,
    direction: Direction,
    stopped: Stopped,
    builder: &Builder<'_>,
) -> bool {
    let Some(failure) = &machine.error else { return false };
    let on_its_way = match machine.state {
        MachineState::Pending | MachineState::Stopping | MachineState::Deleting => true,
        MachineState::Running
        | MachineState::Stopped
        | MachineState::Paused
        | MachineState::Failed
        | MachineState::Missing
        | MachineState::Unknown(_) => false,
    };
    let excused = failure.class == ErrorClass::Conflict && on_its_way;
    machine.standing(direction, stopped, builder.now) == Standing::ToCall && !excused
}

fn fail(builder: &mut Builder<'_>, operation: &Operation) {
    builder.next.conditions = Some(match operation.direction {
        Direction::Hibernate => Conditions::stopping(HibernatingReason::FailedToStop),
        Direction::Resume => Conditions::resuming(ReadyReason::FailedToStartMachines),
    });
}
