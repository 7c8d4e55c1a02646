//! Escalations and sessions.

use sojourn_api::access::{AccessConfig, GROUP, SESSIONS};
use sojourn_api::install;

use super::*;
use crate::admission::access::escalation::{EscalationAnswers, EscalationRule};
use crate::admission::access::session::{SessionRule, StatusRule};

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": kind,
        "metadata": { "name": "one", "namespace": "access" }, "spec": spec,
    })
}

/// An escalation that is good, but for what `part` changes.
fn escalation(part: Value) -> Value {
    let mut spec = json!({
        "allowed": { "groups": ["developers"], "clusters": ["local"] },
        "escalatedGroup": "admins",
        "approvers": { "groups": ["leads"] },
    });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    object("BreakglassEscalation", &spec)
}

fn session(idle_timeout: &str) -> Value {
    let spec = json!({
        "cluster": "local", "user": "ada", "grantedGroup": "admins",
        "escalationRef": { "name": "one" }, "idleTimeout": idle_timeout,
    });
    object("BreakglassSession", &spec)
}

fn of_escalation(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((GROUP, "breakglassescalations"), new, old)
}

fn of_session(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((GROUP, SESSIONS), new, old)
}

fn by_operator(mut request: AdmissionRequest<DynamicObject>) -> AdmissionRequest<DynamicObject> {
    request.user_info.username = Some(install::user_name());
    request
}

/// Whoever has every right.
fn by_administrator(
    mut request: AdmissionRequest<DynamicObject>,
) -> AdmissionRequest<DynamicObject> {
    request.user_info.username = Some("admin".to_owned());
    request.user_info.groups = Some(vec!["system:masters".to_owned()]);
    request
}

fn review_escalation(new: Value, config: AccessConfig) -> AdmissionResponse {
    let request = of_escalation(new, Value::Null);
    review_of(&EscalationRule, &request, &answers(&request, Ok(config), Ok(true)))
}

/// What was found out about the options, and about whether the sender may act as the group.
fn answers(
    request: &AdmissionRequest<DynamicObject>,
    config: Result<AccessConfig, String>,
    may_impersonate: Result<bool, String>,
) -> Option<EscalationAnswers> {
    let reference = needs_of(&EscalationRule, request)?;
    let permitted = [(reference.permission, may_impersonate)].into();
    Some(EscalationAnswers { config, permitted })
}

fn told(response: &AdmissionResponse) -> (u16, Vec<&str>) {
    (response.result.code, fields(response))
}

// case: access 1, 6, 7, 9
#[test]
fn a_good_escalation_goes_on() {
    for part in [
        json!({}),
        json!({ "idleTimeout": "30m", "maxValidFor": "4h" }),
        json!({ "idleTimeout": "30m" }),
        json!({ "idleTimeout": "0.5h" }),
        json!({ "idleTimeout": "1h", "maxValidFor": "1h" }),
    ] {
        let response = review_escalation(escalation(part), AccessConfig::default());
        assert!(response.allowed, "{}", response.result.message);
        assert_eq!(response.warnings, None);
    }
}

// case: access 2, 4, 5, 10, 14, 15
#[test]
fn a_bad_escalation_is_refused_with_the_fields() {
    let few = json!({ "users": ["grace"], "required": 2 });
    let rows = [
        (json!({ "idleTimeout": "30s" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "2h", "maxValidFor": "1h" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "2h" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "0s" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "-5m" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "garbage" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "1.5d" }), "spec.idleTimeout"),
        (json!({ "idleTimeout": "10m" }), "spec.idleTimeout"),
        (json!({ "approvers": {} }), "spec.approvers"),
        (json!({ "approvers": few }), "spec.approvers.required"),
        (json!({ "escalatedGroup": "system:masters" }), "spec.escalatedGroup"),
        (json!({ "retainFor": "366d" }), "spec.retainFor"),
    ];
    for (part, field) in rows {
        let refused = review_escalation(escalation(part.clone()), AccessConfig::default());
        assert_eq!(told(&refused), (422, vec![field]), "{part}");
    }
    let long = json!({ "idleTimeout": "12h1d", "maxValidFor": "3d" });
    assert!(review_escalation(escalation(long), AccessConfig::default()).allowed);
}

#[test]
fn the_options_say_what_an_escalation_may() {
    let config: AccessConfig = serde_json::from_value(json!({
        "allowedSystemGroups": ["system:monitoring"],
        "clusters": { "local": { "authorizedTTL": "0s" } },
        "groupPrefixes": ["oidc:"],
    }))
    .expect("options");
    let named = escalation(json!({ "escalatedGroup": "system:monitoring", "idleTimeout": "1m" }));
    assert!(review_escalation(named, config.clone()).allowed);
    let far = json!({ "users": ["ada"], "clusters": ["local", "far"] });
    let warned = review_escalation(escalation(json!({ "allowed": far })), config);
    assert!(warned.allowed);
    let warnings = warned.warnings.unwrap_or_default();
    let text = "spec.allowed.clusters[1]: far is no cluster of the configuration";
    assert_eq!(warnings, [text]);
}

