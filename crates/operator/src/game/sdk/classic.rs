//! The classic routes that a server calls itself, with its token in the query.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode, header};
use serde_json::{Map, Value};
use sojourn_core::game::server::{ServerHealth, ServerState};

use super::endpoint::Endpoint;
use super::request::SdkRequest;
use super::status::Status;
use super::{form, json, rest};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Healthz,
    Set(Setting),
}

/// What a server sets about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    ActivePlayers,
    Health,
    State,
    MarkedForDeletion,
}

impl Route {
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/healthz" => Self::Healthz,
            "/setactiveplayers" => Self::Set(Setting::ActivePlayers),
            // The first is how it was always spelled.
            "/setsdgshealth" | "/setdgshealth" => Self::Set(Setting::Health),
            "/setdgsstate" => Self::Set(Setting::State),
            "/setdgsmarkedfordeletion" => Self::Set(Setting::MarkedForDeletion),
            _ => return None,
        })
    }
}

impl Setting {
    /// What a body sets.
    fn read(self, body: &Map<String, Value>) -> Result<SdkRequest, Refusal> {
        match self {
            Self::ActivePlayers => {
                let count = field(body, "playerCount", "a whole number from 0 on", |value| {
                    value.as_u64().and_then(|count| u32::try_from(count).ok())
                });
                count.map(SdkRequest::SetActivePlayers)
            }
            Self::Health => {
                let health = field(body, "health", "Creating, Healthy or Failed", |value| {
                    Some(match value.as_str()? {
                        "Creating" => ServerHealth::Creating,
                        "Healthy" => ServerHealth::Healthy,
                        "Failed" => ServerHealth::Failed,
                        _ => return None,
                    })
                });
                health.map(SdkRequest::SetHealth)
            }
            Self::State => {
                let state = field(body, "state", "Idle, Assigned, Running or PostMatch", |value| {
                    Some(match value.as_str()? {
                        "Idle" => ServerState::Idle,
                        "Assigned" => ServerState::Assigned,
                        "Running" => ServerState::Running,
                        "PostMatch" => ServerState::PostMatch,
                        _ => return None,
                    })
                });
                state.map(SdkRequest::SetState)
            }
            Self::MarkedForDeletion => {
                let marked = field(body, "markedForDeletion", "true or false", Value::as_bool);
                marked.map(SdkRequest::SetMarkedForDeletion)
            }
        }
    }
}

/// Why a request is not taken in.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the code is missing or wrong")]
    Unauthorized,
    #[error("the code is that of another server")]
    Forbidden,
    #[error("{field}: must be {expected}")]
    Field { field: &'static str, expected: &'static str },
    #[error("{}", .0.message)]
    Failed(Status),
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Field { .. } => StatusCode::BAD_REQUEST,
            Self::Failed(status) => status.code.http(),
        }
    }
}

pub(super) async fn answer(endpoint: &Endpoint, route: Route, request: Request) -> Response {
    let allowed = match route {
        Route::Healthz => Method::GET,
        Route::Set(_) => Method::POST,
    };
    if *request.method() != allowed {
        let allow = [(header::ALLOW, allowed.to_string())];
        return (StatusCode::METHOD_NOT_ALLOWED, allow).into_response();
    }
    let set = match route {
        Route::Healthz => Ok(()),
        Route::Set(setting) => set(endpoint, setting, request).await,
    };
    match set {
        Ok(()) => "ok\n".into_response(),
        Err(refusal) => (refusal.status(), format!("{refusal}\n")).into_response(),
    }
}

/// Whoever has no code is not read, and whoever has another server's is told nothing about this one.
async fn set(endpoint: &Endpoint, setting: Setting, request: Request) -> Result<(), Refusal> {
    let codes = form::query_values(request.uri().query(), &["code"]);
    if !codes.first().is_some_and(|code| endpoint.code().equals(code)) {
        return Err(Refusal::Unauthorized);
    }
    let body = endpoint.in_time(rest::read(request.into_body())).await.map_err(Refusal::Failed)?;
    let body = json::object(&body).map_err(Refusal::Failed)?;
    let name = |of| field(&body, of, "a name", Value::as_str);
    let (name, namespace) = (name("serverName")?, name("namespace")?);
    let key = &endpoint.identity().key;
    if (name, namespace) != (&*key.name, &*key.namespace) {
        return Err(Refusal::Forbidden);
    }
    let request = setting.read(&body)?;
    endpoint.in_time(endpoint.take(request)).await.map_err(Refusal::Failed)?;
    Ok(())
}

fn field<'a, T>(
    body: &'a Map<String, Value>,
    field: &'static str,
    expected: &'static str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<T, Refusal> {
    body.get(field).and_then(read).ok_or(Refusal::Field { field, expected })
}
