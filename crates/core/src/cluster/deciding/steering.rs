//! Which way a cluster goes: it has settled, an operation is under way, or one begins.

use jiff::Timestamp;

use super::super::effect::Effect;
use super::super::machine::{Census, MachineState, ObservedMachine, Standing, Stopped, Tally};
use super::super::observed::Listing;
use super::super::operation::{MachineProgress, Operation, OperationId, Step, Trigger};
use super::super::power::{
    ConditionStatus, Conditions, Direction, HibernatingReason, ReadyReason, Wanted,
};
use super::super::reason::Reason;
use super::super::state::Action;
use super::builder::Builder;
use super::power_write::Written;
use super::{machines, timeout};
use crate::known::Known;
use crate::moment::{ceil_second, saturating_add};

pub(super) fn decide(builder: &mut Builder<'_>, stopped: Stopped, written: Written) {
    let wanted = builder.intent.wanted;
    if wanted == Wanted::Hibernating {
        if is_held_for_sync(builder, stopped) {
            return;
        }
    } else {
        leave_sync_gate(builder);
    }
    if builder.intent.fake {
        return make_believe(builder, written);
    }
    let trigger = trigger(builder, written);
    let current = builder.next.operation_under_way().map(|operation| operation.direction);
    let restarted = written == Written::Overtaken(Trigger::RollBack);
    let is_unknown = is_unknown(builder);
    match current {
        Some(direction) if direction == wanted.direction() && !restarted && !is_unknown => {
            advance(builder, stopped);
        }
        None if builder.next.settled() == Some(wanted) => settled(builder, stopped, wanted),
        // Another power state is about to be written: nothing begins that would be taken back at once.
        Some(_) | None if builder.next.power_write.is_some() => {}
        Some(_) | None => begin(builder, wanted.direction(), trigger, stopped),
    }
}

/// Whether nobody knows what others did to it: it was paused, or only its name was known.
fn is_unknown(builder: &Builder<'_>) -> bool {
    let ready = builder.conditions().ready;
    ready == ReadyReason::Initialized || ready == ReadyReason::PowerStatePaused
}

/// Why an operation that begins now is begun.
fn trigger(builder: &Builder<'_>, written: Written) -> Trigger {
    match (written, builder.conditions().ready) {
        (Written::Yes(trigger), _) => trigger,
        (Written::No | Written::Overtaken(_), ReadyReason::Initialized) => Trigger::Adopted,
        (Written::No | Written::Overtaken(_), ReadyReason::PowerStatePaused) => Trigger::Unpaused,
        (
            Written::No | Written::Overtaken(_),
            ReadyReason::ClusterDeploymentDeleted
            | ReadyReason::StoppingOrHibernating
            | ReadyReason::StartingMachines
            | ReadyReason::FailedToStartMachines
            | ReadyReason::WaitingForMachines
            | ReadyReason::WaitingForNodes
            | ReadyReason::PausingForClusterOperatorsToSettle
            | ReadyReason::WaitingForClusterOperators
            | ReadyReason::Running,
        ) => Trigger::User,
    }
}

/// Until when a cluster waits for its first sync before it hibernates. One that nothing is synced into does not
/// wait, and none waits for longer than its grace after the installation.
pub(super) fn sync_gate(builder: &Builder<'_>) -> Option<Timestamp> {
    match builder.seen.sync {
        Known::Absent => return None,
        Known::Is(sync) if sync.first_success_at.is_some() => return None,
        Known::Is(_) | Known::Unknown => {}
    }
    let installed_at = builder.next.installed_at?;
    let until = ceil_second(saturating_add(installed_at, builder.settings.sync_grace));
    (builder.now < until).then_some(until)
}

/// Holds a hibernation that has not begun until the first sync. A resume that is under way goes on meanwhile.
fn is_held_for_sync(builder: &mut Builder<'_>, stopped: Stopped) -> bool {
    let has_begun = builder
        .next
        .operation_under_way()
        .is_some_and(|operation| operation.direction == Direction::Hibernate)
        || builder.next.settled() == Some(Wanted::Hibernating);
    if has_begun {
        return false;
    }
    let was_held = builder.conditions().hibernating == HibernatingReason::SyncSetsNotApplied;
    let Some(until) = sync_gate(builder) else {
        let is_applied = match builder.seen.sync {
            Known::Is(sync) => sync.first_success_at.is_some(),
            Known::Absent => true,
            Known::Unknown => false,
        };
        if was_held && is_applied {
            builder.because(Reason::SyncApplied);
            let ready = builder.conditions().ready;
            let hibernating = HibernatingReason::SyncSetsApplied;
            builder.next.conditions = Some(Conditions { hibernating, ready });
            builder.wake_now();
            return true;
        }
        return false;
    };
    if builder.next.operation_under_way().is_some() && !builder.intent.fake {
        advance(builder, stopped);
    }
    builder.because(Reason::WaitsForSync { until });
    builder.wake_at(until);
    builder.foresee(Action::Hibernate, until, Reason::WaitsForSync { until });
    let ready = match builder.conditions().ready {
        // What was said while nobody was to touch it holds no longer.
        ReadyReason::PowerStatePaused | ReadyReason::ClusterDeploymentDeleted => {
            ReadyReason::Initialized
        }
        ready @ (ReadyReason::Initialized
        | ReadyReason::StoppingOrHibernating
        | ReadyReason::StartingMachines
        | ReadyReason::FailedToStartMachines
        | ReadyReason::WaitingForMachines
        | ReadyReason::WaitingForNodes
        | ReadyReason::PausingForClusterOperatorsToSettle
        | ReadyReason::WaitingForClusterOperators
        | ReadyReason::Running) => ready,
    };
    builder.next.conditions =
        Some(Conditions { hibernating: HibernatingReason::SyncSetsNotApplied, ready });
    true
}

