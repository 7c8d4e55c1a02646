//! Replicas of the operator, each with a clock of its own, and the API server that asks one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use sojourn_apiserver::{ExtensionAuthorizer, ExtensionDecision, Question};
use sojourn_drivers::metrics::Metrics as MetricsServer;
use sojourn_drivers::notify::fake::{Script, ScriptedAttempt};
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::access::authorizer::{AccessAuthorizer, Answer};
use sojourn_operator::access::service::AccessService;
use sojourn_operator::access::{LeadingAccess, ServedAccess};
use sojourn_operator::clock::{Clock, VirtualClock};
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::family::{ProgramPath, ServedFamily as _, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::GameSetup;
use sojourn_operator::group::Providers;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::notice::ChannelSecrets;
use sojourn_operator::replica::ReplicaName;
use sojourn_rbac::Attributes;

use super::Access;
use super::invariants::SessionChecker;
use super::simulation::CLUSTER;
use crate::process::Program;
use crate::record::SharedRecord;
use crate::simulated_api::watch_settings;
use crate::simulation::{Checker as _, Replica, SimulationParts};

/// Where people reach the replicas.
pub const PUBLIC_URL: &str = "https://sojourn.example.org";

/// What a replica shows people in a browser, as `cli` mounts it.
fn pages(served: &ServedAccess, clock: &SkewedClock) -> Router {
    let Some(web) = served.web() else { return Router::new() };
    let clock = clock.clone();
    let handlers = web.link_handler.into_iter().map(|handler| (web.family, handler)).collect();
    let links = served.links().router(handlers, Arc::new(move || clock.now()));
    match web.pages {
        Some(pages) => links.nest_service(&format!("/{}/", web.family), pages.router),
        None => links,
    }
}

/// The clock of one machine.
#[derive(Debug, Clone)]
pub struct SkewedClock {
    pub clock: Arc<VirtualClock>,
    pub ahead: SignedDuration,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        now.checked_add(self.ahead).unwrap_or(now)
    }
}

/// How far the clock of a replica is ahead, in seconds.
const SKEWS: [i64; 5] = [0, 2, -2, 1, -1];

/// The API server's way to the replicas, and mail. Clones share everything.
#[derive(Clone)]
pub struct Surroundings(Arc<Shared>);

struct Shared {
    clock: Arc<VirtualClock>,
    checker: SharedRecord<SessionChecker>,
    mail: Script,
    replicas: Mutex<Vec<Endpoint>>,
    /// How many replicas were started so far.
    started: AtomicU64,
    /// How many requests were asked about so far.
    asked: AtomicU64,
    /// Whether the API server can ask anybody.
    reachable: AtomicBool,
    skewed: AtomicBool,
    /// Clients of further clusters, by the hosts that kubeconfigs name.
    clusters: Mutex<BTreeMap<String, Client>>,
}

#[derive(Clone)]
struct Endpoint {
    name: String,
    authorizer: AccessAuthorizer,
    service: AccessService,
    /// Pages, and the links in mails.
    pages: Router,
    clock: SkewedClock,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

impl Surroundings {
    pub(super) fn new(
        clock: Arc<VirtualClock>,
        checker: SharedRecord<SessionChecker>,
        skewed: bool,
    ) -> Self {
        let mail = {
            let (clock, checker) = (clock.clone(), checker.clone());
            Script::new(
                move || clock.now(),
                move |notice| {
                    checker.lock().told(notice);
                    ScriptedAttempt::default()
                },
            )
        };
        Self(Arc::new(Shared {
            clock,
            checker,
            mail,
            replicas: Mutex::default(),
            started: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            reachable: AtomicBool::new(true),
            skewed: AtomicBool::new(skewed),
            clusters: Mutex::default(),
        }))
    }

    /// Whether the API server can reach the webhook from now on.
    pub fn set_reachable(&self, reachable: bool) {
        self.0.reachable.store(reachable, Ordering::Relaxed);
        self.note_reachable(CLUSTER, reachable);
    }

