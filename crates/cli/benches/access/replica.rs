//! The process that is measured: what every replica has of the family, and answers reviews.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::{Method, Request};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sojourn_drivers::dial::Direct;
use sojourn_operator::access::ServedAccess;
use sojourn_operator::access::authorizer::{AccessAuthorizer, Answer};
use sojourn_operator::clock::SystemClock;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::driver::SystemDriverFactory;
use sojourn_operator::family::{ProgramPath, ServedFamily, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::GameSetup;
use sojourn_operator::group::Providers;
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::{Attributes, User};
use sojourn_web::Listener;
use tokio::signal::unix::{SignalKind, signal};
use tower::service_fn;

use super::affinity;
use super::api::{OPERATOR_TOKEN, STEADY};
use super::plan::Plan;
use super::review::{namespace_of, user_of};
use crate::number::count;
use crate::processor::thread_time;

/// What the command line says in front of what [`run`] is told.
pub(crate) const WORD: &str = "replica";
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
/// Where it says how it is reached, once it answers.
pub(crate) const READY: &str = "ready";
const CLUSTER: &str = "local";
/// From one session to the next: never to a neighbour.
const STRIDE: usize = 7_919;

/// How the replica is reached.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) webhook: SocketAddr,
    /// Tells what it counted; not part of what is measured.
    pub(crate) control: SocketAddr,
}

/// Requests that the replica sent to the API.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Requests {
    /// Writes of the use of sessions.
    pub(crate) uses: u64,
    /// Those of them about sessions that are used steadily.
    pub(crate) steady: u64,
    /// Everything else.
    pub(crate) others: u64,
}

#[derive(Debug, Default)]
struct RequestCounts {
    uses: AtomicU64,
    steady: AtomicU64,
    others: AtomicU64,
}

/// Nanoseconds of processor time of one decision, without any network.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Costs {
    pub(crate) stranger: f64,
    pub(crate) refused: f64,
    /// Allowed, and not a use.
    pub(crate) allowed: f64,
    pub(crate) used: f64,
}

/// Runs a replica until it is asked to stop.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [url, folder, processor, sessions, decisions] = arguments else {
        bail!("a replica is told the API, a folder, a processor and two numbers");
    };
    affinity::pin(processor.parse()?)?;
    let plan = Plan { sessions: sessions.parse()?, decisions: decisions.parse()?, ..Plan::FULL };
    // As in the binary: as many threads as there are processors for it.
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(url, &PathBuf::from(folder), plan))
}

async fn serve(url: &str, folder: &Path, plan: Plan) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let counts = Arc::new(RequestCounts::default());
    let client = counting(url, &counts)?;
    let mut tasks = Tasks::default();
    let setup = Setup {
        clock: Arc::new(SystemClock),
        watching: WatchSettings::default(),
        driver_factory: Arc::new(SystemDriverFactory { dial: Arc::new(Direct) }),
        web: WebService::default(),
        game: GameSetup::default(),
        own_program: ProgramPath("sojourn".to_owned()),
        limits: Limits::default(),
        metrics: Metrics::default(),
        providers: Providers::default(),
        actuators: Actuators::default(),
        replica: None,
    };
    let served = ServedAccess::start(client, setup, &mut tasks).await?;
    let webhook = ServedFamily::authorizer(&served).context("nobody answers reviews")?.webhook;
    let own = |tls| Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), tls);
    let webhook_listener = own(Some(tls(folder)?)).await?;
    let control_listener = own(None).await?;
    let addresses =
        Addresses { webhook: webhook_listener.address(), control: control_listener.address() };
    let control = Control { counts, authorizer: ServedAccess::authorizer(&served).clone(), plan };
    let serving = (webhook_listener.serve(webhook), control_listener.serve(control.router()));
    // Whoever waits for the file finds all of it.
    let unfinished = folder.join("unfinished");
    std::fs::write(&unfinished, serde_json::to_string(&addresses)?)?;
    std::fs::rename(&unfinished, folder.join(READY))?;
    terminate.recv().await;
    serving.0.stop().await;
    serving.1.stop().await;
    served.finish().await;
    tasks.stop().await;
    Ok(())
}

