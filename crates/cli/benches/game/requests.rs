//! What the controllers and the allocator ask of the API, counted on its way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// What a request is about. Watches are none: they last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    ServerMade,
    PodMade,
    ServerStatus,
    /// Any other write of a server or its Pod.
    OtherOfServer,
    Collection,
    Event,
    /// Whether somebody may do something: asked, and not written.
    Review,
    Read,
    Other,
}

/// Requests so far.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<HashMap<Kind, u64>>);

impl RequestCounts {
    /// Every one.
    pub(crate) fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    pub(crate) fn of(&self, kind: Kind) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&kind).copied().unwrap_or(0)
    }

    fn count(&self, request: &Request<Body>) {
        let query = request.uri().query().unwrap_or_default();
        if query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1") {
            return;
        }
        let kind = kind(request.method(), request.uri().path());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }
}

fn kind(method: &Method, path: &str) -> Kind {
    let made = *method == Method::POST;
    match path {
        _ if *method == Method::GET => Kind::Read,
        _ if path.ends_with("reviews") => Kind::Review,
        _ if path.contains("/events") => Kind::Event,
        _ if path.contains("/dedicatedgameservercollections") => Kind::Collection,
        _ if path.contains("/dedicatedgameservers/") && path.ends_with("/status") => {
            Kind::ServerStatus
        }
        _ if path.ends_with("/dedicatedgameservers") && made => Kind::ServerMade,
        _ if path.ends_with("/pods") && made => Kind::PodMade,
        _ if path.contains("/dedicatedgameservers") || path.contains("/pods") => {
            Kind::OtherOfServer
        }
        _ => Kind::Other,
    }
}

/// The same client, whose requests are counted.
pub(crate) fn counting(inner: Client, counts: &Arc<RequestCounts>) -> Client {
    let counts = counts.clone();
    let service = service_fn(move |request: Request<Body>| {
        counts.count(&request);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}
