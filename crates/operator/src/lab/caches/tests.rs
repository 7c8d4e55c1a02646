use futures::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::lab::sample::{self, key};

/// Caches with `ada` and `bob`, each with a namespace, a template and a tenant of their own.
fn neighbours() -> (Arc<LabCaches>, Arc<Queue>) {
    let (caches, queue) = sample::caches();
    for (name, namespace) in [("ada", "course"), ("bob", "other")] {
        let instance = sample::instance(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"tenant": {"name": name}},
        }));
        caches.instances.insert(&Key::new(namespace, name), Ok(instance), |change| {
            caches.instance_changed(change);
        });
    }
    assert_eq!(woken(&queue), ["course/ada", "other/bob"]);
    (caches, queue)
}

/// Everybody who waits to be looked at; they are taken off the queue.
fn woken(queue: &Queue) -> Vec<String> {
    let mut all = Vec::new();
    while queue.depth().0 > 0 {
        let key = queue.next().now_or_never().expect("somebody waits");
        all.push(key.to_string());
        queue.done(&key, None);
    }
    all.sort();
    all
}

fn namespace(metadata: &Value) -> NamespaceView {
    let namespace = serde_json::from_value(json!({"metadata": metadata})).expect("a Namespace");
    NamespaceView::of(&namespace)
}

// case: lab W1, X9
#[test]
fn a_namespace_concerns_its_own_instances_only() {
    let (caches, queue) = neighbours();
    let course = Key::new("", "course");
    let put = |metadata: Value| {
        caches.namespaces.insert(&course, namespace(&metadata), |change| {
            caches.namespace_changed(change);
        });
        woken(&queue)
    };
    assert_eq!(put(json!({"name": "course"})), ["course/ada"]);
    let ignored = json!({"labels": {"lab.sojourn.dev/expiration-ignore": "true"}});
    assert_eq!(put(ignored.clone()), ["course/ada"]);
    assert_eq!(put(ignored), [""; 0], "nothing has changed");
    let off = json!({"labels": {"lab.sojourn.dev/expiration-ignore": "false"}});
    assert_eq!(put(off), ["course/ada"]);
    assert_eq!(put(json!({})), ["course/ada"], "labels may be selected by");
    assert_eq!(put(json!({"annotations": {"unrelated": "x"}})), [""; 0]);
}

// case: lab W2, X10
#[test]
fn a_template_concerns_its_own_instances_and_only_in_what_it_decides() {
    let (caches, queue) = neighbours();
    let named = Key::new("course", "notebook");
    let put = |change: Value| {
        caches.templates.insert(&named, Ok(sample::template(change)), |change| {
            caches.template_changed(change);
        });
        woken(&queue)
    };
    assert_eq!(put(json!({})), ["course/ada"], "not the one of the same name elsewhere");
    assert_eq!(put(json!({"spec": {"prettyName": "A notebook"}})), [""; 0]);
    assert_eq!(put(json!({"metadata": {"labels": {"a": "b"}}})), [""; 0]);
    assert_eq!(put(json!({"spec": {"deleteAfter": "2d"}})), ["course/ada"]);
    let alerts = json!({"lab.sojourn.dev/custom-number-alerts": "5"});
    let change = json!({"spec": {"deleteAfter": "2d"}, "metadata": {"annotations": alerts}});
    assert_eq!(put(change), ["course/ada"]);
    let other = Key::new("course", "unused");
    caches.templates.insert(&other, Ok(sample::template(json!({}))), |change| {
        caches.template_changed(change);
    });
    assert_eq!(woken(&queue), [""; 0]);
}

#[test]
fn a_tenant_concerns_their_own_instances_only() {
    let (caches, queue) = neighbours();
    let put = |email: &str| {
        let mut tenant = sample::tenant();
        tenant.spec.email = email.to_owned();
        caches.tenants.insert(&Key::new("", "ada"), Ok(tenant), |change| {
            caches.tenant_changed(change);
        });
        woken(&queue)
    };
    assert_eq!(put("ada@example.org"), ["course/ada"]);
    assert_eq!(put("ada@example.org"), [""; 0]);
    assert_eq!(put("ada@example.com"), ["course/ada"]);
}

#[test]
fn what_another_operator_wrote_is_looked_at_in_its_time() {
    let (caches, queue) = neighbours();
    let put = |change: Value| {
        caches.instances.insert(&key(), Ok(sample::instance(change)), |change| {
            caches.instance_changed(change);
        });
        (woken(&queue), queue.depth().1)
    };
    assert_eq!(put(json!({"status": {"phase": "Ready"}})), (Vec::new(), 1));
    let renamed = json!({"spec": {"prettyName": "Ada's"}});
    assert_eq!(put(renamed), (vec!["course/ada".to_owned()], 0));
}

/// A Pod that says it is of `instance`, made for the Instance with the uid `owner`.
fn pod(instance: &str, owner: &str, ip: &str) -> PodView {
    let pod = serde_json::from_value(json!({
        "metadata": {
            "name": "x", "namespace": "course",
            "labels": {"lab.sojourn.dev/instance": instance, "lab.sojourn.dev/environment": "web"},
            "ownerReferences": [sample::owner(instance, owner)],
        },
        "spec": {"containers": [{"name": "web", "ports": [{"containerPort": 22}]}]},
        "status": {"podIP": ip},
    }));
    PodView::of(&pod.expect("a Pod"))
}