/// A client that counts what it sends.
fn counting(url: &str, counts: &Arc<RequestCounts>) -> Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.auth_info =
        AuthInfo { token: Some(OPERATOR_TOKEN.to_owned().into()), ..AuthInfo::default() };
    let inner = Client::try_from(config)?;
    let counts = counts.clone();
    let service = service_fn(move |request: Request<Body>| {
        counts.count(&request);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Ok(Client::new(service, "default"))
}

impl RequestCounts {
    fn count(&self, request: &Request<Body>) {
        let query = request.uri().query().unwrap_or_default();
        // It is opened anew by itself, and no decision waits for it.
        if query.split('&').any(|pair| pair == "watch=true") {
            return;
        }
        let path = request.uri().path();
        let is_use = request.method() == Method::PATCH
            && path.contains("/breakglasssessions/")
            && path.ends_with("/status");
        let counter = if is_use { &self.uses } else { &self.others };
        counter.fetch_add(1, Ordering::Relaxed);
        if is_use && path.contains(&format!("/{STEADY}-")) {
            self.steady.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Requests {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Requests { uses: of(&self.uses), steady: of(&self.steady), others: of(&self.others) }
    }
}

/// TLS as the binary has it.
fn tls(folder: &Path) -> Result<Arc<ServerConfig>> {
    let certificate = CertificateDer::from_pem_file(folder.join(CERTIFICATE))?;
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug, Clone)]
struct Control {
    counts: Arc<RequestCounts>,
    authorizer: AccessAuthorizer,
    plan: Plan,
}

impl Control {
    fn router(self) -> Router {
        Router::new()
            .route("/requests", get(async |State(this): State<Self>| Json(this.counts.read())))
            .route(
                "/costs",
                get(async |State(this): State<Self>| {
                    this.costs().map(Json).map_err(|error| format!("{error:#}"))
                }),
            )
            .with_state(self)
    }

    /// Decides again and again, about one session after the other.
    fn costs(&self) -> Result<Costs> {
        let authorizer = &self.authorizer;
        let request = |answer: Asking, user: &User, verb: &str, resource: &str, session: usize| {
            let namespace = namespace_of(session);
            let attributes = Attributes {
                namespace: &namespace,
                ..Attributes::on_resource(user, verb, "", resource)
            };
            answer(authorizer, &attributes)
        };
        let stranger = self.timed(|session| {
            let user = named(format!("worker-{session}"));
            !is_allowed(&request(authorize, &user, "get", "pods", session))
        })?;
        let refused = self.timed(|session| {
            let user = named(user_of(session));
            !is_allowed(&request(authorize, &user, "delete", "secrets", session))
        })?;
        let allowed = self.timed(|session| {
            let user = named(user_of(session));
            is_allowed(&request(self_review, &user, "get", "pods", session))
        })?;
        let used = self.timed(|session| {
            let user = named(user_of(session));
            is_allowed(&request(authorize, &user, "get", "pods", session))
        })?;
        // What it takes to make the request is not part of a decision.
        let made = self.timed(|session| !named(user_of(session)).name.is_empty())?;
        let less = |figure: f64| (figure - made).max(0.0);
        let [stranger, refused, allowed, used] = [stranger, refused, allowed, used].map(less);
        Ok(Costs { stranger, refused, allowed, used })
    }

    fn timed(&self, decide: impl Fn(usize) -> bool) -> Result<f64> {
        let before = thread_time();
        let mut right = 0;
        for turn in 0..self.plan.decisions {
            right += usize::from(decide(turn * STRIDE % self.plan.sessions));
        }
        let took: Duration = thread_time().saturating_sub(before);
        ensure!(right == self.plan.decisions, "{right} were answered as they should be");
        Ok(took.as_secs_f64() * 1e9 / count(self.plan.decisions))
    }
}

type Asking = fn(&AccessAuthorizer, &Attributes<'_>) -> Answer;

fn authorize(authorizer: &AccessAuthorizer, request: &Attributes<'_>) -> Answer {
    authorizer.authorize(CLUSTER, request, Timestamp::now())
}

fn self_review(authorizer: &AccessAuthorizer, request: &Attributes<'_>) -> Answer {
    authorizer.self_review(CLUSTER, request, Timestamp::now())
}

fn named(name: String) -> User {
    User { name, ..User::default() }
}

const fn is_allowed(answer: &Answer) -> bool {
    matches!(answer, Answer::Allowed { .. })
}