/// It is to run after all, so there is no gate.
fn leave_sync_gate(builder: &mut Builder<'_>) {
    let conditions = builder.conditions();
    match conditions.hibernating {
        HibernatingReason::SyncSetsNotApplied | HibernatingReason::SyncSetsApplied => {
            builder.next.conditions = Some(Conditions::resuming(conditions.ready));
        }
        HibernatingReason::Initialized
        | HibernatingReason::PowerStatePaused
        | HibernatingReason::ClusterDeploymentDeleted
        | HibernatingReason::Unsupported
        | HibernatingReason::ResumingOrRunning
        | HibernatingReason::Stopping
        | HibernatingReason::WaitingForMachinesToStop
        | HibernatingReason::FailedToStop
        | HibernatingReason::Hibernating => {}
    }
}

/// A fake cluster is where it is wanted in one step, and nobody is called.
fn make_believe(builder: &mut Builder<'_>, written: Written) {
    let wanted = builder.intent.wanted;
    if builder.next.settled() == Some(wanted) {
        return builder.because(Reason::Settled { at: wanted });
    }
    if builder.intent.observe {
        return builder.because(Reason::ObserveOnly);
    }
    let trigger = trigger(builder, written);
    let mut operation = new_operation(builder, wanted.direction(), trigger);
    operation.enter(Step::Done, builder.now);
    arrive(builder, &operation);
    builder.next.operation = Some(operation);
}

/// The way is done, and the conditions say so.
pub(super) fn arrive(builder: &mut Builder<'_>, operation: &Operation) {
    let direction = operation.direction;
    builder.because(Reason::Finished { direction });
    builder.next.no_machines_found = ConditionStatus::False;
    match direction {
        Direction::Hibernate => {
            builder.next.conditions = Some(Conditions::HIBERNATING);
            builder.next.running_since = None;
        }
        Direction::Resume => {
            builder.next.conditions = Some(Conditions::RUNNING);
            // It is kept only through what was reported: that was no resume of ours.
            let before = builder.next.running_since.filter(|_| builder.reports(operation));
            builder.next.running_since = Some(before.unwrap_or(builder.now));
            builder.next.inventory.verified = true;
        }
    }
    builder.wake_now();
}

fn new_operation(builder: &Builder<'_>, direction: Direction, trigger: Trigger) -> Operation {
    let now = builder.now;
    let previous = builder.next.operation.as_ref().map(|operation| operation.id);
    let timeout = builder.intent.timeouts.of(direction).span();
    let mut operation = Operation {
        id: OperationId::after(previous, now),
        direction,
        trigger,
        started_at: now,
        deadline: timeout.map(|span| ceil_second(saturating_add(now, span))),
        step: Step::Record,
        step_since: now,
        attempt: 1,
        machines: Vec::new(),
        last_error: None,
        stale_nodes: None,
        replaced_at: None,
        waits_for: None,
    };
    if builder.reports(&operation) {
        operation.deadline = None;
    }
    operation
}

/// Begins an operation, and writes its inventory down if that is at hand; machines are called by the next decision.
fn begin(builder: &mut Builder<'_>, direction: Direction, trigger: Trigger, stopped: Stopped) {
    if builder.intent.observe {
        let action = match direction {
            Direction::Hibernate => Action::Hibernate,
            Direction::Resume => Action::Resume,
        };
        builder.because(Reason::ObserveOnly);
        return builder.foresee(action, builder.now, Reason::Begun { direction, trigger });
    }
    let mut operation = new_operation(builder, direction, trigger);
    if let Some(previous) = builder.next.operation.take() {
        operation.machines = still_in_flight(builder, &previous, direction, stopped);
    }
    builder.because(Reason::Begun { direction, trigger });
    if !builder.reports(&operation) {
        builder.next.running_since = None;
    }
    builder.next.conditions = Some(match direction {
        Direction::Hibernate => Conditions::stopping(HibernatingReason::Stopping),
        Direction::Resume => Conditions::resuming(ReadyReason::StartingMachines),
    });
    machines::advance(builder, &mut operation, stopped);
    builder.next.operation = Some(operation);
    builder.wake_now();
}

