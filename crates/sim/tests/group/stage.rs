//! Groups in a world of their own.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use sojourn_api::group::status::{DrainStatus, MachineStatus, Phase};
use sojourn_sim::group::{Rules, Setting, World};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A world with the group `web` of so many machines, all ready.
pub(crate) async fn world(size: u32, spec: Value) -> World {
    world_with(Setting::default(), size, spec).await
}

pub(crate) async fn world_with(setting: Setting, size: u32, spec: Value) -> World {
    let world = World::new(setting).await;
    world.make_group("web", size, spec).await;
    ready(&world, "web", size as usize).await;
    world
}

/// Waits until so many are ready and no other is there.
pub(crate) async fn ready(world: &World, group: &str, count: usize) {
    world
        .until(30 * MINUTE, "a group that is complete", |book| {
            let all = book.of(group).len();
            (all == count && book.in_phase(group, Phase::Ready).len() == count).then_some(())
        })
        .await;
}

/// These must hold from now on, beside what always must.
pub(crate) fn rule(world: &World, most: usize, least_ready: usize) {
    world.ledger.rule("web", Rules { most, least_ready });
}

pub(crate) fn nothing_is_wrong(world: &World) {
    let violations = world.ledger.book().violations.clone();
    assert!(violations.is_empty(), "{violations:#?}\n{}", world.shown());
}

pub(crate) fn names(world: &World) -> Vec<String> {
    let book = world.ledger.book();
    book.of("web").into_iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) fn status(world: &World, name: &str) -> MachineStatus {
    let book = world.ledger.book();
    book.machine(name).and_then(|machine| machine.status.clone()).unwrap_or_default()
}

/// Waits until a machine of the group drains; answers its name and its drain.
pub(crate) async fn draining(world: &World, limit: Duration) -> (String, DrainStatus) {
    world
        .until(limit, "a drain", |book| {
            let name = book.in_phase("web", Phase::Draining).first()?.clone();
            let status = book.machine(&name)?.status.clone()?;
            Some((name, status.drain?))
        })
        .await
}

pub(crate) fn deadline(drain: &DrainStatus) -> Timestamp {
    drain.deadline.as_ref().expect("a drain has one").0
}

/// Waits until a machine's object is gone; answers when that was.
pub(crate) async fn gone(world: &World, limit: Duration, name: &str) -> Timestamp {
    world.until(limit, "its end", |book| book.deleted.get(name).copied()).await
}

/// A condition of a group.
pub(crate) fn condition(world: &World, group: &str, kind: &str) -> Option<Condition> {
    let book = world.ledger.book();
    let status = book.groups.get(group)?.status.clone()?;
    status.conditions.into_iter().find(|one| one.type_ == kind)
}
