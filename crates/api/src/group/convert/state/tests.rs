use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::limit::MAX_TEXT_CHARS;
use sojourn_core::moment::ceil_second;

/// Whole seconds, which is what the wire knows, in the times that it can write.
fn time() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000).prop_map(|seconds| Timestamp::from_second(seconds).expect("in range"))
}

fn maybe() -> impl Strategy<Value = Option<Timestamp>> {
    option::of(time())
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]{1,8}-[a-z0-9]{5}"
}

fn cause() -> impl Strategy<Value = domain::Cause> {
    use domain::Cause::*;
    select(vec![Expired, Forced, Unhealthy, Drifted, Interrupted, OnDemand, Scale, Manual])
}

fn tier() -> impl Strategy<Value = domain::Tier> {
    select(vec![domain::Tier::Eligible, domain::Tier::Forced])
}

fn group() -> impl Strategy<Value = domain::Group> {
    let reservation = (name(), option::of(name()))
        .prop_map(|(name, replaces)| domain::Reservation { name, replaces });
    let started = (time(), cause()).prop_map(|(at, cause)| domain::RotationStart { at, cause });
    let reserved = vec(reservation, 0..5);
    let deaths =
        (any::<u32>(), name(), time(), 0..1000_i64).prop_map(|(count, machine, at, seconds)| {
            domain::YoungDeaths {
                count,
                machine,
                at,
                ready_for: SignedDuration::from_secs(seconds),
            }
        });
    let template =
        (option::of("[a-z0-9]{16}"), any::<bool>(), option::of(deaths), option::of("\\PC{0,20}"));
    (0..=MAX_INTEGER, reserved, any::<u32>(), maybe(), vec(started, 0..5), template).prop_map(
        |(serial, reserved, failures, retry_at, started, template)| domain::Group {
            serial,
            reserved,
            template: template.0,
            proven: template.1,
            young_deaths: template.2,
            failures,
            error: template.3,
            retry_at,
            started,
            next_rotation: None,
        },
    )
}

fn drain() -> impl Strategy<Value = domain::Drain> {
    let outcome = select(vec![ReplyOutcome::Done, ReplyOutcome::Progress, ReplyOutcome::Refused]);
    (time(), time(), option::of(outcome), "\\PC{0,20}").prop_map(
        |(started_at, deadline, outcome, message)| domain::Drain {
            started_at,
            deadline,
            outcome,
            message,
        },
    )
}

fn rotation() -> impl Strategy<Value = domain::Rotation> {
    use domain::RotationPhase::*;
    let phase = select(vec![Reserved, Creating, Waiting, Draining, Deleting]);
    let why = (cause(), tier(), vec(cause(), 0..3));
    (name(), why, option::of(name()), phase, option::of(drain()), time(), any::<u32>()).prop_map(
        |(id, (cause, tier, also), replacement, phase, drain, started_at, attempts)| {
            domain::Rotation {
                id,
                cause,
                tier,
                also,
                replacement,
                phase,
                started_at,
                attempts,
                drain,
            }
        },
    )
}

fn machine() -> impl Strategy<Value = domain::Machine> {
    use domain::Phase::*;
    let phase = select(vec![Pending, Provisioning, Registered, Ready, Draining, Deleting, Failed]);
    let warned = (time(), time()).prop_map(|(at, deadline)| domain::ExpiryWarning { at, deadline });
    let times = (maybe(), maybe(), maybe(), maybe(), maybe(), maybe());
    let words = option::of("\\PC{0,20}");
    (
        phase,
        option::of(name()),
        times,
        option::of(rotation()),
        option::of(warned),
        any::<u32>(),
        words,
    )
        .prop_map(|(phase, provider_id, times, rotation, warned, attempts, error)| {
            let (asked_at, registered_at, served_at, ready_at, interrupted_at, retry_at) = times;
            domain::Machine {
                phase,
                provider_id: provider_id.map(Into::into),
                asked_at,
                registered_at,
                served_at,
                ready_at,
                interrupted_at,
                rotation: rotation.map(Box::new),
                warned,
                attempts,
                retry_at,
                error,
            }
        })
}

/// Through the status and through its JSON, which is what the API keeps.
fn group_and_back(state: &domain::Group) -> domain::Group {
    let mut status = InstanceGroupStatus::default();
    write_group(state, &mut status);
    let json = serde_json::to_string(&status).expect("a status writes");
    read_group(Some(&serde_json::from_str(&json).expect("a status reads")))
}

fn machine_and_back(state: &domain::Machine) -> domain::Machine {
    let mut status = MachineStatus::default();
    write_machine(state, &mut status);
    let json = serde_json::to_string(&status).expect("a status writes");
    read_machine(Some(&serde_json::from_str(&json).expect("a status reads")))
}

proptest! {
    #[test]
    fn a_group_comes_back_as_it_was(state in group()) {
        prop_assert_eq!(group_and_back(&state), state);
    }

    #[test]
    fn a_machine_comes_back_as_it_was(state in machine()) {
        prop_assert_eq!(machine_and_back(&state), state);
    }

    #[test]
    fn no_deadline_comes_back_earlier(
        mut state in machine(),
        mut rotation in rotation(),
        mut drain in drain(),
        nanos in 0_i64..4_000_000_000_000_000_000,
    ) {
        let deadline = Timestamp::from_nanosecond(nanos.into()).expect("in range");
        drain.deadline = deadline;
        rotation.drain = Some(drain);
        state.rotation = Some(Box::new(rotation));
        state.warned = Some(domain::ExpiryWarning { at: deadline, deadline });
        let back = machine_and_back(&state);
        let rotation = back.rotation.expect("a rotation");
        prop_assert_eq!(rotation.drain.map(|drain| drain.deadline), Some(ceil_second(deadline)));
        prop_assert_eq!(back.warned.map(|warned| warned.deadline), Some(ceil_second(deadline)));
        prop_assert!(ceil_second(deadline) >= deadline);
    }

    #[test]
    fn nothing_in_a_status_panics(text in "\\PC{0,60}", number in any::<i64>()) {
        let junk = json!({
            "phase": text, "serial": number, "attempts": number, "retryAt": text,
            "rotation": { "id": number, "phase": text }, "drain": text, "reserved": [number, text],
            "started": [{ "at": text }], "warned": number,
        });
        let group = serde_json::from_value(junk.clone()).expect("a status reads");
        let _ = read_group(Some(&group));
        let machine = serde_json::from_value(junk).expect("a status reads");
        prop_assert_eq!(read_machine(Some(&machine)).rotation, None);
    }
}

