//! Where a browser waits for an instance: `/waiting/<namespace>/<instance>/<environment>/…`.
//!
//! Waiting is nobody's activity and starts nothing: a page that was forgotten in some window must
//! not keep an instance awake.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::backend::Backend;
use super::page;
use super::place::Place;
use super::{Gateway, no_such_place, too_much};

pub(super) async fn wait(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let Some(place) = Place::parse("/waiting", parts.uri.path()) else {
        return no_such_place().answer(&parts.headers);
    };
    if let Err(refused) = gateway.admit(&place, &parts.extensions).await {
        return refused.answer(&parts.headers);
    }
    let open = place.address(parts.uri.query());
    if !page::wants_html(&parts.headers) {
        return poll(&gateway, &place).await.unwrap_or_else(|| too_much().answer(&parts.headers));
    }
    match gateway.find(&place) {
        Backend::Ready { .. } => page::redirect(StatusCode::SEE_OTHER, &open),
        Backend::Starting { trouble } => {
            gateway.waiting_page(&place, parts.uri.query(), trouble.as_deref())
        }
        Backend::Stopped { can_wake: true, .. } => page::Message::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Stopped",
            format!("{} is stopped.", place.key),
        )
        .with_link(open, "Start it")
        .answer(&parts.headers),
        other => gateway.explain(&place, &other).answer(&parts.headers),
    }
}

/// Answers when there is something new to say, or after a while. `None` when too many ask.
async fn poll(gateway: &Gateway, place: &Place) -> Option<Response> {
    let _permit = gateway.take(&place.key)?;
    let first = trouble(gateway.find(place));
    let settled = async {
        loop {
            let changed = gateway.changed(&place.key);
            match gateway.find(place) {
                Backend::Ready { .. } => return json!({"state": "ready"}),
                Backend::Starting { trouble } if trouble != first => return waiting(trouble),
                // It may just have been started, and nobody has seen it yet.
                Backend::Starting { .. } | Backend::Stopped { can_wake: true, .. } => changed.await,
                _ => return json!({"state": "other"}),
            }
        }
    };
    let state = match tokio::time::timeout(gateway.patience(), settled).await {
        Ok(state) => state,
        Err(_) => match gateway.find(place) {
            Backend::Starting { trouble } => waiting(trouble),
            _ => json!({"state": "other"}),
        },
    };
    Some(page::json(&state))
}

fn trouble(backend: Backend) -> Option<String> {
    match backend {
        Backend::Starting { trouble } => trouble,
        _ => None,
    }
}

fn waiting(trouble: Option<String>) -> Value {
    match trouble {
        Some(trouble) => json!({"state": "waiting", "trouble": page::trouble(&trouble)}),
        None => json!({"state": "waiting"}),
    }
}