/// Machines for which a call of an operation that did not come to its end may still take effect: for a while it
/// proves nothing that they are seen where they should be.
fn still_in_flight(
    builder: &Builder<'_>,
    previous: &Operation,
    direction: Direction,
    stopped: Stopped,
) -> Vec<MachineProgress> {
    if previous.is_done() || previous.step == Step::Record {
        return Vec::new();
    }
    let until = ceil_second(saturating_add(builder.now, builder.settings.call_visibility));
    let machines = previous.machines.iter().map(|machine| {
        let already = machine.in_flight_until.filter(|_| previous.direction == direction);
        let turned = previous.direction != direction
            && !is_visible(&machine.state, previous.direction, stopped);
        MachineProgress {
            attempts: 0,
            failures: 0,
            retry_at: None,
            error: None,
            in_flight_until: already.or(turned.then_some(until)),
            ..machine.clone()
        }
    });
    machines.collect()
}

/// Whether a machine shows that a call that was made on the way there has taken effect.
pub(super) fn is_visible(state: &MachineState, direction: Direction, stopped: Stopped) -> bool {
    match state.standing(direction, stopped) {
        Standing::Settled | Standing::Moving | Standing::Gone => true,
        Standing::ToCall | Standing::Unknown => false,
    }
}

fn advance(builder: &mut Builder<'_>, stopped: Stopped) {
    let Some(mut operation) = builder.next.operation.take() else { return };
    machines::advance(builder, &mut operation, stopped);
    if !operation.is_done() {
        timeout::check(builder, &mut operation);
    }
    builder.next.operation = Some(operation);
}

/// It is where it is wanted. Now and then somebody looks whether that still holds.
fn settled(builder: &mut Builder<'_>, stopped: Stopped, at: Wanted) {
    builder.because(Reason::Settled { at });
    builder.wake_drift_check();
    forget_records(builder, stopped, at);
    match builder.seen.machines {
        Listing::NotListed => {}
        Listing::Failed(failure) => {
            builder.because(Reason::CannotList { message: failure.to_string() });
        }
        Listing::Listed(listed) => check_drift(builder, stopped, at, listed),
    }
}

fn check_drift(
    builder: &mut Builder<'_>,
    stopped: Stopped,
    at: Wanted,
    listed: &[ObservedMachine],
) {
    let direction = at.direction();
    let names = |is: &dyn Fn(&MachineState) -> bool| {
        let found = listed.iter().filter(|machine| is(&machine.state));
        let mut names: Vec<_> = found.map(|machine| machine.name.clone()).collect();
        names.sort();
        names
    };
    let drifted = names(&|state| state.is_drift(direction));
    let unknown = names(&|state| matches!(state, MachineState::Unknown(_)));
    if !unknown.is_empty() {
        builder.because(Reason::UnknownStates { names: unknown });
    }
    let found = match tally(builder, stopped, direction, listed) {
        Tally::NoneMatched => ConditionStatus::True,
        Tally::AllSettled | Tally::SomeLeft => ConditionStatus::False,
    };
    builder.next.no_machines_found = found;
    if found == ConditionStatus::True {
        builder.because(Reason::NoMachinesFound);
    } else if drifted.is_empty() {
        return;
    } else {
        builder.because(Reason::Drifted { names: drifted });
    }
    begin(builder, direction, Trigger::Drift, stopped);
}

/// What the machines of a settled cluster amount to. One that runs is judged by what is listed alone: its
/// inventory is of the past.
fn tally(
    builder: &Builder<'_>,
    stopped: Stopped,
    direction: Direction,
    listed: &[ObservedMachine],
) -> Tally {
    let progress = match direction {
        Direction::Resume => Vec::new(),
        Direction::Hibernate => machines::progress(builder, Vec::new(), Some(listed)),
    };
    let of_progress = progress
        .iter()
        .map(|one| (one.name.as_str(), one.standing(direction, stopped, builder.now)));
    let of_listed = listed.iter().filter(|machine| machine.state != MachineState::Missing);
    let of_listed = of_listed
        .map(|machine| (machine.name.as_str(), machine.state.standing(direction, stopped)));
    match direction {
        Direction::Resume => Census::count(of_listed).tally(),
        Direction::Hibernate => Census::count(of_progress).tally(),
    }
}

/// Copies of machines that were removed are not needed any more once the cluster was seen to run, and that is on
/// record.
fn forget_records(builder: &mut Builder<'_>, stopped: Stopped, at: Wanted) {
    let verified = builder.stored.is_settled && builder.next.inventory.verified;
    let has_records = builder.seen.records.as_ref().is().is_some();
    if stopped == Stopped::Removed
        && at == Wanted::Running
        && verified
        && has_records
        && !builder.intent.observe
    {
        builder.effects.push(Effect::RemoveRecords);
        builder.wake_at(builder.settings.retry.after_call(1, builder.now));
    }
}
