//! `sojourn operator`: the same controllers on a cluster.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::routing::get;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::{CertificateParams, KeyPair};
use sojourn_drivers::dial::Direct;
use sojourn_operator::clock::SystemClock;
use sojourn_operator::family::ProgramPath;
use sojourn_operator::leadership::{self, Candidate};
use sojourn_operator::metrics::Metrics;
use sojourn_operator::random::NoRandomness;
use sojourn_operator::readiness::Readiness;
use sojourn_operator::replica::ReplicaName;
use sojourn_operator::retry::Retries;
use sojourn_web::{BearerToken, Bound, Clients, Listener};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::family::{self, Controllers, Served};
use super::providers::{MachineDrivers, ProviderPrograms};
use super::signals::Signals;
use super::web::{self, WebListener, WebServer};
use super::webhook;
use super::{client, code_pages, connect, descriptors};
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// How long the API server may take to answer at the start.
const API_START_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(args: args::Operator, printer: Printer) -> Result<(), Failure> {
    connect::run(serve(args, printer))
}

async fn serve(args: args::Operator, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let config = config(args.kubeconfig.as_deref()).await?;
    let client = client(&config)?;
    reach(&config, &client).await?;
    let programs = ProviderPrograms::start(args.providers.as_deref(), printer)?;
    let metrics = Metrics::default();
    let retries = Retries::new(&metrics);
    // Whatever a review has to find out is asked once; there is no time to ask again.
    let (readiness, probing) = Readiness::new(client.clone(), &metrics);
    let probing = tokio::spawn(probing);
    let webhook = webhook::serve(&args, &client, &readiness, &programs.admission()).await?;
    let counting = match args.metrics {
        Some(address) => {
            let router = readiness.router();
            Some(serve_metrics(address, metrics.clone(), router, printer).await?)
        }
        None => None,
    };
    let web_listener = match args.web {
        Some(address) => Some(WebListener::bind(address, web_tls(&args, address)?).await?),
        None => None,
    };
    let sdk_listener = match args.sdk {
        Some(address) => Some(bind_sdk(&args, address).await?),
        None => None,
    };
    let replica_target = webhook.as_ref().map(webhook::Webhook::replica_target);
    let authorize_route = webhook.as_ref().map(webhook::Webhook::authorize_route);
    let replica = Replica {
        args,
        config,
        client,
        retries,
        metrics,
        web_listener,
        sdk_listener,
        replica_target,
        authorize_route,
        machines: programs.machines(),
        printer,
    };
    code_pages::give_back_soon();
    let reason = replica.run(&mut signals).await;
    probing.abort();
    if let Some(counting) = counting {
        counting.abort();
    }
    let at_once = matches!(reason, StopReason::AtOnce);
    let stopping = async {
        if at_once {
            return;
        }
        let webhook = async {
            if let Some(webhook) = webhook {
                webhook.stop().await;
            }
        };
        tokio::join!(webhook, programs.stop());
    };
    tokio::select! {
        () = stopping => {}
        () = signals.requested() => {}
    }
    match reason {
        StopReason::Wanted | StopReason::Lost => printer.line("Stopped."),
        StopReason::AtOnce => printer.line("Stopped at once."),
        StopReason::Broken(failure) => return Err(failure),
    }
    Ok(())
}

/// One of perhaps several operators of a cluster.
struct Replica {
    args: args::Operator,
    config: Config,
    client: Client,
    retries: Retries,
    metrics: Metrics,
    /// Every replica has it: who leads serves people, the others pass them on.
    web_listener: Option<WebListener>,
    /// Where every replica hears game servers, whether it leads or not.
    sdk_listener: Option<Bound>,
    /// Where it serves admission.
    replica_target: Option<webhook::ReplicaTarget>,
    /// Where it answers reviews of access, whether it leads or not.
    authorize_route: Option<webhook::AuthorizeRoute>,
    /// Who makes machines, beside `pod`.
    machines: MachineDrivers,
    printer: Printer,
}

/// Why a replica stopped running the controllers.
enum StopReason {
    /// Somebody wants it to stop; everything has ended.
    Wanted,
    /// Somebody wants it to stop and does not wait.
    AtOnce,
    /// It does not hold the lease any more.
    Lost,
    Broken(Failure),
}