    /// Whether the API server of a cluster really reaches the webhook from now on.
    pub(super) fn note_reachable(&self, cluster: &str, reachable: bool) {
        self.0.checker.lock().webhook_reachable(cluster, reachable);
    }

    /// From now on a kubeconfig that names this host leads there.
    pub(super) fn add_cluster(&self, host: &str, client: Client) {
        let mut clusters = self.0.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.insert(host.to_owned(), client);
    }

    /// The operator cannot reach the API from now on, or can again.
    pub fn set_api_reachable(&self, reachable: bool) {
        self.0.checker.lock().api_reachable(reachable);
    }

    /// What was sent by mail so far.
    pub fn mail(&self) -> &Script {
        &self.0.mail
    }

    /// The service of one of the replicas that are up.
    pub fn service(&self, number: u64) -> Option<AccessService> {
        let replicas = self.replicas();
        let count = u64::try_from(replicas.len()).ok().filter(|count| *count > 0)?;
        let index = usize::try_from(number % count).ok()?;
        replicas.get(index).map(|one| one.service.clone())
    }

    /// The pages of one of the replicas that are up, and what links in mails lead to.
    pub fn pages(&self) -> Option<Router> {
        self.replicas().first().map(|one| one.pages.clone())
    }

    fn replicas(&self) -> MutexGuard<'_, Vec<Endpoint>> {
        self.0.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what a replica serves, under a name that nobody had before.
    pub async fn serve(
        &self,
        client: Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) -> Option<Running> {
        let number = self.0.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("replica-{number}");
        let skew = usize::try_from(number).ok().and_then(|number| SKEWS.get(number % SKEWS.len()));
        let skew = skew.copied().filter(|_| self.0.skewed.load(Ordering::Relaxed)).unwrap_or(0);
        let ahead = SignedDuration::from_secs(skew);
        let clock = SkewedClock { clock: self.0.clock.clone(), ahead };
        let setup = Setup {
            clock: Arc::new(clock.clone()),
            watching,
            driver_factory: Arc::new(self.clone()),
            web: WebService {
                gateway: true,
                reports: false,
                public_url: Some(PUBLIC_URL.to_owned()),
            },
            game: GameSetup::default(),
            own_program: ProgramPath("/sojourn".to_owned()),
            limits: Limits::default(),
            metrics: Metrics::default(),
            providers: Providers::default(),
            actuators: Actuators::default(),
            replica: Some(ReplicaName::new(&name)),
        };
        let metrics = setup.metrics.clone();
        let served = ServedAccess::start(client, setup, tasks).await.ok()?;
        let endpoint = Endpoint {
            name: name.clone(),
            authorizer: served.authorizer().clone(),
            service: served.service().clone(),
            pages: pages(&served, &clock),
            clock,
        };
        self.replicas().push(endpoint);
        let registered = Registered { surroundings: self.clone(), name };
        Some(Running { served, leading: None, metrics, registered })
    }
}

impl ExtensionAuthorizer for Surroundings {
    fn authorize(&self, request: &Attributes<'_>, question: Question) -> ExtensionDecision {
        if !self.0.reachable.load(Ordering::Relaxed) {
            return no_opinion();
        }
        self.ask(None, request, question)
    }
}

const fn no_opinion() -> ExtensionDecision {
    ExtensionDecision::NoOpinion { reason: String::new() }
}

impl Surroundings {
    /// The API server of a cluster, or of the one that the operator runs on, asks one of the replicas.
    pub(super) fn ask(
        &self,
        cluster: Option<&str>,
        request: &Attributes<'_>,
        question: Question,
    ) -> ExtensionDecision {
        let asked = self.0.asked.fetch_add(1, Ordering::Relaxed);
        let endpoint = {
            let replicas = self.replicas();
            let count = u64::try_from(replicas.len()).unwrap_or(0);
            let index = asked.checked_rem(count).and_then(|index| usize::try_from(index).ok());
            index.and_then(|index| replicas.get(index).cloned())
        };
        let Some(Endpoint { name, authorizer, clock, .. }) = endpoint else { return no_opinion() };
        let own = authorizer.options().cluster.clone();
        let (cluster, now) = (cluster.unwrap_or(&own), clock.now());
        let answer = match question {
            Question::Request => authorizer.authorize(cluster, request, now),
            Question::SelfReview => authorizer.self_review(cluster, request, now),
        };
        match answer {
            Answer::Allowed { reason, near_deadline } => {
                if question == Question::Request {
                    self.0.checker.lock().allowed(&name, &reason, now);
                }
                let waits = !near_deadline.is_empty();
                let before_answer = waits.then(|| authorizer.stored(near_deadline));
                ExtensionDecision::Allow { reason, before_answer }
            }
            Answer::NoOpinion { reason } => ExtensionDecision::NoOpinion { reason },
        }
    }
}

impl DriverFactory for Surroundings {
    fn cluster_client(&self, config: kube::Config) -> Result<Client, kube::Error> {
        let clusters = self.0.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let known = config.cluster_url.host().and_then(|host| clusters.get(host));
        known.cloned().ok_or_else(|| kube::Error::Service("nobody is there".into()))
    }

    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn MetricsServer>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        config: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        let mail = config.mail_config_dir.is_some();
        let channel = mail.then(|| Arc::new(self.0.mail.clone()) as Arc<dyn Channel>);
        Ok(channel.into_iter().collect())
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })))
    }
}

