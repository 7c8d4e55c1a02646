use sojourn_core::group::state::{Drain, ExpiryWarning, RotationPhase, Tier};

use super::*;
use crate::event::Severity;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

fn machine(phase: Phase, rotation: Option<Rotation>) -> Machine {
    Machine { phase, rotation: rotation.map(Box::new), ..Machine::default() }
}

fn rotation(phase: RotationPhase, drain: Option<Drain>) -> Rotation {
    Rotation {
        id: "r-1".to_owned(),
        cause: Cause::Expired,
        tier: Tier::Eligible,
        also: vec![Cause::Drifted],
        replacement: Some("web-2".to_owned()),
        phase,
        started_at: at(0),
        attempts: 0,
        drain,
    }
}

fn drain(outcome: Option<ReplyOutcome>) -> Option<Drain> {
    Some(Drain { started_at: at(0), deadline: at(300), outcome, message: String::new() })
}

fn reasons(before: &Machine, now: &Machine, when: i64) -> Vec<&'static str> {
    of_machine(before, now, at(when)).iter().map(|one| one.reason).collect()
}

#[test]
fn a_rotation_is_told_step_by_step_and_each_step_once() {
    let calm = machine(Phase::Ready, None);
    let reserved = machine(Phase::Ready, Some(rotation(RotationPhase::Reserved, None)));
    let draining = machine(Phase::Draining, Some(rotation(RotationPhase::Draining, drain(None))));
    let done = rotation(RotationPhase::Draining, drain(Some(ReplyOutcome::Done)));
    let done = machine(Phase::Draining, Some(done));
    let deleting = rotation(RotationPhase::Deleting, drain(Some(ReplyOutcome::Done)));
    let deleting = machine(Phase::Deleting, Some(deleting));
    let began = of_machine(&calm, &reserved, at(0));
    assert_eq!(
        began[0].message,
        "web-2 comes in its place: it is older than its eligible age, and it was made from another \
         template"
    );
    assert_eq!(reasons(&reserved, &draining, 0), ["DrainStarted"]);
    assert_eq!(reasons(&draining, &done, 10), ["DrainAcknowledged"]);
    assert_eq!(reasons(&done, &deleting, 10), [""; 0]);
    assert_eq!(reasons(&deleting, &deleting, 20), [""; 0]);
    assert_eq!(rotation_ending(&done, &deleting, at(10)), Some(RotationEnding::Acknowledged));
    assert_eq!(reasons(&reserved, &calm, 5), ["RotationCancelled"]);
}

// case: group 56
#[test]
fn a_drain_that_nobody_answered_is_a_warning() {
    let draining = machine(Phase::Draining, Some(rotation(RotationPhase::Draining, drain(None))));
    let deleting = machine(Phase::Deleting, Some(rotation(RotationPhase::Deleting, drain(None))));
    let told = of_machine(&draining, &deleting, at(300));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].severity, told[0].reason), (Severity::Warning, "DrainTimedOut"));
    assert!(told[0].message.contains("nobody answered"));
    assert_eq!(
        rotation_ending(&draining, &deleting, at(299)),
        Some(RotationEnding::Gone),
        "it was gone before"
    );
    let at_once = machine(Phase::Deleting, Some(rotation(RotationPhase::Deleting, None)));
    let calm = machine(Phase::Ready, None);
    assert_eq!(rotation_ending(&calm, &at_once, at(0)), Some(RotationEnding::NotDrained));
}

#[test]
fn what_went_wrong_is_told_in_the_providers_words() {
    let fine = machine(Phase::Provisioning, None);
    let error = Some("the quota is used up".to_owned());
    let failing = Machine { error: error.clone(), ..fine.clone() };
    assert_eq!(reasons(&fine, &failing, 0), ["ProviderFailed"]);
    assert_eq!(reasons(&failing, &failing, 0), [""; 0]);
    let failed = Machine { phase: Phase::Failed, error, ..fine.clone() };
    let told = of_machine(&fine, &failed, at(0));
    assert_eq!(told[0].message, "It did not come up: the quota is used up");
    let warned = ExpiryWarning { at: at(0), deadline: at(60) };
    let warned = Machine { warned: Some(warned), ..fine.clone() };
    assert_eq!(reasons(&fine, &warned, 0), ["ExpiryWarning"]);
    assert_eq!(reasons(&warned, &warned, 0), [""; 0]);
}

#[test]
fn conditions_are_told_when_they_turn_bad() {
    let condition = |kind: &str, status: &str, reason: &str| Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: "so it is".to_owned(),
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)),
        observed_generation: None,
    };
    let told = |before: &[Condition], now: &[Condition]| {
        of_conditions(before, now).iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    let guard = [condition("StormGuard", "True", "TooManyUnhealthy")];
    assert_eq!(told(&[], &guard), ["StormGuard"]);
    assert_eq!(told(&guard, &guard), [""; 0]);
    let frozen = [condition("Frozen", "True", "Frozen")];
    assert_eq!(told(&[], &frozen), ["Frozen"]);
    assert_eq!(told(&[], &[condition("Accepted", "True", "Valid")]), [""; 0]);
    assert_eq!(told(&[], &[condition("Accepted", "False", "Invalid")]), ["NotAccepted"]);
    assert_eq!(told(&[], &[condition("Accepted", "True", "PartlyIgnored")]), ["Ignored"]);
}

#[test]
fn what_has_ended_is_not_called_unhealthy() {
    let gone = |cause| {
        let mut rotation = rotation(RotationPhase::Deleting, None);
        (rotation.cause, rotation.replacement) = (cause, None);
        rotation.also.clear();
        machine(Phase::Deleting, Some(rotation))
    };
    let told = |before: &Machine, now: &Machine| of_machine(before, now, at(3))[0].message.clone();
    let served =
        |machine: Machine| Machine { served_at: Some(at(0)), ready_at: Some(at(0)), ..machine };
    let (ready, ended) = (served(machine(Phase::Ready, None)), served(gone(Cause::Unhealthy)));
    assert_eq!(
        told(&ready, &ended),
        "It goes: its provider says that it has ended, 3s after it became ready"
    );
    let failed = machine(Phase::Failed, None);
    assert_eq!(told(&failed, &gone(Cause::Unhealthy)), "It goes: it did not come up");
    assert_eq!(told(&ready, &served(gone(Cause::Scale))), "It goes: it is not needed any more");
}
