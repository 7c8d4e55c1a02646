//! The pages of sessions, as a browser asks for them.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use sojourn_core::access::session::State;
use sojourn_operator::family::FamilyCaller;
use sojourn_sim::access::simulation::{APPROVER, AccessSimulation};
use tower::ServiceExt as _;

use crate::fixture::{ADA, ALAN, LATE, is, simulation, status};

const FORM: &str = "application/x-www-form-urlencoded";

async fn ask(
    simulation: &AccessSimulation,
    user: Option<&str>,
    method: Method,
    path: &str,
    form: &str,
) -> (Response<()>, String) {
    let mut request = Request::builder().method(&method).uri(path).header("accept", "text/html");
    if method == Method::POST {
        request = request.header("content-type", FORM);
    }
    let body = Full::new(Bytes::from(form.to_owned()));
    let mut request = request.body(body).expect("a request");
    if let Some(user) = user {
        let caller = FamilyCaller { user: user.to_owned(), ..FamilyCaller::default() };
        request.extensions_mut().insert(caller);
    }
    let answer = simulation.pages().await.oneshot(request).await.expect("infallible");
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8(bytes.to_vec()).expect("text"))
}

async fn get(simulation: &AccessSimulation, user: &str, path: &str) -> (StatusCode, String) {
    let (answer, page) = ask(simulation, Some(user), Method::GET, path, "").await;
    (answer.status(), page)
}

/// Sends a form; the address that it leads to, or what is said.
async fn send(
    simulation: &AccessSimulation,
    user: &str,
    path: &str,
    form: &str,
) -> Result<String, (u16, String)> {
    let (answer, page) = ask(simulation, Some(user), Method::POST, path, form).await;
    match answer.headers().get("location") {
        Some(to) => Ok(to.to_str().expect("an address").to_owned()),
        None => Err((answer.status().as_u16(), page)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_asked_for_approved_and_given_back_in_a_browser() {
    let simulation = simulation().await;
    // The replica sees what is offered.
    simulation.pass(LATE).await;
    let (answer, page) = ask(&simulation, None, Method::GET, "/access/", "").await;
    assert_eq!(answer.status(), 401, "{page}");
    let (code, page) = get(&simulation, ADA, "/access/").await;
    assert_eq!(code, 200, "{page}");
    assert!(page.contains("There are none.") && page.contains("at most 2h"), "{page}");
    let offer = page.split("option value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let offer = offer.expect("an offer").replace('/', "%2F").replace("&#x2f;", "%2F");
    let (_, page) = get(&simulation, "eve@example.org", "/access/").await;
    assert!(page.contains("No escalation lets you ask"), "{page}");

    let form = format!("offer={offer}&reason=%3Cb%3Ebold%3C%2Fb%3E&duration=30m");
    let refused = send(&simulation, "eve@example.org", "/access/", &form).await;
    assert!(matches!(&refused, Err((403, page)) if page.contains("no escalation offers")));
    let unusable = send(&simulation, ADA, "/access/", "offer=nothing").await;
    assert!(matches!(unusable, Err((400, _))), "{unusable:?}");
    let soon = form.replace("30m", "soon");
    assert!(matches!(send(&simulation, ADA, "/access/", &soon).await, Err((400, _))));
    let address = send(&simulation, ADA, "/access/", &form).await.expect("it is made");
    let name = address.rsplit('/').next().expect("a name").to_owned();
    let key = sojourn_core::key::Key::new("access", name);
    simulation.until(LATE, &key, is(State::Pending)).await;

    let (_, page) = get(&simulation, ADA, &address).await;
    assert!(page.contains("Pending") && page.contains("&lt;b&gt;bold"), "{page}");
    assert!(!page.contains("<b>"), "what people write is text: {page}");
    assert!(page.contains(">Withdraw<") && !page.contains(">Approve<"), "{page}");
    let (code, page) = get(&simulation, ALAN, &address).await;
    assert!(code == 404 && !page.contains(ADA), "others see nothing: {page}");
    let approve = format!("{address}/approve");
    assert!(matches!(send(&simulation, ADA, &approve, "").await, Err((403, _))));
    let (_, page) = get(&simulation, APPROVER, &address).await;
    assert!(page.contains(">Approve<") && page.contains(">Reject<"), "{page}");
    assert_eq!(send(&simulation, APPROVER, &approve, "reason=go").await, Ok(address.clone()));
    let approved = simulation.until(LATE, &key, is(State::Approved)).await;
    assert_eq!(status(&approved).approvals[0].reason.as_deref(), Some("go"));
    let twice = send(&simulation, APPROVER, &approve, "").await;
    assert!(matches!(&twice, Err((409, page)) if page.contains("already")), "{twice:?}");

    let (_, page) = get(&simulation, ADA, &address).await;
    for words in ["never used", "Idle timeout", "Idle deadline", "Uses", "Next", ">Give back<"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(simulation.uses(ADA).await);
    simulation.pass(LATE).await;
    let (_, page) = get(&simulation, ADA, &address).await;
    assert!(!page.contains("never used") && page.contains("<dt>Uses</dt><dd>1</dd>"), "{page}");
    assert_eq!(send(&simulation, ADA, &format!("{address}/drop"), "").await, Ok(address.clone()));
    simulation.until(LATE, &key, is(State::Expired)).await;
    let (_, page) = get(&simulation, ADA, &address).await;
    assert!(page.contains("given back, by ada@example.org"), "{page}");
    assert!(!page.contains("<button>"), "nothing can be done any more: {page}");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_by_any_of_the_eight_states() {
    let simulation = simulation().await;
    let key = simulation.approved(ADA).await;
    simulation.until(LATE, &key, is(State::Approved)).await;
    for state in State::ALL {
        let path = format!("/access/?state={}", state.as_str());
        let (code, page) = get(&simulation, ADA, &path).await;
        assert_eq!(code, 200, "{page}");
        let chosen = format!("{}\" aria-current=\"page\">{}<", state.as_str(), state.as_str());
        assert!(page.contains(&chosen), "{page}");
        let listed = page.contains("class=\"tag live\"");
        assert_eq!(listed, state == State::Approved, "{state:?}: {page}");
    }
    let (code, page) = get(&simulation, ADA, "/access/?state=%3Cscript%3E").await;
    assert!(code == 400 && !page.contains("<script"), "{page}");
    let (_, page) = get(&simulation, APPROVER, "/access/").await;
    assert!(page.contains(ADA), "whoever approves sees it: {page}");
    let (_, page) = get(&simulation, ALAN, "/access/").await;
    assert!(!page.contains(ADA), "others do not: {page}");
    simulation.assert_invariants();
}