#[test]
fn what_the_options_allow_must_be_known() {
    let request = of_escalation(escalation(json!({})), Value::Null);
    let away = "it is away".to_owned();
    for found in [
        answers(&request, Err(away.clone()), Ok(true)),
        answers(&request, Ok(AccessConfig::default()), Err(away)),
    ] {
        assert_eq!(review_of(&EscalationRule, &request, &found).result.code, 503, "{found:?}");
    }
    assert_eq!(review_of(&EscalationRule, &request, &None).result.code, 500);
    let made = by_operator(of_session(session("30m"), Value::Null));
    let unknown = review_of(&SessionRule, &made, &Some(Err("it is away".to_owned())));
    assert_eq!(unknown.result.code, 503);
}

#[test]
fn an_escalation_that_is_bad_already_can_get_a_label() {
    let old = escalation(json!({ "escalatedGroup": "system:masters" }));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({ "a": "b" });
    let request = of_escalation(new, old.clone());
    assert_eq!(needs_of(&EscalationRule, &request), None);
    assert!(review_of(&EscalationRule, &request, &None).allowed);
    let mut worse = old.clone();
    worse["spec"]["requireReason"] = json!(true);
    let request = of_escalation(worse, old);
    let found = answers(&request, Ok(AccessConfig::default()), Ok(true));
    assert!(found.is_some() && !review_of(&EscalationRule, &request, &found).allowed);
}

#[test]
fn whoever_gives_the_rights_of_a_group_must_be_allowed_to_act_as_it() {
    let old = escalation(json!({}));
    let wider = escalation(json!({ "allowed": { "users": ["eve"], "clusters": ["local"] } }));
    let other = escalation(json!({ "escalatedGroup": "owners" }));
    for (new, old, group) in [
        (old.clone(), Value::Null, "admins"),
        (wider, old.clone(), "admins"),
        (other, old, "owners"),
    ] {
        let request = of_escalation(new, old);
        let config = || Ok(AccessConfig::default());
        assert!(
            review_of(&EscalationRule, &request, &answers(&request, config(), Ok(true))).allowed
        );
        let found = answers(&request, config(), Ok(false));
        let refused = review_of(&EscalationRule, &request, &found);
        assert_eq!(told(&refused), (403, vec!["spec.escalatedGroup"]));
        let needed = format!("`impersonate` on groups {group:?}");
        assert!(refused.result.message.contains(&needed), "{}", refused.result.message);
    }
}

#[test]
fn only_the_operator_makes_a_session() {
    let request = of_session(session("30m"), Value::Null);
    for request in [request.clone(), by_administrator(request.clone())] {
        assert!(!needs_of(&SessionRule, &request));
        let refused = review_of(&SessionRule, &request, &None);
        assert_eq!(told(&refused), (403, vec!["spec"]));
        assert!(refused.result.message.contains("`sojourn request`"), "{}", refused.result.message);
    }
    let ours = by_operator(request);
    assert!(needs_of(&SessionRule, &ours));
    let config = Some(Ok(AccessConfig::default()));
    assert!(review_of(&SessionRule, &ours, &config).allowed);
    let short = by_operator(of_session(session("2m"), Value::Null));
    assert_eq!(told(&review_of(&SessionRule, &short, &config)), (422, vec!["spec.idleTimeout"]));
}

// case: access 16
#[test]
fn nobody_edits_the_spec_of_a_session() {
    let edited = || of_session(session("40m"), session("30m"));
    for request in [edited(), by_administrator(edited()), by_operator(edited())] {
        let refused = review_of(&SessionRule, &request, &None);
        assert_eq!(told(&refused), (403, vec!["spec"]));
        assert!(refused.result.message.contains("cannot be changed"), "{}", refused.result.message);
    }
    let mut labelled = session("30m");
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    assert!(review_of(&SessionRule, &of_session(labelled, session("30m")), &None).allowed);
}

#[test]
fn only_the_operator_writes_the_status_of_a_session() {
    let approved = || {
        let mut approved = session("30m");
        approved["status"] = json!({ "state": "Approved" });
        let mut request = of_session(approved, session("30m"));
        request.sub_resource = Some("status".to_owned());
        request
    };
    for request in [approved(), by_administrator(approved())] {
        assert!(StatusRule.hook().covers(&request) && !SessionRule.hook().covers(&request));
        let refused = Admission::default().admit(&request).now_or_never().expect("asks nobody");
        assert_eq!(told(&refused), (403, vec!["status"]));
        assert!(refused.result.message.contains("`sojourn approve`"), "{}", refused.result.message);
    }
    let ours = by_operator(approved());
    assert!(Admission::default().admit(&ours).now_or_never().expect("asks nobody").allowed);
    let whole = of_session(session("30m"), session("30m"));
    assert!(!StatusRule.hook().covers(&whole));
}

#[test]
fn a_cluster_asks_about_statuses_of_sessions_too() {
    let target = Target::Url("https://127.0.0.1:9443".to_owned());
    let all = configuration(&target, b"pem").webhooks.expect("webhooks");
    let resources: Vec<String> = all
        .iter()
        .flat_map(|webhook| webhook.rules.iter().flatten())
        .filter(|rule| rule.api_groups.iter().flatten().any(|group| group == GROUP))
        .flat_map(|rule| rule.resources.clone().unwrap_or_default())
        .collect();
    let expected = ["breakglassescalations", "breakglasssessions", "breakglasssessions/status"];
    assert_eq!(resources, expected);
    assert!(Admission::default().resources().contains(&"breakglasssessions/status".to_owned()));
}
