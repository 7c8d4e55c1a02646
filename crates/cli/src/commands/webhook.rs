//! Admission on a cluster: served by every replica, with one certificate, and registered with the API
//! server for as long as a replica runs. Reviews of access are answered at the same address.

mod authorize;
mod certificate;
mod registration;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use kube::Client;
use rustls::RootCertStore;
use sojourn_operator::admission::{self, Admission, Target};
use sojourn_operator::clock::SystemClock;
use sojourn_operator::readiness::Readiness;
use sojourn_web::{Listener, Serving};
use tokio::task::JoinHandle;

pub(super) use self::authorize::AuthorizeRoute;
use self::certificate::{CertificateResolver, Pair, Store};
use self::registration::RegistrationController;
pub(super) use self::registration::ReplicaTarget;
use super::web;
use crate::args;
use crate::exit::{Exit, Failure};

/// The port of a Service, unless it is said.
const HTTPS: i32 = 443;

/// Admission, served and kept registered.
pub(super) struct Webhook {
    serving: Serving,
    registration: JoinHandle<()>,
    replica_target: ReplicaTarget,
    authorize: AuthorizeRoute,
}

impl Webhook {
    /// Where reviews of access are answered once the families are served.
    pub(super) fn authorize_route(&self) -> AuthorizeRoute {
        self.authorize.clone()
    }

    pub(super) fn replica_target(&self) -> ReplicaTarget {
        self.replica_target.clone()
    }

    pub(super) async fn stop(self) {
        self.registration.abort();
        self.serving.stop().await;
    }
}

/// Serves admission and tells the API server where.
pub(super) async fn serve(
    args: &args::Operator,
    client: &Client,
    readiness: &Readiness,
    setup: &admission::Setup,
) -> Result<Option<Webhook>, Failure> {
    let Some(address) = args.webhook else { return Ok(None) };
    let endpoint = endpoint(args).map_err(|error| {
        let advice = "API servers reach webhooks by HTTPS: --webhook-url https://HOST[:PORT], or \
                      --webhook-service NAMESPACE/NAME[:PORT].";
        Failure::new(Exit::Usage, error, advice)
    })?;
    let store = Store::new(client.clone(), &endpoint.host);
    let clock = Arc::new(SystemClock);
    let pair = store.load_or_make(clock.as_ref()).await.map_err(|error| {
        let advice = "May the operator read, make and update Secrets in sojourn-system? What the \
                      Secret holds can be made anew: delete it and start again.";
        Failure::unavailable(error, advice)
    })?;
    let bug = |error| Failure::new(Exit::Bug, error, "Please report it.");
    let resolver = Arc::new(CertificateResolver::new(&pair).map_err(bug)?);
    let clients = args.authorize_client_ca.as_deref().map(client_authorities).transpose()?;
    let tls = web::tls_by(resolver.clone(), clients).map_err(bug)?;
    let admission = Admission::new(setup);
    admission.connect(client.clone());
    let bound = Listener::bind(address, Some(tls))
        .await
        .map_err(|error| Failure::unavailable(error, "Choose another: --webhook ADDR."))?;
    let authorize = AuthorizeRoute::default();
    let router = admission.router().merge(readiness.router()).merge(authorize.router());
    let serving = bound.serve(router);
    let controller = RegistrationController {
        client: client.clone(),
        target: endpoint.target,
        store,
        resolver,
        clock,
        pair,
    };
    controller
        .register()
        .await
        .map_err(|error| Failure::unavailable(error, "The operator needs the right to do it."))?;
    let replica_target = controller.replica_target();
    let registration = tokio::spawn(controller.run());
    Ok(Some(Webhook { serving, registration, replica_target, authorize }))
}

/// Who signs the certificates of API servers that ask for reviews of access.
fn client_authorities(file: &Path) -> Result<RootCertStore, Failure> {
    std::fs::read(file)
        .map_err(anyhow::Error::from)
        .and_then(|pem| authorize::authorities(&pem))
        .with_context(|| format!("cannot use {}", file.display()))
        .map_err(|error| {
            Failure::new(Exit::Usage, error, "Give it as PEM: --authorize-client-ca FILE.")
        })
}

/// How the API server reaches admission, and by which name it knows it.
#[derive(Debug)]
struct Endpoint {
    target: Target,
    host: Host,
}

/// Whom a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// As a URL or a person writes it.
    fn parse(text: &str) -> Self {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        plain.parse().map_or_else(|_| Self::Name(text.to_lowercase()), Self::Address)
    }

    /// As a part of a Kubernetes name, which has no colons and ends with no dash.
    fn as_label(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Address(IpAddr::V4(address)) => address.to_string(),
            Self::Address(IpAddr::V6(address)) => {
                let parts = Ipv6Addr::segments(address).map(|part| format!("{part:x}"));
                parts.join("-")
            }
        }
    }

    /// As it stands in a certificate.
    fn as_subject(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Address(address) => address.to_string(),
        }
    }
}

fn endpoint(args: &args::Operator) -> anyhow::Result<Endpoint> {
    match (&args.webhook_url, &args.webhook_service) {
        (Some(url), _) => {
            let host = host_of(url).ok_or_else(|| {
                anyhow!("{url} is no URL that begins with https:// and names a host")
            })?;
            Ok(Endpoint { target: Target::Url(url.clone()), host: Host::parse(host) })
        }
        (None, Some(service)) => {
            let (namespace, name, port) = service_of(service).with_context(|| {
                format!("{service} is no NAMESPACE/NAME or NAMESPACE/NAME:PORT")
            })?;
            // The name by which an API server asks for the certificate of a Service.
            let host = Host::Name(format!("{name}.{namespace}.svc"));
            Ok(Endpoint { target: Target::Service { name, namespace, port }, host })
        }
        (None, None) => Err(anyhow!("it is not said how the API server reaches admission")),
    }
}

/// The host of a URL; an IPv6 address has its brackets.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(address) => &authority[..address.find(']')? + 2],
        None => authority.split(':').next()?,
    };
    Some(host).filter(|host| !host.is_empty())
}

fn service_of(text: &str) -> Option<(String, String, i32)> {
    let (namespace, rest) = text.split_once('/')?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, i32::from(port.parse::<u16>().ok()?)),
        None => (rest, HTTPS),
    };
    let is_name = |text: &str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !text.is_empty() && text.bytes().all(letter)
    };
    (is_name(namespace) && is_name(name)).then(|| (namespace.to_owned(), name.to_owned(), port))
}
