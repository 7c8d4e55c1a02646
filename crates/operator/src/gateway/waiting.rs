//! Where a browser waits for an instance: `/waiting/<family>/<namespace>/<object>/<environment>/…`.
//!
//! Waiting is nobody's activity and starts nothing: a page that was forgotten in some window must
//! not keep an instance awake.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::backend::Backend;
use super::target::{self, AccessTarget};
use super::{Gateway, not_found, too_many_connections};
use crate::page;

pub(super) async fn wait(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let Some(target) = gateway.target(target::WAITING_ROOT, parts.uri.path()) else {
        return not_found().answer(&parts.headers);
    };
    if let Err(refused) = gateway.authorize(&target, &parts.extensions).await {
        return refused.answer(&parts.headers);
    }
    let open = target.address(parts.uri.query());
    if !page::wants_html(&parts.headers) {
        return poll(&gateway, &target)
            .await
            .unwrap_or_else(|| too_many_connections().answer(&parts.headers));
    }
    match gateway.find(&target) {
        Backend::Ready { .. } => page::redirect(StatusCode::SEE_OTHER, &open),
        Backend::Starting { trouble } => {
            gateway.waiting_page(&target, parts.uri.query(), trouble.as_deref())
        }
        Backend::Stopped { can_wake: true, .. } => page::Message::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Stopped",
            format!("{} is stopped.", target.object),
        )
        .with_link(open, "Start it")
        .answer(&parts.headers),
        other => gateway.explain(&target, &other).answer(&parts.headers),
    }
}

/// Answers when there is something new to say, or after a while. `None` when too many ask.
async fn poll(gateway: &Gateway, target: &AccessTarget) -> Option<Response> {
    let _permit = gateway.acquire(&target.object)?;
    let first = trouble(gateway.find(target));
    let settled = async {
        loop {
            let changed = gateway.changed(target);
            match gateway.find(target) {
                Backend::Ready { .. } => return json!({"state": "ready"}),
                Backend::Starting { trouble } if trouble != first => return waiting(trouble),
                // It may just have been started, and nobody has seen it yet.
                Backend::Starting { .. } | Backend::Stopped { can_wake: true, .. } => changed.await,
                _ => return json!({"state": "other"}),
            }
        }
    };
    let state = match tokio::time::timeout(gateway.poll_timeout(), settled).await {
        Ok(state) => state,
        Err(_) => match gateway.find(target) {
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
