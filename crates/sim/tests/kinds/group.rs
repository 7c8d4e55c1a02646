//! Groups and machines: what their schemas refuse, who may do what, and what an API keeps.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::group::convert::{read_group, read_machine, write_group, write_machine};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_core::group::state::{
    Cause, Drain, Group, Machine as State, Phase, Reservation, Rotation, RotationPhase, Tier,
};

use crate::fixture::{
    api, assert_needs_hold, assert_told, bind, bind_in, create, create_examples, dry, engine,
    group, machine, mark, merge, merge_status, refuses, user,
};

// case: group 2
#[tokio::test]
async fn groups_that_make_no_sense() {
    let (engine, client) = engine().await;
    dry(&client, &group("web", json!({}))).await.expect("the plain one is good");
    let expiry = |part: Value| json!({ "expiry": part });
    for (field, text, says) in [
        ("eligibleAge", "0s", "must be longer than zero"),
        ("forcedAge", "0d", "must be longer than zero"),
        ("ondemandAge", "0ms", "must be longer than zero"),
        ("ondemandMaxAge", "0s", "must be longer than zero"),
        ("eligibleAge", "-1d", "or a span such as 90s"),
        ("eligibleAge", "21", "or a span such as 90s"),
        ("forcedAge", "soon", "or a span such as 90s"),
        ("jitter", "never", "must be a span that ends"),
        ("ondemandWarnBefore", "-5m", "or a span such as 90s"),
    ] {
        let spec = expiry(json!({ field: text }));
        refuses(&client, group("web", spec), &format!("spec.expiry.{field}"), says).await;
    }
    for (eligible, forced) in [("30d", "30d"), ("31d", "30d"), ("1d", "23h59m"), ("5w", "34d")] {
        let spec = expiry(json!({ "eligibleAge": eligible, "forcedAge": forced }));
        let says = "must be shorter than forcedAge";
        refuses(&client, group("web", spec), "spec.expiry.eligibleAge", says).await;
    }
    let less = expiry(json!({ "ondemandAge": "7d", "ondemandMaxAge": "6d" }));
    let says = "must not be shorter than ondemandAge";
    refuses(&client, group("web", less), "spec.expiry.ondemandMaxAge", says).await;
    for good in [
        json!({ "eligibleAge": "21d", "forcedAge": "30d", "ondemandAge": "7d" }),
        json!({ "eligibleAge": "never", "forcedAge": "never", "ondemandAge": "never" }),
        json!({ "eligibleAge": "90d", "forcedAge": "never" }),
        json!({ "forcedAge": "1h30m" }),
        json!({ "ondemandAge": "7d", "ondemandMaxAge": "never" }),
    ] {
        let object = group("web", expiry(good.clone()));
        dry(&client, &object).await.unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for name in ["1web", "web.two", &"a".repeat(58)] {
        let status = dry(&client, &group(name, json!({}))).await.expect_err("a bad name");
        assert!(status.message.contains("metadata.name must be at most 57"), "{}", status.message);
    }
    engine.close().await;
}

// case: group 11
#[tokio::test]
async fn groups_whose_fields_make_no_sense() {
    let (engine, client) = engine().await;
    let window = |cron: &str, duration: &str, zone: &str| {
        let window = json!({ "cron": cron, "duration": duration, "timeZone": zone });
        json!({ "budgets": [{ "max": 1, "deny": [window] }] })
    };
    let budget = |part: Value| json!({ "budgets": [part] });
    let template = |part: Value| json!({ "template": part });
    let at = |field: &str| format!("budgets[0].deny[0].{field}");
    let containers = json!({ "spec": { "containers": [] } });
    let good = json!({ "cron": "0 1 * * *", "duration": "1h" });
    let many: Vec<_> = (0..11).map(|_| good.clone()).collect();
    let rows = [
        (json!({ "size": -1 }), "size".to_owned(), "0"),
        (json!({ "size": 100_001 }), "size".to_owned(), "100000"),
        (json!({ "surge": -1 }), "surge".to_owned(), "0"),
        (json!({ "minHealthy": -1 }), "minHealthy".to_owned(), "0"),
        (json!({ "minReadySeconds": 86_401 }), "minReadySeconds".to_owned(), "86400"),
        (json!({ "expiry": { "forcedSurge": 0 } }), "expiry.forcedSurge".to_owned(), "1"),
        (json!({ "drainTimeout": "never" }), "drainTimeout".to_owned(), "a span that ends"),
        (json!({ "drainTimeout": "-1s" }), "drainTimeout".to_owned(), "span such as"),
        (json!({ "registrationTimeout": "0s" }), "registrationTimeout".to_owned(), "longer than"),
        (json!({ "unhealthyAfter": "never" }), "unhealthyAfter".to_owned(), "longer than zero"),
        (json!({ "maxUnhealthy": "101%" }), "maxUnhealthy".to_owned(), "0% to 100%"),
        (json!({ "maxUnhealthy": -1 }), "maxUnhealthy".to_owned(), "0% to 100%"),
        (json!({ "freezeUntil": "tomorrow" }), "freezeUntil".to_owned(), "date-time"),
        (budget(json!({ "max": "10" })), "budgets[0].max".to_owned(), "a percentage"),
        (budget(json!({ "max": 1, "per": "0s" })), "budgets[0].per".to_owned(), "longer than"),
        (
            budget(json!({ "max": 1, "reasons": ["Tired"] })),
            "budgets[0].reasons[0]".to_owned(),
            "supported values",
        ),
        (budget(json!({ "max": 1, "allow": many })), "budgets[0].allow".to_owned(), "at most 10"),
        (window("0 25 * * *", "1h", "UTC"), at("cron"), "such as `0 22 * * 1-5`"),
        (window("* * * *", "1h", "UTC"), at("cron"), "such as `0 22 * * 1-5`"),
        (window("every day", "1h", "UTC"), at("cron"), "such as `0 22 * * 1-5`"),
        // What only reading it tells is admission's.
        (window("0 9-5 * * *", "1h", "UTC"), at("cron"), "\"9-5\" is no hour"),
        (window("0 1 * * *", "0s", "UTC"), at("duration"), "longer than zero"),
        (window("0 1 * * *", "1h", "../zone"), at("timeZone"), "the name of a time zone"),
        (window("0 1 * * *", "1h", "Europe/Atlantis"), at("timeZone"), "is no time zone"),
        (template(json!({ "provider": "pod" })), "template.pod".to_owned(), "is needed"),
        (template(json!({ "provider": "fake" })), "template.config".to_owned(), "is needed"),
        (
            template(json!({ "provider": "fake", "config": {}, "pod": containers })),
            "template.pod".to_owned(),
            "for the provider pod only",
        ),
        (
            template(json!({ "provider": "pod", "pod": containers })),
            "template.pod.spec.containers".to_owned(),
            "at least 1",
        ),
        (
            template(json!({ "provider": "cloud", "config": {} })),
            "template.provider".to_owned(),
            "is no provider that is registered; there is pod, fake",
        ),
    ];
    for (spec, field, says) in rows {
        refuses(&client, group("web", spec), &format!("spec.{field}"), says).await;
    }
    let twenty_one: Vec<_> = (0..21).map(|_| json!({ "max": 1 })).collect();
    let many = group("web", json!({ "budgets": twenty_one }));
    refuses(&client, many, "spec.budgets", "at most 20").await;
    let odd = json!({ "provider": "pod", "pod": { "spec": { "containers": [{
        "name": "web", "ports": "eighty",
    }] } } });
    refuses(&client, group("web", template(odd)), "spec.template.pod", "is no Pod template").await;
    for good in ["@daily", "*/15 8-18 * * mon-fri", "0 0 1,15 JAN-MAR 0-7"] {
        let object = group("web", window(good, "1h30m", "America/Argentina/Buenos_Aires"));
        dry(&client, &object).await.unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    engine.close().await;
}

#[tokio::test]
async fn defaults_are_filled_in_and_a_drain_time_is_not() {
    let (engine, client) = engine().await;
    let template = json!({ "provider": "pod", "pod": { "spec": {
        "containers": [{ "name": "web", "command": ["sleep", "1d"] }],
    } } });
    let spec = json!({ "template": template, "budgets": [{ "max": "10%", "allow": [
        { "cron": "@daily", "duration": "1h" },
    ] }] });
    let made = create(&client, &group("web", spec)).await.expect("it is good");
    let found = &made.data["spec"];
    assert_eq!(
        found["expiry"],
        json!({
            "ondemandWarnBefore": "0s", "forcedPolicy": "ReplaceFirst", "forcedSurge": 1,
            "jitter": "0s",
        })
    );
    assert_eq!(found["surge"], 1);
    assert_eq!(found["minReadySeconds"], 0);
    assert_eq!(found["registrationTimeout"], "5m");
    assert_eq!(found["unhealthyAfter"], "3m");
    assert_eq!(found["maxUnhealthy"], "20%");
    assert_eq!(found["budgets"][0]["allow"][0]["timeZone"], "UTC");
    assert_eq!(found["drainTimeout"], Value::Null, "the installation's, whatever it says later");
    assert_eq!(found["template"], template, "a Pod's spec is kept as it was written");
    let made = create(&client, &machine("one", json!({}))).await.expect("it is good");
    assert_eq!(made.data["spec"]["onDemand"], true);
    engine.close().await;
}

#[tokio::test]
async fn kubectl_scale_changes_the_size() {
    let (engine, client) = engine().await;
    let web = group("web", json!({}));
    create(&client, &web).await.expect("it is good");
    let status = json!({
        "replicas": { "desired": 3, "total": 4 }, "selector": "group.sojourn.dev/group=web",
    });
    merge_status(&client, &web, &status).await.expect("a status");
    let groups: Api<InstanceGroup> = Api::namespaced(client.clone(), "default");
    let scale = groups.get_scale("web").await.expect("a scale");
    let scale: Scale = serde_json::from_value(serde_json::to_value(scale).expect("JSON"))
        .expect("a scale of autoscaling/v1");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
    let found = scale.status.expect("a status");
    assert_eq!(found.replicas, 4);
    assert_eq!(found.selector.as_deref(), Some("group.sojourn.dev/group=web"));
    let patch = json!({ "spec": { "replicas": 5 } });
    let params = PatchParams::default();
    groups.patch_scale("web", &params, &Patch::Merge(&patch)).await.expect("it grows");
    assert_eq!(groups.get("web").await.expect("it is there").spec.size, 5);
    engine.close().await;
}

#[tokio::test]
async fn machines_that_make_no_sense_and_what_stays_the_same() {
    let (engine, client) = engine().await;
    let none = || json!({ "template": null });
    refuses(&client, machine("one", none()), "spec.template", "is needed").await;
    let mut of_group = none();
    of_group["group"] = json!("web");
    dry(&client, &machine("one", of_group)).await.expect("the group's template will do");
    let managed = json!({ "onDemand": false });
    refuses(&client, machine("one", managed.clone()), "spec.group", "is needed").await;
    let renewed =
        json!({ "onDemand": false, "group": "web", "renewedUntil": "2030-01-01T00:00:00Z" });
    refuses(&client, machine("one", renewed), "spec.renewedUntil", "on demand only").await;
    let by_hand = machine("one", json!({ "onDemand": false, "group": "web" }));
    refuses(&client, by_hand, "spec.onDemand", "are made by the group").await;
    let early = json!({ "drainReply": { "id": "d1", "outcome": "Done" } });
    refuses(&client, machine("one", early), "spec.drainReply", "no drain").await;
    let status = dry(&client, &machine(&"a".repeat(64), json!({}))).await.expect_err("a bad name");
    assert!(status.message.contains("metadata.name must be at most 63"), "{}", status.message);

    let one = machine(
        "one",
        json!({ "template": { "provider": "fake", "config": { "a": { "b": 1 } } } }),
    );
    create(&client, &one).await.expect("it is good");
    let changes = [
        (json!({ "onDemand": false, "group": "web" }), "spec.onDemand"),
        (json!({ "group": "web" }), "spec.group"),
        (json!({ "template": { "config": { "a": { "b": 2 } } } }), "spec.template"),
        (json!({ "template": null, "group": "web" }), "spec.template"),
        (json!({ "templateHash": "x" }), "spec.templateHash"),
    ];
    for (spec, field) in changes {
        let refused = merge(&client, &one, &json!({ "spec": spec })).await.expect_err("it stays");
        assert_told(&refused, field, "cannot be changed");
    }
    let patch = json!({ "spec": { "renewedUntil": "2030-01-01T00:00:00Z" } });
    merge(&client, &one, &patch).await.expect("nothing expires here, so nothing is too late");
    engine.close().await;
}

fn draining(id: &str, phase: &str) -> Value {
    json!({
        "phase": phase,
        "rotation": { "id": id, "reason": "Expired", "phase": phase },
        "drain": {
            "id": id, "reason": "Expired", "startedAt": "2026-11-16T09:00:00Z",
            "deadline": "2026-11-16T09:05:00Z",
        },
    })
}

fn reply(id: &str, outcome: &str) -> Value {
    json!({ "spec": { "drainReply": { "id": id, "outcome": outcome, "message": "words" } } })
}

// case: group 61, 62
#[tokio::test]
async fn an_answer_is_about_the_drain_that_is_open() {
    let (engine, client) = engine().await;
    let one = machine("one", json!({}));
    create(&client, &one).await.expect("it is good");
    let field = "spec.drainReply.id";
    // Nothing is draining, and before that there is no status at all.
    let refused = merge(&client, &one, &reply("d1", "Done")).await.expect_err("too early");
    assert_told(&refused, "spec.drainReply", "no drain of this Machine is open");
    merge_status(&client, &one, &json!({ "phase": "Ready" })).await.expect("a status");
    let refused = merge(&client, &one, &reply("d1", "Done")).await.expect_err("no drain");
    assert_told(&refused, field, "is of no open drain");

    merge_status(&client, &one, &draining("d1", "Draining")).await.expect("a status");
    let refused = merge(&client, &one, &reply("d0", "Done")).await.expect_err("an old one");
    assert_told(&refused, field, "must be d1, the id of the drain that is open");
    let nameless = json!({ "spec": { "drainReply": { "outcome": "Done" } } });
    let refused = merge(&client, &one, &nameless).await.expect_err("no id");
    assert_told(&refused, field, "Required value");
    let empty = merge(&client, &one, &reply("", "Done")).await.expect_err("no id");
    assert_told(&empty, field, "");
    let odd = merge(&client, &one, &reply("d1", "Maybe")).await.expect_err("no outcome");
    assert_told(&odd, "spec.drainReply.outcome", "supported values");
    for outcome in ["Progress", "Refused", "Done"] {
        merge(&client, &one, &reply("d1", outcome)).await.expect("an answer");
    }

    // The drain is over: what was said stays, other writes go on, and nothing more can be said.
    merge_status(&client, &one, &draining("d1", "Deleting")).await.expect("a status");
    merge(&client, &one, &mark("a", "b")).await.expect("it is not about the drain");
    merge(&client, &one, &reply("d1", "Done")).await.expect("the same again is no change");
    let refused = merge(&client, &one, &reply("d1", "Refused")).await.expect_err("too late");
    assert_told(&refused, field, "is of no open drain");
    let open = json!({ "rotation": null, "drain": null, "phase": "Ready" });
    merge_status(&client, &one, &open).await.expect("a status beside an old answer");
    merge(&client, &one, &json!({ "spec": { "drainReply": null } })).await.expect("it may go");
    engine.close().await;
}

async fn namespace(client: &Client, name: &str) {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    create(client, &object).await.expect("a namespace");
}

// case: group 60, 64
#[tokio::test]
async fn a_namespace_sees_and_answers_only_its_own() {
    let (engine, admin) = engine().await;
    for (name, person) in [("red", "rita"), ("blue", "bob")] {
        namespace(&admin, name).await;
        bind_in(&admin, name, "sojourn-group-drainer", person).await;
    }
    let mut one = machine("one", json!({}));
    one["metadata"]["namespace"] = json!("red");
    create(&admin, &one).await.expect("it is good");
    merge_status(&admin, &one, &draining("d1", "Draining")).await.expect("a status");
    let bob = engine.client(user("bob", &[]));
    let refused = merge(&bob, &one, &reply("d1", "Done")).await.expect_err("not his");
    assert_eq!(refused.code, 403);
    let machines = api(&bob, &one);
    for listed in
        [machines.list(&ListParams::default()).await, all(&bob).list(&ListParams::default()).await]
    {
        assert!(matches!(listed, Err(kube::Error::Api(status)) if status.code == 403));
    }
    assert!(machines.watch(&Default::default(), "0").await.is_err(), "nor can he watch");
    let found = api(&admin, &one).get("one").await.expect("it is there");
    assert_eq!(found.data["spec"]["drainReply"], Value::Null, "nothing happened");

    let rita = engine.client(user("rita", &[]));
    let seen = api(&rita, &one).list(&ListParams::default()).await.expect("hers");
    assert_eq!(seen.items[0].data["status"]["drain"]["id"], "d1");
    merge(&rita, &one, &reply("d1", "Done")).await.expect("hers to answer");
    assert_eq!(create(&rita, &one).await.expect_err("she only drains").code, 403);
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "gone" }]);
    for (part, value) in [
        ("ownerReferences", owner),
        ("labels", json!({ "group.sojourn.dev/group": "other" })),
        ("annotations", json!({ "group.sojourn.dev/drain": "2030-01-01T00:00:00Z" })),
    ] {
        let change = json!({ "metadata": { part: value } });
        let refused = merge(&rita, &one, &change).await.expect_err("she only answers");
        assert_eq!(refused.code, 403, "{part}");
    }
    engine.close().await;
}

