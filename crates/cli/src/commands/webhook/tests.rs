use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use sojourn_operator::clock::VirtualClock;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

const REGISTRATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/admission.sojourn.dev";
const SECRET: &str = "/api/v1/namespaces/sojourn-system/secrets/sojourn-webhook-fd00-0-0-0-0-0-0-7";

/// An API that keeps what is written, by its path.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Value>>>);

impl Kept {
    fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().expect("no panic inside").get(path).cloned()
    }

    fn remove(&self, path: &str) {
        self.0.lock().expect("no panic inside").remove(path).expect("it is there");
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.0.lock().expect("no panic inside").get_mut(path).expect("it is there"));
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut kept = self.0.lock().expect("no panic inside");
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let path = if *method == Method::POST { format!("{path}/{name}") } else { path.to_owned() };
        match (method.as_str(), kept.get(&path)) {
            ("GET", Some(there)) => (200, there.clone()),
            ("GET", None) => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
            ("POST", Some(_)) => {
                (409, json!({"kind": "Status", "reason": "AlreadyExists", "code": 409}))
            }
            _ => {
                kept.insert(path, body.clone());
                (200, body)
            }
        }
    }

    fn client(&self) -> Client {
        let kept = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let kept = kept.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (status, answer) = kept.answer(&head.method, head.uri.path(), body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(answer).expect("one"))
            }
        });
        Client::new(service, "default")
    }
}

