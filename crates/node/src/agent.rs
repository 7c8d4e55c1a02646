//! The node as a whole: registers the machine, takes every Pod that is bound to it, and gives each
//! to a worker of its own.
//!
//! What it finds at its start decides what goes on: the folders of Pods with their shims on one
//! side, the Pods in the API on the other. A Pod in both is adopted; one only in the API is started;
//! one only on disk was deleted while nobody looked, and is ended.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::capacity::CapacityError;
use crate::cgroup::{CgroupError, Cgroups};
use crate::clock::Clock;
use crate::config::Config;
use crate::confine::{Confiner, Mode, NetworkMode};
use crate::dial::Dialer;
use crate::event::Recorder;
use crate::folder::NodeFolder;
use crate::lifeline::Lifeline;
use crate::log_index::LogIndex;
use crate::objects::Objects;
use crate::orphan;
use crate::plan::resource::Requests;
use crate::port::{self, PortRange, Ports, RangeError};
use crate::private;
use crate::register::{Confined, Description, Isolated, Readiness, Registrar};
use crate::server::{self, Certified, ServeError, Server, TlsError};
use crate::volume::Volumes;
use crate::volume::claim::{self, Claims};
use crate::volume::token::Tokens;
use crate::volume::usage::Meter;
use crate::worker::{Worker, WorkerInput};

/// Shims that are launched at once; each launch keeps a processor busy.
const MAX_CONCURRENT_LAUNCHES: usize = 8;
/// Disk that a Pod may use which states no limit.
const DEFAULT_POD_DISK_BYTES: u64 = 10 << 30;
/// How far apart the first ports of nodes with neighbouring process ids are.
const PORT_STRIDE: u64 = 97;
/// How often disk use is looked at; each Pod's own turn may come less often.
const DISK_USAGE_INTERVAL: Duration = Duration::from_secs(30);

