//! A group to which nothing happens costs nothing.

use serde_json::json;
use sojourn_api::group::status::Phase;

use crate::stage::{DAY, HOUR, MINUTE, draining, nothing_is_wrong, ready, world};

#[tokio::test(start_paused = true)]
async fn a_group_at_rest_is_not_looked_at() {
    let world = world(3, json!({"expiry": {"eligibleAge": "30d"}})).await;
    world.pass(MINUTE * 5).await;
    let (looks, requests) = (world.looks(), world.faults.requests());
    world.pass(20 * DAY).await;
    assert_eq!((world.looks(), world.faults.requests()), (looks, requests));
    nothing_is_wrong(&world);
}

// case: group 27
#[tokio::test(start_paused = true)]
async fn a_blocked_group_makes_no_request_and_is_not_looked_at() {
    let spec = json!({"expiry": {"eligibleAge": "1d", "forcedAge": "10d"}, "drainTimeout": "3d"});
    let world = world(3, spec).await;
    draining(&world, DAY + HOUR).await;
    world.pass(MINUTE * 5).await;
    let blocked = world.ledger.book().groups["web"].status.clone().expect("one");
    assert!(!blocked.blocked_by.is_empty(), "{blocked:?}");
    let (looks, requests) = (world.looks(), world.faults.requests());
    world.pass(DAY).await;
    assert_eq!((world.looks(), world.faults.requests()), (looks, requests));
    assert_eq!(world.ledger.book().in_phase("web", Phase::Draining).len(), 1);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn the_configuration_reaches_everybody_and_a_bad_one_nobody() {
    let world = world(2, json!({})).await;
    world.pass(3 * DAY).await;
    assert_eq!(world.ledger.book().count("is Draining"), 0);
    world.configure("expiry: {eligibleAge: 2d}").await;
    draining(&world, HOUR).await;
    ready(&world, "web", 2).await;
    nothing_is_wrong(&world);
}