impl Replica {
    async fn run(&self, signals: &mut Signals) -> StopReason {
        let client = self.retries.client(self.client.clone());
        let replica = match self.args.leader_elect.then(ReplicaName::random).transpose() {
            Ok(replica) => replica,
            Err(error) => return StopReason::Broken(no_randomness(error)),
        };
        let web = WebListener::service(self.web_listener.as_ref());
        let own_program = ProgramPath(self.args.submit_program.clone());
        let game = self.args.game.setup(false);
        let (dial, metrics) = (Arc::new(Direct), self.metrics.clone());
        let machines = self.machines.clone();
        let setup = family::setup(web, own_program, dial, metrics, replica, game, machines);
        let served = tokio::select! {
            () = signals.requested() => return StopReason::Wanted,
            served = Served::start(&client, &setup) => served,
        };
        let mut served = match served {
            Ok(served) => served,
            Err(failure) => return StopReason::Broken(failure),
        };
        if let (Some(route), Some(asked)) = (&self.authorize_route, served.authorizer()) {
            route.set(asked.webhook);
        }
        let sdk = self.sdk_listener.clone().map(|bound| {
            self.printer.field("sdk", bound.address());
            bound.serve(served.families().pod_service())
        });
        let reason = if self.args.leader_elect {
            self.run_elected(&mut served, signals).await.unwrap_or_else(StopReason::Broken)
        } else {
            leadership::act_alone(&self.metrics);
            self.lead(&mut served, client, std::future::pending(), signals).await
        };
        // Dropped at the end, it ends at once: what was being said is said again.
        if let (Some(sdk), StopReason::Wanted | StopReason::Lost | StopReason::Broken(_)) =
            (sdk, &reason)
        {
            sdk.stop().await;
        }
        match reason {
            StopReason::AtOnce => served.abandon().await,
            StopReason::Wanted | StopReason::Lost | StopReason::Broken(_) => served.stop().await,
        }
        reason
    }

    /// Runs the controllers whenever it holds the lease, until a signal stops it.
    async fn run_elected(
        &self,
        served: &mut Served,
        signals: &mut Signals,
    ) -> Result<StopReason, Failure> {
        let host = rustix::system::uname();
        let identity =
            leadership::identity(&host.nodename().to_string_lossy()).map_err(no_randomness)?;
        let clock = Arc::new(SystemClock);
        let entered = Candidate::enter(self.client.clone(), clock, &self.metrics, &identity);
        let candidate = entered.await.map_err(|error| {
            let advice = "Is the namespace there (sojourn crds | kubectl apply -f -), and may the \
                          operator write leases in it?";
            Failure::unavailable(error, advice)
        })?;
        let address = match &self.web_listener {
            Some(web_listener) => Some(advertised(&self.config, web_listener.address()).await),
            None => None,
        };
        let mut candidate = candidate.with_web_address(address);
        loop {
            let leader = candidate.holder().unwrap_or("nobody");
            self.printer.line(format_args!("Standing by as {identity}; {leader} leads."));
            let relaying = self
                .web_listener
                .as_ref()
                .map(|web_listener| web_listener.relay(candidate.web_address()));
            if let Some(web_listener) = &self.web_listener {
                self.printer.field("web", web_listener.url());
            }
            let term = tokio::select! {
                term = candidate.elected() => term,
                () = signals.requested() => return Ok(StopReason::Wanted),
                failure = served.failed() => return Ok(StopReason::Broken(failure)),
            };
            drop(relaying);
            // The fence is asked before every attempt.
            let client = self.retries.client(term.fence().client(self.client.clone()));
            let reason = self.lead(served, client, term.over(), signals).await;
            match &reason {
                StopReason::Lost => {
                    self.printer.warning("the lease is lost; nothing is done here now");
                }
                StopReason::Wanted | StopReason::Broken(_) => {
                    term.release().await;
                    return Ok(reason);
                }
                StopReason::AtOnce => return Ok(reason),
            }
        }
    }

