//! A kube-apiserver that keeps decisions for a while, and shows a token.

use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use reqwest::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::api_server::{Asking, Credential};
use crate::office::{GROUP, NAMESPACE, Office, Session};
use crate::stage::{Engine, Stage};
use crate::wait::within;

const TTL: Duration = Duration::from_secs(5);
/// For what is between the end of a session and the end of what the API server keeps.
const SLACK: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn real_decisions_that_are_kept_end_with_their_time() {
    let asking = Asking { credential: Credential::Token, ttl: TTL };
    let Some(mut stage) = Stage::start(Engine::Real(asking)).await else { return };
    let terms = json!({"maxValidFor": "30m", "idleTimeout": "10m"});
    let office = Office::open(&mut stage, &terms).await;
    let approved = office.approved(GROUP, &[]).await;
    office.until_allowed().await;
    // What the API server answers itself is not seen, so the count is a lower bound here.
    for _ in 0..20 {
        assert!(office.ada.is_allowed().await);
    }
    let dropped = Session(office.ada.gets(&["drop", approved.name()]));
    assert_eq!(dropped.state(), "Expired");
    let since = Instant::now();
    office.until_forbidden().await;
    assert!(since.elapsed() < TTL + SLACK, "{:?}", since.elapsed());
    let ended = office.session(approved.name()).await.expect("it is there");
    assert!((1..=21).contains(&ended.count()), "{ended:#?}");
    only_the_api_server_is_answered(&office).await;
    drop(office);
    stage.stop();
}

/// Uses that the API server answers itself are not seen, and the session lasts long enough all the same.
#[tokio::test(flavor = "multi_thread")]
async fn real_rights_that_nobody_uses_end_where_decisions_are_kept() {
    let asking = Asking { credential: Credential::Certificate, ttl: TTL };
    let Some(mut stage) = Stage::start(Engine::Real(asking)).await else { return };
    let terms = json!({"maxValidFor": "30m", "idleTimeout": "1m"});
    let office = Office::open(&mut stage, &terms).await;
    let approved = office.approved(GROUP, &[]).await;
    let mut uses = office.until_allowed().await;
    let (began, mut last_use) = (Instant::now(), Timestamp::now());
    within(TTL * 6, "it is used for three times as long as a decision is kept", async || {
        last_use = Timestamp::now();
        assert!(office.ada.is_allowed().await, "it is in use");
        uses += 1;
        (began.elapsed() >= TTL * 3).then_some(())
    })
    .await;
    let ended = within(Duration::from_secs(120), "it ended", async || {
        let session = office.session(approved.name()).await?;
        (session.state() != "Approved").then_some(session)
    })
    .await;
    assert_eq!((ended.state(), ended.status("reasonEnded")), ("IdleExpired", "idleTimeout"));
    let kept = SignedDuration::try_from(TTL).expect("a short time");
    let seen = last_use.duration_since(ended.time("lastActivity"));
    assert!(seen <= kept + SignedDuration::from_secs(1), "{seen} before the last one: {ended:#?}");
    let due = ended.time("lastActivity").checked_add(SignedDuration::from_mins(1)).expect("soon");
    assert!(ended.time("idleExpiredAt") >= due, "{ended:#?}");
    assert!((2..=uses).contains(&ended.count()), "{} of {uses}: {ended:#?}", ended.count());
    let since = Instant::now();
    office.until_forbidden().await;
    assert!(since.elapsed() < TTL + SLACK, "{:?}", since.elapsed());
    drop(office);
    stage.stop();
}

/// The webhook tells others nothing.
async fn only_the_api_server_is_answered(office: &Office<'_>) {
    let server = office.stage.api_server.as_ref().expect("it is real");
    let client = client(&server.webhook_authority());
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": office.ada.user, "groups": [GROUP, "system:masters"],
            "resourceAttributes": {
                "namespace": NAMESPACE, "verb": "get", "version": "v1", "resource": "configmaps",
            },
        },
    });
    let post = || client.post(server.authorize_url()).json(&review);
    for request in [post(), post().bearer_auth("nobody"), post().bearer_auth(&office.ada.token)] {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
    let answer = post().bearer_auth(crate::api_server::TOKEN).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = answer.json().await.expect("JSON");
    assert_eq!(answer["status"]["allowed"], false, "groups of a review give nothing: {answer}");
    assert_ne!(answer["status"]["denied"], true, "{answer}");
}

/// A client that trusts one certificate.
fn client(authority: &[u8]) -> Client {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority).expect("a certificate");
    roots.add(authority).expect("an authority");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().build().expect("a client")
}
