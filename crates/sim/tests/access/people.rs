//! What people do with sessions.

use futures::future::join;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::name::shared;
use sojourn_core::access::act::Verb;
use sojourn_core::access::person::Person;
use sojourn_core::access::request::Request;
use sojourn_core::access::session::{ReasonEnded, State};
use sojourn_core::key::Key;
use sojourn_operator::access::service::ServiceError;
use sojourn_sim::access::simulation::{APPROVER, CLUSTER, GROUP, NAMESPACE, Setting, person};

use crate::fixture::{
    ADA, ALAN, HOUR, LATE, MINUTE, SECOND, is, reason, simulation, status, terms, with,
};

// case: access 34, 35, 36
#[tokio::test(start_paused = true)]
async fn of_two_who_ask_for_the_same_at_the_same_time_one_gets_it() {
    let simulation = simulation().await;
    let follower = simulation.follower();
    simulation.pass(MINUTE).await;
    assert!(follower.is_up());
    let ask = async |replica: u64| {
        let service = simulation.drivers.service(replica).expect("it serves");
        let (cluster, group) = (CLUSTER.to_owned(), GROUP.to_owned());
        let asked = Request { cluster, group, ..Request::default() };
        let made = service.request(&person(ADA), NAMESPACE, asked).await?;
        Ok(Key::new(NAMESPACE, made.metadata.name.expect("a name")))
    };
    let (one, two) = join(ask(0), ask(1)).await;
    let (made, refused) = match (one, two) {
        (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
        other => panic!("one of them gets it: {other:?}"),
    };
    let ServiceError::Refused { existing, .. } = &refused else { panic!("{refused}") };
    assert_eq!((refused.code(), existing.as_ref()), (409, Some(&made)));
    assert_eq!(simulation.checker.lock().sessions().count(), 1);
    simulation.act(ADA, &made, Verb::Withdraw).await.expect("she may");
    let again = simulation.request(ADA).await.expect("the first one is over");
    assert_ne!(made, again);
    simulation.assert_invariants();
}

// case: access 51
#[tokio::test(start_paused = true)]
async fn of_an_approval_and_a_withdrawal_at_the_same_time_one_wins() {
    let simulation = simulation().await;
    let key = simulation.request(ADA).await.expect("it is offered");
    simulation.until(LATE, &key, is(State::Pending)).await;
    let approve = simulation.act(APPROVER, &key, Verb::Approve);
    let withdraw = simulation.act(ADA, &key, Verb::Withdraw);
    let (approved, withdrawn) = join(approve, withdraw).await;
    assert!(approved.is_ok() != withdrawn.is_ok(), "{approved:?} {withdrawn:?}");
    let state = if approved.is_ok() { State::Approved } else { State::Withdrawn };
    simulation.until(SECOND, &key, is(state)).await;
    simulation.pass(MINUTE).await;
    simulation.until(SECOND, &key, is(state)).await;
    simulation.assert_invariants();
}

// case: access 46, 50
#[tokio::test(start_paused = true)]
async fn sessions_end_by_the_hand_of_their_user_or_of_an_approver_and_grant_nothing_then() {
    let simulation = simulation().await;
    let dropped = simulation.approved(ADA).await;
    let canceled = simulation.approved(ALAN).await;
    assert!(simulation.uses(ADA).await && simulation.uses(ALAN).await);
    let code = |done: Result<(), ServiceError>| done.expect_err("it is refused").code();
    assert_eq!(code(simulation.act(ALAN, &dropped, Verb::Drop).await), 403);
    assert_eq!(code(simulation.act(APPROVER, &dropped, Verb::Approve).await), 409);
    assert_eq!(code(simulation.act(APPROVER, &dropped, Verb::Reject).await), 400);
    simulation.act(ADA, &dropped, Verb::Drop).await.expect("she may");
    simulation.act(APPROVER, &canceled, Verb::Cancel).await.expect("she may");
    assert!(!simulation.uses(ADA).await && !simulation.uses(ALAN).await);
    let dropped = simulation.until(SECOND, &dropped, is(State::Expired)).await;
    let canceled = simulation.until(SECOND, &canceled, is(State::Expired)).await;
    assert_eq!(reason(&dropped), Some(ReasonEnded::Dropped));
    assert_eq!(reason(&canceled), Some(ReasonEnded::Canceled));
    assert_eq!(status(&canceled).ended_by.as_deref(), Some(APPROVER));
    simulation.pass(MINUTE).await;
    assert_eq!(simulation.events("Expired").await.len(), 2);
    simulation.assert_invariants();
}

/// The second account has another name, and the address of the first.
#[tokio::test(start_paused = true)]
async fn somebody_with_two_accounts_neither_approves_their_own_request_nor_approves_twice() {
    let account = |user: &str, email: &str| Person {
        user: user.to_owned(),
        email: Some(email.to_owned()),
        ..Person::default()
    };
    let mut two = terms();
    two["allowed"] = json!({"users": ["u-4711"], "clusters": [CLUSTER]});
    two["approvers"] = json!({"users": [ADA, "u-1", APPROVER, ALAN], "required": 2});
    let simulation = with(Setting::default(), two).await;
    let service = simulation.service().await;
    let (cluster, group) = (CLUSTER.to_owned(), GROUP.to_owned());
    let asked = Request { cluster, group, ..Request::default() };
    let made = service.request(&account("u-4711", ADA), NAMESPACE, asked).await.expect("offered");
    assert_eq!(made.spec.email.as_deref(), Some(ADA));
    let key = Key::new(NAMESPACE, made.metadata.name.expect("a name"));
    simulation.until(LATE, &key, is(State::Pending)).await;
    let approve = async |person: &Person| {
        let acted = service.act(person, &key, Verb::Approve, None).await;
        acted.map(|_| ()).map_err(|refused| refused.code())
    };
    assert_eq!(approve(&person(ADA)).await, Err(403), "it is theirs");
    assert_eq!(approve(&account("u-1", APPROVER)).await, Ok(()));
    let stored = status(&simulation.session(&key).await).approvals;
    assert_eq!(stored[0].email.as_deref(), Some(APPROVER));
    assert_eq!(approve(&person(APPROVER)).await, Err(409), "they did");
    simulation.until(SECOND, &key, is(State::Pending)).await;
    assert_eq!(approve(&person(ALAN)).await, Ok(()));
    let approved = simulation.until(SECOND, &key, is(State::Approved)).await;
    assert_eq!(status(&approved).approvals[1].email, None, "it is their name");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_extension_adds_time_and_begins_the_idle_time_anew() {
    let simulation = simulation().await;
    let key = simulation.approved(ADA).await;
    let before = status(&simulation.session(&key).await).expires_at.expect("a time");
    simulation.pass(MINUTE * 9).await;
    simulation.act(ADA, &key, Verb::Extend).await.expect("she may");
    let extended = status(&simulation.session(&key).await);
    let by = extended.expires_at.expect("a time").0.duration_since(before.0);
    assert_eq!((by.as_mins(), extended.activity_count), (30, 0));
    simulation.pass(MINUTE * 9).await;
    assert!(simulation.uses(ADA).await, "it is nine minutes since");
    let again = simulation.act(ADA, &key, Verb::Extend).await.expect_err("once is the most");
    assert!(again.code() >= 400 && again.code() < 500);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn nobody_approves_and_it_is_over() {
    let simulation = simulation().await;
    let key = simulation.request(ADA).await.expect("it is offered");
    simulation.until(LATE, &key, is(State::Pending)).await;
    simulation.pass(MINUTE * 31).await;
    let over = simulation.until(LATE, &key, is(State::ApprovalTimeout)).await;
    assert_eq!(reason(&over), Some(ReasonEnded::ApprovalTimeout));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn records_are_kept_within_the_bounds_of_the_options() {
    let config = format!("{}retention: {{min: 3h}}\n", sojourn_sim::access::simulation::CONFIG);
    let simulation = with(Setting { config, ..Setting::default() }, terms()).await;
    let key = simulation.approved(ADA).await;
    assert_eq!(simulation.session(&key).await.spec.retain_for, "3h", "its escalation says 1h");
    simulation.act(ADA, &key, Verb::Drop).await.expect("it is theirs");
    simulation.until(LATE, &key, is(State::Expired)).await;
    simulation.pass(HOUR * 2).await;
    assert_eq!(status(&simulation.session(&key).await).state, Some(State::Expired.into()));
    simulation.assert_invariants();
}

/// An escalation was good when it was written, and the options are others now.
#[tokio::test(start_paused = true)]
async fn what_the_options_do_not_allow_any_more_is_not_given() {
    let simulation = simulation().await;
    let slower = json!({"data": {"access.yaml": "clusters: {local: {authorizedTTL: 10m}}"}});
    let maps: Api<ConfigMap> = Api::namespaced(simulation.client.clone(), shared::NAMESPACE);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&slower));
    maps.patch(shared::CONFIG_MAP, &params, &patch).await.expect("people's requests work");
    simulation.pass(SECOND).await;
    let refused = simulation.request(ADA).await.expect_err("its timeout is too short now");
    assert_eq!(refused.code(), 422, "{refused}");
    let words = refused.to_string();
    assert!(words.contains("the configuration does not allow it: spec.idleTimeout"), "{words}");
    simulation.assert_invariants();
}