fn read_json(value: serde_json::Value) -> domain::Machine {
    read_machine(Some(&serde_json::from_value(value).expect("a status reads")))
}

const TIME: &str = "2026-11-16T09:00:00Z";

#[test]
fn a_drain_without_an_end_is_none() {
    let rotation = json!({
        "id": "r1", "reason": "Expired", "tier": "Eligible", "phase": "Draining",
        "replacement": "web-2", "startedAt": TIME,
    });
    let broken = [
        json!({ "id": "r1", "startedAt": TIME, "deadline": "soon" }),
        json!({ "id": "r1", "deadline": TIME }),
        json!({ "id": "another", "startedAt": TIME, "deadline": TIME }),
        json!(null),
    ];
    for drain in broken {
        let read = read_json(json!({ "rotation": rotation, "drain": drain }));
        let read = read.rotation.expect("the rotation stays");
        assert_eq!((read.drain, read.replacement.as_deref()), (None, Some("web-2")), "{drain}");
    }
    // The rotation remembers the deadline, too.
    let mut remembered = rotation;
    remembered["drainDeadline"] = json!(TIME);
    let drain = json!({ "id": "r1", "startedAt": TIME, "deadline": "soon" });
    let read = read_json(json!({ "rotation": remembered, "drain": drain }));
    let drain = read.rotation.and_then(|rotation| rotation.drain);
    assert_eq!(drain.map(|drain| drain.deadline), Some(TIME.parse().expect("a time")));
}

#[test]
fn a_rotation_that_makes_no_sense_is_none_and_a_vague_one_is_gentle() {
    let none = [
        json!({ "id": "", "phase": "Deleting", "startedAt": TIME }),
        json!({ "id": "r1", "phase": "Exploding", "startedAt": TIME }),
        json!({ "id": "r1", "phase": "Waiting" }),
    ];
    for rotation in none {
        assert_eq!(read_json(json!({ "rotation": rotation })).rotation, None, "{rotation}");
    }
    let vague = json!({ "id": "r1", "phase": "Waiting", "startedAt": TIME, "tier": 7 });
    let read = read_json(json!({ "rotation": vague })).rotation.expect("a rotation");
    assert_eq!((read.cause, read.tier), (domain::Cause::Manual, domain::Tier::Eligible));
}

#[test]
fn what_an_api_would_refuse_is_cut_to_what_it_takes() {
    let started =
        domain::RotationStart { at: Timestamp::UNIX_EPOCH, cause: domain::Cause::Expired };
    let mut newest = started.clone();
    newest.at = TIME.parse().expect("a time");
    let mut starts = vec![started; MAX_STARTED];
    starts.push(newest.clone());
    let state = domain::Group { serial: u64::MAX, started: starts, ..domain::Group::default() };
    let back = group_and_back(&state);
    assert_eq!(back.serial, MAX_INTEGER);
    assert_eq!((back.started.len(), back.started.last()), (MAX_STARTED, Some(&newest)));
    let state = domain::Machine { error: Some("é".repeat(5000)), ..domain::Machine::default() };
    let error = machine_and_back(&state).error;
    assert_eq!(error.map(|text| text.chars().count()), Some(MAX_TEXT_CHARS));
}

#[test]
fn what_others_wrote_into_a_status_stays() {
    let mut status = MachineStatus {
        expires_at: written(Some(Timestamp::UNIX_EPOCH)),
        ..MachineStatus::default()
    };
    write_machine(&domain::Machine::default(), &mut status);
    assert_eq!(status.expires_at, written(Some(Timestamp::UNIX_EPOCH)));
    assert_eq!(status.phase, Some(Phase::Pending));
    let mut status = InstanceGroupStatus { selector: Some("a=b".to_owned()), ..Default::default() };
    write_group(&domain::Group::default(), &mut status);
    assert_eq!(status.selector.as_deref(), Some("a=b"));
}

#[test]
fn what_comes_next_is_for_people() {
    let at: Timestamp = "2026-11-17T09:00:00.5Z".parse().expect("a time");
    let why = sojourn_core::group::reason::Reason::NoAges;
    let next_rotation = domain::NextRotation {
        machine: "web-1".to_owned(),
        cause: domain::Cause::Expired,
        at: Some(at),
        why: why.clone(),
    };
    let state = domain::Group { next_rotation: Some(next_rotation), ..domain::Group::default() };
    let mut status = InstanceGroupStatus::default();
    write_group(&state, &mut status);
    let next = status.next.clone().expect("something comes");
    assert_eq!((next.machine.as_str(), next.reason), ("web-1", Some(Reason::Expired)));
    assert_eq!(next.at, written(Some(at)));
    assert_eq!(next.why, why.to_string());
    assert_eq!(read_group(Some(&status)).next_rotation, None);
}
