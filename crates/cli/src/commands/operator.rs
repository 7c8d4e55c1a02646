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
use sojourn_operator::lab::Settings;
use sojourn_operator::leadership::{self, Candidate};
use sojourn_operator::metrics::Metrics;
use sojourn_operator::readiness::Readiness;
use sojourn_operator::retry::Retries;
use sojourn_web::{BearerToken, Clients};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::family::Controllers;
use super::people::{self, Entrance, People};
use super::signals::Signals;
use super::webhook;
use super::{client, connect};
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// How long the API server may take to answer at the start.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(args: args::Operator, printer: Printer) -> Result<(), Failure> {
    connect::run(serve(args, printer))
}

async fn serve(args: args::Operator, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let config = config(args.kubeconfig.as_deref()).await?;
    let client = client(&config)?;
    reach(&config, &client).await?;
    let metrics = Metrics::default();
    let retries = Retries::new(&metrics);
    // Whatever a review has to find out is asked once; there is no time to ask again.
    let (readiness, probing) = Readiness::new(client.clone(), &metrics);
    let probing = tokio::spawn(probing);
    let webhook = webhook::serve(&args, &client, &readiness).await?;
    let counting = match args.metrics {
        Some(address) => {
            let router = readiness.router();
            Some(serve_metrics(address, metrics.clone(), router, printer).await?)
        }
        None => None,
    };
    let entrance = match args.web {
        Some(address) => Some(Entrance::bind(address, web_tls(&args, address)?).await?),
        None => None,
    };
    let claim = webhook.as_ref().map(webhook::Webhook::claim);
    let replica = Replica { args, config, client, retries, metrics, entrance, claim, printer };
    let ending = replica.run(&mut signals).await;
    probing.abort();
    if let Some(counting) = counting {
        counting.abort();
    }
    let webhook = async {
        match webhook {
            Some(webhook) if !matches!(ending, Ending::AtOnce) => webhook.stop().await,
            Some(_) | None => {}
        }
    };
    tokio::select! {
        () = webhook => {}
        () = signals.wanted() => {}
    }
    match ending {
        Ending::Wanted | Ending::Lost => printer.line("Stopped."),
        Ending::AtOnce => printer.line("Stopped at once."),
        Ending::Broken(failure) => return Err(failure),
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
    entrance: Option<Entrance>,
    /// Where it serves admission.
    claim: Option<webhook::Claim>,
    printer: Printer,
}

/// Why a replica does not act any more.
enum Ending {
    /// Somebody wants it to stop; everything has ended.
    Wanted,
    /// Somebody wants it to stop and does not wait.
    AtOnce,
    /// It does not hold the lease any more.
    Lost,
    Broken(Failure),
}

impl Replica {
    async fn run(&self, signals: &mut Signals) -> Ending {
        if self.args.leader_elect {
            return self.compete(signals).await.unwrap_or_else(Ending::Broken);
        }
        leadership::act_alone(&self.metrics);
        let client = self.retries.client(self.client.clone());
        self.act(client, std::future::pending(), signals).await
    }

    /// Acts whenever it holds the lease, until somebody wants it to stop.
    async fn compete(&self, signals: &mut Signals) -> Result<Ending, Failure> {
        let host = rustix::system::uname();
        let identity =
            leadership::identity(&host.nodename().to_string_lossy()).map_err(|error| {
                let advice = "Without them no replica can tell itself from another. See that \
                              /dev/urandom and getrandom(2) work here, then start again.";
                Failure::unavailable(error, advice)
            })?;
        let clock = Arc::new(SystemClock);
        let entered = Candidate::enter(self.client.clone(), clock, &self.metrics, &identity);
        let candidate = entered.await.map_err(|error| {
            let advice = "Is the namespace there (sojourn crds | kubectl apply -f -), and may the \
                          operator write leases in it?";
            Failure::unavailable(error, advice)
        })?;
        let address = match &self.entrance {
            Some(entrance) => Some(advertised(&self.config, entrance.address()).await),
            None => None,
        };
        let mut candidate = candidate.serving_people_at(address);
        loop {
            let leader = candidate.holder().unwrap_or("nobody");
            self.printer.line(format_args!("Standing by as {identity}; {leader} leads."));
            let relaying =
                self.entrance.as_ref().map(|entrance| entrance.relay(candidate.people()));
            if let Some(entrance) = &self.entrance {
                self.printer.field("web", entrance.url());
            }
            let term = tokio::select! {
                term = candidate.elected() => term,
                () = signals.wanted() => return Ok(Ending::Wanted),
            };
            drop(relaying);
            // The fence is asked before every attempt.
            let client = self.retries.client(term.fence().client(self.client.clone()));
            let ending = self.act(client, term.over(), signals).await;
            match &ending {
                Ending::Lost => self.printer.warning("the lease is lost; nothing is done here now"),
                Ending::Wanted | Ending::Broken(_) => {
                    term.release().await;
                    return Ok(ending);
                }
                Ending::AtOnce => return Ok(ending),
            }
        }
    }

    /// Runs the controllers, and serves people, until `over`.
    async fn act(
        &self,
        client: Client,
        over: impl Future<Output = ()> + Send,
        signals: &mut Signals,
    ) -> Ending {
        let mut over = std::pin::pin!(over);
        let started = tokio::select! {
            biased;
            () = &mut over => return Ending::Lost,
            () = signals.wanted() => return Ending::Wanted,
            started = Acting::start(self, client) => started,
        };
        let mut acting = match started {
            Ok(acting) => acting,
            Err(failure) => return Ending::Broken(failure),
        };
        if let Some(claim) = &self.claim
            && let Err(error) = claim.make().await
        {
            let error = format!("{error:#}");
            tracing::warn!(error, "the API server may ask a replica that is gone");
        }
        self.printer.good("The operator is up.");
        if let Some(people) = &acting.people {
            self.printer.field("web", people.url());
        }
        let ending = tokio::select! {
            biased;
            () = over => Ending::Lost,
            () = signals.wanted() => Ending::Wanted,
            failure = acting.controllers.broken() => Ending::Broken(failure),
        };
        if matches!(ending, Ending::Lost) {
            acting.abandon().await;
            return ending;
        }
        self.printer.line("Stopping.");
        tokio::select! {
            () = acting.stop() => ending,
            () = signals.wanted() => Ending::AtOnce,
        }
    }
}

/// What only one replica runs.
struct Acting {
    controllers: Controllers,
    people: Option<People>,
}

impl Acting {
    async fn start(replica: &Replica, client: Client) -> Result<Self, Failure> {
        let Replica { args, config, metrics, entrance, .. } = replica;
        let entrance = entrance.clone();
        let settings = Settings {
            gateway: entrance.is_some(),
            reports: entrance.is_some(),
            public_url: entrance.as_ref().map(Entrance::url),
            submit_program: args.submit_program.clone(),
            submit_user: None,
        };
        let dial = Arc::new(Direct);
        let controllers =
            Controllers::start(client.clone(), settings, dial.clone(), metrics.clone()).await?;
        let people = match entrance {
            Some(entrance) => {
                let clients = Arc::new(WithToken { config: config.clone() });
                Some(entrance.open(&controllers.started, dial, clients, client, None)?)
            }
            None => None,
        };
        Ok(Self { controllers, people })
    }

    /// Ends after the people have, whose use is to be known.
    async fn stop(self) {
        if let Some(people) = self.people {
            people.stop().await;
        }
        self.controllers.stop().await;
    }

    /// Ends at once: another may begin soon.
    async fn abandon(self) {
        self.controllers.stop().await;
        if let Some(people) = self.people {
            people.stop().await;
        }
    }
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
    match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
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

/// TLS with the given certificate; without one, with one of our own making, and on loopback none.
fn web_tls(
    args: &args::Operator,
    address: SocketAddr,
) -> Result<Option<Arc<rustls::ServerConfig>>, Failure> {
    if let (Some(certificate), Some(key)) = (&args.web_tls_cert, &args.web_tls_key) {
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        return read(certificate)
            .and_then(|certificate| people::tls(&certificate, &read(key)?))
            .map(Some)
            .map_err(|error| {
                let advice = "Give both as PEM: --web-tls-cert FILE --web-tls-key FILE.";
                Failure::new(Exit::Usage, error, advice)
            });
    }
    if address.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    self_signed(vec![address.ip().to_string(), "localhost".to_owned()])
        .and_then(|(certificate, key)| people::tls(&certificate, &key))
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
