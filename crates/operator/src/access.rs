//! Access: the controller of sessions, who they allow what, and what people do with them.
//!
//! | file | step |
//! |---|---|
//! | `snapshot` | parse: a session with what it remembers |
//! | `observe` | observe |
//! | `reconcile` | decide, and the controller as a whole |
//! | `execute`, `notice` | execute |
//! | `publish`, `condition`, `transition`, `metrics` | publish |
//! | `caches` | the caches, and whom a change concerns |
//! | `authorizer`, `policy` | which requests sessions allow, on every replica |
//! | `cluster` | the clusters whose API servers ask, and how further ones are reached |
//! | `webhook`, `review` | the same for API servers that ask over HTTPS |
//! | `report` | use, from the authorizer into the objects |
//! | `canary`, `coverage` | whether use is seen at all, on each cluster |
//! | `service` | what people do: request, approve, drop |
//! | `page`, `link_action` | the same in a browser, and by links in mails |

pub mod authorizer;
mod caches;
pub mod canary;
pub mod cluster;
mod condition;
mod coverage;
mod execute;
mod link_action;
mod metrics;
mod notice;
mod observe;
mod page;
pub mod policy;
mod publish;
mod reconcile;
mod report;
mod review;
pub mod service;
mod snapshot;
mod transition;
pub mod webhook;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use sojourn_api::access::{AccessConfig, BreakglassSession, session};
use sojourn_core::access::grant::granted_until;
use sojourn_core::key::Key;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use self::authorizer::{AccessAuthorizer, AuthorizerOptions, DecisionMetrics, Hooks};
pub use self::caches::SESSION_WATCH_SECONDS;
use self::caches::{AccessCaches, read_state_of, read_usage_of};
use self::canary::{CanaryKey, CanarySenders};
use self::cluster::{ClusterWatcher, Clusters};
use self::coverage::ClusterCoverage;
use self::link_action::SessionLinkHandler;
use self::metrics::TransitionCounts;
use self::notice::AccessChannels;
use self::policy::PolicyCache;
use self::reconcile::Access;
use self::report::Reports;
use self::service::AccessService;
use self::webhook::{CallerWatcher, Callers};
use crate::configuration::Configuration;
use crate::driver::{ConfigWatcher, DriverConfig, DriverOptions, Drivers};
use crate::event::Events;
use crate::family::{
    Family, FamilyAuthorizer, FamilyPages, FamilyWeb, ServedFamily, Setup, StartError,
};
use crate::frame::status::Definitions;
use crate::frame::{Queue, Tasks, run};
use crate::installation_key::InstallationKey;
use crate::link::Links;
use crate::metrics::Reconciles;
use crate::outbox::{self, Outbox};
use crate::replica::{ReplicaRegistry, silence};
use crate::tracker::period;

pub(crate) const NAME: &str = "access";

/// The family as it is registered.
#[derive(Debug)]
pub struct AccessFamily;

impl Family for AccessFamily {
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
            let served = ServedAccess::start(client, setup.clone(), tasks).await?;
            Ok(Arc::new(served) as Arc<dyn ServedFamily>)
        }
        .boxed()
    }
}

/// What every replica has of the family. Clones share everything.
#[derive(Debug, Clone)]
pub struct ServedAccess(Arc<AccessReplica>);

/// What is the same for every session of this process, and what is known of them.
struct AccessReplica {
    setup: Setup,
    queue: Arc<Queue>,
    caches: Arc<AccessCaches>,
    config: Arc<Configuration<AccessConfig>>,
    drivers: Arc<Drivers>,
    reports: Reports,
    authorizer: AccessAuthorizer,
    callers: Callers,
    canary_key: CanaryKey,
    clusters: Clusters,
    service: AccessService,
    links: Links,
    /// What the present term observed, while this replica leads.
    coverage: Mutex<Option<Arc<ClusterCoverage>>>,
}

impl std::fmt::Debug for AccessReplica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessReplica").finish_non_exhaustive()
    }
}

/// The controller, running.
#[derive(Debug, Clone)]
pub struct LeadingAccess {
    pub queue: Arc<Queue>,
    pub reconciles: Reconciles,
}