/// How long Events that were noted may still take when the node stops.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot use {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("another node uses {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot draw ports")]
    Ports(#[from] RangeError),
    #[error("cannot use control groups")]
    Cgroups(#[from] CgroupError),
    #[error("cannot measure the machine")]
    Capacity(#[from] CapacityError),
    #[error("cannot make a lifeline for Pods")]
    Lifeline(#[source] io::Error),
    #[error("cannot serve logs")]
    Serve(#[from] ServeError),
}

/// What happens to Pods when the node stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodsOnStop {
    /// Their processes end, each with its grace.
    End,
    /// They go on, for the next node to adopt.
    Keep,
}

/// What every worker shares.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) folder: NodeFolder,
    pub(crate) confiner: Confiner,
    pub(crate) cgroups: Cgroups,
    pub(crate) objects: Objects,
    pub(crate) volumes: Volumes,
    pub(crate) recorder: Recorder,
    pub(crate) log_index: LogIndex,
    pub(crate) launches: Semaphore,
    pub(crate) lifeline: Option<Lifeline>,
    pub(crate) allocatable: Requests,
    ports: Mutex<Ports>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("node", &self.config.name).finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running node.
#[derive(Debug)]
pub struct Agent {
    context: Arc<Context>,
    readiness: watch::Sender<Readiness>,
    on_stop: watch::Sender<Option<PodsOnStop>>,
    /// For what goes on until the last Pod is gone.
    stop: watch::Sender<bool>,
    server: Option<Server>,
    pods: JoinHandle<()>,
    tasks: JoinSet<()>,
    event_writer: JoinHandle<()>,
    /// Held until the last process has ended or was left alone.
    _lock: File,
}

impl Agent {
    /// Starts a node as the identity of `client`, which should be `system:node:NAME`. A node may not
    /// change claims: `claims` is somebody who may, where their directories are to go with them.
    pub async fn start(
        config: Config,
        client: Client,
        claims_client: Option<Client>,
    ) -> Result<Self, StartError> {
        let folder = NodeFolder::new(&config.folder);
        for path in [folder.path().to_owned(), folder.pods(), folder.claims()] {
            private::folder(&path).map_err(|source| StartError::Folder { path, source })?;
        }
        let lock = lock_folder(&folder)?;
        let confiner = Confiner::detect(&config.program, &folder, config.unconfined).await;
        let cgroups = Cgroups::detect(&group_name(&folder)?)?;
        let log_index = LogIndex::default();
        let server = match &config.serving {
            Some(serving) => {
                let settings = server::Settings {
                    address: config.listen,
                    certified: serving.certified.clone(),
                    client_authority_pem: serving.client_authority_pem.clone(),
                    allowed: server::Allowed::default(),
                };
                Some(Server::start(settings, Arc::new(log_index.clone())).await?)
            }
            None => None,
        };
        let readiness = watch::Sender::new(Readiness::Ready);
        let description = Description {
            name: config.name.clone(),
            hostname: config.name.clone(),
            addresses: vec![config.address],
            port: server.as_ref().map_or(0, |server| server.address().port()),
            labels: Default::default(),
            data: config.folder.clone(),
            pods: config.max_pods,
            confined: confined(confiner.mode()),
            network: network(confiner.network()),
            enforced: cgroups.enforced().clone(),
        };
        let (recorder, event_writer) = Recorder::new(client.clone(), &config.name);
        let registrar = Registrar::new(client.clone(), description, readiness.subscribe())?
            .with_recorder(recorder.clone());
        let allocatable = requests(&registrar);
        if let Err(error) = cgroups.bound(allocatable.memory, allocatable.milli_cpu) {
            tracing::warn!(%error, "Pods together are not bounded");
        }
        let claims = Arc::new(Claims::new(folder.clone()));
        let lifeline = config.pods_end_with_node.then(Lifeline::new).transpose();
        let context = Arc::new(Context {
            clock: Clock::machine(),
            objects: Objects::new(client.clone()),
            volumes: Volumes::new(claims.clone(), Tokens::new(client.clone()), allocatable),
            recorder,
            log_index,
            launches: Semaphore::new(MAX_CONCURRENT_LAUNCHES),
            lifeline: lifeline.map_err(StartError::Lifeline)?,
            allocatable,
            ports: Mutex::new(Ports::new(
                PortRange::here(config.port_range.as_deref())?,
                u64::from(std::process::id()).wrapping_mul(PORT_STRIDE),
            )),
            client,
            config,
            folder,
            confiner,
            cgroups,
        });
        sweep_groups(&context);
        port::record::restore_all(
            &mut context.ports(),
            &context.folder,
            &orphan::folders(&context.folder),
        );
        let event_writer = tokio::spawn(event_writer);
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stop = stop.subscribe();
            async move {
                // A node that is dropped stops, too.
                let _ = stop.wait_for(|stop| *stop).await;
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(registrar.run(stopped()));
        if let Some(client) = claims_client {
            tasks.spawn(claim::run_reclaimer(client, claims, stopped()));
        }
        let on_stop = watch::Sender::new(None);
        let pods = tokio::spawn(Pods::new(context.clone()).run(on_stop.subscribe()));
        Ok(Self {
            context,
            readiness,
            on_stop,
            stop,
            server,
            pods,
            tasks,
            event_writer,
            _lock: lock,
        })
    }

    /// Where logs are served, if they are.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// Shows another certificate to those who ask for logs, from now on.
    pub fn certify(&self, certified: &Certified) -> Result<(), TlsError> {
        self.server.as_ref().map_or(Ok(()), |server| server.certify(certified))
    }

    /// How Pods are kept apart, in words.
    pub fn confinement(&self) -> &Mode {
        self.context.confiner.mode()
    }

    /// Which network Pods have.
    pub fn network(&self) -> &NetworkMode {
        self.context.confiner.network()
    }

    /// Whether a service that belongs to one Pod ([`PodServices`](crate::PodServices)) is reached by
    /// that Pod and refused to every other. It does not change while the node runs.
    pub fn enforces_pod_services(&self) -> bool {
        self.network().enforces_pod_services()
    }

    /// The way to the ports of this node's Pods.
    pub fn dialer(&self) -> Dialer {
        Dialer::new(self.context.folder.clone())
    }

    /// What limits the kernel enforces, in words.
    pub fn limits(&self) -> &str {
        &self.context.cgroups.enforced().how
    }

    /// Stops; with [`PodsOnStop::End`] not before every process has ended.
    pub async fn stop(mut self, on_stop: PodsOnStop) {
        self.readiness.send_replace(Readiness::NotReady("the node is stopping".to_owned()));
        self.on_stop.send_replace(Some(on_stop));
        if let Err(error) = (&mut self.pods).await {
            tracing::error!(%error, "looking after Pods ended badly");
        }
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the node ended badly");
            }
        }
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        if on_stop == PodsOnStop::End {
            self.context.cgroups.remove_base();
        }
        // With the last recorder gone, what was noted is written and that is all.
        drop(self.context);
        let _ = tokio::time::timeout(EVENT_FLUSH_TIMEOUT, self.event_writer).await;
    }
}

/// Takes the folder for ourselves: two nodes would both look after the same Pods. Whoever holds it
/// and is killed lets go.
fn lock_folder(folder: &NodeFolder) -> Result<File, StartError> {
    let failed = |source| StartError::Folder { path: folder.lock(), source };
    let lock = private::open_or_create(&folder.lock()).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse { path: folder.path().to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// What the control group of all our Pods is called: the same whenever this node starts, and another
/// one than that of any other node on this machine.
fn group_name(folder: &NodeFolder) -> Result<String, StartError> {
    let path = folder.path();
    let found = fs::metadata(path);
    let found = found.map_err(|source| StartError::Folder { path: path.to_owned(), source })?;
    Ok(format!("sojourn-{:x}-{:x}", found.dev(), found.ino()))
}

/// Removes the control groups of Pods that are gone; what still runs in one is logged.
fn sweep_groups(context: &Context) {
    for uid in context.cgroups.sweep(&orphan::folders(&context.folder)) {
        tracing::warn!(uid, "processes run in the control group of a Pod that has no folder here");
    }
}

fn confined(mode: &Mode) -> Confined {
    let confined = matches!(mode, Mode::Users | Mode::UserNamespace);
    Confined { confined, how: mode.to_string() }
}

fn network(mode: &NetworkMode) -> Isolated {
    let (isolated, reason) = match mode {
        NetworkMode::Own => (true, "OwnNetwork"),
        NetworkMode::NoWayOut(_) => (true, "NoWayOut"),
        NetworkMode::Machine { .. } => (false, "MachineNetwork"),
    };
    Isolated { isolated, reason, how: mode.to_string() }
}

fn requests(registrar: &Registrar) -> Requests {
    let resources = registrar.allocatable();
    Requests {
        milli_cpu: resources.milli_cpu,
        memory: resources.memory,
        ephemeral_storage: resources.ephemeral_storage,
    }
}

/// The workers, by the uid of their Pod.
struct Pods {
    context: Arc<Context>,
    workers: HashMap<String, Arc<watch::Sender<WorkerInput>>>,
    running: JoinSet<String>,
    /// Folders of Pods that were there when the node started; those that no list shows are orphans.
    found: BTreeSet<String>,
    meter: Arc<Meter>,
    measuring: Option<JoinHandle<()>>,
}

impl Pods {
    fn new(context: Arc<Context>) -> Self {
        let found = orphan::folders(&context.folder);
        Self {
            context,
            workers: HashMap::new(),
            running: JoinSet::new(),
            found,
            meter: Arc::new(Meter::new(DEFAULT_POD_DISK_BYTES)),
            measuring: None,
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<Option<PodsOnStop>>) {
        let api: Api<Pod> = Api::all(self.context.client.clone());
        let ours = format!("spec.nodeName={}", self.context.config.name);
        let watched = watcher(api, watcher::Config::default().fields(&ours)).default_backoff();
        let mut watched = pin!(watched);
        let mut listed = BTreeSet::new();
        let mut metering = tokio::time::interval(DISK_USAGE_INTERVAL);
        let context = self.context.clone();
        let on_stop = loop {
            tokio::select! {
                told = stop.wait_for(Option::is_some) => {
                    break told.map_or(PodsOnStop::Keep, |on_stop| on_stop.unwrap_or(PodsOnStop::Keep));
                }
                Some(event) = watched.next() => match event {
                    Ok(event) => self.handle_event(event, &mut listed),
                    Err(error) => tracing::warn!(%error, "the watch of Pods was interrupted"),
                },
                changed = context.objects.changed() => {
                    for worker in changed.iter().filter_map(|uid| self.workers.get(uid)) {
                        worker.send_modify(|told| told.changes += 1);
                    }
                }
                Some(ended) = self.running.join_next() => match ended {
                    Ok(uid) => self.forget(&uid),
                    Err(error) => tracing::error!(%error, "a worker ended badly"),
                },
                _ = metering.tick() => self.measure(),
            }
        };
        self.shut_down(on_stop).await;
    }

    fn handle_event(&mut self, event: Event<Pod>, listed: &mut BTreeSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => {
                listed.extend(pod.uid());
                self.update_worker(pod);
            }
            Event::InitDone => {
                // What a list does not show was removed while nobody watched.
                for (_, worker) in self.workers.iter().filter(|(uid, _)| !listed.contains(*uid)) {
                    worker.send_modify(|told| told.vanished = true);
                }
                let found = std::mem::take(&mut self.found);
                for uid in found.into_iter().filter(|uid| !listed.contains(uid)) {
                    let context = self.context.clone();
                    self.running.spawn(async move {
                        orphan::end(&context, &uid).await;
                        uid
                    });
                }
            }
            Event::Apply(pod) => self.update_worker(pod),
            Event::Delete(pod) => {
                if let Some(worker) = pod.uid().and_then(|uid| self.workers.get(&uid)) {
                    worker.send_modify(|told| told.vanished = true);
                }
            }
        }
    }

    /// Sends a Pod to its worker; a Pod without one gets one.
    fn update_worker(&mut self, pod: Pod) {
        let Some(uid) = pod.uid() else { return };
        let pod = Arc::new(pod);
        if let Some(worker) = self.workers.get(&uid) {
            worker.send_modify(|told| told.pod = pod);
            return;
        }
        let (worker, inbox) = watch::channel(WorkerInput::new(pod));
        self.workers.insert(uid.clone(), Arc::new(worker));
        let context = self.context.clone();
        self.running.spawn(async move {
            Worker::new(context, inbox).await.run().await;
            uid
        });
    }

    fn forget(&mut self, uid: &str) {
        self.workers.remove(uid);
        self.meter.forget(uid);
    }

    /// Looks at the disk use of Pods whose turn it is, beside everything else.
    fn measure(&mut self) {
        if self.measuring.as_ref().is_some_and(|measuring| !measuring.is_finished()) {
            return;
        }
        let (context, meter) = (self.context.clone(), self.meter.clone());
        let now = context.clock.now();
        let due = self.workers.iter().filter(|(uid, _)| meter.next(uid) <= now);
        let due: Vec<_> = due.map(|(uid, worker)| (uid.clone(), worker.clone())).collect();
        self.measuring = Some(tokio::spawn(async move {
            for (uid, worker) in due {
                let pod = worker.borrow().pod.clone();
                let folder = context.folder.pod(&uid);
                // One that was refused, or is still being prepared, uses nothing.
                if !folder.path().exists() {
                    continue;
                }
                let Some(over) = meter.check(&pod, &folder, now, &context.objects).await else {
                    continue;
                };
                let stands = match &over.claim {
                    Some(overfull) => overfull.is_still_over_limit(&context.client).await,
                    None => true,
                };
                if stands {
                    worker.send_modify(|told| told.over = Some(over.message));
                }
            }
        }));
    }

    async fn shut_down(mut self, on_stop: PodsOnStop) {
        if let Some(measuring) = self.measuring.take() {
            measuring.abort();
        }
        if on_stop == PodsOnStop::Keep {
            // Workers hold nothing that is not on disk or in the API.
            self.running.shutdown().await;
            return;
        }
        for worker in self.workers.values() {
            worker.send_modify(|told| told.shutdown = true);
        }
        while self.running.join_next().await.is_some() {}
    }
}