fn all(client: &Client) -> Api<kube::core::DynamicObject> {
    let mut anywhere = machine("one", json!({}));
    anywhere["metadata"]["namespace"] = Value::Null;
    api(client, &anywhere)
}

#[tokio::test]
async fn people_ask_for_machines_and_staff_keeps_groups() {
    let (engine, admin) = engine().await;
    bind(&admin, "edit", "ada").await;
    bind(&admin, "sojourn-group-keeper", "grace").await;
    bind(&admin, "view", "vera").await;
    let client = |name: &str| engine.client(user(name, &[]));
    let (ada, grace, vera) = (client("ada"), client("grace"), client("vera"));
    let web = group("web", json!({}));
    assert_eq!(create(&ada, &web).await.expect_err("staff's").code, 403);
    create(&grace, &web).await.expect("staff makes groups");
    let one = machine("one", json!({ "group": "web", "template": null }));
    create(&ada, &one).await.expect("people ask for machines");
    api(&vera, &one).get("one").await.expect("viewers look");
    api(&vera, &web).get("web").await.expect("viewers look");
    assert_eq!(merge(&vera, &one, &mark("a", "b")).await.expect_err("no more").code, 403);
    for (object, person) in [(&one, &ada), (&web, &ada)] {
        let refused = merge(person, object, &mark("sojourn.dev/paused", "true")).await;
        assert_eq!(refused.expect_err("not theirs").code, 403);
        merge(&grace, object, &mark("sojourn.dev/paused", "true")).await.expect("staff holds");
    }
    let paused = merge(&ada, &one, &mark("sojourn.dev/paused", "false")).await;
    assert_needs_hold(&paused.expect_err("nor back"));
    let finalizer = json!({ "metadata": { "finalizers": ["group.sojourn.dev/machine"] } });
    merge(&admin, &one, &finalizer).await.expect("the controller's");
    let freed = json!({ "metadata": { "finalizers": [] } });
    assert_needs_hold(&merge(&ada, &one, &freed).await.expect_err("it is drained first"));
    let status = merge_status(&ada, &one, &draining("d1", "Draining")).await;
    assert_eq!(status.expect_err("the controller's").code, 403);

    // Nobody slips a machine into a group, even by naming its owner.
    let mut slipped = machine("web-x", json!({ "onDemand": false, "group": "web" }));
    slipped["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup", "name": "web",
        "uid": "u", "controller": true,
    }]);
    let refused = create(&ada, &slipped).await.expect_err("the group's");
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("does not keep the InstanceGroup web"), "{}", refused.message);
    let operator = engine.client(user("operator", &[]));
    bind(&admin, "sojourn-operator", "operator").await;
    create(&operator, &slipped).await.expect("whoever keeps the group makes its machines");
    engine.close().await;
}

