//! What keeps a URL that somebody else chose from reaching where it should not.
//!
//! Status checks and uploads go to addresses that tenants write into their objects, from a process
//! that stands inside the network. So: http and https only, no credentials from the URL, no
//! proxies, no redirects, and only addresses that [`Allow`] allows. A name is resolved once, and
//! the connection goes to the very address that was checked: there is no second look-up that could
//! answer differently.

mod allow;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Url, redirect};

pub use self::allow::{Allow, AllowError};

/// Why a request is not made.
///
/// Tenants read these words in conditions, so an address is not among them: what a name of the
/// inner network resolves to is not theirs to learn.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("the URL cannot be read: {0}")]
    ReadUrl(String),
    #[error("the scheme `{0}` is neither http nor https")]
    Scheme(String),
    #[error("the URL carries credentials, which are never sent")]
    Credentials,
    #[error("the URL names no host")]
    NoHost,
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error("{host} is at no address that is allowed")]
    Address { host: String },
}

/// The URL, if a request to it may be tried. An address in it is checked here, a name when
/// [`client`] resolves it.
pub fn check_url(url: &str, allow: &Allow) -> Result<Url, Refused> {
    let url = Url::parse(url).map_err(|error| Refused::ReadUrl(error.to_string()))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(Refused::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refused::Credentials);
    }
    let host = url.host_str().ok_or(Refused::NoHost)?;
    match literal(host) {
        Some(address) if !allow.allows(address) => Err(Refused::Address { host: host.to_owned() }),
        _ => Ok(url),
    }
}

/// A client that connects to allowed addresses only, whatever a name resolves to. It must be used
/// with URLs from [`check_url`], since a literal address is not resolved.
pub fn client(allow: &Allow) -> ClientBuilder {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Somebody else may install one at this moment: then that one is used.
        let _ = ring::default_provider().install_default();
    }
    ClientBuilder::new()
        .dns_resolver(Resolver { allow: allow.clone() })
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0)
}

/// The first address of the host, a name or a literal, that is allowed.
pub async fn resolve(host: &str, port: u16, allow: &Allow) -> Result<SocketAddr, Refused> {
    let refused = || Refused::Address { host: host.to_owned() };
    resolve_all(host, port, allow).await?.first().copied().ok_or_else(refused)
}

/// All addresses of the host that are allowed, of one look-up; never an empty list.
pub async fn resolve_all(host: &str, port: u16, allow: &Allow) -> Result<Vec<SocketAddr>, Refused> {
    let found: Vec<SocketAddr> = match literal(host) {
        Some(address) => vec![SocketAddr::new(address, port)],
        None => tokio::net::lookup_host((host, port))
            .await
            .map_err(|source| Refused::Resolve { host: host.to_owned(), source })?
            .collect(),
    };
    let allowed: Vec<_> = found.iter().copied().filter(|at| allow.allows(at.ip())).collect();
    if allowed.is_empty() {
        tracing::debug!(host, addresses = ?found, "no address of the host is allowed");
        return Err(Refused::Address { host: host.to_owned() });
    }
    Ok(allowed)
}

/// The address that a host is, in or without the brackets of a URL.
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

/// The refusal at the bottom of an error of [`client`], if that is why it failed.
pub fn refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refused> {
    std::iter::successors(Some(error), |error| (*error).source())
        .find_map(|error| error.downcast_ref())
}

struct Resolver {
    allow: Allow,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow = self.allow.clone();
        Box::pin(async move {
            // Port 0: the client puts in the one of its URL.
            let addresses = resolve_all(name.as_str(), 0, &allow).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
