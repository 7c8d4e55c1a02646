use sojourn_core::lab::source;
use std::sync::Arc;

use serde_json::{Value, json};
use sojourn_api::lab::LabConfig;
use sojourn_core::activity::Source;
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::lab::LabDecision;
use sojourn_core::lab::observed::{StatusAnswer, StatusCheckResult};
use sojourn_core::lab::state::{InstanceState, NoticeKind};
use sojourn_core::notice::NoticeId;

use super::*;
use crate::collector::CoverageRegistry;
use crate::lab::caches::LabCaches;
use crate::lab::prober::ProbeResult;
use crate::lab::sample::{self, at, key};
use crate::lab::view::NamespaceView;

fn status(value: Value) -> InstanceStatus {
    serde_json::from_value(value).expect("a status")
}

fn decision(next: InstanceState, why: Vec<Reason>) -> InstanceDecision {
    let lifecycle = LabDecision { next, effects: Vec::new(), wake: Wake::OnChange, why };
    InstanceDecision { lifecycle: Some(lifecycle), runtime: None, now: at(0) }
}

/// Everything that an Instance refers to is there.
fn caches(instance: Value) -> Arc<LabCaches> {
    let (caches, _) = sample::caches();
    caches.instances.insert(&key(), Ok(sample::instance(instance)), |_| {});
    caches.namespaces.insert(&Key::new("", "course"), NamespaceView::default(), |_| {});
    let template = sample::template(json!({}));
    caches.templates.insert(&Key::new("course", "notebook"), Ok(template), |_| {});
    caches.tenants.insert(&Key::new("", "ada"), Ok(sample::tenant()), |_| {});
    caches
}

fn snapshot(caches: &LabCaches, sources: &[Source]) -> InstanceSnapshot {
    InstanceSnapshot::find(caches, &key(), Arc::new(LabConfig::default()), sources)
        .expect("it is there")
}

fn nothing_seen() -> ObservedInstance {
    ObservedInstance {
        activity: None,
        coverage: CoverageRegistry::restore([]).read(),
        outcomes: Vec::new(),
        check: None,
        jobs: Vec::new(),
        environments: Vec::new(),
        ingress_served: true,
        claims: Vec::new(),
        pods_since: None,
        channels_changed_at: None,
    }
}

#[test]
fn it_is_accepted_when_all_it_refers_to_is_there_and_makes_sense() {
    let caches = caches(json!({}));
    let snapshot = snapshot(&caches, &[]);
    assert_eq!(accepted(&snapshot, None, None), desired("Accepted", true, "Valid", ""));
    let bad = "lab.yaml.margin: no span";
    let mail = "mail: there is no smtp-config.yaml";
    for (bad, unusable, words) in [
        (Some(bad), None, format!("the last good configuration is in force: {bad}")),
        (Some(bad), Some(mail), format!("the last good configuration is in force: {bad}")),
        (None, Some(mail), format!("what the configuration names cannot be used: {mail}")),
    ] {
        let problem = problem(bad.map(str::to_owned), unusable.map(str::to_owned));
        let expected = desired("Accepted", false, "ConfigurationInvalid", words);
        assert_eq!(accepted(&snapshot, None, problem), expected);
    }
    assert_eq!(problem(None, None), None);
}

#[test]
fn what_is_missing_is_named() {
    let (caches, _) = sample::caches();
    caches.namespaces.insert(&Key::new("", "course"), NamespaceView::default(), |_| {});
    caches.instances.insert(&key(), Ok(sample::instance(json!({}))), |_| {});
    let missing = desired(
        "Accepted",
        false,
        "TemplateMissing",
        "there is no Template course/notebook; what runs goes on, and nothing of it is made anew until there is one",
    );
    assert_eq!(accepted(&snapshot(&caches, &[]), None, None), missing);
    let named = Key::new("course", "notebook");
    caches.templates.insert(&named, Ok(sample::template(json!({}))), |_| {});
    let missing = desired(
        "Accepted",
        false,
        "TenantMissing",
        "there is no Tenant ada; nobody can be told until there is",
    );
    assert_eq!(accepted(&snapshot(&caches, &[]), None, None), missing);
    caches.templates.insert(&named, Err("environmentList: missing".to_owned()), |_| {});
    let invalid = accepted(&snapshot(&caches, &[]), None, None);
    assert_eq!((invalid.holds, invalid.reason), (false, "Invalid"));
    assert_eq!(invalid.message, "template: environmentList: missing");
    caches.instances.insert(&key(), Err("spec: missing".to_owned()), |_| {});
    assert_eq!(accepted(&snapshot(&caches, &[]), None, None).reason, "Invalid");
}