impl LeadingAccess {
    /// Whether no session is queued or being reconciled.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }
}

impl ServedAccess {
    /// Starts what every replica serves; the tasks are the caller's to watch.
    pub async fn start(
        client: Client,
        setup: Setup,
        tasks: &mut Tasks,
    ) -> Result<Self, StartError> {
        let installation_key =
            InstallationKey::load(&client).await.map_err(StartError::InstallationKey)?;
        let canary_key = CanaryKey::new(&installation_key);
        let links = Links::new(installation_key.links());
        let (clock, watching) = (setup.clock.clone(), setup.watching);
        let queue = Arc::new(Queue::new(clock.clone()));
        let caches = Arc::new(AccessCaches::new(queue.clone()));
        let config = Arc::new(Configuration::<AccessConfig>::default());
        let drivers = Arc::new(Drivers::default());
        // Its options come with the configuration, and its use goes to the reports, which both follow.
        let reports_slot: Arc<std::sync::OnceLock<Reports>> = Arc::default();
        let policy = PolicyCache::default();
        let clusters = Clusters::new(policy.clone());
        let authorizer = AccessAuthorizer::new(
            clusters.clone(),
            canary_key.clone(),
            AuthorizerOptions::default(),
            hooks(&reports_slot, &caches),
            DecisionMetrics::new(&setup.metrics),
        );
        let (callers, callers_changed) = (Callers::default(), Arc::new(Notify::new()));
        let clusters_changed = Arc::new(Notify::new());
        let config_watcher = ConfigWatcher {
            client: client.clone(),
            clock: clock.clone(),
            config: config.clone(),
            drivers: drivers.clone(),
            factory: setup.driver_factory.clone(),
            wake_all: {
                let (caches, authorizer) = (caches.clone(), authorizer.clone());
                let (config, changed) = (config.clone(), callers_changed.clone());
                let clusters_changed = clusters_changed.clone();
                Arc::new(move || {
                    authorizer.set_options(authorizer_options(&config.current()));
                    changed.notify_one();
                    clusters_changed.notify_one();
                    caches.wake_all();
                })
            },
        };
        config_watcher.start(watching, tasks).await;
        authorizer.set_options(authorizer_options(&config.current()));
        let interval = config.current().activity_interval;
        let reports = Reports::start(&client, &setup, caches.clone(), interval, tasks)
            .await
            .map_err(StartError::Replica)?;
        let _ = reports_slot.set(reports.clone());
        caches.set_listener({
            let (authorizer, reports) = (authorizer.clone(), reports.clone());
            move |key, session| index(&authorizer, &reports, key, session)
        });
        caches.follow(&client, watching, tasks);
        policy.follow(&client, watching, tasks);
        let caller_watcher = CallerWatcher {
            client: client.clone(),
            watching,
            callers: callers.clone(),
            config: {
                let config = config.clone();
                Box::new(move || config.current())
            },
            changed: callers_changed,
        };
        tasks.spawn("callers", caller_watcher.run());
        let cluster_watcher =
            ClusterWatcher::new(&client, &setup, &clusters, &config, clusters_changed);
        tasks.spawn("clusters of access", cluster_watcher.run());
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), setup.metrics.events_left_out(NAME));
        tasks.spawn("events of people", events_work);
        caches.until_ready().await;
        self::metrics::register(&setup.metrics, &caches, &reports);
        let service = AccessService {
            client,
            clock,
            caches: caches.clone(),
            config: config.clone(),
            events,
            definitions: Arc::default(),
        };
        let coverage = Mutex::default();
        Ok(Self(Arc::new(AccessReplica {
            setup,
            queue,
            caches,
            config,
            drivers,
            reports,
            authorizer,
            callers,
            canary_key,
            clusters,
            service,
            links,
            coverage,
        })))
    }

    /// Which requests sessions allow.
    pub fn authorizer(&self) -> &AccessAuthorizer {
        &self.0.authorizer
    }

    /// What people do with sessions.
    pub fn service(&self) -> &AccessService {
        &self.0.service
    }

    /// What signs and reads the links in mails.
    pub fn links(&self) -> &Links {
        &self.0.links
    }

    /// Starts the controller, which writes with this client.
    pub async fn lead(
        &self,
        client: Client,
        tasks: &mut Tasks,
    ) -> Result<LeadingAccess, StartError> {
        let replica = &self.0;
        let Setup { clock, watching, limits, metrics, .. } = replica.setup.clone();
        let (queue, caches) = (replica.queue.clone(), replica.caches.clone());
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), metrics.events_left_out(NAME));
        tasks.spawn("events of access", events_work);
        let channels = AccessChannels::new(replica.drivers.clone(), events.clone(), caches.clone());
        replica.drivers.set_fallback_channel(channels.events());
        let wake = {
            let queue = queue.clone();
            Arc::new(move |key: &Key| queue.wake(key))
        };
        let (outbox, outbox_work) =
            Outbox::new(Arc::new(channels), clock.clone(), wake, outbox::Limits::default());
        tasks.spawn("outbox of access", outbox_work);
        let definitions = Arc::new(Definitions::default());
        {
            let (client, definitions, caches) =
                (client.clone(), definitions.clone(), caches.clone());
            tasks.spawn("definition of sessions", async move {
                definitions
                    .follow::<BreakglassSession>(client, watching, || caches.wake_all())
                    .await;
            });
        }
        let coverage = self.send_canaries(&client, tasks);
        let replicas = replica.reports.registry(&client);
        if let Some(registry) = replicas.clone() {
            tasks.spawn("replicas of access", replica.clone().watch_replicas(registry));
        }
        let listed = caches.catch_up(&client).await;
        listed.map_err(|source| StartError::Objects { kind: "BreakglassSession", source })?;
        let access = Arc::new(Access {
            client,
            clock: clock.clone(),
            since: clock.now(),
            caches: caches.clone(),
            config: replica.config.clone(),
            reports: replica.reports.clone(),
            replicas,
            coverage,
            clusters: replica.clusters.clone(),
            outbox,
            events,
            drivers: replica.drivers.clone(),
            definitions,
            counts: TransitionCounts::new(&metrics),
            links: replica.links.clone(),
            web: replica.setup.web.clone(),
        });
        // Whoever led before may have been ended in the middle of a look.
        queue.restart();
        caches.wake_all();
        let reconciles = metrics.reconciles(NAME);
        tasks.spawn(NAME, run(access, queue.clone(), clock, limits, reconciles.clone()));
        Ok(LeadingAccess { queue, reconciles })
    }

    /// Sends canaries in this term, and answers with where it is read what they saw.
    fn send_canaries(&self, client: &Client, tasks: &mut Tasks) -> Arc<ClusterCoverage> {
        let replica = &self.0;
        let Setup { clock, metrics, .. } = &replica.setup;
        let tracker = replica.reports.tracker().clone();
        let coverage = Arc::new(ClusterCoverage::new(client.clone(), clock.clone(), tracker));
        let senders = CanarySenders {
            client: client.clone(),
            clock: clock.clone(),
            key: replica.canary_key.clone(),
            clusters: replica.clusters.clone(),
            authorizer: replica.authorizer.clone(),
            coverage: coverage.clone(),
            interval: {
                let config = replica.config.clone();
                Arc::new(move || config.current().canary_interval)
            },
            changed: {
                let caches = replica.caches.clone();
                Arc::new(move |_source| caches.wake_all())
            },
        };
        *replica.coverage.lock().unwrap_or_else(PoisonError::into_inner) = Some(coverage.clone());
        tasks.spawn("canaries", async move { senders.run().await });
        self::metrics::register_coverage(metrics, &coverage, clock.clone());
        coverage
    }
}

