//! Which requests a browser may send here.
//!
//! A browser sends our cookie along whatever page asked for the request, and resolves names as an
//! attacker's DNS likes. So the `Host` must be one of our names, and what acts must come from our
//! own origin, which browsers say in headers that no script can set.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::listener::TransportInfo;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Why a request goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("The request names no host, or more than one.")]
    NoHost,
    #[error("The request's Host is none of this server's names.")]
    OtherHost,
    #[error("This was sent by a page of another site, so nothing was done.")]
    CrossSite,
    #[error("This page is only shown in a window of its own.")]
    NotVisited,
    #[error("This method is not served here.")]
    Method,
}

impl Refusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NoHost => StatusCode::BAD_REQUEST,
            Self::OtherHost => StatusCode::MISDIRECTED_REQUEST,
            Self::CrossSite | Self::NotVisited => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

/// The names under which we are reached, besides loopback's and the address itself; and those under
/// which instances are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    public: Option<Address>,
    listener: Option<Address>,
    others: Vec<String>,
    domain: Option<String>,
}

#[derive(Debug, Clone)]
struct Address {
    host: String,
    port: u16,
    https: bool,
}

impl Names {
    /// `None` if the public address is not `http://` or `https://` and a host.
    pub(crate) fn new(public_url: Option<&str>, others: &[String]) -> Option<Self> {
        let public = public_url.map(Address::parse);
        if let Some(None) = public {
            return None;
        }
        let others = others.iter().map(|name| name.to_ascii_lowercase()).collect();
        Some(Self { public: public.flatten(), others, ..Self::default() })
    }

    /// The same, reached at another public address. `None` if that is none.
    pub(crate) fn with_public_url(&self, public_url: Option<&str>) -> Option<Self> {
        let other = Self::new(public_url, &self.others)?;
        let Self { listener, domain, .. } = self.clone();
        Some(Self { listener, domain, ..other })
    }

    /// Instances are below `domain` as well as below `localhost`. `listener` is where we are
    /// reached on this machine.
    pub(crate) fn with_instances(self, domain: Option<&str>, listener: Option<&str>) -> Self {
        let domain = domain.map(str::to_ascii_lowercase);
        Self { domain, listener: listener.and_then(Address::parse), ..self }
    }

    /// The site that the request is for, if it is one of ours or an instance's. Every request is
    /// looked at by itself: over HTTP/2, one connection carries requests for several hosts.
    pub(crate) fn site(&self, parts: &Parts) -> Result<Site, Refusal> {
        let authority = host(parts)?;
        let transport = parts.extensions.get::<TransportInfo>();
        let tls = transport.is_some_and(|transport| transport.secure);
        let host = authority.host().to_ascii_lowercase();
        let zone = self.zone(&host, transport).ok_or(Refusal::OtherHost)?;
        // Somebody else may end TLS for us under the public name, and under those of instances.
        let at_public = |public: &&Address| {
            let by_public = match &zone {
                Zone::Own { .. } => public.host == host,
                Zone::Instance { local, .. } => !local,
            };
            by_public && authority.port_u16().unwrap_or(public.port) == public.port
        };
        let public = self.public.as_ref().filter(at_public);
        let secure = tls || public.is_some_and(|public| public.https);
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Site { authority: authority.as_str().to_ascii_lowercase(), port, secure, zone })
    }

    fn zone(&self, host: &str, transport: Option<&TransportInfo>) -> Option<Zone> {
        let instance_label =
            |below: &str| host.strip_suffix(below)?.strip_suffix('.').filter(|l| is_label(l));
        if let Some(label) = instance_label("localhost") {
            return Some(Zone::Instance { label: label.to_owned(), local: true });
        }
        if let Some(label) = self.domain.as_deref().and_then(instance_label) {
            return Some(Zone::Instance { label: label.to_owned(), local: false });
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let loopback = is_loopback(host);
        let named = loopback
            || self.public.as_ref().is_some_and(|public| public.host == host)
            || self.others.iter().any(|other| other == host)
            || address.is_some_and(|address| {
                transport.is_some_and(|transport| transport.local.ip().to_canonical() == address)
            });
        named.then_some(Zone::Own { loopback })
    }

    /// The origin of an instance, as whoever came to `site` reaches it; none where no name leads
    /// there.
    pub(crate) fn instance_origin(&self, site: &Site, label: &str) -> Option<String> {
        match (&site.zone, &self.domain) {
            (Zone::Own { loopback: true }, _) => Some(site.beside(&format!("{label}.localhost"))),
            (Zone::Own { loopback: false }, Some(domain)) => {
                Some(site.beside(&format!("{label}.{domain}")))
            }
            (Zone::Own { loopback: false }, None) | (Zone::Instance { .. }, _) => None,
        }
    }

    /// Our own origin, as whoever came to an instance's reaches it.
    pub(crate) fn own_origin(&self, site: &Site) -> String {
        let addresses = [self.public.as_ref(), self.listener.as_ref()];
        let is_local = matches!(site.zone, Zone::Instance { local: true, .. });
        match self.public.as_ref().filter(|_| !is_local) {
            Some(public) => public.origin(),
            None => {
                let host = addresses.iter().flatten().find(|address| is_loopback(&address.host));
                site.beside(host.map_or("localhost", |address| address.host.as_str()))
            }
        }
    }
}

