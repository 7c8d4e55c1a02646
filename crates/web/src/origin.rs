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

use crate::listener::Arrival;

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

/// The names under which we are reached, besides loopback's and the address itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    public: Option<Public>,
    others: Vec<String>,
}

#[derive(Debug, Clone)]
struct Public {
    host: String,
    port: u16,
    https: bool,
}

impl Names {
    /// `None` if the public address is not `http://` or `https://` and a host.
    pub(crate) fn new(public_url: Option<&str>, others: &[String]) -> Option<Self> {
        let public = public_url.map(Public::parse);
        if let Some(None) = public {
            return None;
        }
        let others = others.iter().map(|name| name.to_ascii_lowercase()).collect();
        Some(Self { public: public.flatten(), others })
    }

    /// The site that the request is for, if it is one of ours.
    pub(crate) fn site(&self, parts: &Parts) -> Result<Site, Refusal> {
        let authority = host(parts)?;
        let arrival = parts.extensions.get::<Arrival>();
        let tls = arrival.is_some_and(|arrival| arrival.secure);
        let host = authority.host().to_ascii_lowercase();
        let public = self.public.as_ref().filter(|public| public.host == host);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let named = public.is_some()
            || host == "localhost"
            || self.others.contains(&host)
            || address.is_some_and(|address| {
                address.is_loopback()
                    || arrival.is_some_and(|arrival| arrival.local.ip().to_canonical() == address)
            });
        if !named {
            return Err(Refusal::OtherHost);
        }
        // Somebody else may end TLS for us under the public name.
        let at_public =
            |public: &Public| authority.port_u16().unwrap_or(public.port) == public.port;
        let secure = tls || public.is_some_and(|public| public.https && at_public(public));
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Site { authority: authority.as_str().to_ascii_lowercase(), port, secure })
    }
}

impl Public {
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
}

/// What the browser's address bar shows of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// Host and port as in the request.
    pub authority: String,
    pub port: u16,
    /// Whether the browser talks TLS.
    pub secure: bool,
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

/// A window of its own shows the answer: neither a script, nor a frame, nor an image asks. What
/// instances serve has our origin and could otherwise read our pages.
pub(crate) fn is_visit(headers: &HeaderMap) -> bool {
    let says = |name, value| headers.get_all(name).iter().all(|given| given == value);
    says(SEC_FETCH_MODE, "navigate") && says(SEC_FETCH_DEST, "document")
}

fn is_own(origin: &str, site: &Site) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(&site.authority))
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
