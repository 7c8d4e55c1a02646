use serde_json::{Value, json};
use sojourn_drivers::dial::Endpoint;

use super::*;
use crate::lab::sample::{self, at, key};
use crate::lab::view::PodView;

/// What the gateway finds of an Instance with this change.
fn found(change: Value, pod: Option<Value>) -> Backend {
    let (caches, _) = sample::caches();
    caches.instances.insert(&key(), Ok(sample::instance(change)), |_| {});
    if let Some(pod) = pod {
        let pod = serde_json::from_value(pod).expect("a Pod");
        caches.pods.insert(&Key::new("course", "ada-web"), PodView::of(&pod), |_| {});
    }
    caches.find(&key(), "web")
}

fn environments(phase: &str) -> Value {
    json!([{"name": "web", "phase": phase}])
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "ada-web", "namespace": "course", "uid": "u-7",
            "labels": {"lab.sojourn.dev/instance": "ada", "lab.sojourn.dev/environment": "web"},
            "ownerReferences": [sample::owner("ada", "u-1")],
        },
        "spec": {"containers": [{"name": "web", "ports": [{"containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7"},
    })
}

fn refused(backend: &Backend) -> Option<&str> {
    match backend {
        Backend::Stopped { can_wake: false, why } => Some(why),
        _ => None,
    }
}

#[test]
fn who_comes_finds_it_as_it_is() {
    let (caches, _) = sample::caches();
    assert_eq!(caches.find(&key(), "web"), Backend::Missing);
    let unknown = Backend::Starting { trouble: None };
    assert_eq!(found(json!({}), None), unknown, "nothing is known of it yet");
    let ready = json!({"status": {"environments": environments("Ready")}});
    let address = "10.0.0.7:8080".parse().expect("an address");
    let endpoint = Endpoint { pod: Some("u-7".to_owned()), port: 8080, address };
    assert_eq!(found(ready.clone(), Some(pod())), Backend::Ready { endpoint });
    assert!(matches!(found(ready, None), Backend::Failed { .. }), "ready, but nowhere");
    let starting = json!({"status": {"environments": environments("Starting")}});
    assert_eq!(found(starting, Some(pod())), unknown);
    let stuck = json!({"status": {"environments": [
        {"name": "web", "phase": "Starting", "message": "no such program"},
    ]}});
    let trouble = Some("no such program".to_owned());
    assert_eq!(found(stuck, None), Backend::Starting { trouble });
    let failed = json!({"status": {"environments": [
        {"name": "web", "phase": "Failed", "message": "no such program"},
    ]}});
    assert_eq!(found(failed, None), Backend::Failed { why: "no such program".to_owned() });
    let other = json!({"status": {"environments": [{"name": "db", "phase": "Ready"}]}});
    assert_eq!(found(other, None), Backend::NoSuchEnvironment);
}

#[test]
fn coming_back_wakes_what_was_stopped_for_want_of_use() {
    for reason in ["User", "Inactivity"] {
        let off = json!({"spec": {"running": false}, "status": {"stopReason": reason}});
        let wakes = Backend::Stopped { can_wake: true, why: String::new() };
        assert_eq!(found(off, None), wakes, "{reason}");
    }
}

#[test]
fn nobody_wakes_what_was_ended() {
    let ended = json!({"spec": {"running": false}, "status": {"stopReason": "Terminated"}});
    let words = refused(&found(ended, None)).map(str::to_owned);
    assert_eq!(words.as_deref(), Some("it has ended, and is not started again by coming back"));
}

#[test]
fn nobody_wakes_what_is_still_to_be_handed_in() {
    for (state, wakes) in [
        ("Waiting", false),
        ("Running", false),
        ("Failed", true),
        ("Done", true),
        ("Waived", true),
        ("Skipped", true),
    ] {
        let off = json!({"spec": {"running": false}, "status": {
            "stopReason": "User",
            "submission": [
                {"environment": "db", "state": "Done"}, {"environment": "web", "state": state},
            ],
        }});
        assert_eq!(refused(&found(off, None)).is_none(), wakes, "{state}");
    }
}

#[test]
fn nobody_wakes_what_is_being_deleted() {
    let deleting = json!({"metadata": {"deletionTimestamp": at(9).to_string()}});
    assert_eq!(refused(&found(deleting, None)), Some("it is being deleted"));
}

#[test]
fn an_environment_is_found_by_the_label_of_its_origin() {
    let (caches, _) = sample::caches();
    let ready = |uid: &str| {
        sample::instance(json!({
            "metadata": {"uid": uid},
            "status": {"environments": [{"name": "web"}, {"name": "db"}]},
        }))
    };
    let take_in = |instance| caches.instances.insert(&key(), Ok(instance), |one| caches.index(one));
    assert_eq!(caches.label(&key(), "web"), None);
    take_in(ready("u-1"));
    let label = caches.label(&key(), "web").expect("a label");
    assert!(label.starts_with("web-ada-"), "{label}");
    assert_eq!(caches.labelled(&label), Some((key(), "web".to_owned())));
    assert_eq!(caches.labelled(&label.replace("web-", "other-")), None);
    assert_eq!(caches.labelled("web-ada"), None);
    // Made again, it is at another origin, and nobody is at the old one.
    take_in(ready("u-2"));
    assert_eq!(caches.labelled(&label), None);
    let again = caches.label(&key(), "db").expect("a label");
    assert_eq!(caches.labelled(&again), Some((key(), "db".to_owned())));
}
