//! Pods on this machine: the node inside `sojourn up`, and `sojourn node` for any other API server.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use http::Uri;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sojourn_apiserver::Engine;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::folder::SafeFolder;
use sojourn_drivers::dial::{Dial, Direct, Endpoint};
use sojourn_node::claim::Local;
use sojourn_node::clock::Clock;
use sojourn_node::confine::Mode;
use sojourn_node::folder::NodeFolder;
use sojourn_node::shim::protocol::Reachable;
use sojourn_node::{
    Agent, Certified, Clients, Config, Controllers, Dialer, PodServices, PodsOnStop, Serving,
    StartError,
};
use sojourn_rbac::User;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::data;
use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// What the machine's node is called inside `sojourn up`: its data may move to another machine, and
/// Pods are bound to this name.
const LOCAL: &str = "local";
/// The folder beside the database that Pods are kept in.
const FOLDER: &str = "node";
/// A certificate is good for a year.
const RENEW_INTERVAL: Duration = Duration::from_hours(30 * 24);
/// How long the API server may take to answer at the start.
const API_START_TIMEOUT: Duration = Duration::from_secs(10);

/// The node of `sojourn up`, with the controllers that a cluster would have.
#[derive(Debug)]
pub(super) struct LocalNode {
    agent: Arc<Agent>,
    controllers: Controllers,
    renewing: JoinHandle<()>,
}

/// Where the node of `sojourn up` is.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodePlace<'a> {
    pub(super) data: &'a Path,
    /// The folder that our own program is in; Pods find it there by its name.
    pub(super) program: Option<&'a Path>,
    pub(super) api: SocketAddr,
    pub(super) web: Option<SocketAddr>,
    /// Its Pods end with this process.
    pub(super) ends_with_us: bool,
}

impl LocalNode {
    pub(super) async fn start(
        engine: &Engine,
        pods: &args::Pods,
        place: NodePlace<'_>,
        services: Arc<dyn PodServices>,
    ) -> Result<Self, Failure> {
        let NodePlace { data, program, api, web, ends_with_us } = place;
        let mut config = config(LOCAL.to_owned(), data.join(FOLDER), pods)?;
        config.exposed.extend(program.map(Path::to_owned));
        // Last, so that it hides no program of the machine. A name with a colon cannot be in a PATH.
        if let Some(program) = program.and_then(Path::to_str).filter(|path| !path.contains(':')) {
            config.path = format!("{}:{program}", config.path);
        }
        config.hidden.push(data.to_owned());
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let certified = certificate(engine, address)
            .map_err(|error| Failure::new(Exit::Bug, error, "Please report it."))?;
        config.serving =
            Some(Serving { certified, client_authority_pem: engine.authority_pem().to_owned() });
        let reached = super::up::reachable(api);
        config.api_server = Some((reached.ip().to_string(), reached.port()));
        config.reachable.extend([Some(api), web].into_iter().flatten().map(Reachable::from));
        config.pods_end_with_node = ends_with_us;
        config.pod_services = Some(services);
        let claims = engine.client_named(controller("persistent-volume-binder"), "claim-binder");
        let clients = Clients {
            scheduler: engine.client_named(user("system:kube-scheduler"), "kube-scheduler"),
            claims: claims.clone(),
            jobs: engine.client_named(controller("job-controller"), "job-controller"),
            expiry: engine.client_named(
                controller("ttl-after-finished-controller"),
                "ttl-after-finished-controller",
            ),
            nodes: engine.client_named(controller("node-controller"), "node-controller"),
            disruption: engine
                .client_named(controller("disruption-controller"), "disruption-controller"),
            informers: engine
                .client_named(user("system:kube-controller-manager"), "shared-informers"),
        };
        let controllers = Controllers::start(clients, Clock::machine());
        let client = engine.client_named(Identity::node(LOCAL), "sojourn-node");
        let agent = Agent::start(config, client, Some(claims)).await.map_err(start_failure)?;
        let agent = Arc::new(agent);
        let renewing = tokio::spawn(renew(engine.clone(), agent.clone(), address));
        Ok(Self { agent, controllers, renewing })
    }

    pub(super) fn describe(&self, printer: Printer) {
        describe(&self.agent, printer);
    }

