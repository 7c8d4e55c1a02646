//! The embedded API on disk and the controllers of games in this process, on ten scripted Nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::{Extension, Router};
use jiff::{SignedDuration, Timestamp};
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks, TokioClock};
use sojourn_drivers::dial::Direct;
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::clock::{Clock, SystemClock, VirtualClock};
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::driver::SystemDriverFactory;
use sojourn_operator::family::{FamilyCaller, ProgramPath, ServedFamily, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::{GameSetup, LeadingGame, ServedGame};
use sojourn_operator::group::Providers;
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::{SUPERUSER_GROUP, User};
use sojourn_web::{Listener, Serving};
use tokio::time::Instant;

use super::client::{Client, Matchmaker, WriteTarget, Writer};
use super::connection::Connection;
use super::fleet::Fleet;
use super::nodes::ScriptedNodes;
use super::requests::{RequestCounts, counting};
use crate::up::{Controllers, Home, Up};

/// Who asks for servers, and who writes statuses; `Fleet` says what they may.
pub(crate) const MATCHMAKER: &str = "matchmaker";
pub(crate) const WRITER: &str = "writer";
const WRITER_TOKEN: &str = "the-token-of-the-writer";
/// How long somebody who was given a server has to come, unless the benchmark says otherwise: as it is by default.
pub(crate) const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(1_800);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A collection looks so long after a report; at rest nobody does for longer.
const QUIET: Duration = Duration::from_millis(600);

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Real,
    /// Tokio's, which is paused.
    Virtual,
}

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) family: LeadingGame,
    /// What the controllers and the allocator asked of the API.
    pub(crate) requests: Arc<RequestCounts>,
    /// Of somebody who may do everything.
    pub(crate) fleet: Fleet,
    matchmaking: Router,
    /// The listeners for matchmakers and of the API, where time is real.
    listeners: Option<[Serving; 2]>,
    nodes: ScriptedNodes,
    tasks: Tasks,
}

impl Harness {
    /// Has `sojourn up` prepare the data.
    pub(crate) async fn prepare(home: &Home) -> Result<()> {
        let mut up = Up::start(home, Controllers::On).await?;
        up.at_rest().await?;
        up.stop().await
    }

    /// Without servers. Whoever is given one has so long to come.
    pub(crate) async fn open(home: &Home, time: Time, lease: SignedDuration) -> Result<Self> {
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
        let fleet = Fleet::prepare(engine.client(administrator()), lease).await?;
        let nodes = ScriptedNodes::start(engine.client(administrator())).await?;

        let requests = Arc::new(RequestCounts::default());
        let client = counting(engine.client_named(operator(), "sojourn"), &requests);
        let mut tasks = Tasks::default();
        let served = ServedGame::start(client.clone(), setup(clock), &mut tasks).await?;
        let family = served.lead(client, &mut tasks).await?;
        let matchmaking = matchmaking(&served)?;
        let listeners = match time {
            Time::Real => {
                engine.add_token(WRITER_TOKEN, user(WRITER));
                Some([serve(matchmaking.clone()).await?, serve(engine.router()).await?])
            }
            Time::Virtual => None,
        };
        Ok(Self { engine, family, requests, fleet, matchmaking, listeners, nodes, tasks })
    }

    /// Waits until nobody has had anything to do for a while; says when that began.
    pub(crate) async fn at_rest(&self) -> Result<Instant> {
        let asked = Instant::now();
        let (mut quiet_since, mut before) = (asked, self.activity());
        while quiet_since.elapsed() < QUIET {
            ensure!(asked.elapsed() < TIMEOUT, "the controllers do not come to rest");
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = self.activity();
            if now != before || !self.family.is_idle() {
                (quiet_since, before) = (Instant::now(), now);
            }
        }
        Ok(quiet_since)
    }

    fn activity(&self) -> (u64, u64) {
        (self.family.looks(), self.engine.version())
    }

    /// Clients that ask for servers of the collection.
    pub(crate) async fn matchmakers(&self, many: usize, name: &str) -> Result<Vec<Client>> {
        let mut all = Vec::new();
        for number in 0..many {
            let connection = match &self.listeners {
                Some([matchmaking, _]) => Connection::open(matchmaking.address()).await?,
                None => Connection::InProcess(self.matchmaking.clone()),
            };
            let matchmaker = Matchmaker::new(connection, format!("{name}-{number}"));
            all.push(Client::Matchmaker(matchmaker));
        }
        Ok(all)
    }

    /// Clients that write the statuses of servers, each of other ones, where time is real: so many players are there.
    pub(crate) async fn writers(&self, many: usize, players: u32) -> Result<Vec<Client>> {
        let [_, api] = self.listeners.as_ref().context("nobody listens in virtual time")?;
        let names: Arc<[String]> = self.fleet.names().await?.into();
        let mut all = Vec::new();
        for number in 0..many {
            let connection = Connection::open(api.address()).await?;
            let target = WriteTarget { names: names.clone(), first: number, step: many, players };
            all.push(Client::Writer(Writer::new(connection, WRITER_TOKEN, target)));
        }
        Ok(all)
    }

    pub(crate) async fn close(self) {
        drop(self.nodes);
        for listener in self.listeners.into_iter().flatten() {
            listener.stop().await;
        }
        self.tasks.stop().await;
        self.engine.end_watches();
        self.engine.close().await;
    }
}

fn setup(clock: Arc<dyn Clock>) -> Setup {
    Setup {
        clock,
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
    }
}

/// The service as matchmakers find it, behind whoever knows them.
fn matchmaking(served: &ServedGame) -> Result<Router> {
    let web = ServedFamily::web(served).context("the family serves nobody")?;
    let router = web.root_service.context("the family serves no matchmakers")?;
    let caller = FamilyCaller {
        user: MATCHMAKER.to_owned(),
        groups: user(MATCHMAKER).user().groups.clone(),
        ..FamilyCaller::default()
    };
    Ok(router.layer(Extension(caller)))
}

async fn serve(router: Router) -> Result<Serving> {
    let bound = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    Ok(bound.serve(router))
}

/// The account of the controllers, as `sojourn up` has it.
fn operator() -> Identity {
    let of = format!("system:serviceaccounts:{}", shared::NAMESPACE);
    identity(install::user_name(), vec!["system:serviceaccounts".to_owned(), of])
}

fn administrator() -> Identity {
    identity("people".to_owned(), vec![SUPERUSER_GROUP.to_owned()])
}

fn user(name: &str) -> Identity {
    identity(name.to_owned(), Vec::new())
}

fn identity(name: String, groups: Vec<String>) -> Identity {
    Identity::authenticated(User { name, groups, ..User::default() })
}