// case: lab I1
#[test]
fn an_instance_in_a_namespace_that_is_not_selected_is_not_reconciled() {
    let caches = caches(json!({}));
    let yaml = "namespaceSelector: {matchLabels: {lab: 'yes'}}".to_owned();
    let data = std::collections::BTreeMap::from([("lab.yaml".to_owned(), yaml)]);
    let config = Arc::new(sojourn_api::config::parse::<LabConfig>(&data).expect("good"));
    assert!(InstanceSnapshot::find(&caches, &key(), config.clone(), &[]).is_none());
    let labels = std::collections::BTreeMap::from([("lab".to_owned(), "yes".to_owned())]);
    let selected = NamespaceView { labels, ..NamespaceView::default() };
    caches.namespaces.insert(&Key::new("", "course"), selected, |_| {});
    assert!(InstanceSnapshot::find(&caches, &key(), config, &[]).is_some());
}

#[test]
fn ready_is_the_phase_with_what_is_wrong() {
    for (value, holds, reason, words) in [
        (json!({}), false, "Pending", ""),
        (json!({"phase": "Ready"}), true, "Ready", ""),
        (
            json!({"phase": "Failed", "environments": [
                {"name": "db"}, {"name": "web", "message": "no such program"},
            ]}),
            false,
            "Failed",
            "web: no such program",
        ),
    ] {
        assert_eq!(ready(&status(value)), desired("Ready", holds, reason, words));
    }
}

#[test]
fn who_sees_use_is_told_only_of_what_runs() {
    let running = caches(json!({}));
    let seen = decision(InstanceState::default(), Vec::new());
    let nobody = activity(&snapshot(&running, &[]), &nothing_seen(), &seen);
    let words = "no source of activity is configured";
    assert_eq!(nobody, Some(desired("ActivityKnown", false, "NothingObserves", words)));
    let gateway = snapshot(&running, &[source::GATEWAY]);
    let known = activity(&gateway, &nothing_seen(), &seen);
    assert_eq!(known, Some(desired("ActivityKnown", true, "AllSourcesSeen", "")));
    let mut blind = InstanceState::default();
    blind.activity.blind = Some(at(0));
    let mut later = decision(blind.clone(), Vec::new());
    assert_eq!(activity(&gateway, &nothing_seen(), &later), None, "nobody was asked yet");
    later.now = at(3600);
    let told_so = activity(&gateway, &nothing_seen(), &later).expect("a condition");
    assert_eq!(told_so.reason, "SourceBlind", "for an hour nobody saw anything");
    blind.activity.blind = Some(at(60));
    let told_so = activity(&gateway, &nothing_seen(), &decision(blind, Vec::new()));
    let told_so = told_so.expect("a condition");
    assert_eq!((told_so.holds, told_so.reason), (false, "SourceBlind"));

    let used = json!({"status": {"activity": {"source": "Gateway", "count": 3}}});
    let lost = activity(&snapshot(&caches(used), &[source::GATEWAY]), &nothing_seen(), &seen);
    assert_eq!(lost.map(|told| (told.holds, told.reason)), Some((false, "LastUseLost")));

    let stopped = caches(json!({"spec": {"running": false}}));
    assert_eq!(activity(&snapshot(&stopped, &[]), &nothing_seen(), &seen), None);
}

// case: lab I29
#[test]
fn a_notice_that_nobody_accepts_is_a_condition_with_the_servers_words() {
    let mut state = InstanceState::default();
    let id = NoticeId::new("u-1", "warning-1", at(0));
    state.outbox.record(id, NoticeKind::InactivityWarning, Some((1, 3)), Some(at(60)), at(0));
    assert_eq!(undeliverable(&decision(state.clone(), Vec::new())), None, "it was not tried yet");
    state.outbox.notices[0].error = Some("connection refused".to_owned());
    for (attempts, words) in
        [(1, "after 1 attempt: connection refused"), (4, "after 4 attempts: connection refused")]
    {
        state.outbox.notices[0].attempts = attempts;
        let found = undeliverable(&decision(state.clone(), Vec::new()));
        assert_eq!(found, Some(desired("NoticeUndeliverable", true, "NobodyAccepts", words)));
    }
    state.outbox.notices[0].delivery = Delivery::Delivered { at: at(5) };
    assert_eq!(undeliverable(&decision(state, Vec::new())), None);
}

// case: lab T4
#[test]
fn what_has_no_status_check_says_nothing_of_one() {
    let caches = caches(json!({}));
    assert_eq!(checked(&snapshot(&caches, &[]), &nothing_seen(), &status(json!({}))), None);
}

