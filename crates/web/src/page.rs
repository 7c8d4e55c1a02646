//! Own pages: plain HTML, escaped, without scripts, and without anything from elsewhere.
//!
//! So that no other page can look into these or press their buttons, they cannot be framed, and a
//! window that shows one has no tie to a window that shows something else
//! (`Cross-Origin-Opener-Policy`).

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use minijinja::{AutoEscape, Environment, Value, context};
use ring::digest::{SHA256, digest};

use crate::authenticator::FrontLink;

const STYLE: &str = include_str!("page/style.css");

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, text) in [
        ("layout.html", include_str!("page/layout.html")),
        ("front.html", include_str!("page/front.html")),
        ("sign_in.html", include_str!("page/sign_in.html")),
        ("message.html", include_str!("page/message.html")),
    ] {
        environment.add_template(name, text).expect("the embedded templates can be parsed");
    }
    environment.add_global("style", STYLE);
    environment
});

static CONTENT_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    HeaderValue::try_from(format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    ))
    .expect("a policy is plain ASCII")
});

pub(crate) fn front(
    name: &str,
    groups: &[String],
    links: &[FrontLink],
    form_token: &str,
) -> Response {
    let groups = Value::from_iter(groups.iter().map(String::as_str));
    let links = Value::from_iter(
        links.iter().map(|link| context! { title => link.title, path => link.path.as_str() }),
    );
    let context = context! { title => "Signed in", name, groups, links, token => form_token };
    html(StatusCode::OK, "front.html", context)
}

pub(crate) fn sign_in(name: &str) -> Response {
    html(StatusCode::OK, "sign_in.html", context! { title => "Sign in", name })
}

/// A page of a few sentences.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub status: StatusCode,
    pub title: &'a str,
    pub paragraphs: &'a [&'a str],
    /// Where to go from here, and what that is called.
    pub link: Option<(&'a str, &'a str)>,
}

impl Message<'_> {
    pub(crate) fn page(&self) -> Response {
        let paragraphs = Value::from_iter(self.paragraphs.iter().copied());
        let (link, link_text) = self.link.unzip();
        html(
            self.status,
            "message.html",
            context! { title => self.title, paragraphs, link, link_text },
        )
    }

    /// The page for a browser, the sentences for a program.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        if wants_html(headers) {
            return self.page();
        }
        let text = format!("{}. {}\n", self.title, self.paragraphs.join(" "));
        with_headers(self.status, "text/plain; charset=utf-8", text)
    }
}

/// Whether the answer is for somebody's eyes.
pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("text/html"))
}

fn html(status: StatusCode, template: &str, context: Value) -> Response {
    let rendered = TEMPLATES.get_template(template).and_then(|template| template.render(context));
    match rendered {
        Ok(text) => with_headers(status, "text/html; charset=utf-8", text),
        Err(error) => {
            tracing::error!(template, error = %error, "cannot render a page");
            let text = "This page cannot be shown; the log says why.\n".to_owned();
            with_headers(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text)
        }
    }
}

fn with_headers(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    secure(response.headers_mut());
    response
}

/// What every answer of our own carries.
pub(crate) fn secure(headers: &mut HeaderMap) {
    const FIXED: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn markup_in_names_is_text() {
        let shown = text(front(
            "<script>alert(1)</script>",
            &["a\"><b>".to_owned()],
            &[FrontLink { title: "<u>", path: "/a\"><b>".to_owned() }],
            "t",
        ))
        .await;
        assert!(shown.contains("&lt;script&gt;alert(1)&lt;"), "{shown}");
        assert!(!shown.contains("<script") && !shown.contains("<b>"), "{shown}");
        let message = Message {
            status: StatusCode::OK,
            title: "<i>",
            paragraphs: &["</p><img src=x>"],
            link: Some(("/a\"onclick=\"x", "<u>")),
        };
        let shown = text(message.page()).await;
        assert!(!shown.contains("<i>") && !shown.contains("<img") && !shown.contains("<u>"));
        assert!(!shown.contains("\"onclick"), "{shown}");
    }

    #[tokio::test]
    async fn what_is_to_be_typed_looks_like_it() {
        let message = Message {
            status: StatusCode::OK,
            title: "x",
            paragraphs: &["Run `so <b>` or `x`.", "a ` b"],
            link: None,
        };
        let shown = text(message.page()).await;
        assert!(
            shown.contains("<p>Run <code>so &lt;b&gt;</code> or <code>x</code>.</p>"),
            "{shown}"
        );
    }

    #[tokio::test]
    async fn own_pages_load_nothing_and_cannot_be_framed_or_kept() {
        let response = sign_in("ada");
        let value = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let policy = value("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(value("x-content-type-options"), "nosniff");
        assert_eq!(value("referrer-policy"), "no-referrer");
        assert_eq!(value("cache-control"), "no-store");
        assert_eq!(value("cross-origin-opener-policy"), "same-origin");
        let shown = text(response).await;
        assert!(shown.contains(&format!("<style>{STYLE}</style>")), "{shown}");
    }
}
