use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sojourn_core::cluster::power::ConditionStatus;
use sojourn_core::cluster::state::{
    Action, Announcement, AnnouncementStage, NoticeKind, ScheduleMemory, UpcomingAction,
};
use sojourn_core::cluster::{
    CallFailure, ClusterState, Conditions, Direction, ErrorClass, ErrorKind, Firing,
    HibernatingReason, Inventory, InventoryMachine, LastError, MachineProgress, MachineState,
    Operation, OperationId, PowerState, PowerWrite, Reachability, ReachabilityReason, ReadyReason,
    Reason, StaleNode, Step, Stopped, Trigger, Wanted,
};
use sojourn_core::keep::Keep;
use sojourn_core::ladder::Ladder;
use sojourn_core::notice::{Delivery, Notice, NoticeId, Outbox};

use super::*;
use crate::cluster::status::{self, ClusterDeploymentStatus};

fn now() -> Timestamp {
    "2026-11-19T10:00:00.75Z".parse().expect("a time")
}

/// What the API would keep of a status that is written, over what it has.
fn stored_over(
    mut status: ClusterDeploymentStatus,
    state: &ClusterState,
) -> ClusterDeploymentStatus {
    write_state(state, &mut status);
    write_conditions(state, Some(Stopped::Removed), Some(3), now(), &mut status);
    let text = serde_json::to_string(&status).expect("a status is JSON");
    serde_json::from_str(&text).expect("JSON is a status")
}

fn stored(state: &ClusterState) -> ClusterDeploymentStatus {
    stored_over(ClusterDeploymentStatus::default(), state)
}

fn and_back(state: &ClusterState) -> ClusterState {
    read_state(Some(&stored(state)))
}

/// Whole seconds, which is what the wire knows, in the times that it can write.
fn time() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000).prop_map(|second| Timestamp::from_second(second).expect("in range"))
}

fn maybe() -> impl Strategy<Value = Option<Timestamp>> {
    option::of(time())
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,20}"
}

fn id() -> impl Strategy<Value = String> {
    "[a-z]{1,6}-[a-z0-9]{3}"
}

fn trigger() -> impl Strategy<Value = Trigger> {
    select(Trigger::ALL.to_vec())
}

fn wanted() -> impl Strategy<Value = Wanted> {
    select(Wanted::ALL.to_vec())
}

fn conditions() -> impl Strategy<Value = Option<Conditions>> {
    let both = (select(HibernatingReason::ALL.to_vec()), select(ReadyReason::ALL.to_vec()));
    option::of(both.prop_map(|(hibernating, ready)| Conditions { hibernating, ready }))
}

fn machine_state() -> impl Strategy<Value = MachineState> {
    use MachineState::*;
    let known = vec![Running, Pending, Stopping, Stopped, Paused, Failed, Deleting, Missing];
    prop_oneof![select(known), text().prop_map(Unknown)]
}

fn failure() -> impl Strategy<Value = CallFailure> {
    let wait = option::of((0_i64..86_400_000).prop_map(SignedDuration::from_millis));
    (select(ErrorClass::ALL.to_vec()), text(), wait)
        .prop_map(|(class, message, retry_after)| CallFailure { class, message, retry_after })
}

fn progress() -> impl Strategy<Value = MachineProgress> {
    let named = (id(), text(), any::<bool>(), machine_state());
    let calls = (any::<u32>(), any::<u32>(), maybe(), option::of(failure()), maybe());
    (named, calls).prop_map(|((id, name, spot, state), calls)| {
        let (attempts, failures, retry_at, error, in_flight_until) = calls;
        MachineProgress {
            id,
            name,
            spot,
            state,
            attempts,
            failures,
            retry_at,
            error,
            in_flight_until,
        }
    })
}

fn last_error() -> impl Strategy<Value = LastError> {
    (select(ErrorKind::ALL.to_vec()), text(), any::<u32>(), time())
        .prop_map(|(kind, message, count, retry_at)| LastError { kind, message, count, retry_at })
}