/// Caches with `course/ada` (uid u-1) and `course/bob` (uid u-2).
fn classmates() -> Arc<LabCaches> {
    let (caches, _) = sample::caches();
    for (name, uid) in [("ada", "u-1"), ("bob", "u-2")] {
        let instance = sample::instance(json!({"metadata": {"name": name, "uid": uid}}));
        caches.instances.insert(&Key::new("course", name), Ok(instance), |_| {});
    }
    caches
}

fn put(caches: &LabCaches, name: &str, view: PodView) {
    caches.pods.insert(&Key::new("course", name), view, |change| caches.pod_changed(change));
}

#[test]
fn an_address_belongs_to_one_instance_or_to_nobody() {
    let caches = classmates();
    let ip: IpAddr = "10.0.0.7".parse().expect("an address");
    put(&caches, "ada-web", pod("ada", "u-1", "10.0.0.7"));
    assert_eq!(caches.by_address(ip, Some(22)), Some(key()));
    assert_eq!(caches.by_address(ip, None), Some(key()));
    assert_eq!(caches.by_address(ip, Some(23)), None, "nothing of ours listens there");
    put(&caches, "ada-db", pod("ada", "u-1", "10.0.0.7"));
    assert_eq!(caches.by_address(ip, None), Some(key()), "two Pods of the same one");

    put(&caches, "bob-web", pod("bob", "u-2", "10.0.0.7"));
    assert_eq!(caches.by_address(ip, Some(22)), None, "it could be either");
    for name in ["ada-web", "ada-db"] {
        let mut terminating = pod("ada", "u-1", "10.0.0.7");
        terminating.deleting = true;
        put(&caches, name, terminating);
    }
    let bob = Some(Key::new("course", "bob"));
    assert_eq!(caches.by_address(ip, Some(22)), bob, "the address was given to another");

    let mut handing_in = pod("ada", "u-1", "10.0.0.8");
    handing_in.submission = true;
    put(&caches, "ada-web-submit-1", handing_in);
    assert_eq!(caches.by_address("10.0.0.8".parse().expect("an address"), None), None);
}

#[test]
fn a_label_alone_makes_nothing_an_instances_own() {
    let caches = classmates();
    let ip: IpAddr = "10.0.0.7".parse().expect("an address");
    for (what, owner) in [("somebody else's", "u-2"), ("of an earlier one", "u-0")] {
        put(&caches, "ada-web", pod("ada", owner, "10.0.0.7"));
        assert_eq!(caches.by_address(ip, Some(22)), None, "{what}");
        assert_eq!(caches.by_address(ip, None), None, "{what}");
        assert_eq!(caches.endpoint(&key(), "web"), None, "{what}");
        let service = serde_json::from_value(json!({"metadata": {
            "name": "ada-web", "namespace": "course",
            "labels": {"lab.sojourn.dev/instance": "ada"},
            "ownerReferences": [sample::owner("ada", owner)],
        }}));
        let view = service_view(&service.expect("a Service"));
        caches.services.insert(&Key::new("course", "ada-web"), view, |_| {});
        assert_eq!(caches.by_service("course", "ada-web"), None, "{what}");
    }
    let mut unowned = pod("ada", "u-1", "10.0.0.7");
    unowned.owner = None;
    put(&caches, "ada-web", unowned);
    assert_eq!(caches.by_address(ip, None), None, "nobody's");
    assert_eq!(caches.endpoint(&key(), "web"), None, "nobody's");

    put(&caches, "forged", pod("ada", "u-0", "10.0.0.7"));
    put(&caches, "ada-web", pod("ada", "u-1", "10.0.0.7"));
    assert_eq!(
        caches.by_address(ip, Some(22)),
        Some(key()),
        "a forged one does not get in the way"
    );
    let address = "10.0.0.7:22".parse().expect("an address");
    assert_eq!(caches.endpoint(&key(), "web").map(|endpoint| endpoint.address), Some(address));
}

#[test]
fn what_we_wrote_is_seen_at_once_and_wakes_only_if_it_asks_for_a_look() {
    let (caches, queue) = neighbours();
    let written = |running: bool, version: &str| {
        let change =
            json!({"spec": {"running": running}, "metadata": {"resourceVersion": version}});
        sample::instance(change)
    };
    let running = || {
        let read = caches.instances.get(&key()).expect("there");
        read.as_ref().as_ref().expect("readable").spec.running
    };
    caches.record_write(&key(), written(false, "8"));
    assert_eq!((running(), woken(&queue)), (false, vec![]));
    caches.record_change(&key(), written(true, "9"));
    assert_eq!((running(), woken(&queue)), (true, vec!["course/ada".to_owned()]));
    caches.record_write(&key(), written(false, "8"));
    assert!(running(), "an older answer comes too late");
    let gone = Key::new("course", "gone");
    caches.record_write(&gone, written(true, "10"));
    assert!(caches.instances.get(&gone).is_none(), "what is gone does not come back by a write");
}
