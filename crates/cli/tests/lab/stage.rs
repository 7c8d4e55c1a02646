//! Where the tests play: an API server with a node behind it and the controllers of the family,
//! which can be killed and started again.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client;
use crate::control_plane::ControlPlane;
use crate::folder::Folder;
use crate::objects::Objects;
use crate::process::{Ended, Running, command};
use crate::real::Real;
use crate::scheduler::Scheduler;
use crate::survivors::{self, Reaper};
use crate::tool::free_port;
use crate::visitor::Visitor;

const SYSTEM: &str = "sojourn-system";
/// Ports that no other suite gives to its Pods.
const PORTS: &str = "23000-23999";
/// It is shown where a test fails.
const LOG: &str = "warn,sojourn_operator=debug,sojourn_drivers=debug,sojourn_cli=debug";

/// A stage wants the whole machine.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// `sojourn up`.
    Embedded,
    /// kube-apiserver, `sojourn node` as its kubelet, `sojourn operator`.
    Real,
}

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) objects: Objects,
    kubeconfig: PathBuf,
    web: SocketAddr,
    api: SocketAddr,
    /// What runs the controllers. On the embedded engine it is the API server, too.
    controllers: Option<Running>,
    _scheduler: Option<Scheduler>,
    real: Option<Real>,
    _reaper: Reaper,
    folder: Folder,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

impl Stage {
    /// With these options of the family. Nothing where a control plane is needed and not there.
    pub(crate) async fn start(engine: Engine, options: &Value) -> Option<Self> {
        let assets = match engine {
            Engine::Embedded => None,
            Engine::Real => Some(assets("the real control plane")?),
        };
        let turn = ONE_AT_A_TIME.lock().await;
        let folder = Folder::new();
        let loopback = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (web, api) = (loopback(), loopback());
        let mut stage = match assets {
            None => {
                let up = up(&folder, web, api);
                let kubeconfig = up.kubeconfig();
                let objects = Objects(client::connect(&kubeconfig).await);
                let (controllers, reaper) = (Some(up), Reaper::of(folder.path()));
                Self {
                    engine,
                    objects,
                    kubeconfig,
                    web,
                    api,
                    controllers,
                    _scheduler: None,
                    real: None,
                    _reaper: reaper,
                    folder,
                    _turn: turn,
                }
            }
            Some(assets) => {
                let program = Path::new(env!("CARGO_BIN_EXE_sojourn"));
                let beside = program.parent().expect("a folder").display().to_string();
                let real = Real::start_with(&assets, &["--expose", &beside]).await;
                let place = real.place().clone();
                let scheduler = Scheduler::start(place.client.clone(), place.node.clone());
                let kubectl = place.kubectl.expect("it is there");
                install(&kubectl, &place.kubeconfig, &folder);
                let reaper = Reaper::of(folder.path());
                Self {
                    engine,
                    objects: Objects(place.client),
                    kubeconfig: place.kubeconfig,
                    web,
                    api,
                    controllers: None,
                    _scheduler: Some(scheduler),
                    real: Some(real),
                    _reaper: reaper,
                    folder,
                    _turn: turn,
                }
            }
        };
        stage.objects.make_namespace(SYSTEM).await;
        stage.configure(options).await;
        if stage.controllers.is_none() {
            stage.start_again();
        }
        Some(stage)
    }

    /// The options of the family, and where people reach us.
    pub(crate) async fn configure(&self, options: &Value) {
        let mut options = options.clone();
        options["publicURL"] = json!(format!("http://{}", self.web));
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
        self.controllers = Some(match self.engine {
            Engine::Embedded => up(&self.folder, self.web, self.api),
            Engine::Real => self.operator(),
        });
    }

    fn operator(&self) -> Running {
        let mut operator = command(&["operator", "--web", &self.web.to_string()]);
        operator.arg("--kubeconfig").arg(&self.kubeconfig);
        // One at a time, and killed often: it would only wait for its own lease to expire.
        operator.args(["--leader-elect", "false"]);
        operator.args(["--submit-program", env!("CARGO_BIN_EXE_sojourn")]);
        operator.env("SOJOURN_LOG", LOG);
        let operator = Running::start(operator);
        operator.stderr_line("The operator is up.");
        operator
    }

    /// Runs one of our commands against this stage.
    pub(crate) fn sojourn(&self, namespace: &str, words: &[&str]) -> Ended {
        let mut asked = command(words);
        asked.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", namespace]);
        Running::start(asked).ended()
    }

    /// Somebody who has signed in by the link that was printed at the start. It works once.
    pub(crate) async fn visitor(&self) -> Visitor {
        let link = self.controllers.as_ref().expect("they run").field("sign in");
        let mut visitor = Visitor::of(self.web);
        visitor.sign_in(&link).await;
        visitor
    }

    /// Somebody who has not.
    pub(crate) const fn stranger(&self) -> Visitor {
        Visitor::of(self.web)
    }

    pub(crate) fn stop(mut self) {
        if let Some(controllers) = self.controllers.take() {
            survivors::interrupt(controllers);
        }
        survivors::assert_none(self.folder.path());
        if let Some(real) = self.real.take() {
            real.stop();
        }
    }
}

impl Drop for Stage {
    /// What there was, and what the controllers said, is what a reader of a failure wants to know.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(assets) = ControlPlane::assets() {
            let mut kubectl = Command::new(assets.join("kubectl"));
            kubectl.args(["get", "pods,jobs,persistentvolumeclaims,events"]);
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

fn up(folder: &Folder, web: SocketAddr, api: SocketAddr) -> Running {
    let mut up = command(&["up", "--web", &web.to_string(), "--listen", &api.to_string()]);
    up.args(["--pod-ports", PORTS, "--data"]).arg(folder.join("data"));
    up.env("SOJOURN_LOG", LOG);
    let up = Running::start(up);
    up.ready();
    up
}

/// The definitions of our kinds, as an administrator installs them.
fn install(kubectl: &Path, kubeconfig: &Path, folder: &Folder) {
    let definitions = crate::process::sojourn(&["crds"]);
    assert_eq!(definitions.code, Some(0), "{}", definitions.stderr);
    let file = folder.join("crds.yaml");
    std::fs::write(&file, definitions.stdout).expect("a file");
    apply(kubectl, kubeconfig, &file);
}

/// `kubectl apply`.
pub(crate) fn apply(kubectl: &Path, kubeconfig: &Path, what: &Path) {
    let mut apply = Command::new(kubectl);
    apply.args(["apply", "--server-side", "--filename"]).arg(what);
    apply.arg("--kubeconfig").arg(kubeconfig);
    let applied = Running::start(apply).ended();
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
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
