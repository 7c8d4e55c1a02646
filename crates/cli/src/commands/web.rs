//! Where people come in: the listener, with the gateway, signed links and reports behind it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use axum::extract::{Request, State};
use axum::middleware::map_request;
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::StatusCode;
use kube::Client;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use sojourn_drivers::dial::Dial;
use sojourn_operator::family::{FamilyCaller, FamilyWeb, WebService};
use sojourn_operator::gateway::{
    self, Gateway, GatewayLimits, OriginUrls, ReportServer, User, Visitor,
};
use sojourn_web::{
    Authenticator, Bound, Caller, Clients, Credentials, FrontLink, InstanceSite, Leader,
    ListenError, Listener, RESERVED_COOKIES, Relay, Routes, Serving, Settings, SignIn,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::exit::{Exit, Failure};

/// A bound listener that does not serve yet: controllers must know the address first.
#[derive(Clone)]
pub(super) struct WebListener {
    bound: Bound,
    secure: bool,
}

impl WebListener {
    pub(super) async fn bind(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self, Failure> {
        let secure = tls.is_some();
        let bound = Listener::bind(address, tls).await.map_err(listen_failure)?;
        Ok(Self { bound, secure })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.bound.address()
    }

    /// What is served by it, or by none.
    pub(super) fn service(listener: Option<&Self>) -> WebService {
        let served = listener.is_some();
        WebService { gateway: served, reports: served, public_url: listener.map(Self::url) }
    }

    /// Passes people on to whichever replica leads.
    pub(super) fn relay(&self, leader: Leader) -> Relay {
        self.bound.relay(leader)
    }

    /// The address as a browser on this machine writes it.
    pub(super) fn url(&self) -> String {
        let address = super::up::reachable(self.bound.address());
        format!("{}://{address}", if self.secure { "https" } else { "http" })
    }

    /// Opens it, if a family says where people reach us. `client` is the operator's own; `superuser` is as
    /// whom an administrator comes in.
    pub(super) fn open(
        self,
        families: &[FamilyWeb],
        dial: Arc<dyn Dial>,
        clients: Arc<dyn Clients>,
        client: Client,
        superuser: Option<Credentials>,
    ) -> Result<Option<WebServer>, Failure> {
        let Some(site) = families.iter().find_map(|family| family.site.clone()) else {
            return Ok(None);
        };
        let url = self.url();
        // Where a browser signs in is where its session is good.
        let configured = site.public_url;
        let public_url = PublicUrl { configured: configured.clone(), listener: url.clone() };
        let settings = Settings {
            public_url: configured.borrow().clone(),
            names: Vec::new(),
            domain: site.gateway_domain,
            listener_url: Some(url.clone()),
            superuser,
        };
        let authenticator =
            Authenticator::new(&settings, clients, client.clone()).map_err(|error| {
                Failure::new(Exit::Usage, error, "Mend publicURL in the configuration.")
            })?;
        let gateway = Gateway::new(gateway::Settings {
            families: families
                .iter()
                .filter_map(|family| Some((family.family, family.gateway.clone()?)))
                .collect(),
            dial,
            visitors: Arc::new(|extensions| extensions.get::<Caller>().map(visitor)),
            client,
            reserved_cookies: &RESERVED_COOKIES,
            limits: GatewayLimits::default(),
        });
        let reports = families.iter();
        let reports = reports.filter_map(|family| Some((family.family, family.reports.clone()?)));
        let reporting = ReportServer::new(reports.collect());
        let handlers = families.iter();
        let handlers =
            handlers.filter_map(|family| Some((family.family, family.link_handler.clone()?)));
        let open = reporting.router().merge(site.links.router(handlers.collect(), site.now));
        let minting = Router::new()
            .route("/open", post(mint))
            .with_state((authenticator.sign_in().clone(), public_url.clone()));
        let places = gateway.clone();
        let instance = InstanceSite {
            router: gateway.environment_router(),
            path: Some(Arc::new(move |label| places.access_path(label))),
        };
        let signed_in = gateway.router().merge(services(families));
        let pages = families.iter().filter_map(|family| {
            Some(FrontLink {
                title: family.pages.as_ref()?.title,
                path: format!("/{}/", family.family),
            })
        });
        let pages = pages.collect();
        let routes = Routes { signed_in, by_token: minting, open, instance, pages };
        let serving = self.bound.serve(authenticator.router(routes));
        let following = tokio::spawn(follow_public_url(authenticator.clone(), configured));
        Ok(Some(WebServer { serving, gateway, authenticator, url, public_url, following }))
    }
}

/// What families serve people, each under `/api/<family>`, and its pages under `/<family>`. Whoever comes there is signed in, or shows a
/// token; what a browser sends with its cookie alone comes from our own pages, which the authenticator
/// has seen to.
fn services(families: &[FamilyWeb]) -> Router {
    let all = families.iter().fold(Router::new(), |mut router, family| {
        let name = family.family;
        if let Some(service) = family.service.clone() {
            router = router.nest(&format!("/api/{name}"), service);
        }
        if let Some(service) = family.root_service.clone() {
            router = router.merge(service);
        }
        match family.pages.clone() {
            Some(pages) => {
                let root = format!("/{name}/");
                let whole = root.clone();
                router
                    .nest_service(&root, pages.router)
                    .route(&format!("/{name}"), get(async move || Redirect::permanent(&whole)))
            }
            None => router,
        }
    });
    all.layer(map_request(async |mut request: Request| {
        if let Some(caller) = request.extensions().get::<Caller>() {
            let caller = family_caller(caller);
            request.extensions_mut().insert(caller);
        }
        request
    }))
}

/// Who calls, as families know them.
fn family_caller(caller: &Caller) -> FamilyCaller {
    let identity = &caller.identity;
    FamilyCaller {
        user: identity.name.clone(),
        groups: identity.review_groups(),
        extra: identity.extra.clone(),
    }
}

/// The listener for people, serving.
pub(super) struct WebServer {
    serving: Serving,
    gateway: Gateway,
    authenticator: Authenticator,
    url: String,
    public_url: PublicUrl,
    following: JoinHandle<()>,
}

/// Where people reach us: as the configuration says it now, or else where we listen.
#[derive(Clone)]
struct PublicUrl {
    configured: watch::Receiver<Option<String>>,
    listener: String,
}

impl PublicUrl {
    /// The address of a path that begins with a slash.
    fn at(&self, path: &str) -> String {
        let configured = self.configured.borrow();
        let url = configured.as_deref().unwrap_or(&self.listener);
        format!("{}{path}", url.trim_end_matches('/'))
    }
}

/// Gives the authenticator the public URL of the configuration whenever that changes.
async fn follow_public_url(
    authenticator: Authenticator,
    mut public_url: watch::Receiver<Option<String>>,
) {
    while public_url.changed().await.is_ok() {
        let url = public_url.borrow_and_update().clone();
        match authenticator.set_public_url(url.as_deref()) {
            Ok(()) => tracing::info!(url, "people are taken in at another public address"),
            Err(error) => tracing::error!(%error, "the public address stays as it was"),
        }
    }
}

impl WebServer {
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A link that signs a browser in with these credentials, once.
    pub(super) fn link(&self, credentials: Credentials) -> String {
        let secret = self.authenticator.sign_in().mint(credentials);
        self.public_url.at(&SignIn::path(&secret))
    }

    pub(super) async fn stop(self) {
        self.following.abort();
        self.gateway.close();
        self.serving.stop().await;
    }
}

fn visitor(caller: &Caller) -> Visitor {
    let identity = &caller.identity;
    let user = User {
        name: identity.name.clone(),
        groups: identity.review_groups(),
        uid: identity.uid.clone(),
        extra: identity.extra.clone(),
    };
    let ended = caller.clone();
    Visitor {
        id: identity.fingerprint(),
        user,
        secure: caller.is_secure(),
        ended: Arc::new(move || ended.ended()),
        label: caller.label.clone(),
        origin_urls: Arc::new(CallerOriginUrls(caller.clone())),
    }
}

/// The ways between our origin and those of instances, as the authenticator knows them.
struct CallerOriginUrls(Caller);

impl OriginUrls for CallerOriginUrls {
    fn environment_url(&self, label: &str, path: &str) -> Option<String> {
        self.0.instance_address(label, path)
    }

    fn own_url(&self, path: &str) -> String {
        self.0.own_address(path)
    }
}

/// Gives whoever shows a good token a link for their browser; a session gets none.
async fn mint(
    State((sign_in, url)): State<(SignIn, PublicUrl)>,
    Extension(caller): Extension<Caller>,
) -> (StatusCode, Json<Value>) {
    let Some(credentials) = caller.credentials() else {
        return (StatusCode::FORBIDDEN, Json(json!({ "error": "a session makes no other" })));
    };
    let secret = sign_in.mint(credentials);
    let link = url.at(&SignIn::path(&secret));
    (StatusCode::CREATED, Json(json!({ "url": link })))
}

/// TLS with a certificate in PEM.
pub(super) fn tls(certificate_pem: &str, key_pem: &str) -> anyhow::Result<Arc<ServerConfig>> {
    let certificates = CertificateDer::pem_slice_iter(certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| anyhow!("cannot read the certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .map_err(|error| anyhow!("cannot read the key: {error}"))?;
    tls_with(None, |builder| builder.with_single_cert(certificates, key))
}

/// TLS with whichever certificate is the one to show at the moment. Clients may show one of theirs that
/// one of `clients` signed.
pub(super) fn tls_by(
    certificates: Arc<dyn ResolvesServerCert>,
    clients: Option<RootCertStore>,
) -> anyhow::Result<Arc<ServerConfig>> {
    tls_with(clients, |builder| Ok(builder.with_cert_resolver(certificates)))
}

fn tls_with(
    clients: Option<RootCertStore>,
    certified: impl FnOnce(
        ConfigBuilder<ServerConfig, WantsServerCert>,
    ) -> Result<ServerConfig, rustls::Error>,
) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .context("cannot set up TLS")?;
    let builder = match clients {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .allow_unauthenticated()
                .build()
                .context("cannot tell whose certificates to accept")?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = certified(builder).context("cannot use the certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn listen_failure(error: ListenError) -> Failure {
    let advice = match &error {
        ListenError::Listen { address, .. } => {
            let elsewhere = SocketAddr::new(address.ip(), 0);
            format!("Choose another address for people: --web {elsewhere} takes any free port.")
        }
        ListenError::Plain { .. } => "Choose a loopback address: --web 127.0.0.1:7080.".to_owned(),
    };
    Failure::unavailable(error, advice)
}