    /// Runs the controllers, and serves people, until `over`.
    async fn lead(
        &self,
        served: &mut Served,
        client: Client,
        over: impl Future<Output = ()> + Send,
        signals: &mut Signals,
    ) -> StopReason {
        let mut over = std::pin::pin!(over);
        let started = tokio::select! {
            biased;
            () = &mut over => return StopReason::Lost,
            () = signals.requested() => return StopReason::Wanted,
            started = LeaderTasks::start(self, served, client) => started,
        };
        let mut tasks = match started {
            Ok(tasks) => tasks,
            Err(failure) => return StopReason::Broken(failure),
        };
        if let Some(replica_target) = &self.replica_target
            && let Err(error) = replica_target.register().await
        {
            let error = format!("{error:#}");
            tracing::warn!(error, "the API server may ask a replica that is gone");
        }
        self.printer.good("The operator is up.");
        if let Some(web_server) = &tasks.web_server {
            self.printer.field("web", web_server.url());
        }
        let reason = tokio::select! {
            biased;
            () = over => StopReason::Lost,
            () = signals.requested() => StopReason::Wanted,
            failure = tasks.controllers.failed() => StopReason::Broken(failure),
            failure = served.failed() => StopReason::Broken(failure),
        };
        if matches!(reason, StopReason::Lost) {
            tasks.abandon().await;
            return reason;
        }
        self.printer.line("Stopping.");
        tokio::select! {
            () = tasks.stop() => reason,
            () = signals.requested() => StopReason::AtOnce,
        }
    }
}

/// What only one replica runs.
struct LeaderTasks {
    controllers: Controllers,
    web_server: Option<WebServer>,
}

impl LeaderTasks {
    async fn start(replica: &Replica, served: &Served, client: Client) -> Result<Self, Failure> {
        let controllers = served.lead(&client).await?;
        let web_server = match replica.web_listener.clone() {
            Some(web_listener) => {
                let clients = Arc::new(WithToken { config: replica.config.clone() });
                web_listener.open(&served.web(), Arc::new(Direct), clients, client, None)?
            }
            None => None,
        };
        Ok(Self { controllers, web_server })
    }

    /// Ends after the people have, whose use is to be known.
    async fn stop(self) {
        if let Some(web_server) = self.web_server {
            web_server.stop().await;
        }
        self.controllers.stop().await;
    }

    /// Ends at once: another may begin soon.
    async fn abandon(self) {
        self.controllers.stop().await;
        if let Some(web_server) = self.web_server {
            web_server.stop().await;
        }
    }
}

fn no_randomness(error: NoRandomness) -> Failure {
    let advice = "Without them no replica can tell itself from another. See that /dev/urandom and \
                  getrandom(2) work here, then start again.";
    Failure::unavailable(error, advice)
}

pub(super) async fn config(kubeconfig: Option<&Path>) -> Result<Config, Failure> {
    let usage = |error| Failure::new(Exit::Usage, error, "Say which one: --kubeconfig FILE.");
    match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read {}", path.display()))
                .map_err(usage)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("cannot use {}", path.display()))
                .map_err(usage)
        }
        None => Config::infer()
            .await
            .context("this is no Pod of a cluster, and there is no kubeconfig")
            .map_err(usage),
    }
}

pub(super) fn client(config: &Config) -> Result<Client, Failure> {
    client::single_attempt(config)
        .context("cannot use the kubeconfig")
        .map_err(|error| Failure::new(Exit::Usage, error, "Say which one: --kubeconfig FILE."))
}

pub(super) async fn reach(config: &Config, client: &Client) -> Result<(), Failure> {
    let url = &config.cluster_url;
    let advice = "See that it runs, and that the kubeconfig names it.";
    match tokio::time::timeout(API_START_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            let error = anyhow::Error::from(error).context(format!("cannot ask {url}"));
            Err(Failure::unavailable(error, advice))
        }
        Err(_) => Err(Failure::unavailable(anyhow!("{url} does not answer"), advice)),
    }
}

