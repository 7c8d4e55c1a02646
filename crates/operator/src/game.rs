//! Game: collections of game servers, and everything that they need around them.
//!
//! | file | step |
//! |---|---|
//! | `collection`, `collection/snapshot`, `collection/execute` | the controller of collections |
//! | `server`, `pod` | the controller of servers, and the Pods that they are |
//! | `condition`, `next`, `transition`, `metrics` | publish |
//! | `caches`, `view`, `ports` | the caches, whom a change concerns, and which ports are whose |
//! | `notice` | what people are told |
//! | `page` | collections and their servers in a browser |
//! | `store` | writes to servers by whoever is no controller |
//! | `allocator`, `service` | who is given a server, and how that is asked for |
//! | `sdk`, `sdk_backend`, `sdk_listener` | what servers say of themselves |
//! | `sdk_service`, `pod_token`, `pod/sidecar` | the same on a cluster, through a sidecar |
//! | `changes` | who waits for a change of which server |
//! | `webhook`, `log_archive` | what goes on beside the controllers |

mod allocator;
mod caches;
mod changes;
mod collection;
mod condition;
mod family;
mod log_archive;
mod metrics;
mod next;
mod notice;
mod page;
mod pod;
mod pod_token;
mod ports;
pub mod sdk;
mod sdk_backend;
mod sdk_listener;
mod sdk_service;
mod server;
mod service;
mod store;
mod transition;
mod view;
pub mod webhook;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection, GameConfig};
use sojourn_core::key::Key;
use tokio::sync::mpsc;

use self::allocator::Allocator;
use self::caches::GameCaches;
use self::changes::ServerChanges;
use self::collection::Collections;
use self::family::{GameFamilyParts, Pings, Refusals};
use self::log_archive::LogArchive;
use self::metrics::GameMetrics;
use self::notice::GameChannels;
use self::pod_token::PodTokens;
use self::ports::PortRegistry;
use self::sdk_backend::StoredReports;
use self::sdk_listener::{PodChange, SdkListeners};
use self::server::Servers;
use self::service::GameService;
use self::store::ServerStore;
use self::view::PodView;
use self::webhook::{ScalingWebhook, ScalingWebhooks};
use crate::configuration::Configuration;
use crate::driver::{ConfigWatcher, DriverConfig, DriverOptions, Drivers};
use crate::event::Events;
use crate::family::{Family, FamilyPages, FamilyWeb, ServedFamily, Setup, StartError};
use crate::frame::status::Definitions;
use crate::frame::{Queue, Tasks, run};
use crate::installation_key::InstallationKey;
use crate::metrics::Reconciles;
use crate::outbox::{self, Outbox};

pub(crate) const NAME: &str = "game";

/// The ports of nodes that servers get, unless a flag says otherwise.
pub const GAME_PORTS: RangeInclusive<u16> = 20_000..=30_000;

/// How the family runs in this process.
#[derive(Debug, Clone)]
pub struct GameSetup {
    /// The ports of nodes that servers get.
    pub ports: RangeInclusive<u16>,
    /// Whether the numbers of servers follow their use.
    pub autoscaler: bool,
    /// Whether servers are on this machine, and talk to a listener of their own here.
    pub listeners: bool,
    /// Who asks the webhooks of autoscalers; without it, they cannot tell.
    pub webhook: Option<Arc<dyn ScalingWebhook>>,
}

impl Default for GameSetup {
    fn default() -> Self {
        Self { ports: GAME_PORTS, autoscaler: true, listeners: false, webhook: None }
    }
}

/// The family as it is registered.
#[derive(Debug)]
pub struct GameFamily;

impl Family for GameFamily {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(
        &'a self,
        client: Client,
        setup: &'a Setup,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>> {
        async move {
            let served = ServedGame::start(client, setup.clone(), tasks).await?;
            Ok(Arc::new(served) as Arc<dyn ServedFamily>)
        }
        .boxed()
    }
}

/// What every replica has of the family. Clones share everything.
#[derive(Clone)]
pub struct ServedGame(Arc<GameReplica>);

struct GameReplica {
    setup: Setup,
    caches: Arc<GameCaches>,
    config: Arc<Configuration<GameConfig>>,
    drivers: Arc<Drivers>,
    allocator: Arc<Allocator>,
    service: GameService,
    pings: Arc<Pings>,
    reports: Arc<StoredReports>,
    listeners: Option<Arc<SdkListeners>>,
    sidecars: Router,
    installation_key: InstallationKey,
    metrics: GameMetrics,
}

impl std::fmt::Debug for ServedGame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedGame").finish_non_exhaustive()
    }
}

/// The controllers, running.
#[derive(Debug, Clone)]
pub struct LeadingGame {
    pub collections: Arc<Queue>,
    pub servers: Arc<Queue>,
    pub reconciles: [Reconciles; 2],
}

impl LeadingGame {
    /// Whether nobody waits to be looked at, and nobody is.
    pub fn is_idle(&self) -> bool {
        self.collections.is_idle() && self.servers.is_idle()
    }

    /// Looks so far.
    pub fn looks(&self) -> u64 {
        self.reconciles.iter().map(Reconciles::total).sum()
    }
}

