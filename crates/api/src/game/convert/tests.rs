use serde_json::{Value, json};
use sojourn_core::game::autoscaler::ScalingTerm;
use sojourn_core::game::server::ServerHealth;

use super::*;
use crate::game::collection::DedicatedGameServerCollection;
use crate::game::server::DedicatedGameServer;

fn template() -> Value {
    let amounts = json!({ "cpu": "100m", "memory": "64Mi" });
    let resources = json!({ "requests": amounts, "limits": amounts });
    json!({ "spec": { "containers": [{ "name": "game", "image": "game", "resources": resources }] } })
}

fn collection(change: impl FnOnce(&mut Value)) -> DedicatedGameServerCollection {
    let mut object = json!({
        "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
        "metadata": { "name": "arena", "namespace": "play", "uid": "u-1", "generation": 3 },
        "spec": { "replicas": 2, "template": template() },
    });
    change(&mut object);
    serde_json::from_value(object).expect("a collection")
}

fn paths(collection: &DedicatedGameServerCollection) -> Vec<String> {
    check_collection(collection).into_iter().map(|problem| problem.path).collect()
}

// case: game S67
#[test]
fn a_container_without_requests_or_limits_is_named() {
    let bare = collection(|object| {
        object["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "1" } });
    });
    let problems = check_collection(&bare);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "spec.template.spec.containers[0].resources.limits.memory");
    assert!(problems[0].message.contains("container game"));
    assert_eq!(check_collection(&collection(|_| {})), []);
}

// case: game S52
#[test]
fn what_makes_no_sense_is_refused_at_its_field() {
    let details = |details: Value| {
        collection(|object| {
            object["spec"]["maxPlayersPerServer"] = json!(10);
            object["spec"]["podAutoScalerDetails"] = details;
        })
    };
    let below = "spec.podAutoScalerDetails";
    for (wrong, path) in [
        (json!({ "maximumReplicas": 1, "minimumReplicas": 2 }), "minimumReplicas"),
        (
            json!({ "maximumReplicas": 1, "scaleInThreshold": 80, "scaleOutThreshold": 60 }),
            "scaleInThreshold",
        ),
        (json!({ "maximumReplicas": 1, "scaleInThreshold": 80 }), "scaleOutThreshold"),
        (json!({ "maximumReplicas": 1, "terms": [{}] }), "terms[0]"),
        (
            json!({ "maximumReplicas": 1, "terms": [{ "freeSeats": 1, "readyBuffer": 1 }] }),
            "terms[0]",
        ),
        (
            json!({ "maximumReplicas": 1, "terms": [{ "readyBuffer": "100%" }] }),
            "terms[0].readyBuffer",
        ),
        (
            json!({ "maximumReplicas": 1, "terms": [{ "schedule": {
                "cron": "0 8 * * *", "duration": "1h", "timeZone": "Nowhere/Land", "replicas": 3,
            } }] }),
            "terms[0].schedule.timeZone",
        ),
        (
            json!({ "maximumReplicas": 1, "terms": [
                { "webhook": { "url": "https://one.example.org/" } },
                { "pendingDemand": {} },
                { "webhook": { "url": "https://two.example.org/" } },
            ] }),
            "terms",
        ),
    ] {
        assert_eq!(paths(&details(wrong.clone())), [format!("{below}.{path}")], "{wrong}");
    }
    let none = collection(|object| object["spec"]["maxPlayersPerServer"] = json!(0));
    assert_eq!(paths(&none), ["spec.maxPlayersPerServer"]);
    let differ = collection(|object| {
        object["spec"]["maxPlayersPerServer"] = json!(10);
        object["spec"]["podAutoScalerDetails"] =
            json!({ "maximumReplicas": 1, "maxPlayersPerServer": 8 });
    });
    assert_eq!(paths(&differ), ["spec.podAutoScalerDetails.maxPlayersPerServer"]);
}

#[test]
fn what_counts_seats_needs_to_be_told_how_many_a_server_has() {
    let thresholds =
        json!({ "maximumReplicas": 9, "scaleInThreshold": 60, "scaleOutThreshold": 80 });
    let free_seats = json!({ "maximumReplicas": 9, "terms": [{ "freeSeats": 5 }] });
    for details in [thresholds, free_seats] {
        let with = |seats: Option<i32>, their_seats: Option<i32>| {
            collection(|object| {
                object["spec"]["podAutoScalerDetails"] = details.clone();
                object["spec"]["podAutoScalerDetails"]["maxPlayersPerServer"] = json!(their_seats);
                object["spec"]["maxPlayersPerServer"] = json!(seats);
            })
        };
        let unsaid = with(None, None);
        assert_eq!(paths(&unsaid), ["spec.maxPlayersPerServer"], "{details}");
        let wanted =
            collection_intent(&unsaid).expect("one that is there already is not left alone");
        assert_eq!(wanted.max_players, None);
        for said in [with(Some(10), None), with(None, Some(10))] {
            assert_eq!(paths(&said), [""; 0], "{details}");
            assert_eq!(collection_intent(&said).expect("sensible").max_players, Some(10));
        }
    }
    let buffered = collection(|object| {
        object["spec"]["podAutoScalerDetails"] =
            json!({ "maximumReplicas": 9, "terms": [{ "readyBuffer": 2 }] });
    });
    assert_eq!(paths(&buffered), [""; 0]);
}

