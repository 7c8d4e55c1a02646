//! Where the tests play: an API server with a node behind it and the controllers of the family,
//! which can be killed and started again.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::client;
use crate::cluster::{Cluster, good};
use crate::control_plane::ControlPlane;
use crate::folder::Folder;
use crate::objects::Objects;
use crate::process::{Ended, Running, command};
use crate::survivors::{self, Reaper};
use crate::tool::free_port;

pub(crate) const SYSTEM: &str = "sojourn-system";
/// It is shown where a test fails.
pub(crate) const LOG: &str = "warn,sojourn_operator=debug,sojourn_drivers=debug,sojourn_cli=debug";

/// Where what Pods use stands on this machine: they have another 127.0.0.1, and may reach this.
pub(crate) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Ports that no other suite gives to its Pods, so many for each stage: they play side by side.
const FIRST_PORT: u16 = 25_000;
const PORTS: u16 = 100;
/// Then the first ones are free again, and what follows is the system's.
const MAX_STAGES: u16 = 70;
/// All of them, where Pods have ports of the machine.
pub(crate) const POD_PORTS: RangeInclusive<u16> = FIRST_PORT..=FIRST_PORT + MAX_STAGES * PORTS - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// `sojourn up`.
    Embedded,
    /// kube-apiserver, `sojourn node` as its kubelet, `sojourn operator`.
    Real,
}

pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) objects: Objects,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) web: SocketAddr,
    /// What runs the controllers. On the embedded engine it is the API server, too.
    controllers: Option<Running>,
    up: Up,
    pub(crate) cluster: Option<Cluster>,
    _reaper: Reaper,
    folder: Folder,
}

impl Fixture {
    /// With these options of the family. Nothing where a control plane is needed and not there.
    pub(crate) async fn start(engine: Engine, options: &Value) -> Option<Self> {
        Self::start_with(engine, options, &[]).await
    }

    /// The same, with further arguments for whatever runs the controllers.
    pub(crate) async fn start_with(engine: Engine, options: &Value, more: &[&str]) -> Option<Self> {
        let assets = match engine {
            Engine::Embedded => None,
            Engine::Real => Some(assets("the real control plane")?),
        };
        let folder = Folder::new();
        let loopback = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let more = more.iter().map(|word| (*word).to_owned()).collect();
        let up = Up { web: loopback(), api: loopback(), ports: pod_ports(), more };
        let (controllers, cluster, kubeconfig) = match assets {
            None => {
                let running = up.start(&folder);
                let kubeconfig = running.kubeconfig();
                (Some(running), None, kubeconfig)
            }
            Some(assets) => {
                let cluster = Cluster::start(&assets, &up.ports, up.web, &folder).await;
                let kubeconfig = cluster.kubeconfig.clone();
                (None, Some(cluster), kubeconfig)
            }
        };
        let objects = Objects(client::connect(&kubeconfig).await);
        let mut stage = Self {
            engine,
            objects,
            kubeconfig,
            web: up.web,
            controllers,
            up,
            cluster,
            _reaper: Reaper::of(folder.path()),
            folder,
        };
        stage.objects.make_namespace(SYSTEM).await;
        stage.configure(options).await;
        if stage.controllers.is_none() {
            stage.start_again();
        }
        Some(stage)
    }

    /// The options of the family, and where people reach us, unless they say so.
    pub(crate) async fn configure(&self, options: &Value) {
        let mut options = options.clone();
        if options["publicURL"].is_null() {
            options["publicURL"] = json!(format!("http://{}", self.web));
        }
        self.objects
            .apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "sojourn", "namespace": SYSTEM},
                "data": {"lab.yaml": options.to_string()},
            }))
            .await;
    }

    /// Ends the controllers as a crash would.
    pub(crate) fn kill(&mut self) {
        self.controllers.take().expect("they run").crash();
    }

    pub(crate) fn start_again(&mut self) {
        assert!(self.controllers.is_none(), "they run");
        self.controllers = Some(match &self.cluster {
            None => self.up.start(&self.folder),
            Some(cluster) => cluster.operator(&self.web.to_string(), LOG, &self.up.more),
        });
    }

    /// Runs one of our commands against this stage.
    pub(crate) fn sojourn(&self, namespace: &str, words: &[&str]) -> Ended {
        let mut asked = command(words);
        asked.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", namespace]);
        Running::start(asked).ended()
    }

    /// A link that signs somebody in, once: the one that was printed at the start, or one that was
    /// asked for.
    pub(crate) fn sign_in_link(&self) -> String {
        match self.engine {
            Engine::Embedded => self.controllers.as_ref().expect("they run").field("sign in"),
            Engine::Real => {
                let cluster = self.cluster.as_ref().expect("it has one");
                let mut open = command(&["open", "--web", &format!("http://{}", self.web)]);
                open.arg("--kubeconfig").arg(&cluster.person_kubeconfig);
                good(Running::start(open).ended()).trim().to_owned()
            }
        }
    }

    pub(crate) fn stop(mut self) {
        if let Some(controllers) = self.controllers.take() {
            survivors::interrupt(controllers);
        }
        survivors::assert_none(self.folder.path());
        if let Some(cluster) = self.cluster.take() {
            cluster.stop();
        }
    }
}

impl Drop for Fixture {
    /// What there was, and what the controllers said, is what a reader of a failure wants to know.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(assets) = ControlPlane::assets() {
            let mut kubectl = Command::new(assets.join("kubectl"));
            kubectl.args([
                "get",
                "pods,jobs,persistentvolumeclaims,instancegroups,machines,dgsc,dgs,cd,events",
            ]);
            kubectl.args(["--all-namespaces", "--request-timeout=5s", "--kubeconfig"]);
            let found = kubectl.arg(&self.kubeconfig).output().expect("kubectl starts");
            println!("{}", String::from_utf8_lossy(&found.stdout));
        }
        if let Some(controllers) = self.controllers.take() {
            controllers.signal("KILL");
            let said = controllers.try_ended().map_or_else(|problem| problem, |ended| ended.stderr);
            println!("the controllers said:\n{said}");
        }
    }
}

/// How `sojourn up` is started, again and again.
#[derive(Debug)]
struct Up {
    web: SocketAddr,
    api: SocketAddr,
    ports: String,
    more: Vec<String>,
}

impl Up {
    fn start(&self, folder: &Folder) -> Running {
        let mut up = command(&["up", "--web", &self.web.to_string()]);
        up.args(["--listen", &self.api.to_string(), "--pod-ports", &self.ports]);
        up.args(["--pods-may-reach", &OUTSIDE.to_string()]).args(&self.more);
        up.arg("--data").arg(folder.join("data")).env("SOJOURN_LOG", LOG);
        let up = Running::start(up);
        up.ready();
        up
    }
}

/// Ports for the Pods of one stage.
fn pod_ports() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let stage = NEXT.fetch_add(1, Ordering::Relaxed) % MAX_STAGES;
    let first = FIRST_PORT + stage * PORTS;
    format!("{first}-{}", first + PORTS - 1)
}

/// The folder with the programs of a control plane; where there is none, this says so.
pub(crate) fn assets(what: &str) -> Option<PathBuf> {
    let assets = ControlPlane::assets();
    if assets.is_none() {
        let required = std::env::var("SOJOURN_REQUIRE_KUBE").is_ok_and(|value| value == "1");
        assert!(!required, "KUBEBUILDER_ASSETS is not set");
        println!("skipped {what}: KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)");
    }
    assets
}