impl ServedGame {
    /// Starts what every replica serves; the tasks are the caller's to watch.
    pub async fn start(
        client: Client,
        setup: Setup,
        tasks: &mut Tasks,
    ) -> Result<Self, StartError> {
        let installation_key =
            InstallationKey::load(&client).await.map_err(StartError::InstallationKey)?;
        let (clock, watching) = (setup.clock.clone(), setup.watching);
        let collections = Arc::new(Queue::new(clock.clone()));
        let servers = Arc::new(Queue::new(clock.clone()));
        let ports = PortRegistry::new(setup.game.ports.clone());
        let caches = Arc::new(GameCaches::new(collections, servers, ports));
        let metrics = GameMetrics::new(&setup.metrics);
        let allocator = Arc::new(Allocator::new(&caches, clock.clone(), metrics.clone()));
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), setup.metrics.events_left_out(NAME));
        tasks.spawn("events of reports", events_work);
        let definitions = Arc::new(Definitions::default());
        let store = Arc::new(ServerStore::new(
            client.clone(),
            caches.clone(),
            definitions,
            events.clone(),
            clock.clone(),
        ));
        let pings = Arc::new(Pings::new(clock.now()));
        let changes = Arc::new(ServerChanges::default());
        let reports = Arc::new(StoredReports { store, pings: pings.clone(), changes });
        let listeners = setup.game.listeners.then(|| {
            let (listeners, work) =
                SdkListeners::new(installation_key.clone(), clock.clone(), reports.clone());
            tasks.spawn("listeners of game servers", work);
            Arc::new(listeners)
        });
        connect(&caches, &allocator, &reports, listeners.as_ref(), tasks);
        let config = Arc::new(Configuration::<GameConfig>::default());
        let drivers = Arc::new(Drivers::default());
        let config_watcher = ConfigWatcher {
            client: client.clone(),
            clock: clock.clone(),
            config: config.clone(),
            drivers: drivers.clone(),
            factory: setup.driver_factory.clone(),
            wake_all: {
                let caches = caches.clone();
                Arc::new(move || caches.wake_all())
            },
        };
        caches.follow(&client, watching, tasks);
        config_watcher.start(watching, tasks).await;
        caches.until_ready().await;
        self::metrics::register(&setup.metrics, &caches);
        let tokens = PodTokens::new(client.clone(), sdk::wire::AUDIENCE);
        let sidecars = sdk_service::router(tokens, reports.clone());
        let service = GameService {
            client,
            caches: caches.clone(),
            config: config.clone(),
            allocator: allocator.clone(),
            clock,
            events,
        };
        Ok(Self(Arc::new(GameReplica {
            setup,
            caches,
            config,
            drivers,
            allocator,
            service,
            pings,
            reports,
            listeners,
            sidecars,
            installation_key,
            metrics,
        })))
    }

    /// Takes in what servers say.
    pub fn reports(&self) -> Arc<dyn sdk::SdkBackend> {
        self.0.reports.clone()
    }

    /// Starts the controllers, which write with this client.
    pub async fn lead(&self, client: Client, tasks: &mut Tasks) -> Result<LeadingGame, StartError> {
        let replica = &self.0;
        let Setup { clock, watching, limits, metrics, game, own_program, .. } =
            replica.setup.clone();
        let caches = replica.caches.clone();
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), metrics.events_left_out(NAME));
        tasks.spawn("events of games", events_work);
        let definitions = Arc::new(Definitions::default());
        follow_definition::<DedicatedGameServer>(&definitions, &client, watching, &caches, tasks);
        follow_definition::<DedicatedGameServerCollection>(
            &definitions,
            &client,
            watching,
            &caches,
            tasks,
        );
        let listed = caches.catch_up(&client).await;
        listed.map_err(|source| StartError::Objects { kind: "DedicatedGameServer", source })?;
        replica.allocator.lead(Arc::new(ServerStore::new(
            client.clone(),
            caches.clone(),
            definitions.clone(),
            events.clone(),
            clock.clone(),
        )));
        let webhooks = Arc::new(ScalingWebhooks::default());
        if let Some(asks) = game.webhook {
            let (webhooks, caches) = (webhooks.clone(), caches.clone());
            tasks.spawn(
                "webhooks of autoscalers",
                webhooks.run(caches, replica.config.clone(), asks),
            );
        }
        let (outbox, outbox_work) = {
            let collections = caches.collection_queue.clone();
            Outbox::new(
                Arc::new(GameChannels::new(replica.drivers.clone())),
                clock.clone(),
                Arc::new(move |key: &Key| collections.wake(key)),
                outbox::Limits::default(),
            )
        };
        tasks.spawn("outbox of games", outbox_work);
        let parts = Arc::new(GameFamilyParts {
            client,
            since: clock.now(),
            outbox,
            drivers: replica.drivers.clone(),
            web: replica.setup.web.clone(),
            clock: clock.clone(),
            caches: caches.clone(),
            config: replica.config.clone(),
            definitions,
            events,
            pings: replica.pings.clone(),
            refusals: Refusals::default(),
            port_refusals: Refusals::default(),
            logs: LogArchive,
            metrics: replica.metrics.clone(),
            allocator: replica.allocator.clone(),
            webhooks,
            sdk: replica.listeners.clone(),
            installation_key: replica.installation_key.clone(),
            program: own_program,
            autoscaler: game.autoscaler,
            serial: AtomicU64::new(0),
        });
        let (collections, servers) = (caches.collection_queue.clone(), caches.server_queue.clone());
        // Whoever led before may have been ended in the middle of a look.
        collections.restart();
        servers.restart();
        caches.wake_all();
        let reconciles =
            [metrics.reconciles("gameservercollection"), metrics.reconciles("gameserver")];
        let [of_collections, of_servers] = reconciles.clone();
        let controller = Arc::new(Collections(parts.clone()));
        let work = run(controller, collections.clone(), clock.clone(), limits, of_collections);
        tasks.spawn("game collections' controller", work);
        let controller = Arc::new(Servers(parts));
        let work = run(controller, servers.clone(), clock, limits, of_servers);
        tasks.spawn("game servers' controller", work);
        Ok(LeadingGame { collections, servers, reconciles })
    }
}