#[tokio::test]
async fn the_installation_is_asked_before_a_group_or_a_renewal_gets_in() {
    let (engine, client) = engine().await;
    namespace(&client, "sojourn-system").await;
    let map = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "sojourn", "namespace": "sojourn-system" },
            "data": { "group.yaml": text },
        })
    };
    let refused = create(&client, &map("expiry: { eligibleAge: 3d, forcedAge: 2d }")).await;
    assert_told(
        &refused.expect_err("out of order"),
        "data[group.yaml].expiry.eligibleAge",
        "must be shorter than forcedAge",
    );
    let ages = "expiry: { forcedAge: 30d, ondemandAge: 7d }";
    create(&client, &map(ages)).await.expect("good options");
    let late = group("web", json!({ "expiry": { "eligibleAge": "40d" } }));
    refuses(&client, late, "spec.expiry", "is not shorter than forcedAge").await;
    let renewable = json!({ "expiry": { "ondemandMaxAge": "3650d" } });
    create(&client, &group("web", renewable)).await.expect("good");
    create(&client, &machine("one", json!({}))).await.expect("good");
    create(&client, &machine("two", json!({ "group": "web" }))).await.expect("good");
    let soon = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * 30)).to_string();
    let renew = json!({ "spec": { "renewedUntil": soon } });
    let refused = merge(&client, &machine("one", json!({})), &renew).await.expect_err("too long");
    assert_told(&refused, "spec.renewedUntil", "must not be later than");
    merge(&client, &machine("two", json!({})), &renew).await.expect("its group lets it");
    engine.close().await;
}

