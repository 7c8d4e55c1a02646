use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1 as client;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::*;
use crate::folder::PodFolder;

/// Nothing here takes long; what does not come is missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, user: &str, group: &str, usage: ExtendedKeyUsagePurpose) -> Certified {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        if !group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![usage];
        let certificate_pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { certificate_pem, key_pem: key.serialize_pem() }
    }

    fn client(&self, user: &str, group: &str) -> Certified {
        self.issue(user, group, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn server(&self) -> Certified {
        self.issue("system:node:n1", "system:nodes", ExtendedKeyUsagePurpose::ServerAuth)
    }
}

/// Pods from a table; each has its runs.
#[derive(Default)]
struct Table(Mutex<BTreeMap<(String, String, String), Runs>>);

impl Pods for Table {
    fn find(&self, namespace: &str, pod: &str, container: &str) -> LogLookup {
        let table = self.0.lock().unwrap();
        let of_pod = |key: &&(String, String, String)| key.0 == namespace && key.1 == pod;
        if !table.keys().any(|key| of_pod(&key)) {
            return LogLookup::NoPod;
        }
        match table.get(&(namespace.to_owned(), pod.to_owned(), container.to_owned())) {
            Some(runs) => LogLookup::Container(runs.clone()),
            None => LogLookup::NoContainer,
        }
    }
}

struct Fixture {
    authority: Authority,
    server: Server,
    pods: Arc<Table>,
    folder: PodFolder,
    ended: watch::Sender<bool>,
}

impl Fixture {
    /// A server whose Pod `ns/p` has a container `web` in its third run.
    async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-server-{}-{number}", std::process::id());
        let folder = PodFolder::new(std::env::temp_dir().join(name));
        fs::create_dir_all(folder.logs("web")).unwrap();
        let authority = Authority::new();
        let pods = Arc::<Table>::default();
        let settings = Settings {
            address: ([127, 0, 0, 1], 0).into(),
            certified: authority.server(),
            client_authority_pem: authority.pem.clone(),
            allowed: Allowed::default(),
        };
        let server = Server::start(settings, pods.clone()).await.unwrap();
        let ended = watch::Sender::new(false);
        let fixture = Self { authority, server, pods, folder, ended };
        let current = CurrentRun { attempt: 2, ended: fixture.ended.subscribe() };
        fixture.add("web", Some(current), Some(1), None);
        fixture
    }

    fn add(
        &self,
        container: &str,
        current: Option<CurrentRun>,
        previous: Option<u32>,
        waiting: Option<&str>,
    ) {
        let folder = self.folder.clone();
        let waiting = waiting.map(str::to_owned);
        let runs = Runs { folder, current, previous, waiting };
        let key = ("ns".to_owned(), "p".to_owned(), container.to_owned());
        self.pods.0.lock().unwrap().insert(key, runs);
    }

    fn write(&self, attempt: u32, text: &str) {
        use std::io::Write as _;
        let path = self.folder.log("web", attempt);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "2026-01-02T03:04:05.000000000Z stdout F {text}").unwrap();
    }

    fn api_server(&self) -> Certified {
        self.authority.client("kube-apiserver-kubelet-client", "")
    }

    async fn get(&self, as_user: Option<&Certified>, path: &str) -> Result<Answer, String> {
        self.send(as_user, Request::get(path)).await
    }

    async fn send(
        &self,
        as_user: Option<&Certified>,
        request: http::request::Builder,
    ) -> Result<Answer, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match as_user {
            None => builder.with_no_client_auth(),
            Some(user) => {
                let chain = CertificateDer::from_pem_slice(user.certificate_pem.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(user.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain.unwrap()], key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = request.header("Host", "node").body(Empty::<Bytes>::new()).unwrap();
        let response =
            timeout(ANSWER_TIMEOUT, sender.send_request(request)).await.expect("no answer");
        let (parts, body) = response.map_err(|error| error.to_string())?.into_parts();
        Ok(Answer { status: parts.status, body, _sender: sender })
    }

    async fn text(&self, path: &str) -> (u16, String) {
        self.get(Some(&self.api_server()), path).await.unwrap().text().await
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.folder.path()));
    }
}

