//! `sojourn up`: the embedded API, served until somebody asks it to stop.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use axum::routing::get;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::auth::token::Token;
use sojourn_apiserver::folder::SafeFolder;
use sojourn_apiserver::{
    Config, Engine, Hook, HookScope, Hooks, Limits, ServeError, Server, SystemEntropy,
};
use sojourn_drivers::dial::{Dial, Direct};
use sojourn_node::PodsOnStop;
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::family::ProgramPath;
use sojourn_operator::game::GameSetup;
use sojourn_operator::leadership;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::retry::Retries;
use sojourn_rbac::{SUPERUSER_GROUP, User};
use sojourn_web::{BearerToken, Clients, Credentials};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use super::authorizer::InProcessAuthorizer;
use super::code_pages;
use super::data::{self, folder_failure, open_failure, quoted};
use super::descriptors;
use super::family::{self, Controllers, Served};
use super::kubeconfig::{KubeconfigFile, no_randomness};
use super::node::{LocalNode, NodePlace};
use super::operator::serve_metrics;
use super::people::WEB_FILE;
use super::pod_services::FamilyPodServices;
use super::program::OwnProgram;
use super::providers::{MachineDrivers, ProviderPrograms};
use super::signals::Signals;
use super::web::{self, WebListener, WebServer};
use crate::args::Up;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) fn run(up: Up, printer: Printer) -> Result<(), Failure> {
    let started = Instant::now();
    let runtime = Runtime::new().context("cannot start the threads that serve requests").map_err(
        |error| {
            Failure::unavailable(error, "See whether this user may have more of them (ulimit -u).")
        },
    )?;
    let served = runtime.block_on(serve(up, started, printer));
    // By now either everything has ended or nobody wants to wait for what has not.
    runtime.shutdown_background();
    served
}

async fn serve(up: Up, started: Instant, printer: Printer) -> Result<(), Failure> {
    let in_memory = up.in_memory;
    let on_stop = if up.keep_pods { PodsOnStop::Keep } else { PodsOnStop::End };
    // Signals that come while things are being started must find somebody who listens.
    let mut signals = Signals::listen()?;
    let data = if in_memory { None } else { Some(data::directory(up.data.clone())?) };
    let programs = ProviderPrograms::start(up.providers.as_deref(), printer)?;
    let admission = Admission::new(&programs.admission());
    let config = data
        .clone()
        .map_or_else(Config::in_memory, Config::at)
        .names(up.tls_san.clone())
        .hooks(hooks(&admission))
        .limits(Limits { connections: descriptors::connections(), ..Limits::default() })
        .reserved_users([operator().user().name.clone()]);
    let engine = Engine::open(config).await.map_err(open_failure)?;
    // Without controllers, too, whoever writes our kinds is asked what they may refer to, and nobody
    // deletes a namespace in which data is owed. The operator's account has no roles before controllers
    // have run here once, so this asks as the administrator.
    admission.connect(engine.client_named(administrator(), "sojourn"));
    let server = engine.serve_tls(up.listen).await.map_err(serve_failure)?;
    let address = reachable(server.address());
    engine.set_lock_holder(&format!("process {}, serving https://{address}", std::process::id()));

    let kubeconfig = match &data {
        Some(data) => KubeconfigFile::in_folder(data)?,
        None => KubeconfigFile::temporary()?,
    };
    engine.add_token(kubeconfig.token().reveal(), administrator());
    kubeconfig.write(&format!("https://{address}"), server.authority_pem())?;

    printer.good(format_args!("Sojourn is up, ready in {} ms.", started.elapsed().as_millis()));
    print_welcome(printer, data, server.address(), &kubeconfig);
    let program = OwnProgram::install(kubeconfig.folder(), printer);
    let web_listener = if up.no_controllers || up.web.no_web {
        None
    } else {
        Some(WebListener::bind(up.web.web, web_tls(&engine, &up)?).await?)
    };
    let pod_services = Arc::new(FamilyPodServices::default());
    if up.no_controllers {
        pod_services.set_none();
    }
    let node = if up.no_pods {
        None
    } else {
        let (data, program) = (kubeconfig.folder().path(), program.folder());
        let web = web_listener.as_ref().map(WebListener::address);
        let api = server.address();
        let place = NodePlace { data, program, api, web, ends_with_us: in_memory };
        let node = LocalNode::start(&engine, &up.pods, place, pod_services.clone()).await?;
        node.describe(printer);
        Some(node)
    };
    let mut family = None;
    if !up.no_controllers {
        let dial = node.as_ref().map_or_else(|| Arc::new(Direct) as _, LocalNode::dial);
        let metrics = Metrics::default();
        let game = up.game.setup(node.is_some());
        let machines = programs.machines();
        let place = FamiliesPlace { web_listener, dial, program: &program, game, machines };
        let started = Families::start(&engine, place, &metrics).await?;
        pod_services.set(started.served.families().clone());
        started.describe(printer, kubeconfig.folder())?;
        family = Some(started);
        if let Some(address) = up.metrics {
            let ready = axum::Router::new().route("/readyz", get(|| std::future::ready("ok")));
            // It ends with the process.
            drop(serve_metrics(address, metrics, ready, printer).await?);
        }
    }
    try_it(printer, &kubeconfig);
    code_pages::give_back_soon();
    let controller_failed = tokio::select! {
        () = signals.requested() => None,
        failure = controller_failed(family.as_mut()) => Some(failure),
    };
    printer.line("Stopping: Pods and open requests may end; Ctrl-C again stops at once.");
    tokio::select! {
        () = stop(engine, server, node, family, programs, on_stop) => printer.line(if in_memory {
            "Stopped. Nothing is kept."
        } else {
            "Stopped. Everything that was acknowledged is on disk."
        }),
        () = signals.requested() => printer.line("Stopped at once."),
    }
    controller_failed.map_or(Ok(()), Err)
}