/// While it lives, the API server asks this replica, too.
struct Registered {
    surroundings: Surroundings,
    name: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.surroundings.replicas().retain(|one| one.name != self.name);
        self.surroundings.0.checker.lock().replica_ended(&self.name);
    }
}

/// A replica that runs.
pub struct Running {
    served: ServedAccess,
    leading: Option<LeadingAccess>,
    pub metrics: Metrics,
    registered: Registered,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("name", &self.registered.name).finish_non_exhaustive()
    }
}

impl Running {
    pub fn name(&self) -> &str {
        &self.registered.name
    }

    pub const fn served(&self) -> &ServedAccess {
        &self.served
    }

    /// From now on it decides, until the tasks are stopped.
    pub async fn lead(&mut self, client: Client, tasks: &mut Tasks) -> Option<()> {
        self.leading = Some(self.served.lead(client, tasks).await.ok()?);
        Some(())
    }

    fn reconciles(&self) -> u64 {
        self.leading.as_ref().map(|leading| leading.reconciles.total()).unwrap_or_default()
    }

    /// Writes what it has, and leaves.
    pub async fn finish(&self) {
        self.served.finish().await;
    }
}

impl SimulationParts for Access {
    type Drivers = Surroundings;
    type Checker = SessionChecker;
    type Running = Running;

    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Running>> {
        async move {
            let watching = watch_settings(replica.long_watches);
            let mut running = replica.drivers.serve(client.clone(), watching, tasks).await?;
            running.lead(client, tasks).await?;
            Some(running)
        }
        .boxed()
    }

    fn reconciles(running: &Running) -> u64 {
        running.reconciles()
    }
}

/// A replica that serves and does not lead.
#[derive(Debug)]
pub struct Follower {
    pub surroundings: Surroundings,
    pub long_watches: bool,
}

impl Program for Follower {
    type Running = Running;

    fn start<'a>(&'a self, client: Client, tasks: &'a mut Tasks) -> BoxFuture<'a, Option<Running>> {
        self.surroundings.serve(client, watch_settings(self.long_watches), tasks).boxed()
    }

    fn reconciles(_: &Running) -> u64 {
        0
    }

    fn broken(&self, message: &str) {
        self.surroundings.0.checker.lock().broken(message);
    }
}
