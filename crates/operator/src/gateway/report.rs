//! `POST /report/<family>/<namespace>/<object>`: an object, or something that watches it, says that it
//! is in use. The proof is a token of that object.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use sojourn_core::key::Key;
use tokio::time::Instant;

use super::target::LentObject;
use crate::family::FamilyReports;
use crate::page::Message;

/// How many reports of one instance are taken at once, and how soon one more.
const BURST: u32 = 10;
const REFILL_INTERVAL: Duration = Duration::from_secs(1);
/// How many instances are counted at a time.
const MAX_TRACKED_INSTANCES: usize = 100_000;
/// Nothing in a body matters, but clients like to send one.
const MAX_BODY_BYTES: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TOKEN_BYTES: usize = 4 << 10;

/// Knows the tokens of instances.
pub trait ReportVerifier: Send + Sync {
    /// Must take the same time whether the token is nearly right or not, and say `false` for an
    /// instance that does not exist.
    fn verify(&self, key: &Key, token: &str) -> bool;
}

/// Takes reports.
#[derive(Clone)]
pub struct ReportServer(Arc<Inner>);

struct Inner {
    /// By their names.
    families: Vec<(&'static str, FamilyReports)>,
    rates: Mutex<HashMap<LentObject, Bucket>>,
}

impl fmt::Debug for ReportServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportServer").finish_non_exhaustive()
    }
}

impl ReportServer {
    pub fn new(families: Vec<(&'static str, FamilyReports)>) -> Self {
        Self(Arc::new(Inner { families, rates: Mutex::default() }))
    }

    /// Needs no sign-in.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/report/{family}/{namespace}/{object}", post(receive))
            .with_state(self.clone())
    }

    fn allows(&self, key: &LentObject) -> bool {
        let now = Instant::now();
        let mut rates = self.0.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.len() >= MAX_TRACKED_INSTANCES && !rates.contains_key(key) {
            rates.retain(|_, bucket| !bucket.is_full(now));
        }
        if rates.len() >= MAX_TRACKED_INSTANCES && !rates.contains_key(key) {
            return false;
        }
        rates.entry(key.clone()).or_insert_with(|| Bucket::full(now)).take(now)
    }
}

async fn receive(
    State(server): State<ReportServer>,
    Path((family, namespace, name)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let object = LentObject { family, key: Key::new(namespace, name) };
    let mut families = server.0.families.iter();
    let reporting = families.find(|(name, _)| *name == object.family).map(|(_, family)| family);
    let token = parts
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
    let verified =
        |one: &&FamilyReports| token.is_some_and(|token| one.verifier.verify(&object.key, token));
    let Some(reporting) = reporting.filter(verified) else {
        let text = "This is not the token of such an instance.";
        let mut response =
            Message::new(StatusCode::UNAUTHORIZED, "Refused", text).answer(&parts.headers);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    };
    if !server.allows(&object) {
        let text = "One report a second is enough.";
        let mut response =
            Message::new(StatusCode::TOO_MANY_REQUESTS, "Too many", text).answer(&parts.headers);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    }
    let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY_BYTES)).await;
    if !matches!(read, Ok(Ok(_))) {
        let text = "A report needs no body.";
        return Message::new(StatusCode::PAYLOAD_TOO_LARGE, "Too long", text)
            .answer(&parts.headers);
    }
    (reporting.activity)(&object.key);
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// What is left for an instance.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: u32,
    counted: Instant,
}

impl Bucket {
    const fn full(now: Instant) -> Self {
        Self { left: BURST, counted: now }
    }

    fn is_full(&self, now: Instant) -> bool {
        now >= self.counted + REFILL_INTERVAL * (BURST - self.left)
    }

    fn take(&mut self, now: Instant) -> bool {
        if self.is_full(now) {
            *self = Self::full(now);
        }
        while self.left < BURST && now >= self.counted + REFILL_INTERVAL {
            self.left += 1;
            self.counted += REFILL_INTERVAL;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }
}
