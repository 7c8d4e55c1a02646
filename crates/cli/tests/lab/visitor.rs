//! Somebody with a browser, as far as the tests need one: cookies, forms, redirects, WebSockets.

// Another suite has this file by its path, for which it would be looked for elsewhere.
#[path = "visitor/websocket.rs"]
mod websocket;

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{ACCEPT, COOKIE, HOST, LOCATION, SET_COOKIE};
use http::response::Parts;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use regex::Regex;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::fixture::Fixture;
use crate::wait::EVENTUALLY_TIMEOUT;
pub(crate) use websocket::WebSocket;

/// No page of a test is larger.
const PAGE_LIMIT: usize = 16 << 20;
const REDIRECTS: usize = 5;

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Where it was found in the end.
    pub(crate) address: String,
}

impl Page {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    /// The first form: where it goes, and what it holds already.
    pub(crate) fn form(&self) -> Form {
        let attribute = |tag: &str, name: &str| {
            let pattern = Regex::new(&format!(r#"\b{name}="([^"]*)""#)).expect("a pattern");
            pattern.captures(tag).map(|found| unescape(&found[1]))
        };
        let form = Regex::new(r"(?s)<form\b([^>]*)>(.*?)</form>").expect("a pattern");
        let found = form.captures(&self.text).unwrap_or_else(|| panic!("no form in {self:?}"));
        let input = Regex::new(r"<(?:input|button)\b([^>]*)>").expect("a pattern");
        let fields = input.captures_iter(&found[2]).filter_map(|tag| {
            let value = attribute(&tag[1], "value").unwrap_or_default();
            Some((attribute(&tag[1], "name")?, value))
        });
        Form { action: attribute(&found[1], "action"), fields: fields.collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    action: Option<String>,
    fields: Vec<(String, String)>,
}

#[derive(Debug)]
struct Cookie {
    /// Host and port, although browsers tell no ports apart: what is ours must not depend on it.
    host: String,
    name: String,
    value: String,
    path: String,
}

/// A visitor of one listener, under whatever names it has.
#[derive(Debug)]
pub(crate) struct Visitor {
    site: SocketAddr,
    cookies: Vec<Cookie>,
}

impl Fixture {
    /// Somebody who has signed in by a link.
    pub(crate) async fn visitor(&self) -> Visitor {
        let mut visitor = self.stranger();
        visitor.sign_in(&self.sign_in_link()).await;
        visitor
    }

    /// Somebody who has not.
    pub(crate) const fn stranger(&self) -> Visitor {
        Visitor::of(self.web)
    }
}

impl Visitor {
    pub(crate) const fn of(site: SocketAddr) -> Self {
        Self { site, cookies: Vec::new() }
    }

    /// Opens a page, as somebody who typed its address or followed a link from a mail.
    pub(crate) async fn open(&mut self, address: &str) -> Page {
        self.follow(Method::GET, address, None, "none").await
    }

    /// Presses the button of the form on a page that was opened at `address`.
    pub(crate) async fn press(&mut self, address: &str, page: &Page) -> Page {
        let form = page.form();
        let action = form.action.filter(|action| !action.is_empty());
        let to = match action {
            Some(action) if action.starts_with('/') => format!("{}{action}", self.origin(address)),
            Some(action) => action,
            None => address.to_owned(),
        };
        self.follow(Method::POST, &to, Some(encode(&form.fields)), "same-origin").await
    }

    /// One request without redirects, with these headers instead of a browser's.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        address: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Page {
        let mut request = Request::builder().method(method).uri(target(address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        let host = self.host(address);
        self.send(&host, request.body(body).expect("a request")).await
    }

    /// Signs in by a one-time link.
    pub(crate) async fn sign_in(&mut self, link: &str) -> Page {
        let page = self.open(link).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let inside = self.press(link, &page).await;
        assert_eq!(inside.status, StatusCode::OK, "{inside:?}");
        inside
    }

    pub(crate) async fn web_socket(&self, address: &str) -> WebSocket {
        let (host, path) = (self.host(address), target(address));
        WebSocket::open(self.site, &host, &path, self.cookies_for(&host, &path)).await
    }

    /// Scheme, host and port of an address. Somebody else ends TLS where it is `https`.
    fn origin(&self, address: &str) -> String {
        let scheme = if address.starts_with("https:") { "https" } else { "http" };
        format!("{scheme}://{}", self.host(address))
    }

    /// Host and port of an address, which are the listener's where it names none.
    fn host(&self, address: &str) -> String {
        let uri: Uri = address.parse().unwrap_or_else(|e| panic!("{address}: {e}"));
        uri.authority().map_or_else(|| self.site.to_string(), ToString::to_string)
    }

    async fn follow(
        &mut self,
        method: Method,
        address: &str,
        form: Option<String>,
        from: &str,
    ) -> Page {
        let (mut method, mut address, mut form) = (method, address.to_owned(), form);
        let mut from = from;
        let mut host = self.host(&address);
        for _ in 0..REDIRECTS {
            let mut request = Request::builder()
                .method(method.clone())
                .uri(target(&address))
                .header(ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
                .header("Sec-Fetch-Site", from)
                .header("Sec-Fetch-Mode", "navigate")
                .header("Sec-Fetch-Dest", "document");
            if form.is_some() {
                request = request
                    .header("Content-Type", "application/x-www-form-urlencoded")
                    .header("Origin", self.origin(&address));
            }
            let body = Full::new(Bytes::from(form.take().unwrap_or_default()));
            let mut page = self.send(&host, request.body(body).expect("a request")).await;
            page.address = format!("{}{}", self.origin(&address), target(&address));
            let Some(to) = page.headers.get(LOCATION).filter(|_| page.status.is_redirection())
            else {
                return page;
            };
            let to = to.to_str().expect("an address");
            address = match to.strip_prefix('/') {
                Some(path) => format!("{}/{path}", self.origin(&address)),
                None => to.to_owned(),
            };
            let next = self.host(&address);
            // What was typed stays so; a page's own request does not.
            from = match from {
                "none" => "none",
                "same-origin" if next == host => "same-origin",
                _ => "cross-site",
            };
            (method, host) = (Method::GET, next);
        }
        panic!("more than {REDIRECTS} redirects, the last to {address}");
    }

    async fn send(&mut self, host: &str, mut request: Request<Full<Bytes>>) -> Page {
        let path = request.uri().path().to_owned();
        if let Some(cookies) = self.cookies_for(host, &path) {
            request.headers_mut().insert(COOKIE, cookies.parse().expect("cookies"));
        }
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, host.parse().expect("a host"));
        }
        let address = format!("http://{host}{}", request.uri());
        let page = tokio::time::timeout(EVENTUALLY_TIMEOUT, exchange(self.site, request)).await;
        let page = page.unwrap_or_else(|_| panic!("no answer to {path}"));
        for set in page.headers.get_all(SET_COOKIE) {
            self.keep(set.to_str().expect("text"), host, &path);
        }
        Page { address, ..page }
    }

    fn cookies_for(&self, host: &str, path: &str) -> Option<String> {
        let fitting =
            self.cookies.iter().filter(|cookie| cookie.host == host && fits(path, &cookie.path));
        let sent: Vec<_> = fitting.map(|c| format!("{}={}", c.name, c.value)).collect();
        (!sent.is_empty()).then(|| sent.join("; "))
    }

    fn keep(&mut self, set: &str, host: &str, requested: &str) {
        let mut parts = set.split(';').map(str::trim);
        let (name, value) = parts.next().and_then(|first| first.split_once('=')).expect("a cookie");
        let folder = requested.rsplit_once('/').map_or("/", |(folder, _)| folder);
        let mut path = if folder.is_empty() { "/" } else { folder }.to_owned();
        let mut is_gone = false;
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) if key.eq_ignore_ascii_case("path") => {
                    value.clone_into(&mut path);
                }
                Some((key, value)) if key.eq_ignore_ascii_case("max-age") => {
                    is_gone = value.parse::<i64>().is_ok_and(|seconds| seconds <= 0);
                }
                _ => {}
            }
        }
        let (host, name) = (host.to_owned(), name.to_owned());
        self.cookies.retain(|known| known.host != host || known.name != name || known.path != path);
        if !is_gone {
            self.cookies.push(Cookie { host, name, value: value.to_owned(), path });
        }
    }
}

/// Whether a cookie for one path goes to another, as RFC 6265 says.
fn fits(requested: &str, path: &str) -> bool {
    requested == path
        || requested
            .strip_prefix(path)
            .is_some_and(|rest| path.ends_with('/') || rest.starts_with('/'))
}

/// A page that nobody in particular asks for.
pub(crate) async fn get(site: SocketAddr, path: &str) -> Result<Page, String> {
    let request = Request::get(path).header(HOST, site.to_string());
    let request = request.body(Full::default()).expect("a request");
    tokio::time::timeout(EVENTUALLY_TIMEOUT, try_exchange(site, request))
        .await
        .map_err(|_| "no answer".to_owned())?
}

async fn exchange(site: SocketAddr, request: Request<Full<Bytes>>) -> Page {
    try_exchange(site, request).await.unwrap_or_else(|problem| panic!("{site}: {problem}"))
}

async fn try_exchange(site: SocketAddr, request: Request<Full<Bytes>>) -> Result<Page, String> {
    let (head, body) = raw(site, request).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(Page { status: head.status, headers: head.headers, text, address: String::new() })
}

/// One request over a connection of its own, and whatever comes back.
pub(crate) async fn raw(
    site: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<(Parts, Bytes), String> {
    let stream = TcpStream::connect(site).await.map_err(|e| e.to_string())?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| e.to_string())?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, PAGE_LIMIT).collect().await.map_err(|e| e.to_string())?;
    connection.abort();
    Ok((head, body.to_bytes()))
}

