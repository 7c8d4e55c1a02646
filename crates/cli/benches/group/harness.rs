//! The embedded API and the family's controllers in this process, with the provider `fake`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::Client;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks};
use sojourn_drivers::machine::fake::Fake;
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::clock::SystemClock;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::group::{self, Providers, Started};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::{SUPERUSER_GROUP, User};

use crate::up::{Controllers, Home, Up};

/// How long anything may take.
const ARM_TIMEOUT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    /// Of somebody who may do everything.
    pub(crate) people: Client,
    pub(crate) family: Started,
    tasks: Tasks,
    /// From the start until the data was open, and until every cache was filled.
    pub(crate) opened: Duration,
    pub(crate) filled: Duration,
}

impl Harness {
    /// Has `sojourn up` prepare the data.
    pub(crate) async fn prepare(home: &Home) -> Result<()> {
        let mut up = Up::start(home, Controllers::On).await?;
        up.at_rest().await?;
        up.stop().await
    }

    pub(crate) async fn open(home: &Home, fake: &Arc<Fake>) -> Result<Self> {
        let started = Instant::now();
        let providers = Providers::default().with(fake.clone());
        let admission = Admission::new(&admission::Setup {
            providers: providers.for_admission(),
            ..admission::Setup::default()
        });
        let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
        let hook = Hook::new(admission::NAME, scope, admission.service());
        let hooks = Hooks { mutating: Vec::new(), validating: vec![hook] };
        let engine = Engine::open(Config::at(home.data()).hooks(hooks)).await?;
        let opened = started.elapsed();
        let client = engine.client_named(operator(), "sojourn");
        admission.connect(client.clone());
        let mut tasks = Tasks::default();
        let start = group::Start {
            client,
            clock: Arc::new(SystemClock),
            watching: WatchSettings::default(),
            providers,
            limits: Limits::default(),
            metrics: Metrics::default(),
        };
        let family = group::start(start, &mut tasks).await;
        let filled = started.elapsed();
        let people = engine.client(administrator());
        Ok(Self { engine, people, family, tasks, opened, filled })
    }

    /// Waits until so many groups have a timer and nobody has anything to do; says how long.
    pub(crate) async fn until_armed(&self, groups: usize) -> Result<Duration> {
        let started = Instant::now();
        while self.family.groups.depth() != (0, groups) || !self.family.is_idle() {
            if started.elapsed() > ARM_TIMEOUT {
                let armed = self.family.groups.depth();
                bail!("of {groups} groups, so many wait and have a timer: {armed:?}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(started.elapsed())
    }

    pub(crate) async fn close(self) {
        self.tasks.stop().await;
        self.engine.end_watches();
        self.engine.close().await;
    }
}

/// The account of the controllers, as `sojourn up` has it.
fn operator() -> Identity {
    let of = format!("system:serviceaccounts:{}", shared::NAMESPACE);
    identity(
        format!("system:serviceaccount:{}:{}", shared::NAMESPACE, install::ACCOUNT),
        vec!["system:serviceaccounts".to_owned(), of],
    )
}

fn administrator() -> Identity {
    identity("people".to_owned(), vec![SUPERUSER_GROUP.to_owned()])
}

fn identity(name: String, groups: Vec<String>) -> Identity {
    Identity::authenticated(User { name, groups, ..User::default() })
}
