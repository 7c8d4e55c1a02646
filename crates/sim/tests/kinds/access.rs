//! Escalations and sessions: what the schema refuses of every writer, through the object and through its status.

use kube::api::{Api, PostParams};
use kube::core::{DynamicObject, Status};
use kube::{Client, Error};
use serde_json::{Value, json};
use sojourn_api::access::{
    AccessConfig, BreakglassEscalationSpec, BreakglassSessionSpec, check_escalation,
};
use sojourn_api::install;
use sojourn_apiserver::Engine;
use sojourn_core::access::State;

use crate::fixture::{
    api, assert_told, causes, create, dry, engine, merge, merge_status, refuses, user,
};

fn object(kind: &str, name: &str, mut spec: Value, part: Value) -> Value {
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": kind,
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    })
}

/// An escalation that is good, but for what `part` changes.
fn escalation(part: Value) -> Value {
    let spec = json!({
        "allowed": { "groups": ["developers"], "clusters": ["local"] },
        "escalatedGroup": "admins",
        "approvers": { "groups": ["leads"] },
    });
    object("BreakglassEscalation", "one", spec, part)
}

/// A session that is good, but for what `part` changes.
fn session(name: &str, part: Value) -> Value {
    let spec = json!({
        "cluster": "local", "user": "ada", "grantedGroup": "admins",
        "escalationRef": { "name": "one" },
    });
    object("BreakglassSession", name, spec, part)
}

/// An engine, whoever has every right, and the operator.
async fn people() -> (Engine, Client, Client) {
    let (engine, admin) = engine().await;
    let mut binding = serde_json::to_value(install::binding()).expect("JSON");
    binding["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    binding["kind"] = json!("ClusterRoleBinding");
    create(&admin, &binding).await.expect("a binding is good");
    let operator = engine.client(user(&install::user_name(), &[]));
    (engine, admin, operator)
}

/// A status with this state, and whatever the API wants beside it.
fn in_state(state: State) -> Value {
    let mut status = json!({ "state": state.as_str() });
    if state == State::IdleExpired {
        status["conditions"] = idle("True", "IdleTimeout");
    }
    status
}

fn idle(status: &str, reason: &str) -> Value {
    json!([{
        "type": "Idle", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }])
}

/// The states on the way to one.
fn way(state: State) -> &'static [State] {
    match state {
        State::Pending => &[State::Pending],
        State::WaitingForScheduledTime => &[State::Pending, State::WaitingForScheduledTime],
        State::Approved => &[State::Pending, State::Approved],
        State::Rejected => &[State::Pending, State::Rejected],
        State::Withdrawn => &[State::Pending, State::Withdrawn],
        State::Expired => &[State::Pending, State::Approved, State::Expired],
        State::IdleExpired => &[State::Pending, State::Approved, State::IdleExpired],
        State::ApprovalTimeout => &[State::Pending, State::ApprovalTimeout],
    }
}

/// A session in a state, made and written by the operator.
async fn session_in(operator: &Client, name: &str, state: State) -> Value {
    let session = session(name, json!({}));
    create(operator, &session).await.expect("the operator makes sessions");
    for state in way(state) {
        merge_status(operator, &session, &in_state(*state)).await.expect("a way there");
    }
    session
}

/// Writes a whole status, as an update does.
async fn replace_status(
    client: &Client,
    session: &Value,
    status: Option<Value>,
) -> Result<DynamicObject, Box<Status>> {
    let (api, mut object) = stored(client, session).await;
    let fields = object.data.as_object_mut().expect("fields");
    match status {
        Some(status) => fields.insert("status".to_owned(), status),
        None => fields.remove("status"),
    };
    let name = object.metadata.name.clone().expect("a name");
    refused(api.replace_status(&name, &PostParams::default(), &object).await)
}

async fn stored(client: &Client, session: &Value) -> (Api<DynamicObject>, DynamicObject) {
    let api = api(client, session);
    let object = api.get(session["metadata"]["name"].as_str().expect("a name")).await;
    (api, object.expect("it is there"))
}