// case: game S61, A37
#[test]
fn only_ports_that_are_exposed_get_one_of_the_node() {
    let exposed = collection(|object| {
        object["spec"]["portsToExpose"] = json!([7777]);
        object["spec"]["ports"] = json!([
            { "name": "query", "policy": "Passthrough", "protocol": "UDP" },
            { "name": "rcon", "containerPort": 25575, "policy": "Static", "hostPort": 25575, "protocol": "TCP" },
        ]);
    });
    let ports = all_ports(&exposed.spec.ports, &exposed.spec.ports_to_expose);
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["query", "rcon", "port-7777"]);
    assert_eq!(Granted::of(&ports), None, "two are not granted yet");
    let granted = with_granted(&ports, &[20_001, 25_575, 20_002]);
    let numbers: Vec<u16> =
        Granted::of(&granted).expect("all").into_iter().map(|one| one.port).collect();
    assert_eq!(numbers, [20_001, 25_575, 20_002]);
    let wrong = collection(|object| {
        object["spec"]["ports"] = json!([
            { "name": "a" },
            { "name": "a", "policy": "Static", "containerPort": 1 },
            { "name": "c", "policy": "Passthrough", "containerPort": 1 },
        ]);
    });
    assert_eq!(
        paths(&wrong),
        [
            "spec.ports[0].containerPort",
            "spec.ports[1].hostPort",
            "spec.ports[1].name",
            "spec.ports[2].containerPort",
        ]
    );
}

#[test]
fn everything_that_servers_are_made_from_is_one_revision() {
    let plain = revision(&collection(|_| {}).spec);
    assert_eq!(plain, revision(&collection(|object| object["spec"]["replicas"] = json!(9)).spec));
    for other in [
        ("template", json!({ "metadata": { "labels": { "a": "b" } }, "spec": template()["spec"] })),
        ("portsToExpose", json!([7777])),
        ("maxPlayersPerServer", json!(12)),
        ("health", json!({ "source": "Pod" })),
        ("podAutoScalerDetails", json!({ "maximumReplicas": 1, "maxPlayersPerServer": 12 })),
    ] {
        let changed = collection(|object| object["spec"][other.0] = other.1.clone());
        assert_ne!(plain, revision(&changed.spec), "{}", other.0);
    }
}

#[test]
fn what_is_remembered_is_read_back_as_it_was() {
    let status: crate::game::status::CollectionStatus = serde_json::from_value(json!({
        "timesFailed": 1,
        "failures": [{
            "at": "2026-11-18T10:00:00Z", "server": "u-2/0", "name": "arena-abcde", "reason": "Error: exit code 1",
        }],
        "needsInterventionSince": "2026-11-18T10:05:00Z",
        "needsInterventionBecause": { "at": "2026-11-18T10:05:00Z", "server": "u-3/1", "name": "arena-fghij" },
        "acknowledged": "yesterday",
        "notices": [{
            "id": "u-1.needs-intervention-0.1", "kind": "NeedsIntervention", "state": "Waiting", "attempts": 2,
            "recordedAt": "2026-11-18T10:05:00Z", "retryAt": "2026-11-18T10:06:00Z", "error": "smtp: refused",
        }],
        "autoscaler": {
            "lastScaleTime": "2026-11-18T09:00:00Z",
            "lastDecision": { "from": 1, "to": 2, "term": "classic", "inputs": "9 of 10", "reason": "so" },
            "pending": { "replicas": 3, "generation": 4 },
            "recommendations": [{ "at": "2026-11-18T09:30:00Z", "replicas": 3 }],
        },
    }))
    .expect("a status");
    let memory = read_collection(Some(&status));
    let mut again = crate::game::status::CollectionStatus::default();
    write_collection(&memory, &mut again);
    assert_eq!(again, status);
}

#[test]
fn a_server_that_is_marked_or_begins_again_is_known_by_its_annotations() {
    let server = |annotations: Value, status: Value| -> DedicatedGameServer {
        serde_json::from_value(json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": { "name": "arena-abcde", "namespace": "play", "uid": "u-2", "annotations": annotations },
            "spec": { "template": template() },
            "status": status,
        }))
        .expect("a server")
    };
    let marked = server(
        json!({ "game.sojourn.dev/marked": "ScaleIn", "game.sojourn.dev/drain-by": "2026-11-18T10:00:00Z" }),
        json!({ "health": "Healthy", "podState": "Running" }),
    );
    assert!(read_server(&marked.metadata, marked.status.as_ref()).marked_for_deletion);
    let mark = server_intent(&marked).expect("sensible").mark.expect("marked");
    assert_eq!(mark.drain_by.map(|at| at.to_string()).as_deref(), Some("2026-11-18T10:00:00Z"));
    let failed = server(
        json!({ "game.sojourn.dev/restart": "2" }),
        json!({ "health": "Failed", "restarts": 1 }),
    );
    let status = failed.status.as_ref().expect("a status");
    assert!(status.begins_again(&failed.metadata));
    let read = read_server(&failed.metadata, failed.status.as_ref());
    assert_eq!((read.health, read.restarts), (ServerHealth::Failed, 1));
    assert_eq!(server_intent(&failed).expect("sensible").restarts, 2);
    let by_hand = server(json!({ "game.sojourn.dev/dev-address": "here" }), json!({}));
    assert_eq!(check_server(&by_hand).len(), 1);
}

#[test]
fn terms_are_read() {
    let details = collection(|object| {
        object["spec"]["podAutoScalerDetails"] = json!({
            "enabled": true, "maximumReplicas": 10,
            "terms": [{ "readyBuffer": 2 }, { "pendingDemand": {} }, { "webhook": { "url": "https://scaler.example.org/" } }],
        });
    });
    let wanted = collection_intent(&details).expect("sensible");
    let terms = wanted.autoscaler.expect("an autoscaler").terms;
    assert_eq!(terms.len(), 3);
    assert_eq!((&terms[1], &terms[2]), (&ScalingTerm::PendingDemand, &ScalingTerm::Webhook));
}
