//! The embedded API on disk and the controllers of clusters in this process, with a scripted provider.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks, TokioClock};
use sojourn_drivers::actuator::fake::{Fake, Operation, Script};
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::clock::{Clock, SystemClock, VirtualClock};
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::cluster::pod::RecordSeal;
use sojourn_operator::cluster::{Start, Started, start};
use sojourn_operator::family::WebService;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::{SUPERUSER_GROUP, User};
use tokio::time::Instant;

use super::fleet::{Fleet, Purpose};
use super::requests::{RequestCounts, counting};
use super::target::ScriptedTargets;
use crate::process::{memory_of, own_processor};
use crate::up::{Controllers, Home, Up};

/// How long the controllers may take to have nothing to do.
const TIMEOUT: Duration = Duration::from_secs(1_800);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Real,
    /// Tokio's, which is paused.
    Virtual,
}

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) time: Time,
    pub(crate) clusters: usize,
    pub(crate) machines: usize,
    pub(crate) purpose: Purpose,
    pub(crate) script: Script,
}

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) family: Started,
    pub(crate) fleet: Fleet,
    pub(crate) provider: Arc<Fake>,
    pub(crate) targets: ScriptedTargets,
    /// What the controllers asked of the API.
    pub(crate) requests: Arc<RequestCounts>,
    tasks: Tasks,
}

impl Harness {
    /// Has `sojourn up` prepare the data.
    pub(crate) async fn prepare(home: &Home) -> Result<()> {
        let mut up = Up::start(home, Controllers::On).await?;
        up.at_rest().await?;
        up.stop().await
    }

    /// Without clusters; their machines are there.
    pub(crate) async fn open(home: &Home, setting: Setting) -> Result<Self> {
        let Setting { time, clusters, machines, purpose, script } = setting;
        let admission = Admission::default();
        let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
        let hook = Hook::new(admission::NAME, scope, admission.service());
        let hooks = Hooks { mutating: Vec::new(), validating: vec![hook] };
        let config =
            Config::at(home.data()).hooks(hooks).reserved_users([operator().user().name.clone()]);
        let (config, clock): (_, Arc<dyn Clock>) = match time {
            Time::Real => (config, Arc::new(SystemClock)),
            Time::Virtual => {
                let begin = Timestamp::now();
                let config = config.clock(TokioClock::starting_at(begin)).inline_writes();
                (config, Arc::new(VirtualClock::starting_at(begin)))
            }
        };
        let engine = Engine::open(config).await?;
        admission.connect(engine.client_named(operator(), "sojourn"));
        let fleet =
            Fleet { client: engine.client(administrator()), size: clusters, machines, purpose };
        let provider = Fake::new(script);
        fleet.put_machines(&provider);

        let requests = Arc::new(RequestCounts::default());
        let targets = ScriptedTargets::new(clock.clone());
        let start_with = Start {
            client: counting(engine.client_named(operator(), "sojourn"), &requests),
            clock,
            watching: WatchSettings::default(),
            limits: Limits::default(),
            metrics: Metrics::default(),
            driver_factory: Arc::new(targets.clone()),
            actuators: Actuators::default().with(provider.clone()),
            seal: RecordSeal::new(&[7; 32]),
            web: WebService::default(),
        };
        let mut tasks = Tasks::default();
        let family = start(start_with, &mut tasks).await;
        Ok(Self { engine, family, fleet, provider, targets, requests, tasks })
    }

    /// Waits until every cluster has a timer, and nobody has anything to do.
    pub(crate) async fn until_idle(&self) -> Result<()> {
        let asked = Instant::now();
        while self.family.clusters.depth() != (0, self.fleet.size) || !self.family.is_idle() {
            ensure!(asked.elapsed() < TIMEOUT, "the controllers do not come to rest");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Lists at the provider, and calls of machines, since it keeps a record of them.
    pub(crate) fn provider_requests(&self) -> [usize; 2] {
        let all = self.provider.requests();
        let lists = all.iter().filter(|request| request.operation == Operation::List).count();
        [lists, all.len() - lists]
    }

    pub(crate) async fn close(self) {
        self.tasks.stop().await;
        self.engine.end_watches();
        self.engine.close().await;
    }
}

/// Processor time that this process has used.
pub(crate) fn used() -> Result<Duration> {
    own_processor().context("cannot tell what this process uses")
}

/// Bytes of this process in memory.
pub(crate) fn resident() -> Result<f64> {
    memory_of("self", "VmRSS:").context("cannot tell what this process uses")
}

/// The account of the controllers, as `sojourn up` has it.
fn operator() -> Identity {
    let of = format!("system:serviceaccounts:{}", shared::NAMESPACE);
    identity(install::user_name(), vec!["system:serviceaccounts".to_owned(), of])
}

fn administrator() -> Identity {
    identity("people".to_owned(), vec![SUPERUSER_GROUP.to_owned()])
}

fn identity(name: String, groups: Vec<String>) -> Identity {
    Identity::authenticated(User { name, groups, ..User::default() })
}
