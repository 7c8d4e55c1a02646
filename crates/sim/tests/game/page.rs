//! The pages of collections and their servers, as a browser asks for them.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sojourn_api::game::status::CollectionHealth;
use sojourn_operator::family::{FamilyCaller, ServedFamily as _};
use sojourn_sim::fault::Rates;
use sojourn_sim::game::matchmaker::Wish;
use sojourn_sim::game::simulation::{GameSimulation, NAMESPACE, Setting};
use tower::ServiceExt as _;

use crate::fixture::{
    ARENA, HOUR, MINUTE, SECOND, available, healthy, members, simulation, status, until_server,
};

const FORM: &str = "application/x-www-form-urlencoded";
const LIST: &str = "/game/";
const SHOWN: &str = "/game/collections/play/arena";
const KINDS: [&str; 2] = ["dedicatedgameservercollections", "dedicatedgameservers"];

async fn create(simulation: &GameSimulation, kind: &str, object: Value) {
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
    let resource = ApiResource::from_gvk(&gvk);
    let namespace = object["metadata"]["namespace"].as_str().expect("a namespace").to_owned();
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let api: Api<DynamicObject> =
        Api::namespaced_with(simulation.client.clone(), &namespace, &resource);
    api.create(&PostParams::default(), &object).await.expect("it is made");
}

/// Lets somebody do this with these kinds in a namespace.
async fn allow(
    simulation: &GameSimulation,
    user: &str,
    namespace: &str,
    kinds: &[&str],
    verbs: &[&str],
) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": user, "namespace": namespace});
    let version = format!("{group}/v1");
    let role = json!({
        "apiVersion": version, "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": ["game.sojourn.dev"], "resources": kinds, "verbs": verbs}],
    });
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    create(simulation, "Role", role).await;
    create(simulation, "RoleBinding", binding).await;
}

/// Vera looks on, Carl sees collections alone, and Uma runs the servers.
async fn people(simulation: &GameSimulation) {
    let (read, write) = (["get", "list", "watch"], ["get", "list", "watch", "update", "patch"]);
    allow(simulation, "vera", NAMESPACE, &KINDS, &read).await;
    allow(simulation, "carl", NAMESPACE, &KINDS[..1], &read).await;
    allow(simulation, "uma", NAMESPACE, &KINDS, &write).await;
}

async fn ask(
    simulation: &GameSimulation,
    user: Option<&str>,
    method: Method,
    path: &str,
    form: &str,
) -> (Response<()>, String) {
    let mut request = Request::builder().method(&method).uri(path).header("accept", "text/html");
    if method == Method::POST {
        request = request.header("content-type", FORM);
    }
    let mut request = request.body(Full::new(Bytes::from(form.to_owned()))).expect("a request");
    if let Some(user) = user {
        let caller = FamilyCaller { user: user.to_owned(), ..FamilyCaller::default() };
        request.extensions_mut().insert(caller);
    }
    let pages = simulation.operator.ask(|(served, _)| served.web()?.pages).flatten();
    let pages = axum::Router::new().nest_service(LIST, pages.expect("a replica serves").router);
    let answer = pages.oneshot(request).await.expect("infallible");
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8(bytes.to_vec()).expect("text"))
}

async fn get(simulation: &GameSimulation, user: &str, path: &str) -> (StatusCode, String) {
    let (answer, page) = ask(simulation, Some(user), Method::GET, path, "").await;
    (answer.status(), page)
}

