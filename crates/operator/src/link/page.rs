//! What somebody sees who opens a link.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::{Act, Action, LinkError, Links, Now, Outcome, Standing, wire};
use crate::gateway::page::{self, Message};

/// The form has one short field.
const FORM_LIMIT: usize = 4 << 10;
const FORM_TIME: Duration = Duration::from_secs(10);
/// How long the act itself may take.
const ACT_TIME: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Following {
    pub links: Links,
    pub act: Arc<dyn Act>,
    pub now: Now,
}

/// Shows what the link does, and does nothing.
pub(super) async fn show(
    State(following): State<Following>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Response {
    let claim = match following.links.verify(&token, (following.now)()) {
        Ok(claim) => claim,
        Err(error) => return broken(error).answer(&headers),
    };
    match following.act.standing(&claim) {
        Standing::Open(what) => {
            let (title, button) = words(claim.action);
            let form = wire::form_token(&following.links.key, &token);
            page::form(title, &[what], button, &form)
        }
        Standing::Used(words) => used(words).answer(&headers),
        Standing::Refused(words) => refused(words).answer(&headers),
    }
}

/// Does it.
pub(super) async fn follow(
    State(following): State<Following>,
    Path(token): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let claim = match following.links.verify(&token, (following.now)()) {
        Ok(claim) => claim,
        Err(error) => return broken(error).answer(&parts.headers),
    };
    let form = tokio::time::timeout(FORM_TIME, to_bytes(body, FORM_LIMIT)).await;
    let form = form.ok().and_then(Result::ok).unwrap_or_default();
    // The token has no letter that a form would escape.
    let sent = form.strip_prefix(b"token=").and_then(|form| std::str::from_utf8(form).ok());
    if !sent.is_some_and(|sent| wire::is_form_token(&following.links.key, &token, sent)) {
        let text = "This was not sent by the link's page. Open the link and press its button.";
        return Message::new(StatusCode::FORBIDDEN, "Refused", text).answer(&parts.headers);
    }
    match tokio::time::timeout(ACT_TIME, following.act.act(claim)).await {
        Ok(Outcome::Done(words)) => Message::new(StatusCode::OK, "Done", words),
        Ok(Outcome::Used(words)) => used(words),
        Ok(Outcome::Refused(words)) => refused(words),
        Ok(Outcome::NotNow(words)) => not_now(words),
        Err(_) => not_now("This takes too long. Press the button again: it acts once.".to_owned()),
    }
    .answer(&parts.headers)
}

fn used(words: String) -> Message {
    Message::new(StatusCode::OK, "Done before", words)
}

fn refused(words: String) -> Message {
    Message::new(StatusCode::CONFLICT, "Not done", words)
}

fn not_now(words: String) -> Message {
    Message::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", words)
}

fn broken(error: LinkError) -> Message {
    let status = match error {
        LinkError::Expired => StatusCode::GONE,
        LinkError::Malformed | LinkError::Version | LinkError::Forged => StatusCode::NOT_FOUND,
    };
    let text = match error {
        LinkError::Expired => "Links in mails hold for a while only. A newer mail has newer ones.",
        LinkError::Malformed | LinkError::Version | LinkError::Forged => {
            "Mail programs break long links in two at times; copy all of it."
        }
    };
    let mut message = Message::new(status, "This link does not work", format!("Sorry: {error}."));
    message.paragraphs.push(text.to_owned());
    message
}

/// The page's title and what its button says.
const fn words(action: Action) -> (&'static str, &'static str) {
    match action {
        Action::KeepHour => ("Keep it for one more hour", "Keep it"),
        Action::KeepTomorrow => ("Keep it until tomorrow, 09:00", "Keep it"),
        Action::Stop => ("Stop it now", "Stop it"),
    }
}