#[tokio::test]
async fn what_is_remembered_survives_the_api() {
    let (engine, client) = engine().await;
    let time = |text: &str| text.parse().expect("a time");
    let web = group("web", json!({}));
    create(&client, &web).await.expect("it is good");
    let reserved = Reservation { name: "web-abcde".to_owned(), replaces: Some("web-1".to_owned()) };
    let remembered = Group {
        serial: 7,
        reserved: vec![reserved],
        failures: 2,
        retry_at: Some(time("2026-11-16T09:00:01Z")),
        ..Group::default()
    };
    let groups: Api<InstanceGroup> = Api::namespaced(client.clone(), "default");
    let mut object = groups.get("web").await.expect("it is there");
    let mut status = object.status.take().unwrap_or_default();
    write_group(&remembered, &mut status);
    object.status = Some(status);
    groups.replace_status("web", &Default::default(), &object).await.expect("a good status");
    let back = groups.get("web").await.expect("it is there");
    assert_eq!(read_group(back.status.as_ref()), remembered);

    create(&client, &machine("one", json!({}))).await.expect("it is good");
    let remembered = State {
        phase: Phase::Draining,
        provider_id: Some("pod://default/one".into()),
        rotation: Some(Box::new(Rotation {
            id: "r1".to_owned(),
            cause: Cause::Forced,
            tier: Tier::Forced,
            also: vec![Cause::Drifted],
            replacement: Some("web-abcde".to_owned()),
            phase: RotationPhase::Draining,
            started_at: time("2026-11-16T08:00:00Z"),
            attempts: 1,
            drain: Some(Drain {
                started_at: time("2026-11-16T08:01:00Z"),
                deadline: time("2026-11-16T08:06:00Z"),
                outcome: None,
                message: String::new(),
            }),
        })),
        ..State::default()
    };
    let machines: Api<Machine> = Api::namespaced(client.clone(), "default");
    let mut object = machines.get("one").await.expect("it is there");
    let mut status = object.status.take().unwrap_or_default();
    write_machine(&remembered, &mut status);
    object.status = Some(status);
    machines.replace_status("one", &Default::default(), &object).await.expect("a good status");
    let back = machines.get("one").await.expect("it is there");
    assert_eq!(read_machine(back.status.as_ref()), remembered);
    engine.close().await;
}

#[tokio::test]
async fn the_examples_are_good() {
    let (engine, client) = engine().await;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for kind in create_examples(&client, "group").await {
        *kinds.entry(kind).or_default() += 1;
    }
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(kinds, [("ConfigMap", 1), ("InstanceGroup", 4), ("Machine", 2), ("Namespace", 1)]);
    engine.close().await;
}