fn refused(result: Result<DynamicObject, Error>) -> Result<DynamicObject, Box<Status>> {
    result.map_err(|error| match error {
        Error::Api(status) => status,
        other => panic!("the API is there: {other}"),
    })
}

// case: access 1, 2, 4, 5, 6, 7, 9, 10, 11, 14, 15
#[tokio::test]
async fn escalations_are_judged_by_the_schema_and_by_the_typed_reading_alike() {
    let (engine, admin) = engine().await;
    let days = |idle: &str| json!({ "idleTimeout": idle, "maxValidFor": "365d" });
    let rows = [
        (json!({}), None),
        (json!({ "idleTimeout": "30m", "maxValidFor": "4h" }), None),
        (json!({ "idleTimeout": "30s" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "2h", "maxValidFor": "1h" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "2h" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "30m" }), None),
        (json!({ "idleTimeout": "0.5h", "maxValidFor": "30m" }), None),
        (json!({ "idleTimeout": "1h", "maxValidFor": "60m" }), None),
        (json!({ "idleTimeout": "0s" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "-5m" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "garbage" }), Some("spec.idleTimeout")),
        (json!({ "idleTimeout": "1.5d" }), Some("spec.idleTimeout")),
        (days("12h1d"), None),
        (days("1d12h"), None),
        (days("365d"), None),
        (json!({ "idleTimeout": "never", "firstUseTimeout": "never" }), None),
        (json!({ "firstUseTimeout": "366d" }), Some("spec.firstUseTimeout")),
        (json!({ "maxValidFor": "366d" }), Some("spec.maxValidFor")),
        (json!({ "maxValidFor": "never" }), Some("spec.maxValidFor")),
        (json!({ "retainFor": "365d1ms" }), Some("spec.retainFor")),
        (json!({ "approvalTimeout": "" }), Some("spec.approvalTimeout")),
        (json!({ "warnBefore": "never" }), Some("spec.warnBefore")),
        (json!({ "extension": { "max": 1, "step": "0h" } }), Some("spec.extension.step")),
        (json!({ "extension": { "max": 0, "step": "1h" } }), Some("spec.extension.max")),
        (json!({ "approvers": {} }), Some("spec.approvers")),
        (json!({ "approvers": { "required": 2 } }), Some("spec.approvers")),
        (
            json!({ "approvers": { "users": ["grace"], "required": 2 } }),
            Some("spec.approvers.required"),
        ),
        (json!({ "approvers": { "users": ["grace", "bob"], "required": 2 } }), None),
        (json!({ "approvers": { "users": [" grace"] } }), Some("spec.approvers.users[0]")),
        (json!({ "allowed": { "clusters": ["local"] } }), Some("spec.allowed")),
        (json!({ "allowed": { "users": ["ada"], "clusters": [] } }), Some("spec.allowed.clusters")),
        (json!({ "escalatedGroup": "" }), Some("spec.escalatedGroup")),
        (json!({ "maxSessionsPerUser": 0 }), Some("spec.maxSessionsPerUser")),
    ];
    for (part, field) in rows {
        let object = escalation(part.clone());
        let spec: BreakglassEscalationSpec =
            serde_json::from_value(object["spec"].clone()).expect("an escalation");
        let problems = check_escalation(&spec, &AccessConfig::default());
        let told: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(told, field.into_iter().collect::<Vec<_>>(), "{part}: the typed reading");
        match (dry(&admin, &object).await, field) {
            (Ok(_), None) => {}
            (Err(status), Some(field)) => {
                assert_eq!(status.code, 422, "{part}");
                assert!(!status.message.contains("denied the request"), "{part}: {status:?}");
                let causes = causes(&status);
                assert!(causes.iter().all(|(path, _)| *path == field), "{part}: {causes:?}");
            }
            (answer, _) => panic!("{part}: {answer:?}"),
        }
    }
    let masters = escalation(json!({ "escalatedGroup": "system:masters" }));
    refuses(&admin, masters, "spec.escalatedGroup", "system:").await;
    engine.close().await;
}

