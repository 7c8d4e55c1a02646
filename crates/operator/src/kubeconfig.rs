//! How another cluster than our own is reached: a kubeconfig that somebody put into a Secret.
//!
//! It is data, and never more than that: it says an address, whom to trust there, and a credential. What would have
//! this process run a program, read a file of its own machine, or speak to somebody who did not show who they
//! are is refused, in whichever entry it stands. Nothing of this process's environment is used in its place.
//!
//! Where a tenant wrote it, the address is theirs to choose too: then `guarded_client` makes the client.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::Limited;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use sojourn_drivers::guard::{self, Allow, Refused};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

/// A longer text is nobody's kubeconfig.
const MAX_BYTES: usize = 256 * 1024;
/// So long may a connection say nothing; a watch is ended by the server before.
const READ_TIMEOUT: Duration = Duration::from_secs(330);
/// What a server that somebody else chose may answer; more breaks off.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Until somebody at the other end takes a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a kubeconfig is not used. Users and tenants read these words, so nothing of what it holds is among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigProblem {
    #[error("it is longer than 256 KiB")]
    TooLong,
    #[error("it is not a kubeconfig")]
    Unreadable,
    #[error("`{field}` is refused: {why}")]
    Refused { field: &'static str, why: &'static str },
    #[error("it has no current-context, or one that is not there")]
    NoContext,
    #[error("the cluster of its current-context is not there, or has no server")]
    NoCluster,
    #[error("the user of its current-context is not there, or has no credential")]
    NoCredential,
    #[error("its server is not an https URL without credentials")]
    Server,
    #[error("its certificate-authority-data cannot be read")]
    Authority,
    #[error("its client-certificate-data and client-key-data cannot be used")]
    ClientCertificate,
}

const FILE: &str = "files of this machine are not read; put it into the kubeconfig itself";
const PROGRAM: &str = "no program is asked for a credential; use a token or a certificate";
const PROXY: &str = "the API server is reached directly";
const INSECURE: &str = "the API server must show who it is; name its authority";

/// What a client of that cluster is made from. Each request is sent once.
pub(crate) async fn read(text: &str) -> Result<Config, KubeconfigProblem> {
    if text.len() > MAX_BYTES {
        return Err(KubeconfigProblem::TooLong);
    }
    // What is wrong is not repeated: it may be a part of a credential.
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| KubeconfigProblem::Unreadable)?;
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    clusters.into_iter().try_for_each(check_cluster)?;
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    users.into_iter().try_for_each(check_user)?;
    let read = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = read.map_err(|error| problem(&error))?;
    if !has_credential(&config.auth_info) {
        return Err(KubeconfigProblem::NoCredential);
    }
    let authority = config.cluster_url.authority();
    let plain = authority.is_some_and(|authority| !authority.as_str().contains('@'));
    if config.cluster_url.scheme_str() != Some("https") || !plain {
        return Err(KubeconfigProblem::Server);
    }
    // The environment of this process may name one.
    config.proxy_url = None;
    config.read_timeout = Some(READ_TIMEOUT);
    // By itself, kube's client sends a request again for minutes and tells nobody.
    config.default_retry = false;
    Ok(config)
}

/// Why no client is made from a kubeconfig that a tenant wrote. Tenants read these words.
#[derive(Debug, thiserror::Error)]
pub enum ClientProblem {
    #[error("its server is not asked: {0}")]
    Refused(#[from] Refused),
    #[error("no client can be made from it: {0}")]
    Client(#[from] kube::Error),
}

/// A client that connects to allowed addresses only, whatever the name of the server resolves to, and takes answers
/// of bounded length. No proxy stands between.
pub(crate) fn guarded_client(config: &Config, allow: &Allow) -> Result<Client, ClientProblem> {
    // A literal address is not resolved, so it is checked here.
    guard::check_url(&config.cluster_url.to_string(), allow)?;
    let mut connector = HttpConnector::new_with_resolver(GuardedResolver(allow.clone()));
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let sender = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let bounded = |answer: http::Response<hyper::body::Incoming>| {
        answer.map(|body| Limited::new(body, MAX_ANSWER_BYTES))
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender.map_response(bounded));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Resolves names to allowed addresses. The connection goes to the very address that was checked.
#[derive(Clone)]
struct GuardedResolver(Allow);

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Refused;
    type Future = BoxFuture<'static, Result<Self::Response, Refused>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allow = self.0.clone();
        // Port 0: the client puts in the one of its URL.
        async move { Ok(guard::resolve_all(name.as_str(), 0, &allow).await?.into_iter()) }.boxed()
    }
}

fn check_cluster(cluster: &Cluster) -> Result<(), KubeconfigProblem> {
    let Cluster { insecure_skip_tls_verify, certificate_authority, proxy_url, .. } = cluster;
    refuse(certificate_authority.is_some(), "certificate-authority", FILE)?;
    refuse(proxy_url.is_some(), "proxy-url", PROXY)?;
    refuse(*insecure_skip_tls_verify == Some(true), "insecure-skip-tls-verify", INSECURE)
}

fn check_user(user: &AuthInfo) -> Result<(), KubeconfigProblem> {
    let AuthInfo { exec, auth_provider, token_file, client_certificate, client_key, .. } = user;
    refuse(exec.is_some(), "exec", PROGRAM)?;
    refuse(auth_provider.is_some(), "auth-provider", PROGRAM)?;
    refuse(token_file.is_some(), "tokenFile", FILE)?;
    refuse(client_certificate.is_some(), "client-certificate", FILE)?;
    refuse(client_key.is_some(), "client-key", FILE)
}

const fn refuse(
    is_there: bool,
    field: &'static str,
    why: &'static str,
) -> Result<(), KubeconfigProblem> {
    if is_there { Err(KubeconfigProblem::Refused { field, why }) } else { Ok(()) }
}

const fn has_credential(user: &AuthInfo) -> bool {
    user.token.is_some()
        || (user.client_certificate_data.is_some() && user.client_key_data.is_some())
        || (user.username.is_some() && user.password.is_some())
}

const fn problem(error: &KubeconfigError) -> KubeconfigProblem {
    match error {
        KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_) => {
            KubeconfigProblem::NoContext
        }
        KubeconfigError::LoadClusterOfContext(_) | KubeconfigError::MissingClusterUrl => {
            KubeconfigProblem::NoCluster
        }
        KubeconfigError::ParseClusterUrl(_) => KubeconfigProblem::Server,
        KubeconfigError::LoadCertificateAuthority(_) | KubeconfigError::ParseCertificates(_) => {
            KubeconfigProblem::Authority
        }
        KubeconfigError::LoadClientCertificate(_) | KubeconfigError::LoadClientKey(_) => {
            KubeconfigProblem::ClientCertificate
        }
        _ => KubeconfigProblem::Unreadable,
    }
}
