use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::clock::VirtualClock;

fn world() -> World {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let queue = || Arc::new(Queue::new(clock.clone()));
    World::new(queue(), queue(), Arc::new(Infirmary::new(clock.clone())))
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

fn machine(world: &World, name: &str, spec: &Value, owner: Option<&str>) -> Read<MachineView> {
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
    Ok(MachineView::of(serde_json::from_value(object).expect("a machine"), &world.pool))
}

fn managed() -> Value {
    json!({"group": "web", "onDemand": false, "template": {"provider": "fake", "config": {}}})
}

/// Everybody who waits to be looked at: groups, then machines.
async fn woken(world: &World) -> (Vec<String>, Vec<String>) {
    let mut found = (Vec::new(), Vec::new());
    for (queue, names) in [(&world.group_queue, &mut found.0), (&world.machine_queue, &mut found.1)]
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
    let world = world();
    world.groups.insert(&key("web"), group("g-1", 1), |_| {});
    let of_web = machine(&world, "web-1", &managed(), Some("g-1"));
    world.machines.insert(&key("web-1"), of_web, |change| world.machine_changed(change));
    assert_eq!(woken(&world).await, (vec!["web".to_owned()], vec![]));
    let own = json!({"onDemand": true, "group": "web"});
    let guest = machine(&world, "mine", &own, None);
    world.machines.insert(&key("mine"), guest, |change| world.machine_changed(change));
    assert_eq!(woken(&world).await, (vec![], vec!["mine".to_owned()]));
    assert_eq!(world.members(&key("web"))[0].0, key("web-1"));
    // Another size is another spec: what the guest takes from it may be different.
    world.groups.insert(&key("web"), group("g-1", 2), |change| world.group_changed(change));
    assert_eq!(woken(&world).await, (vec!["web".to_owned()], vec!["mine".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn whoever_belongs_to_a_group_that_is_gone_stands_for_itself() {
    let world = world();
    let of_web = machine(&world, "web-1", &managed(), Some("g-1"));
    world.groups.insert(&key("web"), group("g-1", 1), |_| {});
    world.machines.insert(&key("web-1"), of_web, |change| world.machine_changed(change));
    woken(&world).await;
    let responsible = || world.responsible(&key("web-1"));
    assert_eq!(responsible(), hands::Owner::Group(key("web")));
    // A group of the same name is another group.
    world.groups.insert(&key("web"), group("g-2", 1), |change| world.group_changed(change));
    assert_eq!(woken(&world).await, (vec!["web".to_owned()], vec!["web-1".to_owned()]));
    assert_eq!(responsible(), hands::Owner::Itself(key("web-1")));
    // A machine that says it is on demand is nobody's, whatever else it says.
    let liar = json!({"onDemand": true, "template": {"provider": "fake", "config": {}}});
    let liar = machine(&world, "liar", &liar, Some("g-2"));
    world.machines.insert(&key("liar"), liar, |change| world.machine_changed(change));
    assert_eq!(world.responsible(&key("liar")), hands::Owner::Itself(key("liar")));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_in_a_namespace_that_is_deleted_is_looked_at_once() {
    let world = world();
    world.groups.insert(&key("web"), group("g-1", 1), |_| {});
    world.groups.insert(&Key::new("elsewhere", "web"), group("g-2", 1), |_| {});
    for (name, spec, owner) in
        [("web-1", managed(), Some("g-1")), ("mine", json!({"onDemand": true}), None)]
    {
        let made = machine(&world, name, &spec, owner);
        world.machines.insert(&key(name), made, |change| world.index(change));
    }
    let team = Key::new("", "team");
    let tell = |ending| {
        world.namespaces.insert(&team, ending, |change| world.namespace_changed(change));
    };
    tell(false);
    assert_eq!(woken(&world).await, (vec![], vec![]));
    assert!(!world.is_ending("team"));
    tell(true);
    assert_eq!(woken(&world).await, (vec!["web".to_owned()], vec!["mine".to_owned()]));
    assert!(world.is_ending("team") && !world.is_ending("elsewhere"));
    tell(true);
    assert_eq!(woken(&world).await, (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_nobody_while_it_goes_on() {
    let world = world();
    world.groups.insert(&key("web"), group("g-1", 1), |_| {});
    let of_web = machine(&world, "web-1", &managed(), Some("g-1"));
    world.machines.insert(&key("web-1"), of_web, |_| {});
    let fresh = |seconds: i64| LeaseView { fresh_until: Timestamp::from_second(seconds).ok() };
    let beat = |lease: LeaseView| {
        world.leases.insert(&key("web-1"), lease, |change| world.lease_changed(change));
    };
    beat(fresh(40));
    assert_eq!(woken(&world).await.0, ["web"], "there is one now");
    beat(fresh(50));
    beat(fresh(60));
    assert_eq!(woken(&world).await.0, [""; 0]);
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    beat(fresh(100));
    assert_eq!(woken(&world).await.0, ["web"], "it had ended");
    let stranger = Key::new("kube-system", "scheduler");
    world.leases.insert(&stranger, fresh(1), |change| world.lease_changed(change));
    assert_eq!(world.infirmary.beats.depth().0, 1, "only machines have a heart");
}