/// Where other replicas reach this one: the address itself, or, if it stands for all of this machine's,
/// the one by which the machine reaches the API server.
async fn advertised(config: &Config, listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let host = config.cluster_url.host().unwrap_or("127.0.0.1").trim_matches(['[', ']']).to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let outgoing = async {
        let to = tokio::net::lookup_host((host, port)).await?.next();
        let to = to.ok_or_else(|| std::io::Error::other("the API server has no address"))?;
        let any = SocketAddr::new(
            if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() },
            0,
        );
        let socket = tokio::net::UdpSocket::bind(any).await?;
        // Nothing is sent: the system only says which way it would take.
        socket.connect(to).await?;
        socket.local_addr()
    };
    match outgoing.await {
        Ok(local) => SocketAddr::new(local.ip(), listening.port()),
        Err(error) => {
            tracing::warn!(%error, "other replicas are not told where this one serves people");
            super::up::reachable(listening)
        }
    }
}

/// Clients of the same API that show somebody's token and nothing of ours.
struct WithToken {
    config: Config,
}

impl Clients for WithToken {
    fn client_with(&self, token: &BearerToken) -> Client {
        let mut config = self.config.clone();
        config.auth_info =
            AuthInfo { token: Some(token.reveal().to_owned().into()), ..AuthInfo::default() };
        client::single_attempt(&config).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot act with somebody's token");
            refusing()
        })
    }
}

/// A client that never gets through: better than one with somebody else's rights.
fn refusing() -> Client {
    let refuse = |_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
            "there is no way to the API",
        ))
    };
    Client::new(tower::service_fn(refuse), "default")
}

/// A certificate of our own making: whoever connects is told its authority.
pub(super) fn self_signed(names: Vec<String>) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.self_signed(&key))
        .context("cannot make a certificate")?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The listener for sidecars. There is one for each game server of a cluster.
async fn bind_sdk(args: &args::Operator, address: SocketAddr) -> Result<Bound, Failure> {
    let advice = "Give its certificate: --sdk-tls-cert FILE --sdk-tls-key FILE; or choose an address \
                  of this machine.";
    let tls = match (&args.sdk_tls_cert, &args.sdk_tls_key) {
        (Some(certificate), Some(key)) => Some(tls_from(certificate, key, advice)?),
        _ => None,
    };
    let bound = Listener::bind(address, tls).await;
    let bound = bound.map_err(|error| Failure::unavailable(error, advice))?;
    Ok(bound.with_connections(descriptors::connections()))
}

/// TLS with a certificate from files.
fn tls_from(
    certificate: &Path,
    key: &Path,
    advice: &str,
) -> Result<Arc<rustls::ServerConfig>, Failure> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    read(certificate)
        .and_then(|certificate| web::tls(&certificate, &read(key)?))
        .map_err(|error| Failure::new(Exit::Usage, error, advice))
}

/// TLS with the given certificate; without one, with one of our own making, and on loopback none.
fn web_tls(
    args: &args::Operator,
    address: SocketAddr,
) -> Result<Option<Arc<rustls::ServerConfig>>, Failure> {
    if let (Some(certificate), Some(key)) = (&args.web_tls_cert, &args.web_tls_key) {
        let advice = "Give both as PEM: --web-tls-cert FILE --web-tls-key FILE.";
        return tls_from(certificate, key, advice).map(Some);
    }
    if address.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    self_signed(vec![address.ip().to_string(), "localhost".to_owned()])
        .and_then(|(certificate, key)| web::tls(&certificate, &key))
        .map(Some)
        .map_err(|error| Failure::new(Exit::Bug, error, "Please report it."))
}

pub(super) async fn serve_metrics(
    address: SocketAddr,
    metrics: Metrics,
    readiness: Router,
    printer: Printer,
) -> Result<JoinHandle<()>, Failure> {
    let failed = |error| Failure::unavailable(error, "Choose another: --metrics ADDR.");
    let unusable = || format!("cannot listen on {address}");
    let listener = TcpListener::bind(address).await.with_context(unusable).map_err(failed)?;
    let address = listener.local_addr().with_context(unusable).map_err(failed)?;
    printer.field("metrics", format_args!("http://{address}/metrics"));
    let router = Router::new()
        .route("/metrics", get(move || std::future::ready(metrics.text())))
        .route("/healthz", get(|| std::future::ready("ok")))
        .merge(readiness);
    Ok(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "metrics are no longer served");
        }
    }))
}