    /// The way to the ports of Pods.
    pub(super) fn dial(&self) -> Arc<dyn Dial> {
        Arc::new(PodDial(self.agent.dialer()))
    }

    pub(super) async fn stop(self, on_stop: PodsOnStop) {
        self.renewing.abort();
        // Whether it was aborted or failed, it holds the node no longer.
        let _ = self.renewing.await;
        self.controllers.stop().await;
        if let Some(agent) = Arc::into_inner(self.agent) {
            agent.stop(on_stop).await;
        }
    }
}

/// Reaches Pods where they are: in networks of their own, by their shims.
#[derive(Debug)]
struct PodDial(Dialer);

impl Dial for PodDial {
    fn dial<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<TcpStream>> {
        match &to.pod {
            Some(pod) => Box::pin(self.0.dial(pod, to.port, to.address)),
            None => Direct.dial(to),
        }
    }
}

fn certificate(engine: &Engine, address: IpAddr) -> anyhow::Result<Certified> {
    let certified =
        engine.node_certificate(LOCAL, address).context("cannot issue the node's certificate")?;
    Ok(Certified { certificate_pem: certified.certificate_pem, key_pem: certified.key_pem })
}

/// Replaces the node's certificate long before it runs out.
async fn renew(engine: Engine, agent: Arc<Agent>, address: IpAddr) {
    loop {
        tokio::time::sleep(RENEW_INTERVAL).await;
        let renewed = certificate(&engine, address)
            .and_then(|certified| agent.certify(&certified).context("cannot show it"));
        if let Err(error) = renewed {
            tracing::error!(error = format!("{error:#}"), "cannot renew the node's certificate");
        }
    }
}

fn user(name: &str) -> Identity {
    Identity::authenticated(User { name: name.to_owned(), ..User::default() })
}

/// The account that upstream's controller of this name has, and with it exactly its rights.
fn controller(name: &str) -> Identity {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    Identity::authenticated(User {
        name: format!("system:serviceaccount:kube-system:{name}"),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    })
}

fn describe(agent: &Agent, printer: Printer) {
    match agent.confinement() {
        Mode::Refused(why) => {
            printer.warning(format_args!("Pods are refused, since they cannot be confined: {why}"));
            printer.line("  --unconfined runs them all the same, with all that this user may do");
        }
        Mode::Unconfined => {
            printer.warning("Pods run unconfined: they may do whatever this user may");
        }
        mode => {
            let (network, limits) = (agent.network(), agent.limits());
            printer.field("pods", format_args!("{mode}; {network}; {limits}"));
        }
    }
}

/// `sojourn node`.
pub(super) fn run(node: args::Node, printer: Printer) -> Result<(), Failure> {
    let runtime = Runtime::new().context("cannot start threads").map_err(|error| {
        Failure::unavailable(error, "See whether this user may have more of them (ulimit -u).")
    })?;
    let ended = runtime.block_on(serve(node, printer));
    runtime.shutdown_background();
    ended
}