#[tokio::test]
async fn what_is_left_out_has_its_default() {
    let (engine, admin, operator) = people().await;
    let made = create(&admin, &escalation(json!({}))).await.expect("it is good");
    let spec = &made.data["spec"];
    assert_eq!(spec["maxValidFor"], "1h");
    assert_eq!((&spec["approvalTimeout"], &spec["warnBefore"]), (&json!("1h"), &json!("5m")));
    assert_eq!((&spec["retainFor"], &spec["requireReason"]), (&json!("720h"), &json!(false)));
    assert_eq!(spec["approvers"]["required"], 1);
    assert_eq!(spec["approvers"]["selfApproval"], false);
    let made = create(&operator, &session("one", json!({}))).await.expect("it is good");
    let spec: BreakglassSessionSpec =
        serde_json::from_value(made.data["spec"].clone()).expect("a session");
    assert_eq!((spec.max_valid_for.as_str(), spec.idle_timeout), ("1h", None));
    engine.close().await;
}

#[tokio::test]
async fn only_the_operator_makes_sessions_and_writes_their_status() {
    let (engine, admin, operator) = people().await;
    let one = session("one", json!({}));
    let refused = create(&admin, &one).await.expect_err("with every right");
    assert_eq!(refused.code, 403, "{refused:?}");
    assert!(refused.message.contains("`sojourn request`"), "{}", refused.message);
    create(&operator, &one).await.expect("the operator makes sessions");
    let pending = in_state(State::Pending);
    for refused in [
        merge_status(&admin, &one, &pending).await.expect_err("a patch"),
        replace_status(&admin, &one, Some(pending.clone())).await.expect_err("an update"),
    ] {
        assert_eq!(refused.code, 403, "{refused:?}");
        assert!(refused.message.contains("only the operator does"), "{}", refused.message);
    }
    merge_status(&operator, &one, &pending).await.expect("the operator writes their status");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    merge(&admin, &one, &label).await.expect("anybody with the right may write a label");

    // What is written beside the object never reaches the status.
    let both = json!({ "metadata": { "labels": { "a": "c" } }, "status": { "state": "Approved" } });
    let written = merge(&admin, &one, &both).await.expect("a label");
    assert_eq!(written.data["status"]["state"], "Pending");
    engine.close().await;
}

#[tokio::test]
async fn the_times_of_a_session_are_judged_too() {
    let (engine, _, operator) = people().await;
    let clamped = session("one", json!({ "idleTimeout": "30s", "maxValidFor": "0.5m" }));
    dry(&operator, &clamped).await.expect("it is never idle");
    for (part, says) in [
        (json!({ "idleTimeout": "30s", "maxValidFor": "31s" }), "at least 1m"),
        (json!({ "idleTimeout": "2h", "maxValidFor": "1h" }), "maxValidFor"),
        (json!({ "idleTimeout": "soon" }), "soon"),
        (json!({ "idleTimeout": "10m" }), "10m30s"),
    ] {
        let status = dry(&operator, &session("one", part.clone())).await.expect_err("it is bad");
        let causes = causes(&status);
        assert!(causes.iter().all(|(path, _)| *path == "spec.idleTimeout"), "{causes:?}");
        assert!(status.message.contains(says), "{part}: {}", status.message);
    }
    engine.close().await;
}

// case: access 16
#[tokio::test]
async fn the_spec_of_a_session_stays() {
    let (engine, admin, operator) = people().await;
    let one = session("one", json!({ "idleTimeout": "30m", "maxValidFor": "4h" }));
    create(&operator, &one).await.expect("the operator makes sessions");
    for part in [
        json!({ "idleTimeout": "2h" }),
        json!({ "idleTimeout": null }),
        json!({ "user": "eve" }),
        json!({ "grantedGroup": "others" }),
        json!({ "reason": "another" }),
    ] {
        let refused = merge(&admin, &one, &json!({ "spec": part })).await.expect_err("it stays");
        let (code, message) = (refused.code, &refused.message);
        assert!([403, 422].contains(&code) && message.contains("cannot be changed"), "{message}");
    }
    engine.close().await;
}