fn operation() -> impl Strategy<Value = Operation> {
    let which = (any::<i64>(), select(Direction::ALL.to_vec()), trigger());
    let times = (time(), maybe(), time(), maybe());
    let stale = (id(), maybe()).prop_map(|(name, heartbeat)| StaleNode { name, heartbeat });
    let stale = option::of(vec(stale, 0..3));
    let waits = (stale, option::of(text()));
    let rest = (vec(progress(), 0..4), option::of(last_error()), waits);
    (which, times, select(Step::ALL.to_vec()), any::<u32>(), rest).prop_map(
        |(which, times, step, attempt, (machines, last_error, (stale_nodes, waits_for)))| {
            Operation {
                id: OperationId(which.0),
                direction: which.1,
                trigger: which.2,
                started_at: times.0,
                deadline: times.1,
                step,
                step_since: times.2,
                attempt,
                machines,
                last_error,
                stale_nodes,
                replaced_at: times.3,
                waits_for,
            }
        },
    )
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let machine = (id(), text(), any::<bool>(), option::of(text()), vec(text(), 0..3)).prop_map(
        |(id, name, spot, node_name, addresses)| InventoryMachine {
            id,
            name,
            spot,
            node_name,
            addresses,
        },
    );
    (option::of(any::<i64>()), maybe(), any::<bool>(), vec(machine, 0..4)).prop_map(
        |(by, recorded_at, verified, mut machines)| {
            machines.sort_by(|a, b| a.id.cmp(&b.id));
            machines.dedup_by(|a, b| a.id == b.id);
            Inventory { recorded_by: by.map(OperationId), recorded_at, verified, machines }
        },
    )
}

fn reachability() -> impl Strategy<Value = Reachability> {
    (select(ReachabilityReason::ALL.to_vec()), maybe(), option::of(text()))
        .prop_map(|(reason, since, message)| Reachability { reason, since, message })
}

fn schedule() -> impl Strategy<Value = ScheduleMemory> {
    let firing = (time(), wanted()).prop_map(|(at, to)| Firing { at, to });
    (vec(text(), 0..3), maybe(), option::of(firing))
        .prop_map(|(written, seen_until, pending)| ScheduleMemory { written, seen_until, pending })
}

fn announcement() -> impl Strategy<Value = Announcement> {
    use AnnouncementStage::*;
    let stage = select(vec![Quiet, Waiting, Told]);
    let notice = option::of(id().prop_map(NoticeId::stored));
    (stage, any::<u32>(), notice, maybe(), maybe(), any::<i64>()).prop_map(
        |(stage, alerts_sent, last_notice, warned_at, deadline, generation)| Announcement {
            ladder: Ladder { stage, alerts_sent, last_notice, warned_at, deadline },
            generation,
        },
    )
}

fn outbox() -> impl Strategy<Value = Outbox<NoticeKind>> {
    let delivery = prop_oneof![
        time().prop_map(|next| Delivery::Waiting { next }),
        time().prop_map(|at| Delivery::Delivered { at }),
        time().prop_map(|at| Delivery::Waived { at }),
    ];
    let alert = option::of((any::<u32>(), any::<u32>()));
    let told = (alert, maybe(), time(), any::<u32>(), option::of(text()));
    let notice = (id(), delivery, told).prop_map(
        |(id, delivery, (alert, deadline, recorded_at, attempts, error))| Notice {
            id: NoticeId::stored(id),
            kind: NoticeKind::Hibernation,
            alert,
            deadline,
            recorded_at,
            attempts,
            delivery,
            error,
        },
    );
    vec(notice, 0..4).prop_map(|notices| Outbox { notices })
}

fn state() -> impl Strategy<Value = ClusterState> {
    let found = vec![ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown];
    let shown = (conditions(), select(found), reachability());
    let write = (wanted(), trigger(), any::<i64>());
    let write = write.prop_map(|(to, trigger, generation)| PowerWrite { to, trigger, generation });
    let times = (maybe(), maybe());
    let told = (schedule(), announcement(), outbox());
    let keep = (any::<u32>(), maybe(), maybe());
    let keep = keep.prop_map(|(used, until, asked)| Keep { used, until, asked });
    (shown, option::of(operation()), inventory(), times, option::of(write), told, keep).prop_map(
        |(shown, operation, inventory, times, power_write, told, keep)| ClusterState {
            conditions: shown.0,
            no_machines_found: shown.1,
            reachability: shown.2,
            operation,
            inventory,
            installed_at: times.0,
            running_since: times.1,
            power_write,
            schedule: told.0,
            announcement: told.1,
            outbox: told.2,
            keep,
            upcoming: None,
        },
    )
}

