//! The links in mails: each acts as whoever got it, once, and under every check.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use sojourn_core::access::session::State;
use sojourn_core::key::Key;
use sojourn_sim::access::replica::PUBLIC_URL;
use sojourn_sim::access::simulation::{APPROVER, AccessSimulation, GROUP, Setting};
use tower::ServiceExt as _;

use crate::fixture::{ADA, HOUR, LATE, MINUTE, is, simulation, status, terms, told, with};

/// The link of that name in the newest mail of a kind that somebody got.
fn link(simulation: &AccessSimulation, to: &str, template: &str, name: &str) -> Option<String> {
    let received = simulation.drivers.mail().received().into_iter().rev();
    let mut mails = received.map(|one| one.notice);
    let mail = mails.find(|one| one.template == template && one.to.email == to)?;
    let url = mail.facts.link(name)?.to_owned();
    Some(url.strip_prefix(PUBLIC_URL).expect("it leads to us").to_owned())
}

async fn ask(
    simulation: &AccessSimulation,
    method: Method,
    path: &str,
    body: String,
) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).header("accept", "text/html");
    let request = request.body(Full::new(Bytes::from(body))).expect("a request");
    let answer = simulation.pages().await.oneshot(request).await.expect("infallible");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

async fn open(simulation: &AccessSimulation, path: &str) -> (StatusCode, String) {
    ask(simulation, Method::GET, path, String::new()).await
}

/// Presses the button of the link's page, as a browser does; what the page says, if it has none.
async fn press(simulation: &AccessSimulation, path: &str) -> (StatusCode, String) {
    let (code, page) = open(simulation, path).await;
    let token =
        page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    match token {
        Some(token) => ask(simulation, Method::POST, path, format!("token={token}")).await,
        None => (code, page),
    }
}

async fn requested(simulation: &AccessSimulation) -> Key {
    let key = simulation.request(ADA).await.expect("it is offered");
    simulation.until(LATE, &key, is(State::Pending)).await;
    simulation.pass(LATE).await;
    key
}

