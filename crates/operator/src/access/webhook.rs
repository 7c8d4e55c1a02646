//! `POST /authorize`: an API server asks whether a session allows a request.
//!
//! It is answered from memory. Whoever asks must show which cluster's API server they are, before anything
//! of the body is read. What is wrong with a review is said with a code below 500; a decision that cannot
//! be made is no opinion.

mod caller;
mod caller_watcher;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue,
    WWW_AUTHENTICATE,
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json;
use tokio::time::Instant;

pub use self::caller::{Callers, Credential, PeerCommonName};
pub(crate) use self::caller_watcher::CallerWatcher;
use super::authorizer::{AccessAuthorizer, Answer};
use super::review::{Review, ReviewAnswer};
use crate::clock::Clock;

/// Where reviews are posted.
pub const PATH: &str = "/authorize";
const JSON: &str = "application/json";
const MAX_BODY_BYTES: usize = 1 << 20;
/// From the head of a request to the end of its body. A review has a few hundred bytes.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// What is answered should an answer not be writable as JSON.
const NO_OPINION: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false}}"#;

#[derive(Debug, Clone)]
struct Webhook {
    authorizer: AccessAuthorizer,
    callers: Callers,
    clock: Arc<dyn Clock>,
}

/// Serves reviews at [`PATH`]. The common name of a client's certificate, if that was verified, is expected
/// as a [`PeerCommonName`] in the extensions of a request.
pub fn router(authorizer: AccessAuthorizer, callers: Callers, clock: Arc<dyn Clock>) -> Router {
    Router::new().route(PATH, post(answer)).with_state(Webhook { authorizer, callers, clock })
}

async fn answer(State(webhook): State<Webhook>, request: Request) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<PeerCommonName>();
    let Some(cluster) = webhook.callers.cluster_of(peer, &parts.headers) else {
        return Refusal::Unauthenticated.into_response();
    };
    let review = match read(&parts.headers, body).await {
        Ok(body) => Review::parse(&body).map_err(|error| Refusal::Malformed(error.to_string())),
        Err(refusal) => Err(refusal),
    };
    let answer = match review {
        Ok(review) => webhook.decide(&cluster, &review).await,
        Err(refusal) => return refusal.into_response(),
    };
    webhook.authorizer.metrics().observe_latency(started.elapsed());
    answer
}

impl Webhook {
    async fn decide(&self, cluster: &str, review: &Review) -> Response {
        let Some(attributes) = review.attributes() else {
            return reply(false, "sojourn: it is not clear what is asked for");
        };
        match self.authorizer.authorize(cluster, &attributes, self.clock.now()) {
            Answer::Allowed { reason, near_deadline } => {
                if !near_deadline.is_empty() {
                    self.authorizer.stored(near_deadline).await;
                }
                reply(true, &reason)
            }
            Answer::NoOpinion { reason } => reply(false, &reason),
        }
    }
}

fn reply(allowed: bool, reason: &str) -> Response {
    let body = serde_json::to_string(&ReviewAnswer::new(allowed, reason));
    ([(CONTENT_TYPE, JSON)], body.unwrap_or_else(|_| NO_OPINION.to_owned())).into_response()
}

/// The body of a review, if it is JSON, not too long, and arrives.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    if !is_json(headers) {
        return Err(Refusal::MediaType);
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > MAX_BODY_BYTES as u64) {
        return Err(Refusal::TooLarge);
    }
    let collected = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Ok(Err(_)) => Err(Refusal::Broken),
        Err(_) => Err(Refusal::Slow),
    }
}

/// Whether the body is said to be JSON, whatever its parameters, and is sent as it is.
fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|media| media.split(';').next()).map(str::trim);
    let encoded = headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    media.is_some_and(|media| media.eq_ignore_ascii_case(JSON)) && !encoded
}

/// Why a review is not answered.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Unauthenticated,
    MediaType,
    TooLarge,
    Slow,
    Broken,
    Malformed(String),
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Malformed(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Unauthenticated => "the caller is not known as the API server of a cluster",
            Self::MediaType => "a review is posted as application/json",
            Self::TooLarge => "a review has at most 1 MiB",
            Self::Slow => "the review did not arrive in time",
            Self::Broken => "the review did not arrive",
            Self::Malformed(why) => why,
        }
    }

    fn into_response(self) -> Response {
        let status = self.status();
        let body = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message(), "code": status.as_u16(),
        });
        let mut response = (status, [(CONTENT_TYPE, JSON)], body.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Unauthenticated => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // Nothing more is read of what was not read to its end.
            Self::TooLarge | Self::Slow | Self::Broken => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::MediaType | Self::Malformed(_) => {}
        }
        response
    }
}
