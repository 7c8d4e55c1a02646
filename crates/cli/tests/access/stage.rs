//! Where the tests play: an API server that lets sessions decide, and the controllers of the family.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::api_server::{ApiServer, Asking};
use crate::client;
use crate::control_plane::ControlPlane;
use crate::folder::Folder;
use crate::objects::Objects;
use crate::process::{Running, command};
use crate::tool::free_port;

pub(crate) const SYSTEM: &str = "sojourn-system";
/// It is shown where a test fails.
const LOG: &str = "warn,sojourn_operator=debug,sojourn_cli=debug";

#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    /// `sojourn up`.
    Embedded,
    /// kube-apiserver and `sojourn operator`.
    Real(Asking),
}

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) objects: Objects,
    /// The administrator's.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) web: SocketAddr,
    /// What runs the controllers. On the embedded engine it is the API server, too.
    controllers: Option<Running>,
    /// Where the embedded engine serves its API.
    api: SocketAddr,
    pub(crate) api_server: Option<ApiServer>,
    pub(crate) folder: Folder,
    /// What the controllers are asked to log.
    log: Option<&'static str>,
}

impl Stage {
    /// Nothing where a control plane is needed and not there.
    pub(crate) async fn start(engine: Engine) -> Option<Self> {
        Self::start_with(engine, &json!({"activityInterval": "1s"})).await
    }

    /// The same with controllers that nobody asks to log anything.
    pub(crate) async fn start_without_log(engine: Engine) -> Option<Self> {
        Self::start_logging(engine, &json!({"activityInterval": "1s"}), None).await
    }

    /// The same, with these options of the family beside what the engine needs.
    pub(crate) async fn start_with(engine: Engine, options: &Value) -> Option<Self> {
        Self::start_logging(engine, options, Some(LOG)).await
    }

    async fn start_logging(
        engine: Engine,
        options: &Value,
        log: Option<&'static str>,
    ) -> Option<Self> {
        let assets = match engine {
            Engine::Embedded => None,
            Engine::Real(_) => Some(assets("the real control plane")?),
        };
        let folder = Folder::new();
        let loopback = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (web, api) = (loopback(), loopback());
        let mut controllers = None;
        let mut api_server = None;
        let kubeconfig = match (engine, &assets) {
            (Engine::Real(asking), Some(assets)) => {
                let server = ApiServer::start(assets, &folder, asking).await;
                let kubeconfig = server.kubeconfig();
                api_server = Some(server);
                kubeconfig
            }
            (Engine::Real(_) | Engine::Embedded, _) => {
                let up = up(&folder, web, api, log);
                let kubeconfig = up.kubeconfig();
                controllers = Some(up);
                kubeconfig
            }
        };
        let objects = Objects(client::connect(&kubeconfig).await);
        let mut stage =
            Self { engine, objects, kubeconfig, web, controllers, api, api_server, folder, log };
        stage.objects.make_namespace(SYSTEM).await;
        stage.configure(options).await;
        if stage.controllers.is_none() {
            stage.start_again();
        }
        Some(stage)
    }

    /// Ends the controllers as a crash would.
    pub(crate) fn kill(&mut self) {
        self.controllers.take().expect("they run").crash();
    }

    pub(crate) fn start_again(&mut self) {
        assert!(self.controllers.is_none(), "they run");
        self.controllers = Some(match &self.api_server {
            None => up(&self.folder, self.web, self.api, self.log),
            Some(server) => server.operator(self.web, self.log),
        });
    }

    async fn configure(&self, options: &Value) {
        let cluster = match self.engine {
            Engine::Embedded => json!({"authorizedTTL": "0s"}),
            Engine::Real(asking) => asking.cluster_config(),
        };
        let mut all = json!({"clusters": {"local": cluster}, "canaryInterval": "1s"});
        for (name, value) in options.as_object().expect("options") {
            all[name] = value.clone();
        }
        self.objects
            .apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "sojourn", "namespace": SYSTEM},
                "data": {"access.yaml": all.to_string()},
            }))
            .await;
    }

    /// Where people are served.
    pub(crate) fn web_url(&self) -> String {
        format!("http://{}", self.web)
    }

    /// Ends the controllers as Ctrl-C does; what they said on stderr.
    pub(crate) fn interrupt(&mut self) -> String {
        let controllers = self.controllers.take().expect("they run");
        controllers.signal("INT");
        let ended = controllers.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    }

    /// The same as the last thing.
    pub(crate) fn stop(mut self) -> String {
        self.interrupt()
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
            kubectl.args(["get", "bgs,bge,events", "--all-namespaces", "--output", "yaml"]);
            kubectl.args(["--request-timeout=5s", "--kubeconfig"]).arg(&self.kubeconfig);
            let found = kubectl.output().expect("kubectl starts");
            println!("{}", String::from_utf8_lossy(&found.stdout));
        }
        if let Some(controllers) = self.controllers.take() {
            controllers.signal("KILL");
            let said = controllers.try_ended().map_or_else(|problem| problem, |ended| ended.stderr);
            println!("the controllers said:\n{said}");
        }
    }
}

fn up(folder: &Folder, web: SocketAddr, api: SocketAddr, log: Option<&str>) -> Running {
    let mut up = command(&["up", "--no-pods", "--web", &web.to_string()]);
    up.args(["--listen", &api.to_string(), "--data"]).arg(folder.join("data"));
    up.envs(log.map(|log| ("SOJOURN_LOG", log)));
    let up = Running::start(up);
    up.ready();
    up
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
