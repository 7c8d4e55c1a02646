//! Notices by HTTP: to a program, as JSON with every fact, or to a chat that understands Slack's
//! `{"text": …}`.
//!
//! A chat is a room with many people in it, so the signed links, with which anybody can act, are
//! not posted there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use rustls::ClientConfig;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use tokio::time::timeout;

use super::plain::{one_line, web_link};
use super::template::{Rendered, Templates};
use super::{Channel, Facts, Notice, SendError, TemplateSet, Zone};

/// From connecting to the end of the answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What a server says to a refusal is shown up to here, and not read further.
const MAX_ANSWER_BYTES: usize = 300;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// An address to which notices are posted.
pub struct Webhook {
    form: Form,
    url: Url,
    client: Client,
    templates: Arc<Templates>,
}

/// What is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Everything, for a program.
    Json,
    /// The words, for a chat.
    Slack,
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    // Not the address itself: those of chats are secrets.
    #[error("the address of a webhook is not one of HTTP: {why}")]
    Address { why: String },
    #[error("cannot prepare HTTP for a webhook: {why}")]
    Prepare { why: String },
}

impl Webhook {
    /// `tls` says whom to trust.
    pub fn new(
        form: Form,
        url: &str,
        tls: ClientConfig,
        templates: Arc<Templates>,
    ) -> Result<Self, WebhookError> {
        let address = |why: String| WebhookError::Address { why };
        let url = Url::parse(url.trim()).map_err(|error| address(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(address(format!("its scheme is {}", one_line(url.scheme(), 20))));
        }
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            // A POST that is redirected becomes a GET, whose answer says nothing about the notice.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| WebhookError::Prepare { why: chain(error) })?;
        Ok(Self { form, url, client, templates })
    }

    async fn post(&self, notice: &Notice) -> Result<(), SendError> {
        let rendered = self.templates.render(notice);
        let rendered = rendered.map_err(|error| SendError::Transient(error.to_string()))?;
        let key = HeaderValue::from_str(&notice.id)
            .map_err(|_| SendError::Refused("its id cannot be an Idempotency-Key".to_owned()))?;
        let request = self.client.post(self.url.clone()).header(IDEMPOTENCY_KEY, key);
        let request = match self.form {
            Form::Json => request.json(&NoticeBody::of(notice, &rendered, self.templates.set())),
            Form::Slack => request
                .json(&ChatBody { text: chat_text(notice, &rendered, self.templates.zone()) }),
        };
        let exchange = async {
            let answer = request.send().await.map_err(|error| {
                SendError::Transient(format!("posting to {}: {}", self.shown(), chain(error)))
            })?;
            self.check_response(answer).await
        };
        timeout(EXCHANGE_TIMEOUT, exchange).await.unwrap_or_else(|_| {
            let chat_text = format!("posting to {}: no answer in time", self.shown());
            Err(SendError::Transient(format!("{chat_text}; it may have arrived")))
        })
    }

    /// Only what is said about the content is for good; the rest (a wrong address, a revoked token,
    /// a redirection) is about the settings, which somebody can mend.
    async fn check_response(&self, answer: Response) -> Result<(), SendError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let said = body_start(answer).await;
        let space = if said.is_empty() { "" } else { " " };
        let chat_text = format!("{} answered {}{space}{said}", self.shown(), status.as_u16());
        let about_content = [
            StatusCode::BAD_REQUEST,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        Err(if about_content.contains(&status) {
            SendError::Refused(chat_text)
        } else {
            SendError::Transient(chat_text)
        })
    }

    /// The address without what may be secret in it.
    fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}", self.url.scheme())
    }
}

impl Channel for Webhook {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Json => "webhook",
            Form::Slack => "slack",
        }
    }

    fn is_addressed(&self) -> bool {
        false
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.post(notice))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.shown();
        f.debug_struct("Webhook")
            .field("form", &self.form)
            .field("url", &url)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct ChatBody {
    text: String,
}

/// The words for a chat. Slack reads `<…>` as links and mentions, so these signs are escaped.
fn chat_text(notice: &Notice, rendered: &Rendered, zone: &Zone) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let person = [&notice.to.name, &notice.to.email].into_iter().find(|text| !text.is_empty());
    let person = person.map(|person| format!("{}: ", one_line(person, 100))).unwrap_or_default();
    let mut text = escape(&format!("{person}{}", rendered.subject));
    let reason = one_line(&notice.facts.reason(|at| zone.show(at)), MAX_ANSWER_BYTES);
    if !reason.is_empty() {
        text.push_str(&escape(&format!(", because {reason}")));
    }
    if let Some(url) = web_link(notice.facts.url.as_deref()) {
        text.push('\n');
        text.push_str(&escape(&url));
    }
    text
}

/// A notice for a program.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoticeBody<'a> {
    id: &'a str,
    kind: &'static str,
    to: Person<'a>,
    subject: &'a str,
    text: &'a str,
    facts: FactsBody<'a>,
}

#[derive(Serialize)]
struct Person<'a> {
    name: &'a str,
    email: &'a str,
}

/// The facts, those of the family under its own names; what is not known is left out.
struct FactsBody<'a> {
    set: &'static TemplateSet,
    facts: &'a Facts,
}

#[derive(Serialize)]
struct Alert {
    number: u32,
    of: u32,
}

impl<'a> NoticeBody<'a> {
    fn of(notice: &'a Notice, rendered: &'a Rendered, set: &'static TemplateSet) -> Self {
        let to = Person { name: &notice.to.name, email: &notice.to.email };
        Self {
            id: &notice.id,
            kind: notice.template,
            to,
            subject: &rendered.subject,
            text: &rendered.text,
            facts: FactsBody { set, facts: &notice.facts },
        }
    }
}

impl Serialize for FactsBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { set, facts } = self;
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry(&camel_case(set.object), &facts.object.name)?;
        body.serialize_entry("namespace", &facts.object.namespace)?;
        for text in set.texts {
            body.serialize_entry(&camel_case(text.name), facts.text(text.name))?;
        }
        body.serialize_entry("reason", &facts.reason(|at| format!("{at:.0}")))?;
        if let Some(deadline) = facts.deadline {
            body.serialize_entry("deadline", &deadline.to_string())?;
        }
        if let Some(remaining) = facts.remaining {
            body.serialize_entry("remainingSeconds", &remaining.as_secs())?;
        }
        if let Some((number, of)) = facts.alert {
            body.serialize_entry("alert", &Alert { number, of })?;
        }
        if let Some(url) = &facts.url {
            body.serialize_entry("url", url)?;
        }
        for link in set.links {
            if let Some(url) = facts.link(link.name) {
                body.serialize_entry(&camel_case(link.name), url)?;
            }
        }
        if let Some(detail) = &facts.detail {
            body.serialize_entry("detail", detail)?;
        }
        body.end()
    }
}

/// The name of a value as programs write it: `pretty_name` is `prettyName`.
fn camel_case(snake_case: &str) -> String {
    let mut words = snake_case.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// The beginning of an answer's body.
async fn body_start(mut answer: Response) -> String {
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER_BYTES {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend(chunk.iter().take(MAX_ANSWER_BYTES)),
            Ok(None) | Err(_) => break,
        }
    }
    one_line(&String::from_utf8_lossy(&body), MAX_ANSWER_BYTES)
}

/// An error and what it came from, without the address.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut chat_text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        chat_text.push_str(": ");
        chat_text.push_str(&cause.to_string());
        source = cause.source();
    }
    one_line(&chat_text, MAX_ANSWER_BYTES)
}

#[cfg(test)]
mod tests;