// case: access 19, 20, 21, 22
#[tokio::test]
async fn a_state_is_followed_by_those_that_may_follow_it_and_no_others() {
    let (engine, _, operator) = people().await;
    for from in State::ALL {
        for to in State::ALL {
            let name = format!("{from:?}-{to:?}").to_lowercase();
            let session = session_in(&operator, &name, from).await;
            let mut whole = in_state(to);
            if from == State::IdleExpired {
                // Whatever state follows, if one could, may say so as well.
                whole["conditions"] = idle("True", "IdleTimeout");
            }
            let replaced = || replace_status(&operator, &session, Some(whole.clone()));
            if from.may_become(to) {
                merge_status(&operator, &session, &in_state(to)).await.expect(&name);
                replaced().await.expect(&name);
                continue;
            }
            for answer in [merge_status(&operator, &session, &in_state(to)).await, replaced().await]
            {
                assert_told(&answer.expect_err(&name), "status.state", "cannot become that");
            }
        }
    }
    for first in State::ALL.into_iter().filter(|state| *state != State::Pending) {
        let session = session(&format!("first-{first:?}").to_lowercase(), json!({}));
        create(&operator, &session).await.expect("the operator makes sessions");
        let refused = merge_status(&operator, &session, &in_state(first)).await;
        assert_told(&refused.expect_err("not first"), "status.state", "cannot become that");
    }
    engine.close().await;
}

// case: access 24, 25, 26, 27
#[tokio::test]
async fn what_was_counted_does_not_fall_and_what_was_seen_is_not_forgotten() {
    let (engine, _, operator) = people().await;
    let one = session_in(&operator, "one", State::Approved).await;
    let used = json!({
        "state": "Approved", "activityCount": 10, "lastActivity": "2030-01-01T12:00:00Z",
        "firstActivity": "2030-01-01T11:00:00Z",
        "activityByReplica": { "a": { "count": 10, "last": "2030-01-01T12:00:00Z" } },
    });
    merge_status(&operator, &one, &used).await.expect("unset before, so it is set");
    let count = ("status.activityCount", "must not fall");
    let last = ("status.lastActivity", "must not move back or be cleared");
    let first = ("status.firstActivity", "must not be cleared");
    for (part, (field, says)) in [
        (json!({ "activityCount": 5 }), count),
        (json!({ "activityCount": null }), count),
        (json!({ "lastActivity": "2030-01-01T11:59:59Z" }), last),
        (json!({ "lastActivity": null }), last),
        (json!({ "firstActivity": null }), first),
    ] {
        let refused = merge_status(&operator, &one, &part).await.expect_err("a patch");
        assert_told(&refused, field, says);
        let mut whole = used.clone();
        for (name, value) in part.as_object().expect("fields") {
            match value {
                Value::Null => whole.as_object_mut().expect("fields").remove(name),
                value => whole.as_object_mut().expect("fields").insert(name.clone(), value.clone()),
            };
        }
        let refused = replace_status(&operator, &one, Some(whole)).await.expect_err("an update");
        assert_told(&refused, field, says);
    }
    let (_, object) = stored(&operator, &one).await;
    assert_eq!(object.data["status"]["activityCount"], 10);
    let more = json!({ "activityCount": 11, "lastActivity": "2030-01-01T12:00:01Z" });
    merge_status(&operator, &one, &more).await.expect("forward");

    // A late report may raise what a session had when it ended, and nothing else.
    merge_status(&operator, &one, &in_state(State::Expired)).await.expect("an end");
    let late = json!({ "activityCount": 12, "lastActivity": "2030-01-01T12:00:02Z" });
    let object = merge_status(&operator, &one, &late).await.expect("a late report");
    assert_eq!(object.data["status"]["state"], "Expired");
    engine.close().await;
}

