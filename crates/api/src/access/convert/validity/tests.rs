use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::access::config::ClusterConfig;

fn merged(mut whole: Value, part: Value) -> Value {
    if let (Value::Object(whole), Value::Object(part)) = (&mut whole, part) {
        whole.extend(part);
    }
    whole
}

/// An escalation that is good, but for what `part` changes.
fn escalation(part: Value) -> BreakglassEscalationSpec {
    let whole = json!({
        "allowed": { "groups": ["developers"], "clusters": ["local"] },
        "escalatedGroup": "admins",
        "approvers": { "groups": ["leads"] },
    });
    serde_json::from_value(merged(whole, part)).expect("an escalation")
}

fn session(part: Value) -> BreakglassSessionSpec {
    let whole = json!({
        "cluster": "local", "user": "ada", "grantedGroup": "admins",
        "escalationRef": { "name": "one" },
    });
    serde_json::from_value(merged(whole, part)).expect("a session")
}

/// What is said, with the fields.
fn told(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn check(part: Value) -> Vec<String> {
    told(&check_escalation(&escalation(part), &AccessConfig::default()))
}

/// The options, with a cluster whose API server answers without asking for so long.
fn caching(seconds: i64) -> AccessConfig {
    let authorized_ttl = SignedDuration::from_secs(seconds);
    let local = ClusterConfig { authorized_ttl, ..ClusterConfig::default() };
    let clusters = BTreeMap::from([("local".to_owned(), local)]);
    AccessConfig { clusters, ..AccessConfig::default() }
}

// case: access 1, 6, 7, 9
#[test]
fn an_idle_timeout_up_to_the_whole_time_is_good() {
    for part in [
        json!({}),
        json!({ "idleTimeout": "30m", "maxValidFor": "4h" }),
        json!({ "idleTimeout": "30m" }),
        json!({ "idleTimeout": "0.5h" }),
        json!({ "idleTimeout": "1h" }),
        json!({ "idleTimeout": "2d", "maxValidFor": "48h" }),
        json!({ "idleTimeout": "never", "firstUseTimeout": "never" }),
        json!({ "idleTimeout": "1d12h", "firstUseTimeout": "1s", "maxValidFor": "7d12h30m" }),
        json!({ "idleTimeout": "1d1.5h", "maxValidFor": "12h1d" }),
    ] {
        assert_eq!(check(part.clone()), Vec::<String>::new(), "{part}");
    }
}

// case: access 2, 4, 5
#[test]
fn an_idle_timeout_beyond_its_limits_is_not() {
    let above = "spec.idleTimeout: must not be longer than maxValidFor, which is 1h";
    assert_eq!(check(json!({ "idleTimeout": "2h", "maxValidFor": "1h" })), [above]);
    assert_eq!(check(json!({ "idleTimeout": "2h" })), [above]);
    let below = "spec.idleTimeout: must be at least 1m";
    assert_eq!(check(json!({ "idleTimeout": "30s" })), [below]);
    assert_eq!(check(json!({ "idleTimeout": "59s", "maxValidFor": "59s" })), [below]);
}

// case: access 10, 11
#[test]
fn spans_that_are_none_are_told_with_their_fields() {
    let fields = ["maxValidFor", "approvalTimeout", "warnBefore", "retainFor"];
    let ages = ["idleTimeout", "firstUseTimeout"];
    for field in fields.into_iter().chain(ages) {
        for text in ["0s", "-5m", "garbage", "1.5d", "", "366d", "1d1d"] {
            let found = check(json!({ field: text, "maxValidFor": "365d" }));
            let found = if field == "maxValidFor" { check(json!({ field: text })) } else { found };
            assert_eq!(found.len(), 1, "{field}: {text:?}: {found:?}");
            assert!(found[0].starts_with(&format!("spec.{field}: ")), "{found:?}");
        }
        let never = check(json!({ field: "never" }));
        assert_eq!(never.is_empty(), ages.contains(&field), "{field}: {never:?}");
        let longest = check(json!({ "maxValidFor": "365d", field: "365d" }));
        assert_eq!(longest, Vec::<String>::new(), "{field}");
    }
    let step = check(json!({ "extension": { "max": 0, "step": "never" } }));
    let paths: Vec<_> = step.iter().filter_map(|text| text.split(": ").next()).collect();
    assert_eq!(paths, ["spec.extension.step", "spec.extension.max"]);
}

#[test]
fn an_idle_timeout_outlasts_what_an_api_server_answers_without_asking() {
    let short = escalation(json!({ "idleTimeout": "10m29s" }));
    let found = told(&check_escalation(&short, &AccessConfig::default()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec.idleTimeout: must be at least 10m30s: "), "{found:?}");
    assert!(check(json!({ "idleTimeout": "10m30s" })).is_empty());
    let two = json!({ "groups": ["developers"], "clusters": ["local", "far"] });
    for (seconds, least) in [(0, "1m"), (10, "1m"), (20, "70s"), (600, "20m30s")] {
        let at = |text: &str| escalation(json!({ "idleTimeout": text }));
        assert_eq!(told(&check_escalation(&at(least), &caching(seconds))), Vec::<String>::new());
        let far = escalation(json!({ "idleTimeout": least, "allowed": two }));
        assert_eq!(check_escalation(&far, &caching(seconds)).is_empty(), seconds == 600);
    }
    assert_eq!(
        check_escalation(&escalation(json!({ "idleTimeout": "69s" })), &caching(20)).len(),
        1
    );
}

#[test]
fn a_session_that_is_given_for_a_shorter_time_is_never_idle() {
    let config = AccessConfig::default();
    let check = |part: Value| told(&check_session(&session(part), &config));
    assert!(check(json!({ "idleTimeout": "30s", "maxValidFor": "0.5m" })).is_empty());
    assert!(check(json!({ "idleTimeout": "5m", "maxValidFor": "5m" })).is_empty());
    assert_eq!(check(json!({ "idleTimeout": "30s", "maxValidFor": "31s" })).len(), 1);
    assert_eq!(check(json!({ "idleTimeout": "5m", "maxValidFor": "6m" })).len(), 1);
    assert_eq!(check(json!({ "idleTimeout": "6m", "maxValidFor": "5m" })).len(), 2);
    assert!(check(json!({ "idleTimeout": "11m" })).is_empty());
    let masters = check(json!({ "grantedGroup": "system:masters" }));
    assert!(masters[0].starts_with("spec.grantedGroup: must not be a group"), "{masters:?}");
}

// case: access 14, 15
#[test]
fn somebody_must_be_able_to_approve() {
    let approvers = |part: Value| check(json!({ "approvers": part }));
    let nobody = "spec.approvers: must name a user or a group: nobody could approve";
    for part in [json!({}), json!({ "users": [], "groups": [] }), json!({ "required": 2 })] {
        assert_eq!(approvers(part), [nobody]);
    }
    let few = "spec.approvers.required: must not be more than there are users, unless there is a group: so many could never approve";
    assert_eq!(approvers(json!({ "users": ["grace"], "required": 2 })), [few]);
    assert!(approvers(json!({ "users": ["grace", "bob"], "required": 2 })).is_empty());
    assert!(
        approvers(json!({ "users": ["grace"], "groups": ["leads"], "required": 2 })).is_empty()
    );
    let twice = approvers(json!({ "users": ["grace", "grace"], "required": 2 }));
    assert_eq!(twice, ["spec.approvers.users[1]: must not repeat another", few]);
    assert_eq!(approvers(json!({ "users": ["grace"], "required": 0 })).len(), 1);
    assert_eq!(approvers(json!({ "groups": ["leads"], "required": 17 })).len(), 1);
}

#[test]
fn somebody_must_be_able_to_ask() {
    let allowed = |part: Value| check(json!({ "allowed": part }));
    let nobody = "spec.allowed: must name a user or a group: nobody could ask";
    assert_eq!(allowed(json!({ "clusters": ["local"] })), [nobody]);
    let nowhere = "spec.allowed.clusters: must have an item: nobody could ask";
    assert_eq!(allowed(json!({ "users": ["ada"], "clusters": [] })), [nowhere]);
    let bad = allowed(json!({ "users": [" ada"], "groups": ["g"], "clusters": ["EU"] }));
    let paths: Vec<_> = bad.iter().filter_map(|text| text.split(": ").next()).collect();
    assert_eq!(paths, ["spec.allowed.users[0]", "spec.allowed.clusters[0]"]);
    assert_eq!(check(json!({ "maxSessionsPerUser": 0 })).len(), 1);
}

#[test]
fn groups_of_kubernetes_itself_are_given_only_when_they_are_named() {
    let path = "spec.escalatedGroup: must not be a group that begins with system:";
    for group in ["system:masters", "system:nodes"] {
        let found = check(json!({ "escalatedGroup": group }));
        assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
    }
    let config = AccessConfig {
        allowed_system_groups: vec!["system:monitoring".to_owned()],
        ..AccessConfig::default()
    };
    let of =
        |group: &str| check_escalation(&escalation(json!({ "escalatedGroup": group })), &config);
    assert!(of("system:monitoring").is_empty());
    assert_eq!(of("system:masters").len(), 1);
    assert_eq!(check(json!({ "escalatedGroup": " " })).len(), 1);
}