async fn controller(kept: &Kept) -> RegistrationController {
    // So that the certificate, and the one after it, are good by the clock of the machine.
    let begin =
        Timestamp::now().checked_sub(SignedDuration::from_hours(300 * 24)).expect("in range");
    let clock = Arc::new(VirtualClock::starting_at(begin));
    let client = kept.client();
    let host = Host::parse("[fd00::7]");
    let store = Store::new(client.clone(), &host);
    let pair = store.load_or_make(clock.as_ref()).await.expect("a certificate");
    let resolver = Arc::new(CertificateResolver::new(&pair).expect("a usable one"));
    let target = Target::Url("https://[fd00::7]:9443".to_owned());
    let controller = RegistrationController { client, target, store, resolver, clock, pair };
    controller.register().await.expect("registered");
    controller
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_deleted_or_weakened_is_restored() {
    let kept = Kept::default();
    let mut controller = controller(&kept).await;
    let registered = kept.get(REGISTRATION).expect("it is registered");
    let mut corrected = None;
    kept.remove(REGISTRATION);
    controller.reconcile(&mut corrected).await.expect("settled");
    assert_eq!(kept.get(REGISTRATION), Some(registered.clone()));

    let weaken = |registration: &mut Value| {
        registration["webhooks"][1]["failurePolicy"] = json!("Ignore");
    };
    kept.change(REGISTRATION, weaken);
    controller.reconcile(&mut corrected).await.expect("settled");
    assert_eq!(kept.get(REGISTRATION), Some(registered.clone()));
    kept.change(REGISTRATION, weaken);
    let pause = controller.reconcile(&mut corrected).await.expect("settled");
    assert_ne!(kept.get(REGISTRATION), Some(registered.clone()), "there is no fight");
    tokio::time::advance(pause).await;
    controller.reconcile(&mut corrected).await.expect("settled");
    assert_eq!(kept.get(REGISTRATION), Some(registered.clone()));

    // Another replica is reached elsewhere.
    let elsewhere = |registration: &mut Value| {
        registration["webhooks"][0]["clientConfig"]["url"] = json!("https://elsewhere/admit");
    };
    kept.change(REGISTRATION, elsewhere);
    controller.reconcile(&mut corrected).await.expect("settled");
    assert_ne!(kept.get(REGISTRATION), Some(registered), "that is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_survives_its_secret() {
    let kept = Kept::default();
    let mut controller = controller(&kept).await;
    let secret = kept.get(SECRET).expect("it is kept");
    kept.remove(SECRET);
    controller.reconcile(&mut None).await.expect("settled");
    assert_eq!(kept.get(SECRET), Some(secret), "the same one");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_before_its_end_and_both_are_believed_meanwhile() {
    let kept = Kept::default();
    let (mut first, mut second) = (controller(&kept).await, controller(&kept).await);
    let before = first.pair.clone();
    assert_eq!(second.pair, before, "replicas share it");
    tokio::time::advance(Duration::from_secs(200 * 24 * 3600)).await;
    first.reconcile(&mut None).await.expect("settled");
    assert_eq!(first.pair, before, "not yet");
    tokio::time::advance(Duration::from_secs(50 * 24 * 3600)).await;
    first.reconcile(&mut None).await.expect("settled");
    assert_ne!(first.pair.certificate, before.certificate);
    let bundle =
        kept.get(REGISTRATION).expect("registered")["webhooks"][0]["clientConfig"]["caBundle"]
            .clone();
    let bundle = base64::engine::general_purpose::STANDARD
        .decode(bundle.as_str().expect("a text"))
        .expect("base64");
    let bundle = String::from_utf8(bundle).expect("PEM");
    assert!(bundle.contains(&before.certificate) && bundle.contains(&first.pair.certificate));
    let authorities = first.pair.authorities.clone();
    assert!(shakes_hands(&first.resolver, &authorities, "fd00::7").await);
    assert!(
        shakes_hands(&second.resolver, &authorities, "fd00::7").await,
        "the old one is shown still"
    );
    second.reconcile(&mut None).await.expect("settled");
    assert_eq!(second.pair, first.pair, "the other replica takes it up");
    assert!(!shakes_hands(&second.resolver, &before.certificate, "fd00::7").await);
}

/// Whether somebody who believes these authorities is served under that name.
async fn shakes_hands(
    resolver: &Arc<CertificateResolver>,
    authorities: &str,
    name: &'static str,
) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(one.expect("a certificate")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = web::tls_by(resolver.clone(), None).expect("a configuration");
    let (here, there) = tokio::io::duplex(1 << 16);
    let accepting = TlsAcceptor::from(server).accept(there);
    let name = ServerName::try_from(name).expect("a name");
    let connecting = TlsConnector::from(Arc::new(client)).connect(name, here);
    let (accepted, connected) = tokio::join!(accepting, connecting);
    accepted.is_ok() && connected.is_ok()
}

#[tokio::test]
async fn whoever_is_named_by_a_name_or_an_address_has_a_certificate_for_it() {
    for (host, name) in
        [("hooks.example.org", "hooks.example.org"), ("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")]
    {
        let kept = Kept::default();
        let store = Store::new(kept.client(), &Host::parse(host));
        let clock = VirtualClock::starting_at(Timestamp::now());
        let pair = store.load_or_make(&clock).await.expect("a certificate");
        let resolver = Arc::new(CertificateResolver::new(&pair).expect("a usable one"));
        assert!(shakes_hands(&resolver, &pair.authorities, name).await, "{host}");
        assert!(!shakes_hands(&resolver, &pair.authorities, "elsewhere.example").await, "{host}");
    }
}

#[test]
fn urls_name_hosts_and_services_have_names() {
    for (url, host) in [
        ("https://example.org", Some("example.org")),
        ("https://example.org:9443/x", Some("example.org")),
        ("https://[::1]:9443", Some("[::1]")),
        ("https://[fd00::7]/", Some("[fd00::7]")),
        ("https://[::1", None),
        ("https://", None),
        ("http://example.org", None),
    ] {
        assert_eq!(host_of(url), host, "{url}");
    }
    assert_eq!(Host::parse("[fe80::]").as_label(), "fe80-0-0-0-0-0-0-0");
    assert_eq!(Host::parse("Example.ORG").as_label(), "example.org");
    assert_eq!(Host::parse("192.0.2.1").as_label(), "192.0.2.1");
    let owned =
        |namespace: &str, name: &str, port| Some((namespace.to_owned(), name.to_owned(), port));
    for (text, service) in [
        ("sojourn-system/hooks", owned("sojourn-system", "hooks", 443)),
        ("sojourn-system/hooks:8443", owned("sojourn-system", "hooks", 8443)),
        ("hooks", None),
        ("a/b:c", None),
        ("a/", None),
        ("a/b/c", None),
    ] {
        assert_eq!(service_of(text), service, "{text}");
    }
}