#[tokio::test(start_paused = true)]
async fn an_approver_approves_by_the_link_in_their_mail_and_nobody_else_does() {
    let simulation = simulation().await;
    let key = requested(&simulation).await;
    assert_eq!(link(&simulation, ADA, "requested", "approve"), None, "nobody else has a link");
    let approve = link(&simulation, APPROVER, "requested", "approve").expect("a link");
    let reject = link(&simulation, APPROVER, "requested", "reject").expect("a link");
    assert_eq!(link(&simulation, APPROVER, "requested", "drop"), None);
    let (code, page) = open(&simulation, &approve).await;
    assert_eq!(code, 200, "{page}");
    assert!(page.contains("a simulated incident") && page.contains("Approve it"), "{page}");
    assert_eq!(status(&simulation.session(&key).await).state, Some(State::Pending.into()));
    let (code, _) = ask(&simulation, Method::POST, &approve, "token=guessed".to_owned()).await;
    assert_eq!(code, 403, "only its own page acts");
    let (code, page) = press(&simulation, &approve).await;
    assert_eq!(code, 200, "{page}");
    let approved = simulation.until(LATE, &key, is(State::Approved)).await;
    assert_eq!(status(&approved).approvals[0].user, APPROVER);
    let (_, page) = press(&simulation, &approve).await;
    assert!(page.contains("done before"), "{page}");
    let (code, page) = press(&simulation, &reject).await;
    assert!(code == 409 && page.contains("reject is not possible"), "{page}");
    assert_eq!(status(&simulation.session(&key).await).approvals.len(), 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_link_is_worth_what_its_recipient_may_do_when_it_is_pressed() {
    let simulation = simulation().await;
    let key = requested(&simulation).await;
    let approve = link(&simulation, APPROVER, "requested", "approve").expect("a link");
    // Somebody else approves from now on.
    let mut spec = terms();
    spec["approvers"] = json!({"users": ["hedy@example.org"]});
    simulation.offer("incident", &[ADA], spec).await;
    simulation.pass(LATE).await;
    let (code, page) = press(&simulation, &approve).await;
    assert!(code == 409 && page.contains("may not approve"), "{page}");
    assert_eq!(status(&simulation.session(&key).await).state, Some(State::Pending.into()));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn nobody_approves_their_own_request_by_a_link() {
    let mut spec = terms();
    spec["approvers"] = json!({"users": [ADA]});
    let simulation = with(Setting::default(), spec).await;
    let key = requested(&simulation).await;
    let approve = link(&simulation, ADA, "requested", "approve").expect("a link");
    let (code, page) = press(&simulation, &approve).await;
    assert!(code == 409 && page.contains("requested themselves"), "{page}");
    assert_eq!(status(&simulation.session(&key).await).state, Some(State::Pending.into()));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_group_gets_no_link_that_acts() {
    let mut spec = terms();
    spec["approvers"] = json!({"users": [APPROVER], "groups": ["leads"]});
    let config = format!(
        "{}addresses: {{groups: {{leads: leads@example.org}}}}\n",
        sojourn_sim::access::simulation::CONFIG
    );
    let simulation = with(Setting { config, ..Setting::default() }, spec).await;
    let key = requested(&simulation).await;
    assert_eq!(told(&simulation, &key), ["requested", "requested"]);
    assert!(link(&simulation, APPROVER, "requested", "approve").is_some());
    assert_eq!(link(&simulation, "leads@example.org", "requested", "approve"), None);
    let received = simulation.drivers.mail().received();
    let mut ids: Vec<&str> = received.iter().map(|one| one.notice.id.as_str()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2, "a receiver tells them apart: {ids:?}");
    let page = format!("{PUBLIC_URL}/access/sessions/{}/{}", key.namespace, key.name);
    assert!(received.iter().all(|one| one.notice.facts.url.as_ref() == Some(&page)));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_warning_offers_to_extend_once_and_to_give_it_back() {
    let mut spec = terms();
    spec["extension"] = json!({"max": 5, "step": "30m"});
    let simulation = with(Setting::default(), spec).await;
    let key = simulation.approved(ADA).await;
    assert!(simulation.uses(ADA).await);
    let before = simulation.until(LATE, &key, is(State::Approved)).await;
    simulation.pass(MINUTE * 9).await;
    assert!(told(&simulation, &key).contains(&"idle-warning"), "{:?}", told(&simulation, &key));
    let extend = link(&simulation, ADA, "idle-warning", "extend").expect("a link");
    let drop = link(&simulation, ADA, "idle-warning", "drop").expect("a link");
    let (code, page) = press(&simulation, &extend).await;
    assert_eq!(code, 200, "{page}");
    let (_, page) = press(&simulation, &extend).await;
    assert!(page.contains("done before"), "{page}");
    let after = simulation.session(&key).await;
    assert_eq!(status(&after).extensions, 1, "twice pressed, once done");
    assert!(status(&after).expires_at > status(&before).expires_at);
    // It was to end a minute later.
    simulation.pass(MINUTE * 5).await;
    assert!(simulation.uses(ADA).await, "its idle time began anew");
    let (code, _) = open(&simulation, &drop).await;
    assert_eq!(code, StatusCode::GONE, "links hold until what they warn of");
    simulation.pass(MINUTE * 9).await;
    let drop = link(&simulation, ADA, "idle-warning", "drop").expect("a newer one");
    let (code, page) = press(&simulation, &drop).await;
    assert!(code == 200 && page.contains("has ended"), "{page}");
    simulation.until(LATE, &key, is(State::Expired)).await;
    assert!(!simulation.uses(ADA).await);
    let ended = link(&simulation, ADA, "approved", "drop").expect("a link");
    let (code, page) = open(&simulation, &ended).await;
    assert!(code == 200 && page.contains("done before"), "{page}");
    simulation.pass(HOUR * 2).await;
    let (code, page) = open(&simulation, &ended).await;
    assert!(code == 410 || page.contains("not there any more"), "{page}");
    assert!(page.contains("</html>") && !page.contains(GROUP), "it says nothing more: {page}");
    simulation.assert_invariants();
}