async fn serve(node: args::Node, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let name = match &node.name {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let folder = match &node.data {
        Some(data) => data::directory(Some(data.clone()))?,
        None => data::directory(None)?.join(FOLDER),
    };
    // Looked at from the root down: nobody else may be able to put another in its place.
    let folder = SafeFolder::create(&folder).map_err(data::folder_failure)?;
    let mut config = config(name.clone(), folder.path().to_owned(), &node.pods)?;
    config.address = node.address;
    config.listen = SocketAddr::new(node.address, node.port);
    config.serving = serving(&node)?;
    config.publish_ports = node.publish_ports;
    let (client, url) = connect("--kubeconfig", &node.kubeconfig).await?;
    configure_api(&mut config, &url).await;
    let claims = match &node.claims_kubeconfig {
        Some(path) => Some(connect("--claims-kubeconfig", path).await?.0),
        None => None,
    };
    let local = Local { node: name.clone(), folder: NodeFolder::new(folder.path()).claims() };
    let binder = claims.clone().map(|claims| Controllers::claims_alone(claims, local));
    let agent = Agent::start(config, client, claims).await.map_err(start_failure)?;
    printer.good(format_args!("Node {name} is up."));
    describe(&agent, printer);
    match agent.address() {
        Some(address) => printer.field("logs", format_args!("https://{address}")),
        None => {
            printer.field("logs", "not served: --tls-cert, --tls-key and --client-ca are needed");
        }
    }
    signals.requested().await;
    let on_stop = if node.keep_pods { PodsOnStop::Keep } else { PodsOnStop::End };
    printer.line("Stopping: Pods may end; Ctrl-C again stops at once.");
    let stop = async {
        if let Some(binder) = binder {
            binder.stop().await;
        }
        agent.stop(on_stop).await;
    };
    tokio::select! {
        () = stop => printer.line("Stopped."),
        () = signals.requested() => printer.line("Stopped at once."),
    }
    Ok(())
}

fn config(name: String, folder: PathBuf, pods: &args::Pods) -> Result<Config, Failure> {
    let program = std::env::current_exe()
        .context("cannot tell where our own program is")
        .map_err(|error| Failure::unavailable(error, "Pods need it for their shims."))?;
    let mut config = Config::new(name, folder, program);
    config.unconfined = pods.unconfined;
    config.exposed.clone_from(&pods.expose);
    config.port_range.clone_from(&pods.pod_ports);
    config.max_pods = pods.max_pods;
    config.reachable.clone_from(&pods.pods_may_reach);
    config.resolvers.clone_from(&pods.pods_resolver);
    config.hidden.extend(std::env::home_dir());
    config.lang = std::env::var("LANG").ok();
    config.time_zone = std::env::var("TZ").ok();
    Ok(config)
}

fn serving(node: &args::Node) -> Result<Option<Serving>, Failure> {
    let (Some(certificate), Some(key), Some(authority)) =
        (&node.tls_cert, &node.tls_key, &node.client_ca)
    else {
        return Ok(None);
    };
    let read = |path: &Path| {
        fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))
            .map_err(|error| Failure::unavailable(error, "Logs are served with it."))
    };
    Ok(Some(Serving {
        certified: Certified { certificate_pem: read(certificate)?, key_pem: read(key)? },
        client_authority_pem: read(authority)?,
    }))
}

/// Tells Pods where the API server is, and lets them reach it although that may be on this machine.
async fn configure_api(config: &mut Config, url: &Uri) {
    let Some(host) = url.host() else { return };
    // An address of IPv6 is in brackets there.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
    config.api_server = Some((host.to_owned(), port));
    match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => config.reachable.extend(addresses.map(Reachable::from)),
        // It was connected to a moment ago; Pods can still reach it where it is no service of ours.
        Err(error) => tracing::warn!(%error, host, "the API server's name cannot be resolved"),
    }
}

/// A client by the kubeconfig that an option names, which has been seen to work, and where to.
async fn connect(option: &str, path: &Path) -> Result<(Client, Uri), Failure> {
    let advice = format!("Give a kubeconfig that can be used: {option} FILE.");
    let usage = |error| Failure::new(Exit::Usage, error, advice.clone());
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read {}", path.display()))
        .map_err(usage)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use {}", path.display()))
        .map_err(usage)?;
    let url = config.cluster_url.clone();
    let client = super::client::single_attempt(&config)
        .with_context(|| format!("cannot use {}", path.display()))
        .map_err(usage)?;
    let advice = "See that it runs, and that the kubeconfig names it.";
    match tokio::time::timeout(API_START_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok((client, url)),
        Ok(Err(error)) => {
            let error = anyhow::Error::from(error).context(format!("cannot ask {url}"));
            Err(Failure::unavailable(error, advice))
        }
        Err(_) => Err(Failure::unavailable(anyhow!("{url} does not answer"), advice)),
    }
}

/// The machine's name as a Node's: in lower case.
fn host_name() -> Result<String, Failure> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .context("cannot read the host's name")
        .map_err(|error| Failure::unavailable(error, "Give the node a name: --name NAME."))?;
    Ok(name.trim().to_ascii_lowercase())
}

fn start_failure(error: StartError) -> Failure {
    let advice = match &error {
        StartError::Folder { .. } => {
            "Let this user write there, or use another folder: --data DIR."
        }
        StartError::InUse { .. } => "Stop that one first, or use another folder: --data DIR.",
        StartError::Ports(_) => "Choose other ports: --pod-ports FIRST-LAST.",
        StartError::Serve(_) => "See that the address is this machine's and the certificate fits.",
        _ => "Nothing was changed.",
    };
    Failure::unavailable(error, advice)
}