#[tokio::test]
async fn who_approved_and_ended_a_session_and_when_it_ends_stays_on_record() {
    let (engine, _, operator) = people().await;
    let one = session_in(&operator, "one", State::Approved).await;
    let at = "2030-01-01T12:00:00Z";
    let approval = |user: &str| json!({ "user": user, "at": at });
    let ended = json!({
        "state": "Expired", "expiresAt": at, "endedBy": "grace", "endedBecause": "enough",
        "approvals": [approval("grace"), approval("bob")],
    });
    merge_status(&operator, &one, &ended).await.expect("an end");
    let cleared = "must not be cleared";
    let fewer = "must not get fewer";
    for (name, value, says) in [
        ("expiresAt", Value::Null, cleared),
        ("endedBy", Value::Null, cleared),
        ("endedBecause", Value::Null, cleared),
        ("approvals", Value::Null, fewer),
        ("approvals", json!([]), fewer),
        ("approvals", json!([approval("grace")]), fewer),
    ] {
        let field = format!("status.{name}");
        let patch = json!({ name: value });
        let refused = merge_status(&operator, &one, &patch).await.expect_err("a patch");
        assert_told(&refused, &field, says);
        let mut whole = ended.clone();
        match value {
            Value::Null => whole.as_object_mut().expect("fields").remove(name),
            value => whole.as_object_mut().expect("fields").insert(name.to_owned(), value),
        };
        let refused = replace_status(&operator, &one, Some(whole)).await.expect_err("an update");
        assert_told(&refused, &field, says);
    }
    let sooner = json!({
        "expiresAt": "2030-01-01T11:00:00Z",
        "approvals": [approval("grace"), approval("bob"), approval("hedy")],
    });
    merge_status(&operator, &one, &sooner).await.expect("it was dropped");
    engine.close().await;
}

// case: access 25, 27
#[tokio::test]
async fn neither_a_status_nor_a_state_is_cleared() {
    let (engine, _, operator) = people().await;
    for state in State::ALL {
        let one = session_in(&operator, &format!("{state:?}").to_lowercase(), state).await;
        let gone = merge_status(&operator, &one, &json!({ "state": null })).await;
        assert_told(&gone.expect_err("a state"), "status.state", "is not cleared");
        let empty = replace_status(&operator, &one, Some(json!({}))).await;
        assert_told(&empty.expect_err("an empty one"), "status.state", "is not cleared");
        let none = replace_status(&operator, &one, None).await.expect_err("none at all");
        assert_eq!(none.code, 422, "{none:?}");
        assert!(none.message.contains("cannot be cleared"), "{}", none.message);
        let null = merge_status(&operator, &one, &Value::Null).await.expect_err("null");
        assert_eq!(null.code, 422, "{null:?}");
        let (_, object) = stored(&operator, &one).await;
        assert_eq!(object.data["status"]["state"], state.as_str());
    }
    engine.close().await;
}

// case: access 21
#[tokio::test]
async fn a_session_is_idle_expired_only_with_the_condition_that_says_why() {
    let (engine, _, operator) = people().await;
    let one = session_in(&operator, "one", State::Approved).await;
    let with = |conditions: Value| json!({ "state": "IdleExpired", "conditions": conditions });
    for conditions in [
        Value::Null,
        json!([]),
        idle("False", "IdleTimeout"),
        idle("Unknown", "NeverUsed"),
        idle("True", "Because"),
    ] {
        let refused =
            merge_status(&operator, &one, &with(conditions)).await.expect_err("no reason");
        assert_told(&refused, "status.state", "needs the condition Idle");
    }
    merge_status(&operator, &one, &with(idle("True", "NeverUsed"))).await.expect("a reason");
    let gone = merge_status(&operator, &one, &json!({ "conditions": null })).await;
    assert_told(&gone.expect_err("it stays"), "status.state", "needs the condition Idle");
    engine.close().await;
}

#[tokio::test]
async fn a_zero_time_stands_for_none() {
    let (engine, _, operator) = people().await;
    let one = session_in(&operator, "one", State::Approved).await;
    let zero = json!({ "lastActivity": "0001-01-01T00:00:00Z" });
    merge_status(&operator, &one, &zero).await.expect("it is a time");
    merge_status(&operator, &one, &json!({ "lastActivity": null })).await.expect("it was none");
    engine.close().await;
}
