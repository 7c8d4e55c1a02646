use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::clock::VirtualClock;

fn caches() -> GroupCaches {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let queue = || Arc::new(Queue::new(clock.clone()));
    GroupCaches::new(queue(), queue(), Arc::new(HealthTracker::new(clock.clone())))
}

fn key(name: &str) -> Key {
    Key::new("team", name)
}

fn group(uid: &str, size: i32) -> Read<InstanceGroup> {
    let object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
        "metadata": {"name": "web", "namespace": "team", "uid": uid},
        "spec": {"size": size, "template": {"provider": "fake", "config": {}}},
    });
    Ok(serde_json::from_value(object).expect("a group"))
}

fn machine(
    caches: &GroupCaches,
    name: &str,
    spec: &Value,
    owner: Option<&str>,
) -> Read<MachineView> {
    let owners: Vec<Value> = owner
        .map(|uid| {
            json!({"apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
                   "name": "web", "uid": uid, "controller": true})
        })
        .into_iter()
        .collect();
    let object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"),
                     "creationTimestamp": "2026-11-16T04:00:00Z", "ownerReferences": owners},
        "spec": spec,
    });
    Ok(MachineView::of(serde_json::from_value(object).expect("a machine"), &caches.interner))
}

fn managed() -> Value {
    json!({"group": "web", "onDemand": false, "template": {"provider": "fake", "config": {}}})
}

/// Everybody who waits to be looked at: groups, then machines.
async fn woken(caches: &GroupCaches) -> (Vec<String>, Vec<String>) {
    let mut found = (Vec::new(), Vec::new());
    for (queue, names) in
        [(&caches.group_queue, &mut found.0), (&caches.machine_queue, &mut found.1)]
    {
        while !queue.is_idle() {
            let key = queue.next().await;
            names.push(key.name.to_string());
            queue.done(&key, None);
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_managed_machine_concerns_its_group_and_one_on_demand_itself() {
    let caches = caches();
    caches.groups.insert(&key("web"), group("g-1", 1), |_| {});
    let of_web = machine(&caches, "web-1", &managed(), Some("g-1"));
    caches.machines.insert(&key("web-1"), of_web, |change| caches.machine_changed(change));
    assert_eq!(woken(&caches).await, (vec!["web".to_owned()], vec![]));
    let own = json!({"onDemand": true, "group": "web"});
    let on_demand = machine(&caches, "mine", &own, None);
    caches.machines.insert(&key("mine"), on_demand, |change| caches.machine_changed(change));
    assert_eq!(woken(&caches).await, (vec![], vec!["mine".to_owned()]));
    assert_eq!(caches.members(&key("web"))[0].0, key("web-1"));
    // Another size is another spec: what the machine on demand takes from it may be different.
    caches.groups.insert(&key("web"), group("g-1", 2), |change| caches.group_changed(change));
    assert_eq!(woken(&caches).await, (vec!["web".to_owned()], vec!["mine".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_group_is_gone_is_reconciled_by_itself() {
    let caches = caches();
    let of_web = machine(&caches, "web-1", &managed(), Some("g-1"));
    caches.groups.insert(&key("web"), group("g-1", 1), |_| {});
    caches.machines.insert(&key("web-1"), of_web, |change| caches.machine_changed(change));
    woken(&caches).await;
    let reconcile_key = || caches.reconcile_key(&key("web-1"));
    assert_eq!(reconcile_key(), ReconcileKey::Group(key("web")));
    // A group of the same name is another group.
    caches.groups.insert(&key("web"), group("g-2", 1), |change| caches.group_changed(change));
    assert_eq!(woken(&caches).await, (vec!["web".to_owned()], vec!["web-1".to_owned()]));
    assert_eq!(reconcile_key(), ReconcileKey::Machine(key("web-1")));
    // A machine that says it is on demand is nobody's, whatever else it says.
    let liar = json!({"onDemand": true, "template": {"provider": "fake", "config": {}}});
    let liar = machine(&caches, "liar", &liar, Some("g-2"));
    caches.machines.insert(&key("liar"), liar, |change| caches.machine_changed(change));
    assert_eq!(caches.reconcile_key(&key("liar")), ReconcileKey::Machine(key("liar")));
}

#[tokio::test(start_paused = true)]
async fn everything_in_a_namespace_that_is_deleted_is_woken_once() {
    let caches = caches();
    caches.groups.insert(&key("web"), group("g-1", 1), |_| {});
    caches.groups.insert(&Key::new("elsewhere", "web"), group("g-2", 1), |_| {});
    for (name, spec, owner) in
        [("web-1", managed(), Some("g-1")), ("mine", json!({"onDemand": true}), None)]
    {
        let made = machine(&caches, name, &spec, owner);
        caches.machines.insert(&key(name), made, |change| caches.index(change));
    }
    let team = Key::new("", "team");
    let set_ending = |ending| {
        caches.namespaces.insert(&team, ending, |change| caches.namespace_changed(change));
    };
    set_ending(false);
    assert_eq!(woken(&caches).await, (vec![], vec![]));
    assert!(!caches.is_ending("team"));
    set_ending(true);
    assert_eq!(woken(&caches).await, (vec!["web".to_owned()], vec!["mine".to_owned()]));
    assert!(caches.is_ending("team") && !caches.is_ending("elsewhere"));
    set_ending(true);
    assert_eq!(woken(&caches).await, (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_nobody_while_it_goes_on() {
    let caches = caches();
    caches.groups.insert(&key("web"), group("g-1", 1), |_| {});
    let of_web = machine(&caches, "web-1", &managed(), Some("g-1"));
    caches.machines.insert(&key("web-1"), of_web, |_| {});
    let fresh = |seconds: i64| LeaseView { fresh_until: Timestamp::from_second(seconds).ok() };
    let heartbeat = |lease: LeaseView| {
        caches.leases.insert(&key("web-1"), lease, |change| caches.lease_changed(change));
    };
    heartbeat(fresh(40));
    assert_eq!(woken(&caches).await.0, ["web"], "there is one now");
    heartbeat(fresh(50));
    heartbeat(fresh(60));
    assert_eq!(woken(&caches).await.0, [""; 0]);
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    heartbeat(fresh(100));
    assert_eq!(woken(&caches).await.0, ["web"], "it had ended");
    let stranger = Key::new("kube-system", "scheduler");
    caches.leases.insert(&stranger, fresh(1), |change| caches.lease_changed(change));
    assert_eq!(caches.health_tracker.heartbeats.depth().0, 1, "only machines have a heart");
}