#[test]
fn a_status_check_says_what_the_last_answer_was() {
    let check = json!({"spec": {"statusCheck": {"url": "https://exam.example/1"}}});
    let unclear = |words: &str| ProbeResult {
        check: StatusCheckResult { at: at(0), answer: StatusAnswer::Unclear },
        unclear: Some(words.to_owned()),
    };
    let caches = caches(check.clone());
    let snapshot_now = snapshot(&caches, &[]);
    let mut observed = nothing_seen();
    let looked = json!({"termination": {"lastCheckTime": "2026-11-16T04:00:00Z"}});
    let answered = desired("StatusChecked", true, "Answered", "");
    let checked_now =
        |observed: &ObservedInstance, now: Value| checked(&snapshot_now, observed, &status(now));
    assert_eq!(checked_now(&observed, json!({})), None, "nobody has asked yet");
    assert_eq!(checked_now(&observed, looked.clone()), Some(answered));
    observed.check = Some(unclear("it answers 500"));
    let words = desired("StatusChecked", false, "Unclear", "it answers 500");
    assert_eq!(checked_now(&observed, json!({})), Some(words));
    observed.check = None;
    for (misses, words) in [(1, "it missed the last check"), (2, "it missed the last 2 checks")] {
        let mut now = looked.clone();
        now["termination"]["misses"] = json!(misses);
        let missed = desired("StatusChecked", true, "Missed", words);
        assert_eq!(checked_now(&observed, now), Some(missed));
    }

    let mut unclear_before = check;
    unclear_before["status"] = json!({"conditions": [{
        "type": "StatusChecked", "status": "False", "reason": "Unclear", "message": "it answers 500",
        "lastTransitionTime": "2026-11-16T04:00:00Z",
    }]});
    caches.instances.insert(&key(), Ok(sample::instance(unclear_before)), |_| {});
    let stands = checked(&snapshot(&caches, &[]), &nothing_seen(), &status(looked));
    let words = desired("StatusChecked", false, "Unclear", "it answers 500");
    assert_eq!(stands, Some(words), "between two checks the last answer stands");
}

#[test]
fn what_is_handed_in_is_as_far_as_its_slowest_part() {
    let all = |states: &[&str]| {
        let entries: Vec<_> = states
            .iter()
            .map(
                |state| json!({"environment": "web", "state": state, "attempts": 10, "error": "e"}),
            )
            .collect();
        submitted(&status(json!({"submission": entries})), &[]).map(|one| (one.holds, one.reason))
    };
    assert_eq!(all(&[]), None);
    assert_eq!(all(&["Done", "Done"]), Some((true, "Done")));
    assert_eq!(all(&["Done", "Skipped"]), Some((true, "DoneInPart")));
    assert_eq!(all(&["Skipped"]), Some((false, "Skipped")), "nothing was handed in");
    assert_eq!(all(&["Done", "Skipped", "Waived"]), Some((false, "Waived")));
    assert_eq!(all(&["Done", "Waiting"]), Some((false, "Waiting")));
    assert_eq!(all(&["Waiting", "Running"]), Some((false, "Retrying")));
    let running = submitted(
        &status(json!({"submission": [
            {"environment": "web", "state": "Running", "attempts": 0},
        ]})),
        &[],
    );
    assert_eq!(running, Some(desired("Submitted", false, "Running", "")));
    let unstarted = submitted(
        &status(json!({"submission": [
            {"environment": "web", "state": "Running", "attempts": 0, "error": "its Pod has not started"},
        ]})),
        &[],
    );
    let words = "web is not being handed in yet: its Pod has not started";
    assert_eq!(unstarted, Some(desired("Submitted", false, "NotStarted", words)));
    let retrying = submitted(
        &status(json!({"submission": [
            {"environment": "web", "state": "Running", "attempts": 2, "error": "answered 500",
             "retryAt": "2026-11-16T04:00:00Z"},
        ]})),
        &[],
    );
    let words = "web could not be handed in yet, after 2 attempts: answered 500; tried again at 2026-11-16T04:00:00Z";
    assert_eq!(retrying, Some(desired("Submitted", false, "Retrying", words)));
    assert_eq!(all(&["Running", "Failed"]), Some((false, "Failed")));
    let failed = submitted(
        &status(json!({"submission": [
            {"environment": "web", "state": "Failed", "attempts": 10, "error": "answered 500"},
        ]})),
        &[],
    );
    let words = "web could not be handed in, after 10 attempts: answered 500";
    assert_eq!(failed.map(|one| one.message).as_deref(), Some(words));
}

#[test]
fn a_claim_that_is_gone_is_no_name_that_is_taken() {
    let now = status(json!({"claims": ["web"], "submission": [
        {"environment": "web", "state": "Failed", "attempts": 0, "error": "its claim was deleted"},
    ]}));
    let words = "web could not be handed in: its claim was deleted";
    assert_eq!(submitted(&now, &[]), Some(desired("Submitted", false, "ClaimMissing", words)));
    let there = Claim { environment: "web".to_owned(), has_finalizer: true, bound: true };
    assert_eq!(submitted(&now, &[there]).map(|one| one.reason), Some("Failed"));
}

#[test]
fn held_names_a_refused_keep_before_what_still_holds() {
    let reason =
        |why: Vec<Reason>| held(&decision(InstanceState::default(), why)).map(|one| one.reason);
    assert_eq!(reason(vec![Reason::Never]), None);
    assert_eq!(reason(vec![Reason::KeptUntil(at(0))]), Some("Kept"));
    let both = vec![Reason::KeptUntil(at(0)), Reason::KeepAllowanceUsedUp];
    assert_eq!(reason(both), Some("KeepAllowanceUsedUp"));
    let paused = vec![Reason::OptedOut, Reason::SubmissionPending, Reason::Paused];
    assert_eq!(reason(paused), Some("Paused"));
}
