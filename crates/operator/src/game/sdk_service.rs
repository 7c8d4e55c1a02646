//! Where the sidecars of servers speak to us: every replica hears them, whether it leads or not.
//!
//! A sidecar shows a token that the API says to be its Pod's, and says which server it is; both have to be the same. Of
//! whoever shows no good token nothing is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use sojourn_core::key::Key;
use tokio::time::{Instant, timeout, timeout_at};

use super::pod_token::{PodTokens, TokenPod};
use super::sdk::wire::{Call, Look, MAX_CALL_BYTES, MAX_WAIT_SECONDS, Refusal};
use super::sdk::{GameServerView, SdkBackend as _, SdkError, SdkRequest, ServerIdentity};
use super::sdk_backend::StoredReports;

/// How long a sidecar may take to send a call.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than sidecars wait for an answer.
const SAY_TIMEOUT: Duration = Duration::from_secs(9);
/// Calls of one server at a time. A sidecar makes fewer.
const MAX_CALLS: u32 = 16;

#[derive(Debug)]
struct SdkService {
    tokens: PodTokens,
    reports: Arc<StoredReports>,
    calls: Mutex<HashMap<Key, u32>>,
}

/// Why a call is not even read.
#[derive(Debug, thiserror::Error)]
enum Denial {
    #[error("there is no good token of a Pod")]
    Nobody,
    #[error("this is the token of another Pod")]
    Other,
    #[error("{0}")]
    NotNow(&'static str),
}

impl Denial {
    fn answer(&self) -> Response {
        let refusal = Json(Refusal::unheard(&self.to_string()));
        match self {
            Self::Nobody => {
                (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], refusal).into_response()
            }
            Self::Other => (StatusCode::FORBIDDEN, refusal).into_response(),
            Self::NotNow(_) => (StatusCode::SERVICE_UNAVAILABLE, refusal).into_response(),
        }
    }
}

/// The routes of `sdk::wire`.
pub(crate) fn router(tokens: PodTokens, reports: Arc<StoredReports>) -> Router {
    let service = SdkService { tokens, reports, calls: Mutex::default() };
    Router::new().route("/v1/sdk/{namespace}/{name}", post(receive)).with_state(Arc::new(service))
}

async fn receive(
    State(service): State<Arc<SdkService>>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Response {
    let key = Key::new(namespace, name);
    let server = match service.identify(&key, request.headers()).await {
        Ok(server) => server,
        Err(denial) => return denial.answer(),
    };
    let Some(_turn) = Turn::take(&service, &key) else {
        return Denial::NotNow("too much is said at a time").answer();
    };
    let call = match read(request.into_body()).await {
        Ok(call) => call,
        Err((status, words)) => {
            return (status, Json(Refusal::unheard(&words))).into_response();
        }
    };
    let answered = match call {
        Call::Say(request) => service.say(&server, request).await,
        Call::Look(look) => service.look(&server, look).await,
    };
    match answered {
        Ok(view) => Json(view).into_response(),
        Err(error) => {
            let (status, refusal) = Refusal::of(error);
            (status, Json(refusal)).into_response()
        }
    }
}

async fn read(body: Body) -> Result<Call, (StatusCode, String)> {
    let body = timeout(BODY_TIMEOUT, Limited::new(body, MAX_CALL_BYTES).collect()).await;
    let body: Bytes = match body {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(_)) => {
            let words = format!("the body is cut off, or longer than {MAX_CALL_BYTES} bytes");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, "the body did not come".to_owned())),
    };
    serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body: {error}")))
}

impl SdkService {
    /// Which server speaks, if it is the one that it says.
    async fn identify(&self, key: &Key, headers: &HeaderMap) -> Result<ServerIdentity, Denial> {
        let token = bearer(headers).ok_or(Denial::Nobody)?;
        let identified = self.tokens.identify(token).await.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(server = %key, error, "nobody knows whose Pod speaks");
            Denial::NotNow("the API does not say whose token this is")
        })?;
        let TokenPod { key: shown, uid } = identified.ok_or(Denial::Nobody)?;
        if shown != *key {
            return Err(Denial::Other);
        }
        let caches = &self.reports.store.caches;
        let Some(pod) = caches.pods.get(key) else {
            return Err(Denial::NotNow("there is no such server, or none is seen yet"));
        };
        if pod.observed.uid != uid || pod.owner.is_empty() {
            return Err(Denial::Other);
        }
        Ok(ServerIdentity { key: key.clone(), uid: pod.owner.clone() })
    }

    async fn say(
        &self,
        server: &ServerIdentity,
        request: SdkRequest,
    ) -> Result<GameServerView, SdkError> {
        request.check()?;
        if request == SdkRequest::Health {
            // Pings are kept where they are heard, which is not here.
            return self.reports.view(server).await;
        }
        let said = timeout(SAY_TIMEOUT, self.reports.take(server, request)).await;
        said.unwrap_or_else(|_| Err(SdkError::Unavailable("that took too long".to_owned())))
    }

    /// The server, when it is not as it is known.
    async fn look(&self, server: &ServerIdentity, look: Look) -> Result<GameServerView, SdkError> {
        let Some(after) = look.after else { return self.reports.view(server).await };
        let wait = Duration::from_secs(u64::from(look.wait_seconds.min(MAX_WAIT_SECONDS)));
        let until = Instant::now() + wait;
        let mut views = self.reports.watch(server);
        loop {
            match timeout_at(until, views.next()).await {
                Ok(Some(view)) if view.resource_version != after => return Ok(view),
                Ok(Some(_)) => {}
                Ok(None) => return Err(SdkError::UnknownServer),
                Err(_) => return self.reports.view(server).await,
            }
        }
    }
}

/// The token of a request, if it shows one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// One of the calls that a server may make at a time.
struct Turn<'a> {
    service: &'a SdkService,
    key: &'a Key,
}

impl<'a> Turn<'a> {
    fn take(service: &'a SdkService, key: &'a Key) -> Option<Self> {
        let mut calls = service.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(key.clone()).or_default();
        if *count >= MAX_CALLS {
            return None;
        }
        *count += 1;
        Some(Self { service, key })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut calls = self.service.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = calls.get_mut(self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                calls.remove(self.key);
            }
        }
    }
}