impl Address {
    fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let https = *uri.scheme()? == Scheme::HTTPS;
        if !https && *uri.scheme()? != Scheme::HTTP {
            return None;
        }
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let host = uri.host()?.to_ascii_lowercase();
        (!host.is_empty()).then_some(Self { host, port, https })
    }

    fn origin(&self) -> String {
        origin_of(&self.host, self.port, self.https)
    }
}

/// What the browser's address bar shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// Host and port as in the request.
    pub authority: String,
    pub port: u16,
    /// Whether the browser talks TLS.
    pub secure: bool,
    pub zone: Zone,
}

/// Whose site it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Ours; `loopback` by a name that every machine has for itself.
    Own { loopback: bool },
    /// An instance's, by the label before our domain; `local` below `localhost`.
    Instance { label: String, local: bool },
}

impl Site {
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }

    /// The origin of another host that is reached in the same way.
    fn beside(&self, host: &str) -> String {
        origin_of(host, self.port, self.secure)
    }
}

fn origin_of(host: &str, port: u16, secure: bool) -> String {
    let scheme = if secure { "https" } else { "http" };
    let usual = if secure { 443 } else { 80 };
    if port == usual { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A page of our origin, the address bar, or a program that is no browser.
    Ours,
    /// It says nothing of itself and wants to act: a program. Cookies prove nothing here.
    Unsaid,
    /// A link on some other site was followed. The visitor may look, but is nobody yet.
    Link,
}

impl Sender {
    pub(crate) const fn may_use_cookie(self) -> bool {
        matches!(self, Self::Ours)
    }
}

/// Refuses what pages of other sites send, except plain visits.
pub(crate) fn sender(parts: &Parts, site: &Site) -> Result<Sender, Refusal> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(Refusal::Method);
    }
    let headers = &parts.headers;
    let upgrades = headers.contains_key(UPGRADE);
    let looks = matches!(parts.method, Method::GET | Method::HEAD) && !upgrades;
    let mut relations = headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if relations.peek().is_some() {
        if relations.all(|relation| relation == "same-origin" || relation == "none") {
            return Ok(Sender::Ours);
        }
        let follows = looks && headers.contains_key(SEC_FETCH_MODE) && is_visit(headers);
        return if follows { Ok(Sender::Link) } else { Err(Refusal::CrossSite) };
    }
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_some() {
        let ours = origins.all(|origin| origin.to_str().is_ok_and(|origin| is_own(origin, site)));
        return if ours { Ok(Sender::Ours) } else { Err(Refusal::CrossSite) };
    }
    // Every browser says its origin when a page acts; one that looks is kept out by SameSite.
    Ok(if looks || parts.method == Method::OPTIONS { Sender::Ours } else { Sender::Unsaid })
}

/// Who asks at an instance's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approach {
    /// Somebody opens a page in a window of its own, from wherever.
    Visit,
    /// A page of this very origin.
    OwnPage,
    /// A page of another origin, or nobody says who. Cookies prove nothing here.
    Unproven,
}

/// Everything but a plain visit must come from the instance's own pages, and browsers say so.
pub(crate) fn approach(parts: &Parts, site: &Site) -> Result<Approach, Refusal> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(Refusal::Method);
    }
    let headers = &parts.headers;
    let looks = matches!(parts.method, Method::GET | Method::HEAD);
    let says = headers.contains_key(SEC_FETCH_MODE) && headers.contains_key(SEC_FETCH_DEST);
    if looks && says && is_visit(headers) && !headers.contains_key(UPGRADE) {
        return Ok(Approach::Visit);
    }
    let (relations, origins) = (headers.get_all(SEC_FETCH_SITE), headers.get_all(ORIGIN));
    let proven = relations.iter().next().is_some() || origins.iter().next().is_some();
    let own = relations.iter().all(|relation| relation == "same-origin")
        && origins.iter().all(|one| one.to_str().is_ok_and(|origin| is_own(origin, site)));
    Ok(if proven && own { Approach::OwnPage } else { Approach::Unproven })
}

/// A window of its own shows the answer: neither a script, nor a frame, nor an image asks.
pub(crate) fn is_visit(headers: &HeaderMap) -> bool {
    let says = |name, value| headers.get_all(name).iter().all(|given| given == value);
    says(SEC_FETCH_MODE, "navigate") && says(SEC_FETCH_DEST, "document")
}

fn is_own(origin: &str, site: &Site) -> bool {
    origin.eq_ignore_ascii_case(&site.origin())
}

/// The one host that the request is for.
fn host(parts: &Parts) -> Result<Authority, Refusal> {
    let mut named: Vec<Authority> = parts.uri.authority().cloned().into_iter().collect();
    let in_headers = parts.headers.get_all(HOST);
    if in_headers.iter().count() > 1 {
        return Err(Refusal::NoHost);
    }
    for value in in_headers {
        named.push(Authority::try_from(value.as_bytes()).map_err(|_| Refusal::NoHost)?);
    }
    let first = named.first().ok_or(Refusal::NoHost)?;
    let (text, host) = (first.as_str(), first.host());
    let strange = text.contains('@') || (text != host && first.port_u16().is_none());
    if strange || named.iter().any(|other| other != first) {
        return Err(Refusal::NoHost);
    }
    Ok(first.clone())
}