/// Tells whoever keeps something about servers when one is another.
fn connect(
    caches: &Arc<GameCaches>,
    allocator: &Arc<Allocator>,
    reports: &Arc<StoredReports>,
    listeners: Option<&Arc<SdkListeners>>,
    tasks: &mut Tasks,
) {
    let servers = {
        let (allocator, reports) = (allocator.clone(), reports.clone());
        Box::new(move |key: &Key, view: Option<&view::ServerView>| {
            allocator.server_changed(key, view);
            reports.changes.changed(key);
        })
    };
    let collections = {
        let allocator = allocator.clone();
        Box::new(move |key: &Key| allocator.collection_changed(key))
    };
    let (send, received) = mpsc::unbounded_channel();
    let pods = Box::new(move |key: &Key, before: Option<&PodView>, now: Option<&PodView>| {
        let gone = before.filter(|_| now.is_none()).map(|pod| pod.owner.clone());
        // Without a receiver nobody listens here.
        let _ = send.send(PodChange { key: key.clone(), pod: now.cloned(), gone });
    });
    caches.set_listeners(servers, collections, pods);
    let Some(listeners) = listeners.cloned() else { return };
    let (pings, servers) = (reports.pings.clone(), caches.server_queue.clone());
    tasks.spawn("ports of SDKs", async move {
        // From when a server is heard on, its silence is to be noticed.
        let opened = |key: &Key| servers.wake(key);
        listeners.follow_pods(received, opened, |uid: &str| pings.forget(uid)).await;
    });
}

/// Wakes everything when a definition that somebody waits for has changed.
fn follow_definition<K: kube::Resource<DynamicType = ()>>(
    definitions: &Arc<Definitions>,
    client: &Client,
    watching: crate::frame::WatchSettings,
    caches: &Arc<GameCaches>,
    tasks: &mut Tasks,
) {
    let (definitions, client, caches) = (definitions.clone(), client.clone(), caches.clone());
    tasks.spawn("definition of games", async move {
        definitions.follow::<K>(client, watching, || caches.wake_all()).await;
    });
}

impl DriverOptions for GameConfig {
    fn driver_config(&self) -> DriverConfig {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        let notify = &self.notify;
        DriverConfig {
            templates: &notice::TEMPLATES,
            sends_notices: !notify.recipients().is_empty(),
            mail_template_dir: path(&notify.mail_template_dir),
            mail_config_dir: path(&notify.mail_config_dir),
            webhook_url: notify.webhook_url.clone(),
            slack_url: notify.slack_url.clone(),
            prometheus_url: None,
            allowed_addresses: self.allowed_addresses.clone(),
            trusted_ca_file: path(&notify.trusted_ca_file),
        }
    }

    fn public_url(&self) -> Option<&String> {
        self.notify.public_url.as_ref()
    }
}

impl ServedFamily for ServedGame {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move { Self::lead(self, client, tasks).await.map(drop) }.boxed()
    }

    fn web(&self) -> Option<FamilyWeb> {
        Some(FamilyWeb {
            family: NAME,
            gateway: None,
            reports: None,
            link_handler: None,
            site: None,
            service: Some(self.0.service.router()),
            root_service: Some(self.0.service.root_router()),
            pages: Some(FamilyPages {
                title: "Game servers",
                router: page::router(self.0.service.clone()),
            }),
        })
    }

    /// Sidecars of servers.
    fn pod_service(&self) -> Option<Router> {
        Some(self.0.sidecars.clone())
    }

    /// A Pod of a server reaches the listener that is its own, once that is open.
    fn addresses_for_pod(&self, pod: &Pod) -> Option<Vec<SocketAddr>> {
        let view = PodView::of(pod);
        match (&self.0.listeners, view.sdk_port) {
            (Some(listeners), Some(port)) if !view.owner.is_empty() => {
                listeners.address_for(&view.owner, port).map(|address| vec![address])
            }
            _ => Some(Vec::new()),
        }
    }
}
