use serde_json::{Value, json};
use sojourn_api::group::status::MachineStatus;

use super::*;

fn machine(change: &Value) -> Machine {
    let mut object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": "web-1", "namespace": "team", "uid": "u-1", "resourceVersion": "7",
                     "creationTimestamp": "2026-11-16T04:00:00Z",
                     "finalizers": ["group.sojourn.dev/machine"]},
        "spec": {"group": "web", "onDemand": false, "templateHash": "abc",
                 "template": {"provider": "fake", "config": {}}},
        "status": {"phase": "Ready", "health": "Healthy", "providerID": "fake-1",
                   "askedAt": "2026-11-16T04:00:01Z", "registeredAt": "2026-11-16T04:00:02Z",
                   "servedAt": "2026-11-16T04:00:03Z", "readyAt": "2026-11-16T04:00:04Z",
                   "conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
                                   "message": "", "lastTransitionTime": "2026-11-16T04:00:04Z"}]},
    });
    for (path, value) in change.as_object().expect("an object") {
        let (parent, name) = path.rsplit_once('/').expect("a path");
        object.pointer_mut(parent).expect("a place")[name] = value.clone();
    }
    serde_json::from_value(object).expect("a machine")
}

fn view(change: &Value) -> MachineView {
    MachineView::of(machine(change), &Interner::default())
}

#[test]
fn a_compact_state_equals_the_full_one() {
    let compact = view(&json!({}));
    assert!(matches!(compact.stored, StoredState::Compact(_)) && compact.rare.is_none());
    let whole = machine(&json!({}));
    assert_eq!(compact.state(), read_machine(whole.status.as_ref()));
    assert_eq!(compact.wanted("web-1".into()), machine_intent(&whole).expect("good").machine);
    assert_eq!(compact.provider_id(), Some("fake-1"));
}

#[test]
fn rare_fields_are_kept_when_they_are_set() {
    let change = json!({
        "/status/rotation": {"id": "r-1", "reason": "Expired", "phase": "Reserved",
                             "startedAt": "2026-11-16T05:00:00Z"},
        "/spec/drainReply": {"id": "d-1", "outcome": "Done", "message": "all gone"},
        "/metadata/annotations": {"group.sojourn.dev/do-not-disrupt": "true"},
        "/metadata/finalizers": ["group.sojourn.dev/machine", "example.com/other"],
    });
    let (busy, whole) = (view(&change), machine(&change));
    assert!(matches!(busy.stored, StoredState::Full(_)));
    assert_eq!(busy.state(), read_machine(whole.status.as_ref()));
    assert!(busy.state().rotation.is_some());
    assert_eq!(busy.wanted("web-1".into()), machine_intent(&whole).expect("good").machine);
    assert_eq!(busy.wanted("web-1".into()).kept, intent::Kept::Always);
    assert!(busy.has_finalizer);
    assert_eq!(busy.other_finalizers(), ["example.com/other"]);
    assert!(busy.on_demand().is_none());
}

#[test]
fn a_machine_that_makes_no_sense_is_one_that_was_made_from_something_else() {
    let odd = view(&json!({"/spec/template": null}));
    assert!(odd.problem().expect("it is said").contains("template"));
    assert_eq!(&*odd.wanted("web-1".into()).template, "");
    assert_eq!(odd.state().phase, state::Phase::Ready);
}

#[test]
fn a_status_is_told_from_another_by_its_digest() {
    let view = view(&json!({}));
    let status = machine(&json!({})).status.expect("one");
    assert!(!view.published.differs(&status));
    let other = MachineStatus { attempts: 1, ..status.clone() };
    assert!(view.published.differs(&other));
    assert!(Published::of(None).differs(&MachineStatus::default()));
    let since = &view.published.conditions()[0];
    assert_eq!(since.last_transition_time, status.conditions[0].last_transition_time);
    assert_eq!((since.type_.as_str(), since.status.as_str()), ("Ready", "True"));
}

#[test]
fn a_deletion_alone_writes_no_status() {
    let was = json!({"/metadata/generation": 4, "/status/observedGeneration": 4});
    let status = machine(&was).status.expect("one");
    let after = |change: Value| {
        let mut all = json!({"/metadata/generation": 5, "/status/observedGeneration": 4});
        all.as_object_mut().expect("an object").extend(change.as_object().expect("one").clone());
        let now = MachineStatus { observed_generation: Some(5), ..status.clone() };
        (view(&all), now)
    };
    let (deleted, now) = after(json!({"/metadata/deletionTimestamp": "2026-11-16T06:00:00Z"}));
    assert!(!deleted.needs_status_write(&now));
    assert!(deleted.needs_status_write(&MachineStatus { attempts: 1, ..now }));
    let (changed, now) = after(json!({}));
    assert!(changed.needs_status_write(&now), "somebody waits to hear that it was seen");
}

#[test]
fn a_ready_machine_is_observed_as_its_provider_would_report_it() {
    let seen = view(&json!({})).observed_if_healthy().expect("it is ready");
    let Known::Is(found) = &seen.provider else { panic!("{seen:?}") };
    assert_eq!((&*found.id, found.power, found.interruption), ("fake-1", Power::Running, None));
    assert_eq!((seen.health, seen.in_flight), (Known::Is(Health::Ready), false));
    for change in [
        json!({"/metadata/deletionTimestamp": "2026-11-16T06:00:00Z"}),
        json!({"/status/phase": "Registered"}),
        json!({"/status/providerID": null}),
        json!({"/status/rotation": {"id": "r-1", "reason": "Expired", "phase": "Reserved",
                                    "startedAt": "2026-11-16T05:00:00Z"}}),
    ] {
        assert_eq!(view(&change).observed_if_healthy(), None, "{change}");
    }
}

#[test]
fn a_status_is_known_to_be_current_until_the_object_or_its_inputs_change() {
    let (seen, inputs) = (view(&json!({})), StatusInputs::of(&1_u8));
    assert!(!seen.published.derives_from(inputs), "nothing was found out yet");
    seen.published.record_inputs(inputs);
    assert!(seen.published.derives_from(inputs));
    assert!(!seen.published.derives_from(StatusInputs::of(&2_u8)));
    assert!(!view(&json!({})).published.derives_from(inputs), "it was seen anew");
    assert!(seen.has_state(&seen.state()));
    let mut other = seen.state();
    other.attempts = 1;
    assert!(!seen.has_state(&other));
}