/// Waits until a controller ends, which none should.
async fn controller_failed(family: Option<&mut Families>) -> Failure {
    match family {
        Some(family) => tokio::select! {
            failure = family.controllers.failed() => failure,
            failure = family.served.failed() => failure,
        },
        None => std::future::pending().await,
    }
}

fn hooks(admission: &Admission) -> Hooks {
    let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
    let hook = Hook::new(admission::NAME, scope, admission.service());
    Hooks { mutating: Vec::new(), validating: vec![hook] }
}

/// The controllers of our own kinds, and the web listener.
struct Families {
    served: Served,
    controllers: Controllers,
    web_server: Option<WebServer>,
    /// Who comes in by our own link.
    person: Credentials,
}

/// Where the families of this machine are.
struct FamiliesPlace<'a> {
    web_listener: Option<WebListener>,
    dial: Arc<dyn Dial>,
    program: &'a OwnProgram,
    game: GameSetup,
    machines: MachineDrivers,
}

impl Families {
    async fn start(
        engine: &Engine,
        place: FamiliesPlace<'_>,
        metrics: &Metrics,
    ) -> Result<Self, Failure> {
        let FamiliesPlace { web_listener, dial, program, game, machines } = place;
        let administrator = engine.client_named(administrator(), "sojourn-up");
        family::install_kinds(&administrator).await?;
        family::bind_person(&administrator).await?;
        let person = person(engine)?;
        leadership::act_alone(metrics);
        let client = engine.client_named(operator(), "sojourn");
        let client = Retries::new(metrics).client(client);
        let web = WebListener::service(web_listener.as_ref());
        let own_program = ProgramPath(program.path().display().to_string());
        let metrics = metrics.clone();
        let setup = family::setup(web, own_program, dial.clone(), metrics, None, game, machines);
        let served = Served::start(&client, &setup).await?;
        if let Some(asked) = served.authorizer() {
            let (authorizer, clock) = (asked.authorizer, setup.clock.clone());
            engine.set_extension_authorizer(Arc::new(InProcessAuthorizer { authorizer, clock }));
        }
        let controllers = served.lead(&client).await?;
        let web_server = match web_listener {
            Some(web_listener) => {
                let clients = Arc::new(InProcess(engine.clone()));
                let superuser = Some(person.clone());
                web_listener.open(&served.web(), dial, clients, client, superuser)?
            }
            None => None,
        };
        Ok(Self { served, controllers, web_server, person })
    }

    /// Says where people come in, and leaves it beside the kubeconfig for `sojourn open`.
    fn describe(&self, printer: Printer, folder: &SafeFolder) -> Result<(), Failure> {
        let Some(web_server) = &self.web_server else { return Ok(()) };
        printer.field("web", web_server.url());
        printer.field("sign in", web_server.link(self.person.clone()));
        folder.replace(WEB_FILE, web_server.url().as_bytes()).map_err(folder_failure)
    }

    async fn stop(self) {
        if let Some(web_server) = self.web_server {
            web_server.stop().await;
        }
        self.controllers.stop().await;
        self.served.stop().await;
    }
}

/// Clients inside the process that show the token of whoever signed in.
struct InProcess(Engine);

impl Clients for InProcess {
    fn client_with(&self, token: &BearerToken) -> kube::Client {
        let shown = http::HeaderValue::try_from(format!("Bearer {}", token.reveal()));
        let service =
            self.0.router().map_request(move |request: http::Request<kube::client::Body>| {
                let mut request = request.map(axum::body::Body::new);
                // What cannot be a header is nobody's token, and without one nobody gets in.
                if let Ok(shown) = &shown {
                    request.headers_mut().insert(http::header::AUTHORIZATION, shown.clone());
                }
                request
            });
        kube::Client::new(service, "default")
    }
}

