//! What the controllers ask of our own API, counted on its way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    List,
    /// A watch that is opened; what it brings is no request.
    Watch,
    Write,
}

impl Verb {
    fn of(request: &Request<Body>) -> Self {
        if *request.method() != Method::GET {
            return Self::Write;
        }
        let query = request.uri().query().unwrap_or_default();
        if query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1") {
            return Self::Watch;
        }
        if names_one(request.uri().path()) { Self::Get } else { Self::List }
    }
}

/// Whether a path is that of one object, and not of all of a kind.
fn names_one(path: &str) -> bool {
    let mut parts = path.trim_matches('/').split('/');
    let group_and_version = if parts.next() == Some("apis") { 2 } else { 1 };
    let rest: Vec<&str> = parts.skip(group_and_version).collect();
    match rest.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest.len() > 1,
        rest => rest.len() > 1,
    }
}

/// Requests so far.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<Verb, u64>>);

impl RequestCounts {
    pub(crate) fn of(&self, verb: Verb) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&verb).copied().unwrap_or(0)
    }

    fn count(&self, verb: Verb) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(verb).or_default() += 1;
    }
}

/// The same client, whose requests are counted.
pub(crate) fn counting(inner: Client, counts: &Arc<RequestCounts>) -> Client {
    let counts = counts.clone();
    let service = service_fn(move |request: Request<Body>| {
        counts.count(Verb::of(&request));
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}