/// Path and query of an address, which may be a whole URL.
fn target(address: &str) -> String {
    let uri: Uri = address.parse().unwrap_or_else(|e| panic!("{address}: {e}"));
    uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
}

fn encode(fields: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        escape(name, &mut text);
        text.push('=');
        escape(value, &mut text);
    }
    text
}

fn escape(part: &str, into: &mut String) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn unescape(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#x2f;", "/"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    .replace("&amp;", "&")
}

#[test]
fn a_form_is_read_as_a_browser_reads_it() {
    let page = Page {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        text: r#"<form method="post" action="/a?b=1&amp;c=2">
            <input type="hidden" name="token" value="x&#x2f;y &quot;z&quot;">
            <button name="act" value="keep">Keep</button></form>"#
            .to_owned(),
        address: String::new(),
    };
    let form = page.form();
    assert_eq!(form.action.as_deref(), Some("/a?b=1&c=2"));
    assert_eq!(encode(&form.fields), "token=x%2Fy%20%22z%22&act=keep");
}

#[test]
fn cookies_stay_where_they_belong() {
    let mut visitor = Visitor::of(([127, 0, 0, 1], 1).into());
    visitor.keep("session=1; Path=/; HttpOnly", "ours", "/sign-in/x");
    visitor.keep("own=2; Path=/a", "ours", "/a/env/");
    assert_eq!(visitor.cookies_for("ours", "/a/env/").as_deref(), Some("session=1; own=2"));
    assert_eq!(visitor.cookies_for("ours", "/ab/").as_deref(), Some("session=1"));
    assert_eq!(visitor.cookies_for("another", "/a/env/"), None);
    visitor.keep("session=; Path=/; Max-Age=0", "ours", "/sign-out");
    assert_eq!(visitor.cookies_for("ours", "/"), None);
}