proptest! {
    #[test]
    fn a_cluster_comes_back_as_it_was(state in state()) {
        prop_assert_eq!(and_back(&state), state);
    }

    #[test]
    fn nothing_of_what_was_known_before_is_left(before in state(), state in state()) {
        prop_assert_eq!(read_state(Some(&stored_over(stored(&before), &state))), state);
    }

    #[test]
    fn no_deadline_comes_back_earlier(
        mut state in state(),
        mut operation in operation(),
        nanos in 0_i64..4_000_000_000_000_000_000,
    ) {
        let deadline = Timestamp::from_nanosecond(nanos.into()).expect("in range");
        operation.deadline = Some(deadline);
        state.operation = Some(operation);
        state.announcement.ladder.deadline = Some(deadline);
        let back = and_back(&state);
        prop_assert!(back.announcement.ladder.deadline >= Some(deadline));
        prop_assert!(back.operation.and_then(|operation| operation.deadline) >= Some(deadline));
    }

    #[test]
    fn nothing_in_a_status_panics(text in "\\PC{0,40}", number in any::<i64>()) {
        let junk = json!({
            "powerState": text, "installedTimestamp": number, "notices": [text, number],
            "operation": { "id": text, "direction": number, "machines": [{ "id": number }, text] },
            "inventory": { "machines": number, "recordedAt": text }, "schedule": { "pending": text },
            "conditions": [{ "type": "Ready", "reason": number }], "powerWrite": [number],
        });
        let status = serde_json::from_value(junk).expect("a status reads");
        let read = read_state(Some(&status));
        prop_assert_eq!((read.conditions, read.operation, read.power_write), (None, None, None));
    }
}

fn read_json(status: Value) -> ClusterState {
    read_state(Some(&serde_json::from_value(status).expect("a status reads")))
}

#[test]
fn without_a_status_nothing_is_known() {
    assert_eq!(read_state(None), ClusterState::default());
    assert_eq!(read_json(json!({})), ClusterState::default());
    assert_eq!(read_json(json!("lost")), ClusterState::default());
    assert_eq!(and_back(&ClusterState::default()), ClusterState::default());
}

#[test]
fn what_comes_next_is_shown_and_made_anew() {
    let at = "2026-11-19T11:00:00.5Z".parse().expect("a time");
    let upcoming = UpcomingAction {
        action: Action::Hibernate,
        at,
        why: Reason::Scheduled { at, to: Wanted::Hibernating },
    };
    let state = ClusterState { upcoming: Some(upcoming), ..ClusterState::default() };
    let status = serde_json::to_value(stored(&state)).expect("JSON");
    let expected = json!({
        "action": "Hibernate", "at": "2026-11-19T11:00:01Z",
        "why": "its schedule says Hibernating at 2026-11-19T11:00:00Z",
    });
    assert_eq!(status["next"], expected);
    assert_eq!(and_back(&state).upcoming, None);
}

#[test]
fn an_operation_that_makes_no_sense_is_none_and_a_vague_one_is_not_taken_back() {
    let whole = json!({
        "id": 7, "direction": "Resume", "trigger": "User", "startedAt": "2026-11-19T10:00:00Z",
        "step": "Nodes", "attempt": 2,
        "machines": [
            { "id": "m-1", "name": "a", "state": "Napping", "attempts": 3 },
            { "name": "nobody" },
        ],
    });
    for missing in ["id", "direction", "startedAt", "step"] {
        let mut broken = whole.clone();
        broken.as_object_mut().expect("an object").remove(missing);
        assert_eq!(read_json(json!({ "operation": broken })).operation, None, "{missing}");
    }
    let mut vague = whole;
    vague["trigger"] = json!("Whim");
    let operation = read_json(json!({ "operation": vague })).operation.expect("an operation");
    assert!(!operation.trigger.may_roll_back());
    assert_eq!(operation.step_since, operation.started_at);
    assert_eq!((operation.machines.len(), operation.machines[0].attempts), (1, 3));
    assert_eq!(operation.machines[0].state, MachineState::Unknown(String::new()));
}

#[test]
fn conditions_that_say_nothing_that_we_know_are_lost_and_others_stay() {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-19T10:00:00Z",
        })
    };
    let read = |conditions: Value| read_json(json!({ "conditions": conditions })).conditions;
    let ready = condition("Ready", "Running");
    let resumed = condition("Hibernating", "ResumingOrRunning");
    assert_eq!(read(json!([ready, resumed])), Some(Conditions::RUNNING));
    assert_eq!(read(json!([ready])), None);
    assert_eq!(read(json!([ready, condition("Hibernating", "Dreaming")])), None);
    let before: ClusterDeploymentStatus =
        serde_json::from_value(json!({ "conditions": [condition("Accepted", "Valid"), resumed] }))
            .expect("a status");
    let state =
        ClusterState { conditions: Some(Conditions::HIBERNATING), ..ClusterState::default() };
    let status = stored_over(before, &state);
    let kinds: Vec<_> = status.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(kinds, ["Hibernating", "Ready", "Unreachable", "NoMachinesFound", "Accepted"]);
}

