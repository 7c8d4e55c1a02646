//! The pages behind a link.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::{
    LinkClaim, LinkError, LinkHandler, LinkHandlers, LinkOutcome, LinkStatus, Links, Now, wire,
};
use crate::page::{self, Message};

/// The form has one short field.
const MAX_FORM_BYTES: usize = 4 << 10;
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the act itself may take.
const ACTION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct LinkPages {
    pub links: Links,
    pub handlers: LinkHandlers,
    pub now: Now,
}

impl LinkPages {
    /// What a link says, and who does it.
    fn read(&self, token: &str) -> Result<(LinkClaim, &dyn LinkHandler), LinkError> {
        let claim = self.links.verify(token, (self.now)())?;
        let handler = self.handlers.iter().find(|(family, _)| *family == claim.family);
        // The family was there when the link was signed; this version does not have it.
        let (_, handler) = handler.ok_or(LinkError::Version)?;
        Ok((claim, handler.as_ref()))
    }
}

/// Shows what the link does, and does nothing.
pub(super) async fn show(
    State(pages): State<LinkPages>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Response {
    let (claim, handler) = match pages.read(&token) {
        Ok(read) => read,
        Err(error) => return broken(error).answer(&headers),
    };
    let Some(verb) = handler.verbs().iter().find(|verb| verb.code == claim.verb) else {
        return broken(LinkError::Version).answer(&headers);
    };
    match handler.status(&claim) {
        LinkStatus::Open(what) => {
            let form = wire::form_token(&pages.links.key, &token);
            page::form(verb.title, &[what], verb.button, &form)
        }
        LinkStatus::Used(words) => used(words).answer(&headers),
        LinkStatus::Refused(words) => refused(words).answer(&headers),
    }
}

/// Does it.
pub(super) async fn follow(
    State(pages): State<LinkPages>,
    Path(token): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (claim, handler) = match pages.read(&token) {
        Ok(read) => read,
        Err(error) => return broken(error).answer(&parts.headers),
    };
    let form = tokio::time::timeout(FORM_TIMEOUT, to_bytes(body, MAX_FORM_BYTES)).await;
    let form = form.ok().and_then(Result::ok).unwrap_or_default();
    // The token has no letter that a form would escape.
    let sent = form.strip_prefix(b"token=").and_then(|form| std::str::from_utf8(form).ok());
    if !sent.is_some_and(|sent| wire::is_form_token(&pages.links.key, &token, sent)) {
        let text = "This was not sent by the link's page. Open the link and press its button.";
        return Message::new(StatusCode::FORBIDDEN, "Refused", text).answer(&parts.headers);
    }
    match tokio::time::timeout(ACTION_TIMEOUT, handler.execute(claim)).await {
        Ok(LinkOutcome::Done(words)) => Message::new(StatusCode::OK, "Done", words),
        Ok(LinkOutcome::Used(words)) => used(words),
        Ok(LinkOutcome::Refused(words)) => refused(words),
        Ok(LinkOutcome::NotNow(words)) => not_now(words),
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