struct Answer {
    status: StatusCode,
    body: Incoming,
    _sender: client::SendRequest<Empty<Bytes>>,
}

impl Answer {
    async fn text(self) -> (u16, String) {
        let body = timeout(ANSWER_TIMEOUT, self.body.collect()).await.expect("no end").unwrap();
        (self.status.as_u16(), String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    async fn next(&mut self) -> Option<String> {
        let frame = timeout(ANSWER_TIMEOUT, self.body.frame()).await.expect("nothing comes")?;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    }
}

#[tokio::test]
async fn only_the_api_server_is_answered() {
    let fixture = Fixture::new().await;
    fixture.write(2, "secret");
    let own = &fixture.authority;
    let path = "/containerLogs/ns/p/web";
    let answered =
        [own.client("kube-apiserver-kubelet-client", ""), own.client("anybody", "system:masters")];
    for client in &answered {
        let answer = fixture.get(Some(client), path).await.unwrap();
        assert_eq!(answer.text().await, (200, "secret\n".to_owned()));
    }
    let forbidden = [
        own.client("system:node:n2", "system:nodes"),
        own.client("system:masters", "kube-apiserver-kubelet-client"),
        own.client("kube-apiserver-kubelet-client2", ""),
    ];
    for client in &forbidden {
        for path in [path, "/healthz", "/other"] {
            let answer = fixture.get(Some(client), path).await.unwrap();
            assert_eq!(answer.status, StatusCode::FORBIDDEN);
            assert!(!answer.text().await.1.contains("secret"));
        }
    }
    let refused = [
        None,
        Some(Authority::new().client("kube-apiserver-kubelet-client", "system:masters")),
        // Not for this purpose, though of our own authority.
        Some(own.server()),
    ];
    for client in &refused {
        let refused = fixture.get(client.as_ref(), "/healthz").await;
        assert!(refused.is_err(), "{client:?}");
    }
    // It names nobody.
    let nobody = own.client("", "system:masters");
    assert!(fixture.get(Some(&nobody), "/healthz").await.is_err());
}

#[tokio::test]
async fn answers_are_those_of_a_kubelet() {
    let fixture = Fixture::new().await;
    fixture.write(1, "before");
    fixture.write(2, "a");
    fixture.write(2, "b");
    let ended = watch::Sender::new(true).subscribe();
    fixture.add("new", None, None, Some("ContainerCreating"));
    fixture.add("none", None, None, None);
    fixture.add("quiet", Some(CurrentRun { attempt: 0, ended }), Some(7), None);
    let cases = [
        ("/healthz", 200, "ok"),
        ("/containerLogs/ns/p/web", 200, "a\nb\n"),
        ("/containerLogs/ns/p/web?tailLines=1", 200, "b\n"),
        ("/containerLogs/ns/p/web?limitBytes=3", 200, "a\nb"),
        ("/containerLogs/ns/p/web?tailLines=1&timestamps=true", 200, {
            "2026-01-02T03:04:05.000000000Z b\n"
        }),
        ("/containerLogs/ns/p/web?previous=true", 200, "before\n"),
        ("/containerLogs/ns/p/web?previous=true&follow=true", 200, "before\n"),
        ("/containerLogs/ns/p/web?stream=Stderr", 200, ""),
        ("/containerLogs/ns/p/web?sinceTime=2026-01-02T03%3A04%3A06Z", 200, ""),
        ("/containerLogs/ns/p/quiet", 200, ""),
        ("/containerLogs/ns/p/quiet?previous=true", 400, {
            "previous terminated container \"quiet\" in pod \"p\" not found"
        }),
        ("/containerLogs/ns/p/new", 400, {
            "container \"new\" in pod \"p\" is waiting to start: ContainerCreating"
        }),
        ("/containerLogs/ns/p/none", 400, {
            "container \"none\" in pod \"p\" is waiting to start - no logs yet"
        }),
        ("/containerLogs/ns/p/new?previous=true", 400, {
            "previous terminated container \"new\" in pod \"p\" not found"
        }),
        ("/containerLogs/ns/q/web", 404, "pod \"q\" does not exist"),
        ("/containerLogs/other/p/web", 404, "pod \"p\" does not exist"),
        ("/containerLogs/ns/p/x", 404, "container \"x\" not found in pod \"p\""),
        ("/containerLogs/ns/p/..", 404, "container \"..\" not found in pod \"p\""),
        ("/containerLogs/ns/p/web?tailLines=-1", 422, r#"{"message": "Invalid request."}"#),
        ("/containerLogs/ns/p/web?tailLines=x", 400, r#"{"message": "Unable to decode query."}"#),
        ("/containerLogs/ns/p", 404, "404 page not found"),
        ("/containerLogs/ns/p/web/more", 404, "404 page not found"),
        ("/containerLogs/ns/p/web/more/and/more", 404, "404 page not found"),
        ("/run/ns/p/web", 404, "404 page not found"),
        ("/", 404, "404 page not found"),
        ("/healthz/x", 404, "404 page not found"),
    ];
    for (path, status, text) in cases {
        assert_eq!(fixture.text(path).await, (status, text.to_owned()), "{path}");
    }
    let api_server = fixture.api_server();
    let post = fixture.send(Some(&api_server), Request::post("/containerLogs/ns/p/web")).await;
    assert_eq!(post.unwrap().status, StatusCode::METHOD_NOT_ALLOWED);
    let long = format!("/containerLogs/ns/p/{}", "x".repeat(MAX_HEAD_BYTES));
    let long = fixture.get(Some(&api_server), &long).await;
    assert!(long.is_err() || long.is_ok_and(|answer| answer.status.is_client_error()));
}

#[tokio::test]
async fn logs_are_followed_to_the_end() {
    let fixture = Fixture::new().await;
    let path = "/containerLogs/ns/p/web?follow=true";
    let mut answer = fixture.get(Some(&fixture.api_server()), path).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    fixture.write(2, "a");
    assert_eq!(answer.next().await.as_deref(), Some("a\n"));
    fixture.write(2, "b");
    assert_eq!(answer.next().await.as_deref(), Some("b\n"));
    fixture.ended.send_replace(true);
    assert_eq!(answer.next().await, None);
}

#[tokio::test]
async fn a_follower_that_leaves_is_forgotten() {
    let fixture = Fixture::new().await;
    let before = fixture.ended.receiver_count();
    let path = "/containerLogs/ns/p/web?follow=true";
    let mut answer = fixture.get(Some(&fixture.api_server()), path).await.unwrap();
    fixture.write(2, "a");
    assert_eq!(answer.next().await.as_deref(), Some("a\n"));
    assert_eq!(fixture.ended.receiver_count(), before + 1);
    drop(answer);
    fixture.pods.0.lock().unwrap().clear();
    timeout(ANSWER_TIMEOUT, fixture.ended.closed()).await.expect("somebody still follows");
}

#[tokio::test]
async fn followers_are_counted() {
    let fixture = Fixture::new().await;
    fixture.write(2, "a");
    let certificate = fixture.api_server().certificate_pem;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let peer = Peer::of(&certificate).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let folders = Folders::new().unwrap();
    let service = Service::new(fixture.pods.clone(), folders, Allowed::default(), stopped);
    let ask = async |query: &str| {
        let request = Request::get(format!("/containerLogs/ns/p/web?{query}")).body(()).unwrap();
        service.answer(&peer, &request).await
    };
    let mut followers = Vec::new();
    for _ in 0..answer::MAX_FOLLOWERS {
        followers.push(ask("follow=true").await);
    }
    assert!(followers.iter().all(|response| response.status() == StatusCode::OK));
    assert_eq!(ask("follow=true").await.status(), StatusCode::TOO_MANY_REQUESTS);
    // Others are still answered, and every one that leaves makes room.
    assert_eq!(ask("").await.status(), StatusCode::OK);
    followers.pop();
    let mut last = ask("follow=true").await;
    assert_eq!(last.status(), StatusCode::OK);
    let first = last.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "a\n");
    drop(followers);
    fixture.write(2, "b");
    let second = timeout(ANSWER_TIMEOUT, last.body_mut().frame()).await.expect("nothing comes");
    assert_eq!(second.unwrap().unwrap().into_data().unwrap(), "b\n");
}

#[tokio::test]
async fn stopping_ends_followers() {
    let mut fixture = Fixture::new().await;
    fixture.write(2, "a");
    let path = "/containerLogs/ns/p/web?follow=true";
    let api_server = fixture.api_server();
    let mut answer = fixture.get(Some(&api_server), path).await.unwrap();
    assert_eq!(answer.next().await.as_deref(), Some("a\n"));
    // Somebody who never says a word.
    let mut silent = TcpStream::connect(fixture.server.address()).await.unwrap();
    let other = Fixture::new().await;
    let address = fixture.server.address();
    let server = std::mem::replace(&mut fixture.server, {
        let settings = Settings {
            address: ([127, 0, 0, 1], 0).into(),
            certified: other.authority.server(),
            client_authority_pem: other.authority.pem.clone(),
            allowed: Allowed::default(),
        };
        Server::start(settings, other.pods.clone()).await.unwrap()
    });
    timeout(ANSWER_TIMEOUT, server.stop()).await.expect("it does not stop");
    assert_eq!(answer.next().await, None);
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn certificates_are_replaced_while_serving() {
    let fixture = Fixture::new().await;
    let api_server = fixture.api_server();
    fixture.server.certify(&fixture.authority.server()).unwrap();
    assert!(fixture.get(Some(&api_server), "/healthz").await.is_ok());
    let mismatched =
        Certified { key_pem: api_server.key_pem.clone(), ..fixture.authority.server() };
    assert!(fixture.server.certify(&mismatched).is_err());
    let none = Certified { certificate_pem: String::new(), ..fixture.authority.server() };
    assert!(fixture.server.certify(&none).is_err());
    assert!(fixture.get(Some(&api_server), "/healthz").await.is_ok());
    // The client would notice: it trusts another authority.
    fixture.server.certify(&Authority::new().server()).unwrap();
    assert!(fixture.get(Some(&api_server), "/healthz").await.is_err());
}

#[tokio::test]
async fn what_cannot_be_served_says_why() {
    let authority = Authority::new();
    let settings = Settings {
        address: ([127, 0, 0, 1], 0).into(),
        certified: authority.server(),
        client_authority_pem: authority.pem.clone(),
        allowed: Allowed::default(),
    };
    let start = async |settings| {
        let started = Server::start(settings, Arc::<Table>::default()).await;
        started.err().map(|error| error.to_string())
    };
    let bad = Settings { client_authority_pem: "none".to_owned(), ..settings.clone() };
    assert!(start(bad).await.unwrap().starts_with("cannot read the authority of clients"));
    let certified = Certified { key_pem: "none".to_owned(), ..settings.certified.clone() };
    let bad = Settings { certified, ..settings.clone() };
    assert!(start(bad).await.unwrap().starts_with("cannot read the key"));
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let bad = Settings { address, ..settings.clone() };
    assert!(start(bad).await.unwrap().starts_with(&format!("cannot listen on {address}")));
    assert!(!format!("{settings:?}").contains("PRIVATE"));
}