impl AccessReplica {
    /// Looks for ever which replicas there are. The sessions that name one that is gone are looked at, and then
    /// nothing more is expected of it.
    async fn watch_replicas(self: Arc<Self>, registry: Arc<ReplicaRegistry>) {
        let interval = self.config.current().activity_interval;
        let mut ticks = tokio::time::interval(period(interval).min(Duration::from_secs(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = registry.look(self.setup.clock.now(), silence(interval)).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot see what other replicas have written");
                continue;
            }
            let gone = registry.given_up();
            if !gone.is_empty() {
                registry.remove(&gone).await;
                self.caches.wake_all();
            }
        }
    }
}

/// What the authorizer tells, once there is somebody to tell it to.
fn hooks(reports: &Arc<std::sync::OnceLock<Reports>>, caches: &Arc<AccessCaches>) -> Hooks {
    Hooks {
        on_use: {
            let reports = reports.clone();
            Arc::new(move |key, uid, at| {
                if let Some(reports) = reports.get() {
                    reports.record(key, uid, at);
                }
            })
        },
        store_now: {
            let reports = reports.clone();
            Arc::new(move |key: Key| {
                let reports = reports.get().cloned();
                async move {
                    if let Some(reports) = reports {
                        reports.store_now(&key).await;
                    }
                }
                .boxed()
            })
        },
        sessions_listed: {
            let caches = caches.clone();
            Arc::new(move || caches.sessions.is_ready())
        },
    }
}

/// Tells the authorizer what a session is now. One that cannot be read grants nothing.
fn index(
    authorizer: &AccessAuthorizer,
    reports: &Reports,
    key: &Key,
    object: Option<&BreakglassSession>,
) {
    let Some((object, read)) = object.and_then(|object| Some((object, session(object).ok()?)))
    else {
        authorizer.upsert(key, None);
        return;
    };
    let (state, usage) = (read_state_of(object), read_usage_of(object));
    let deadline = granted_until(&read.terms, &state, usage.last_use());
    reports.set_deadline(key, &read.uid, deadline);
    authorizer.upsert(key, Some((&read, &state, &usage)));
}

fn authorizer_options(config: &AccessConfig) -> AuthorizerOptions {
    AuthorizerOptions {
        cluster: config.cluster.clone(),
        aliases: {
            let names = config.clusters.keys().filter(|name| config.is_own_cluster(name));
            names.cloned().collect()
        },
        issuer: config.issuer.clone(),
        group_prefixes: config.group_prefixes.clone(),
        attribution: config.attribution,
        discovery_counts: config.uses.discovery,
        self_reviews_count: config.uses.self_reviews,
    }
}

impl DriverOptions for AccessConfig {
    fn driver_config(&self) -> DriverConfig {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        DriverConfig {
            templates: &notice::TEMPLATES,
            sends_notices: self.enable_notifications,
            mail_template_dir: path(&self.mail_template_dir),
            mail_config_dir: path(&self.mail_config_dir),
            webhook_url: self.webhook_url.clone(),
            slack_url: self.slack_url.clone(),
            prometheus_url: None,
            allowed_addresses: self.allowed_addresses.clone(),
            trusted_ca_file: path(&self.trusted_ca_file),
        }
    }

    fn public_url(&self) -> Option<&String> {
        self.public_url.as_ref()
    }
}

impl ServedFamily for ServedAccess {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move { Self::lead(self, client, tasks).await.map(drop) }.boxed()
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        async move {
            self.0.reports.finish().await;
            let coverage = self.0.coverage.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(coverage) = coverage
                && let Err(error) = coverage.store().await
            {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the last moments count as not observed");
            }
        }
        .boxed()
    }

    fn web(&self) -> Option<FamilyWeb> {
        Some(FamilyWeb {
            family: NAME,
            gateway: None,
            reports: None,
            link_handler: Some(Arc::new(SessionLinkHandler(self.0.service.clone()))),
            site: None,
            service: Some(service::router(self.0.service.clone())),
            root_service: None,
            pages: Some(FamilyPages {
                title: "Emergency permissions",
                router: page::router(self.0.service.clone()),
            }),
        })
    }

    fn authorizer(&self) -> Option<FamilyAuthorizer> {
        let AccessReplica { authorizer, callers, setup, .. } = &*self.0;
        let webhook = webhook::router(authorizer.clone(), callers.clone(), setup.clock.clone());
        Some(FamilyAuthorizer { authorizer: authorizer.clone(), webhook })
    }
}
