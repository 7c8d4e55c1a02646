//! What people ask of the listener for people, and who is not heard there.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::office::{GROUP, NAMESPACE, Office, Session};
use crate::people::{Person, good};
use crate::stage::{Engine, Stage};

/// A client that is no browser and trusts nobody.
fn client() -> Client {
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .expect("a client")
}

/// The status of an answer, and what is in it.
async fn sent(request: RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let bytes = answer.bytes().await.expect("a whole answer");
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn asked() -> Value {
    json!({"namespace": NAMESPACE, "cluster": "local", "group": GROUP})
}

// case: access 29, 30, 32, 35, 36, 40, 49
#[tokio::test(flavor = "multi_thread")]
async fn embedded_requests_are_answered_as_the_escalation_says() {
    let Some(mut stage) = Stage::start(Engine::Embedded).await else { return };
    let office =
        Office::open(&mut stage, &json!({"maxValidFor": "1h", "requireReason": true})).await;
    let Office { ada, ben, eve, .. } = &office;
    let url = format!("{}/api/access/sessions", office.stage.web_url());
    let post = || client().post(&url).json(&asked());

    // Nobody is heard who is not known.
    assert_eq!(sent(post()).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(sent(post().bearer_auth("nobody")).await.0, StatusCode::UNAUTHORIZED);
    let act = format!("{url}/{NAMESPACE}/any/approve");
    assert_eq!(sent(client().post(&act)).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(sent(client().get(&url)).await.0, StatusCode::UNAUTHORIZED);

    // What is not offered, and what lacks a reason.
    let (status, body) = sent(post().bearer_auth(&eve.token)).await;
    assert_eq!((status, &body["code"]), (StatusCode::FORBIDDEN, &json!(403)), "{body}");
    let (status, body) = sent(post().bearer_auth(&ada.token)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    let said = ada.is_refused(&["request", "--group", GROUP, "--reason", "  "]);
    assert!(said.contains("a reason is required"), "{said}");
    let said = eve.is_refused(&["request", "--group", GROUP, "--reason", "so"]);
    assert!(said.contains("no escalation offers the group"), "{said}");

    // One at a time, and another when that is over.
    let first = office.requested(GROUP, &["--reason", "so"]).await;
    let again = json!({"namespace": NAMESPACE, "cluster": "local", "group": GROUP, "reason": "so"});
    let again = client().post(&url).bearer_auth(&ada.token).json(&again);
    let (status, body) = sent(again).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    let said = ada.is_refused(&["request", "--group", GROUP, "--reason", "so"]);
    assert!(said.contains(first.name()), "{said}");
    let dropped = Session(ada.gets(&["drop", first.name()]));
    assert_eq!(dropped.state(), "Withdrawn");
    let start = Timestamp::now().checked_add(SignedDuration::from_mins(10)).expect("in range");
    let start = format!("{start:.0}");
    let second = office.requested(GROUP, &["--reason", "so", "--at", &start, "--for", "30m"]).await;
    assert_ne!(second.name(), first.name());

    // What begins at a time gives nothing before.
    let waiting = Session(ben.gets(&["approve", second.name()]));
    assert_eq!(waiting.state(), "WaitingForScheduledTime", "{waiting:#?}");
    let begins = waiting.0["spec"]["scheduledStartTime"].as_str().expect("a time");
    assert_eq!(begins, start);
    let begins: Timestamp = begins.parse().expect("a time");
    assert_eq!(waiting.time("expiresAt").duration_since(begins).as_secs(), 30 * 60);
    assert!(!ada.is_allowed().await);
    let dropped = Session(ada.gets(&["drop", second.name()]));
    assert_eq!((dropped.state(), dropped.status("approvedAt").is_empty()), ("Expired", false));
    assert_eq!(dropped.0["status"]["approvals"][0]["user"], ben.user.as_str());
    let third = office.approved(GROUP, &["--reason", "so"]).await;
    assert_eq!(Session(ada.gets(&["drop", third.name()])).state(), "Expired");
    let again = format!("{url}/{NAMESPACE}/{}/drop", third.name());
    let (status, body) = sent(client().post(&again).bearer_auth(&ada.token)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");

    usage_is_told(ada);
    drop(office);
    stage.stop();
}

/// What cannot be meant is refused before anybody is asked.
fn usage_is_told(ada: &Person) {
    for (words, said) in [
        (&["request", "--group", GROUP, "--for", "soon"][..], "soon"),
        (&["request", "--group", GROUP, "--at", "noon"], "\"noon\" is no time"),
        (&["sessions", "--state", "Gone"], "the states are Pending, "),
        (&["drop", "bge/ops"], "write NAME or bgs/NAME"),
        (&["extend", "bgs/a", "--by", "1h"], "is said by its escalation"),
    ] {
        let ended = ada.asks(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    let missing = ada.is_refused(&["drop", "nothing-of-this-name"]);
    assert!(missing.contains("cannot drop nothing-of-this-name"), "{missing}");
    let mut nowhere = crate::process::command(&["sessions", "--web", "http://127.0.0.1:9"]);
    nowhere.arg("--kubeconfig").arg(ada.kubeconfig());
    assert_eq!(crate::process::Running::start(nowhere).ended().code, Some(3));
}

/// A browser's cookie acts from our own pages alone.
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_page_of_another_site_cannot_ask_for_anything() {
    let Some(mut stage) = Stage::start(Engine::Embedded).await else { return };
    let office = Office::open(&mut stage, &json!({"maxValidFor": "1h"})).await;
    let link = good(office.ada.asks(&["open"])).trim().to_owned();
    let origin = office.stage.web_url();
    let signed = client().post(&link).header("Origin", &origin).send().await.expect("an answer");
    let cookie = signed.headers().get("Set-Cookie").expect("a session").to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    let url = format!("{origin}/api/access/sessions");
    let post = || client().post(&url).header("Cookie", &cookie).json(&asked());
    for (name, value, status) in [
        ("Origin", "http://evil.test", StatusCode::FORBIDDEN),
        ("Origin", "null", StatusCode::FORBIDDEN),
        ("Sec-Fetch-Site", "cross-site", StatusCode::FORBIDDEN),
        ("Sec-Fetch-Site", "same-site", StatusCode::FORBIDDEN),
        // It says nothing of itself: a program, for which the cookie proves nothing.
        ("Accept", "application/json", StatusCode::UNAUTHORIZED),
    ] {
        let (found, body) = sent(post().header(name, value)).await;
        assert_eq!(found, status, "{name}: {value}: {body}");
    }
    let listed = office.ada.gets(&["sessions"]);
    assert_eq!(listed, json!([]), "nothing was asked for");
    let (status, made) = sent(post().header("Origin", &origin)).await;
    assert_eq!((status, &made["spec"]["user"]), (StatusCode::CREATED, &json!(office.ada.user)));
    drop(office);
    stage.stop();
}