/// Who uses this machine's browser: bound by a role, and known to the API by a token that nobody
/// is told and that ends with this process.
fn person(engine: &Engine) -> Result<Credentials, Failure> {
    let token = Token::generate(&SystemEntropy::default()).map_err(no_randomness)?;
    let name = install::PERSON.to_owned();
    let user = User { name: name.clone(), ..User::default() };
    engine.add_token(token.reveal(), Identity::authenticated(user));
    let identity = sojourn_web::Identity { name, ..sojourn_web::Identity::default() };
    Ok(Credentials { identity, token: BearerToken::new(token.reveal()) })
}

/// TLS for people from elsewhere; on this machine there is nobody to hide from.
fn web_tls(engine: &Engine, up: &Up) -> Result<Option<Arc<rustls::ServerConfig>>, Failure> {
    if up.web.web.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    let mut names = up.tls_san.clone();
    names.push(up.web.web.ip().to_string());
    names.push("localhost".to_owned());
    engine
        .server_certificate(&names)
        .context("cannot issue a certificate")
        .and_then(|certified| web::tls(&certified.certificate_pem, &certified.key_pem))
        .map(Some)
        .map_err(|error| Failure::new(Exit::Bug, error, "Please report it."))
}

/// The account of the controllers, with the rights of its role.
fn operator() -> Identity {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", shared::NAMESPACE),
    ];
    Identity::authenticated(User {
        name: install::user_name(),
        groups: groups.into(),
        ..User::default()
    })
}

/// Ends controllers first, which must not see Pods end and start them anew; then Pods, which need the API to say how they ended; then watches, since they would not end
/// by themselves; then the rest.
async fn stop(
    engine: Engine,
    server: Server,
    node: Option<LocalNode>,
    family: Option<Families>,
    programs: ProviderPrograms,
    on_stop: PodsOnStop,
) {
    if let Some(family) = family {
        family.stop().await;
    }
    programs.stop().await;
    if let Some(node) = node {
        node.stop(on_stop).await;
    }
    engine.end_watches();
    server.stop().await;
    engine.close().await;
}

fn administrator() -> Identity {
    Identity::authenticated(User {
        name: "admin".to_owned(),
        groups: vec![SUPERUSER_GROUP.to_owned()],
        ..User::default()
    })
}

fn print_welcome(
    printer: Printer,
    data: Option<PathBuf>,
    listening: SocketAddr,
    kubeconfig: &KubeconfigFile,
) {
    printer.field("API", format_args!("https://{}", reachable(listening)));
    match data {
        Some(data) => printer.field("data", data.display()),
        None => printer.field("data", "in memory, gone when this ends"),
    }
    printer.field("kubeconfig", kubeconfig.path().display());
    if !listening.ip().is_loopback() {
        printer.warning(format_args!(
            "{listening} can be reached from other machines; whoever has the kubeconfig may do \
             anything"
        ));
    }
}

fn try_it(printer: Printer, kubeconfig: &KubeconfigFile) {
    printer.line("Try it:");
    printer.line(format_args!("  export KUBECONFIG={}", quoted(kubeconfig.path())));
    printer.line("  kubectl get namespaces");
    printer.line("Ctrl-C stops it.");
}

/// The address under which a client on this machine reaches the listener.
pub(super) fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

fn serve_failure(error: ServeError) -> Failure {
    let ServeError::Listen { address, source } = &error else {
        return Failure::new(Exit::Bug, error, "Please report it. No data was lost.");
    };
    let elsewhere = SocketAddr::new(address.ip(), 0);
    let advice = match source.kind() {
        ErrorKind::AddrInUse => format!(
            "Something else uses that port. Stop it, or choose another port: --listen {elsewhere} \
             takes any free one."
        ),
        ErrorKind::PermissionDenied => {
            "Ports below 1024 are for the superuser. Choose another: --listen ADDR.".to_owned()
        }
        ErrorKind::AddrNotAvailable => {
            "This machine does not have that address. Choose another: --listen ADDR.".to_owned()
        }
        _ => "Choose another address: --listen ADDR.".to_owned(),
    };
    Failure::unavailable(error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_given_an_address_that_works() {
        for (listening, expected) in [
            ("127.0.0.1:7443", "127.0.0.1:7443"),
            ("0.0.0.0:7443", "127.0.0.1:7443"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:5", "192.0.2.1:5"),
        ] {
            let listening = listening.parse().expect("an address");
            assert_eq!(reachable(listening).to_string(), expected);
        }
    }
}