// case: cluster S09
#[test]
fn both_conditions_and_the_power_state_are_written_to_the_letter() {
    for (conditions, hibernating, ready, power) in [
        (
            Conditions::RUNNING,
            ("False", "ResumingOrRunning"),
            ("True", "Running"),
            PowerState::Running,
        ),
        (
            Conditions::HIBERNATING,
            ("True", "Hibernating"),
            ("False", "StoppingOrHibernating"),
            PowerState::Hibernating,
        ),
        (
            Conditions::UNSUPPORTED,
            ("False", "Unsupported"),
            ("True", "Running"),
            PowerState::Running,
        ),
        (
            Conditions::PAUSED,
            ("Unknown", "PowerStatePaused"),
            ("Unknown", "PowerStatePaused"),
            PowerState::Unknown,
        ),
        (
            Conditions::DELETED,
            ("Unknown", "ClusterDeploymentDeleted"),
            ("Unknown", "ClusterDeploymentDeleted"),
            PowerState::Unknown,
        ),
        (
            Conditions::INITIALIZED,
            ("Unknown", "Initialized"),
            ("Unknown", "Initialized"),
            PowerState::Unknown,
        ),
    ] {
        let state = ClusterState { conditions: Some(conditions), ..ClusterState::default() };
        let status = stored(&state);
        assert_eq!(status.power_state, Some(power.into()), "{conditions:?}");
        let said = |kind: &str| {
            let one = status.conditions.iter().find(|one| one.type_ == kind).expect("a condition");
            assert!(!one.message.is_empty() && one.observed_generation == Some(3), "{one:?}");
            (one.status.as_str(), one.reason.as_str())
        };
        assert_eq!((said("Hibernating"), said("Ready")), (hibernating, ready), "{conditions:?}");
    }
}

#[test]
fn a_power_state_reads_as_the_decision_calls_it() {
    for power in PowerState::ALL {
        let wire = serde_json::to_value(status::PowerState::from(power)).expect("JSON");
        assert_eq!(wire, json!(power.as_str()));
    }
    for reason in ReachabilityReason::ALL {
        let wire = serde_json::to_value(status::ReachabilityReason::from(reason)).expect("JSON");
        assert_eq!(wire, json!(reason.as_str()));
    }
}

#[test]
fn a_transition_is_a_change_of_status_alone_and_a_generation_alone_is_no_news() {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("in range");
    let state = |ready| ClusterState {
        conditions: Some(Conditions::resuming(ready)),
        ..ClusterState::default()
    };
    let mut status = ClusterDeploymentStatus::default();
    let mut write = |ready, generation, second| {
        write_conditions(&state(ready), None, Some(generation), at(second), &mut status);
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready").expect("Ready");
        (ready.last_transition_time.0, ready.observed_generation)
    };
    assert_eq!(write(ReadyReason::StartingMachines, 1, 0), (at(0), Some(1)));
    assert_eq!(write(ReadyReason::StartingMachines, 2, 5), (at(0), Some(1)));
    assert_eq!(write(ReadyReason::WaitingForNodes, 2, 6), (at(0), Some(2)));
    assert_eq!(write(ReadyReason::Running, 2, 9), (at(9), Some(2)));
}

#[test]
fn that_nothing_matched_is_a_condition_of_its_own() {
    for (found, status, reason) in [
        (ConditionStatus::True, "True", "NoMachinesFound"),
        (ConditionStatus::False, "False", "MachinesFound"),
        (ConditionStatus::Unknown, "Unknown", "Initialized"),
    ] {
        let state = ClusterState { no_machines_found: found, ..ClusterState::default() };
        let stored = stored(&state);
        let one = stored.conditions.iter().find(|one| one.type_ == "NoMachinesFound");
        let one = one.expect("a condition");
        assert_eq!((one.status.as_str(), one.reason.as_str()), (status, reason));
        assert_eq!(read_state(Some(&stored)).no_machines_found, found);
    }
}