/// Sends a form; the address that it leads to, or what is said.
async fn send(
    simulation: &GameSimulation,
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

fn uid(simulation: &GameSimulation) -> String {
    simulation.checker.lock().collections[ARENA].uid().unwrap_or_default()
}

/// What the button on the page of a collection that tripped sends.
fn acknowledgement(simulation: &GameSimulation) -> String {
    let since = status(simulation).needs_intervention_since.expect("it tripped");
    let since = format!("{:.0}", since.0).replace(':', "%3A");
    format!("uid={}&since={since}", uid(simulation))
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_or_does_what_the_api_does_not_let_them() {
    let simulation = simulation(2, json!({"dgsMaxFailures": 0})).await;
    people(&simulation).await;
    simulation.make_namespace("other").await;
    allow(&simulation, "otto", "other", &KINDS, &["get", "list", "update", "patch"]).await;
    let name = members(&simulation).remove(0);
    let drain = format!("/game/servers/play/{name}/drain");
    for path in [LIST, SHOWN] {
        let (answer, page) = ask(&simulation, None, Method::GET, path, "").await;
        assert_eq!(answer.status(), 401, "{page}");
    }
    for user in ["eve", "otto"] {
        let (code, page) = get(&simulation, user, LIST).await;
        assert!(code == 200 && page.contains("There are none.") && !page.contains(ARENA), "{page}");
        let (_, page) = get(&simulation, user, "/game/?namespace=play").await;
        assert!(page.contains("There are none.") && !page.contains(ARENA), "{page}");
        let (code, there) = get(&simulation, user, SHOWN).await;
        assert_eq!(code, 404, "{there}");
        let (code, absent) = get(&simulation, user, "/game/collections/play/nothing").await;
        assert_eq!((code, absent), (StatusCode::NOT_FOUND, there.replace(ARENA, "nothing")));
    }
    let (_, page) = get(&simulation, "carl", LIST).await;
    assert!(page.contains("arena in play") && !page.contains("<dt>Players"), "{page}");
    let (code, page) = get(&simulation, "carl", SHOWN).await;
    assert!(code == 200 && page.contains("You may not see its servers"), "{page}");
    assert!(!page.contains(&name) && !page.contains("<dt>Players"), "{page}");

    assert!(simulation.crash(&name).await);
    healthy(&simulation, CollectionHealth::NeedsIntervention).await;
    let (form, other) = (acknowledgement(&simulation), members(&simulation).remove(1));
    let seen_by_vera = get(&simulation, "vera", SHOWN).await.1;
    assert!(seen_by_vera.contains(&other) && !seen_by_vera.contains("<button>"), "{seen_by_vera}");
    let acknowledge = format!("{SHOWN}/acknowledge");
    let of_server = format!("uid={}", crate::fixture::uid(&simulation, &other));
    for (user, code) in [("eve", 404), ("otto", 404), ("vera", 403), ("carl", 403)] {
        let refused = send(&simulation, user, &acknowledge, &form).await;
        assert!(matches!(&refused, Err((found, _)) if *found == code), "{user}: {refused:?}");
    }
    let drain = drain.replace(&name, &other);
    for (user, code) in [("eve", 404), ("otto", 404), ("vera", 403), ("carl", 404)] {
        let refused = send(&simulation, user, &drain, &of_server).await;
        assert!(matches!(&refused, Err((found, _)) if *found == code), "{user}: {refused:?}");
    }
    let long = "x".repeat(20_000);
    let refused = send(&simulation, "uma", &acknowledge, &format!("uid={long}&since=1")).await;
    assert!(matches!(refused, Err((400, _))), "{refused:?}");
    simulation.pass(HOUR).await;
    assert_eq!(status(&simulation).acknowledged, None);
    assert!(!crate::fixture::server(&simulation, &other).marked_for_deletion);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn failures_are_acknowledged_in_a_browser_by_whoever_saw_them() {
    let simulation = simulation(2, json!({"dgsMaxFailures": 0})).await;
    people(&simulation).await;
    simulation.make_collection("bowling", 0, json!({})).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.crash(&name).await);
    healthy(&simulation, CollectionHealth::NeedsIntervention).await;
    simulation.pass(SECOND).await;
    let (_, page) = get(&simulation, "vera", LIST).await;
    let [first, second] = ["arena in play", "bowling in play"].map(|title| page.find(title));
    assert!(first.is_some() && first < second, "what needs somebody is first: {page}");
    assert!(page.contains("class=\"tag bad\">NeedsIntervention<"), "{page}");
    let (_, page) = get(&simulation, "vera", "/game/?health=NeedsIntervention").await;
    assert!(page.contains("arena in play") && !page.contains("bowling"), "{page}");
    let (_, page) = get(&simulation, "vera", "/game/?health=Idle&namespace=play").await;
    assert!(page.contains("bowling in play") && !page.contains("arena in play"), "{page}");
    let (code, page) = get(&simulation, "vera", "/game/?health=%3Cscript%3E").await;
    assert!(code == 400 && !page.contains("<script"), "{page}");

    let (_, page) = get(&simulation, "uma", SHOWN).await;
    for words in ["Somebody has to look", "Error: exit code 1", ">I have looked, go on<"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let (acknowledge, form) = (format!("{SHOWN}/acknowledge"), acknowledgement(&simulation));
    let since = form.split("since=").nth(1).expect("it is there");
    let another = format!("uid=another&since={since}");
    let earlier = format!("uid={}&since=2030-01-01T00%3A00%3A00Z", uid(&simulation));
    for stale in [&another, &earlier] {
        let refused = send(&simulation, "uma", &acknowledge, stale).await;
        assert!(matches!(&refused, Err((409, _))), "{refused:?}");
    }
    let refused = send(&simulation, "uma", &acknowledge, "uid=1").await;
    assert!(matches!(&refused, Err((400, _))), "{refused:?}");
    simulation.change_collection(ARENA, json!({"spec": {"dgsMaxFailures": 3}})).await;
    simulation.pass(SECOND).await;
    assert_eq!(send(&simulation, "uma", &acknowledge, &form).await, Ok(SHOWN.to_owned()));
    available(&simulation, 2).await;
    let word = status(&simulation).acknowledged.expect("it is taken up");
    assert!(word.ends_with(" uma"), "{word}");
    simulation.pass(MINUTE).await;
    let twice = send(&simulation, "uma", &acknowledge, &form).await;
    assert!(matches!(&twice, Err((409, _))), "{twice:?}");
    let asked = simulation.events("AcknowledgeRequested").await;
    assert_eq!(asked, [(ARENA.to_owned(), "uma has looked, in a browser.".to_owned())]);
    let (_, page) = get(&simulation, "uma", SHOWN).await;
    assert!(!page.contains("Somebody has to look"), "{page}");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_collection_shows_its_servers_who_is_on_them_and_why_they_cannot_be_given() {
    let simulation = simulation(3, json!({"drainTimeout": "2h"})).await;
    people(&simulation).await;
    let names = members(&simulation);
    let wish = Wish { selectors: vec![], ..Wish::whole("<b>match</b>", ARENA) };
    let given = simulation.allocate(&wish).await.expect("one is free").server;
    let other = names.iter().find(|name| **name != given).expect("another").clone();
    assert!(simulation.come(&other, 3).await);
    simulation.pass(MINUTE / 3).await;
    let (code, page) = get(&simulation, "uma", SHOWN).await;
    assert_eq!(code, 200, "{page}");
    assert!(!page.contains("<b>") && page.contains("&lt;b&gt;match"), "it is text: {page}");
    for words in [
        "the whole server, by",
        "10.1.2.3, node",
        "7777 UDP",
        "3 of 4 seats",
        "1 of 3 servers can be given now",
        "2 occupied, or somebody&#x27;s",
        "<dt>Allocatable</dt><dd>yes</dd>",
        "no: it is occupied, or somebody&#x27;s",
        "Assigned",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    for name in &names {
        assert!(page.contains(&format!("<strong>{name}</strong>")), "{page}");
    }
    let (_, list) = get(&simulation, "uma", LIST).await;
    assert!(list.contains("3, 5 seats are free"), "{list}");

    let drain = format!("/game/servers/play/{other}/drain");
    assert!(page.contains(&format!("action=\"{drain}\"").replace('/', "&#x2f;")), "{page}");
    let stale = send(&simulation, "uma", &drain, "uid=another").await;
    assert!(matches!(&stale, Err((409, _))), "{stale:?}");
    let form = format!("uid={}", crate::fixture::uid(&simulation, &other));
    assert_eq!(send(&simulation, "uma", &drain, &form).await, Ok(SHOWN.to_owned()));
    until_server(&simulation, &other, "a mark", |server| server.marked_for_deletion).await;
    available(&simulation, 3).await;
    assert_eq!(send(&simulation, "uma", &drain, &form).await, Ok(SHOWN.to_owned()), "it is done");
    let (_, page) = get(&simulation, "uma", SHOWN).await;
    for words in ["Marked", "Drains until", "1 marked: they take nobody new"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let button = format!("action=\"{drain}\"").replace('/', "&#x2f;");
    assert!(!page.contains(&button), "it goes already: {page}");
    let asked = simulation.events("DrainRequested").await;
    assert_eq!(asked, [(other.clone(), "uma asked for it, in a browser.".to_owned())]);
    assert!(simulation.leave(&other, 0).await);
    crate::fixture::gone(&simulation, MINUTE, &other).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_api_nothing_is_shown_and_nothing_is_done() {
    let rates = Rates { before: 1000, after: 0, conflict: 0, read: 0, lost: 0 };
    let simulation = GameSimulation::new(Setting { rates, ..Setting::default() }).await;
    simulation.faults.set_enabled(false);
    simulation.make_collection(ARENA, 1, json!({})).await;
    available(&simulation, 1).await;
    people(&simulation).await;
    let name = members(&simulation).remove(0);
    let form = format!("uid={}", crate::fixture::uid(&simulation, &name));
    simulation.faults.set_enabled(true);
    for path in [LIST, SHOWN] {
        let (code, page) = get(&simulation, "uma", path).await;
        assert!(code == 503 && !page.contains(&name), "{page}");
    }
    let refused =
        send(&simulation, "uma", &format!("/game/servers/play/{name}/drain"), &form).await;
    assert!(matches!(&refused, Err((503, _))), "{refused:?}");
    simulation.faults.set_enabled(false);
    simulation.pass(MINUTE).await;
    assert!(!crate::fixture::server(&simulation, &name).marked_for_deletion);
    simulation.assert_invariants();
}
