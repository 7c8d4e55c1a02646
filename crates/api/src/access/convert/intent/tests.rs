use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sojourn_core::access;

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": kind,
        "metadata": {
            "name": "one", "namespace": "default", "uid": "u",
            "creationTimestamp": "2030-01-01T00:00:00Z",
        },
        "spec": spec,
    })
}

fn escalation_of(part: Value) -> BreakglassEscalation {
    let mut spec = json!({
        "allowed": { "groups": ["developers"], "clusters": ["local"] },
        "escalatedGroup": "admins",
        "approvers": { "users": ["grace"] },
    });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    serde_json::from_value(object("BreakglassEscalation", &spec)).expect("an escalation")
}

#[test]
fn what_an_escalation_leaves_out_has_its_default() {
    let plain = escalation(&escalation_of(json!({}))).expect("good");
    let terms = Terms {
        max_valid_for: HOUR,
        approval_timeout: HOUR,
        idle_timeout: Term::Never,
        first_use_timeout: None,
        warn_before: SignedDuration::from_mins(5),
        extension: None,
        retain_for: SignedDuration::from_hours(720),
    };
    assert_eq!(plain.terms, terms);
    assert_eq!((plain.name.as_str(), plain.uid.as_str()), ("one", "u"));
    assert_eq!((plain.approvers.required, plain.approvers.self_approval), (1, false));
    assert_eq!((plain.require_reason, plain.max_sessions_per_user), (false, None));
}

// case: access 7, 12
#[test]
fn everything_that_an_escalation_says_is_read() {
    let full = json!({
        "allowed": { "users": ["ada"], "clusters": ["eu-1", "eu-2"] },
        "approvers": { "groups": ["leads"], "required": 2, "selfApproval": true },
        "maxValidFor": "7d12h30m", "approvalTimeout": "1d12h", "idleTimeout": "0.5h",
        "firstUseTimeout": "never", "warnBefore": "1d1.5h", "retainFor": "365d",
        "requireReason": true, "extension": { "max": 3, "step": "30m" }, "maxSessionsPerUser": 4,
    });
    let read = escalation(&escalation_of(full)).expect("good");
    let minutes = SignedDuration::from_mins;
    let terms = Terms {
        max_valid_for: minutes(180 * 60 + 30),
        approval_timeout: HOUR * 36,
        idle_timeout: Term::Span(minutes(30)),
        first_use_timeout: Some(Term::Never),
        warn_before: minutes(25 * 60 + 30),
        extension: Some(access::Extension { max: 3, step: minutes(30) }),
        retain_for: HOUR * 24 * 365,
    };
    assert_eq!(read.terms, terms);
    assert_eq!(read.allowed.clusters, ["eu-1", "eu-2"]);
    assert_eq!((read.approvers.required, read.approvers.self_approval), (2, true));
    assert_eq!((read.require_reason, read.max_sessions_per_user), (true, Some(4)));
}

#[test]
fn an_escalation_that_makes_no_sense_is_none() {
    let bad = escalation_of(json!({ "idleTimeout": "soon", "approvers": {} }));
    let problems = escalation(&bad).expect_err("bad").0;
    let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["spec.approvers", "spec.idleTimeout"]);
}

fn new_session() -> NewSession {
    NewSession {
        cluster: "local".to_owned(),
        user: "u-4711".to_owned(),
        email: Some("ada@example.org".to_owned()),
        granted_group: "admins".to_owned(),
        escalation: "one".to_owned(),
        issuer: Some("https://issuer.example.org".to_owned()),
        reason: Some("the mail is down".to_owned()),
        scheduled_start: "2030-01-01T00:10:00Z".parse().ok(),
        terms: Terms {
            max_valid_for: HOUR * 3,
            approval_timeout: HOUR,
            idle_timeout: Term::Span(SignedDuration::from_secs(90)),
            first_use_timeout: Some(Term::Never),
            warn_before: SignedDuration::from_secs(18),
            extension: Some(access::Extension { max: 2, step: HOUR }),
            retain_for: HOUR * 720,
        },
    }
}

fn stored(spec: &BreakglassSessionSpec) -> BreakglassSession {
    let spec = serde_json::to_value(spec).expect("JSON");
    serde_json::from_value(object("BreakglassSession", &spec)).expect("a session")
}

#[test]
fn a_session_holds_what_it_was_made_with() {
    let new = new_session();
    let spec = spec_of(&new);
    assert_eq!(spec.escalation_ref.name, "one");
    let read = session(&stored(&spec)).expect("good");
    assert_eq!(read.terms, new.terms);
    assert_eq!((read.cluster, read.user, read.email), (new.cluster, new.user, new.email));
    assert_eq!((read.granted_group, read.issuer), (new.granted_group, new.issuer));
    assert_eq!((read.reason, read.scheduled_start), (new.reason, new.scheduled_start));
    assert_eq!((read.uid.as_str(), read.deleting), ("u", false));
    assert_eq!(Some(read.created_at), "2030-01-01T00:00:00Z".parse::<Timestamp>().ok());

    let mut without = new_session();
    without.terms.idle_timeout = Term::Never;
    without.terms.first_use_timeout = None;
    without.terms.extension = None;
    without.scheduled_start = None;
    let spec = spec_of(&without);
    assert_eq!(spec.idle_timeout, None);
    assert_eq!(session(&stored(&spec)).map(|read| read.terms), Ok(without.terms));
}

#[test]
fn a_session_whose_terms_cannot_be_read_is_none() {
    let mut spec = spec_of(&new_session());
    spec.idle_timeout = Some("a while".to_owned());
    let problems = session(&stored(&spec)).expect_err("bad").0;
    let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["spec.idleTimeout"]);
}
