//! Own pages of the operator: plain HTML, escaped, with nothing from elsewhere. Here are the layout, which all have,
//! and the pages of the gateway and of signed links; families bring templates of their own ([`environment`]).

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use minijinja::{AutoEscape, Environment, Value, context};
use ring::digest::{SHA256, digest};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/waiting.js");

/// When a program should try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = environment(&[
        ("message.html", include_str!("page/message.html")),
        ("form.html", include_str!("page/form.html")),
        ("waiting.html", include_str!("page/waiting.html")),
    ]);
    environment.add_global("script", SCRIPT);
    environment
});

/// Templates that can extend `layout.html`. Everything in them is escaped.
pub(crate) fn environment(templates: &[(&'static str, &'static str)]) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let layout = ("layout.html", include_str!("page/layout.html"));
    for (name, text) in [layout].iter().chain(templates) {
        environment.add_template(name, text).expect("the embedded templates can be parsed");
    }
    environment.add_global("style", STYLE);
    environment
}

static CONTENT_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    HeaderValue::try_from(format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    ))
    .expect("a policy is plain ASCII")
});

/// A page of a few sentences.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub status: StatusCode,
    pub title: &'static str,
    pub paragraphs: Vec<String>,
    /// Where to go from here, and what that is called.
    pub link: Option<(String, &'static str)>,
}

impl Message {
    pub(crate) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self { status, title, paragraphs: vec![text.into()], link: None }
    }

    pub(crate) fn with_link(self, address: String, text: &'static str) -> Self {
        Self { link: Some((address, text)), ..self }
    }

    /// The page for a browser, the sentences for a program.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        let mut response = if wants_html(headers) {
            let paragraphs = Value::from_iter(self.paragraphs.iter().map(String::as_str));
            let (link, link_text) = self.link.as_ref().map(|(l, t)| (l.as_str(), *t)).unzip();
            let context = context! { title => self.title, paragraphs, link, link_text };
            html(self.status, "message.html", context)
        } else {
            let text = format!("{}. {}\n", self.title, self.paragraphs.join(" "));
            response(self.status, "text/plain; charset=utf-8", text)
        };
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// A page with one button, which sends `token` back.
pub(crate) fn form(title: &str, paragraphs: &[String], button: &str, token: &str) -> Response {
    let paragraphs = Value::from_iter(paragraphs.iter().map(String::as_str));
    html(StatusCode::OK, "form.html", context! { title, paragraphs, button, token })
}

/// The page that turns into an instance. It asks at `poll` and goes to `open`.
pub(crate) fn waiting(instance: &str, trouble: Option<&str>, poll: &str, open: &str) -> Response {
    let trouble = trouble.map(self::trouble).unwrap_or_default();
    let context = context! { title => "Starting", instance, trouble, poll, open };
    let mut response = html(StatusCode::SERVICE_UNAVAILABLE, "waiting.html", context);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

/// The sentence about what keeps an instance from starting.
pub(crate) fn trouble(what: &str) -> String {
    format!("It has trouble: {what}.")
}

pub(crate) fn json(value: &serde_json::Value) -> Response {
    response(StatusCode::OK, "application/json", value.to_string())
}

pub(crate) fn redirect(status: StatusCode, to: &str) -> Response {
    let mut response = response(status, "text/plain; charset=utf-8", String::new());
    match HeaderValue::try_from(to) {
        Ok(to) => {
            response.headers_mut().insert(header::LOCATION, to);
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

/// Whether the client accepts HTML.
pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("text/html"))
}

fn html(status: StatusCode, template: &str, context: Value) -> Response {
    html_of(&TEMPLATES, status, template, context)
}

/// A page from templates of [`environment`].
pub(crate) fn html_of(
    environment: &Environment<'static>,
    status: StatusCode,
    template: &str,
    context: Value,
) -> Response {
    let rendered = environment.get_template(template).and_then(|template| template.render(context));
    match rendered {
        Ok(text) => response(status, "text/html; charset=utf-8", text),
        Err(error) => {
            tracing::error!(template, error = %error, "cannot render a page");
            let text = "This page cannot be shown; the log says why.\n".to_owned();
            response(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text)
        }
    }
}

/// An answer of our own. It loads nothing, is kept by nobody and shown in no frame, and its window
/// has no tie to windows that show what instances serve.
fn response(status: StatusCode, content_type: &'static str, text: String) -> Response {
    const FIXED: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_waiting_page_runs_its_own_script_and_no_other() {
        let poll = "/waiting/lab/ns/lab/shell/x?\"><script>alert(1)</script>";
        let response = waiting("ns/lab", None, poll, "/go/lab/ns/lab/shell/x");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "5");
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        let hash = STANDARD.encode(digest(&SHA256, SCRIPT.as_bytes()));
        assert!(policy.contains(&format!("script-src 'sha256-{hash}'")), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains(&format!("<script>{SCRIPT}</script>")), "{text}");
        assert_eq!(text.matches("<script").count(), 1, "{text}");
        assert!(
            text.contains("<noscript><meta http-equiv=\"refresh\" content=\"5; url="),
            "{text}"
        );
    }
}
