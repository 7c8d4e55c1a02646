//! The query API of Prometheus and of what speaks like it (Thanos, Mimir, VictoriaMetrics).

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, Response, Url};

use super::answer::{self, NoAnswer};
use super::{Answer, Metrics, QueryError, Window};
use crate::trust::{TrustError, trust, trust_nobody};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take in all, its body included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// After this time the server is to give up, so that it can still say so.
const SERVER_TIMEOUT: &str = "15s";
/// The largest body that is read. An answer about 100,000 objects has about half of it.
const MAX_BODY: usize = 64 << 20;
/// The largest token that is read.
const MAX_TOKEN: usize = 16 << 10;

/// Where a server is and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Its base: `/api/v1/query_range` is added to its path.
    pub url: String,
    /// A file with a bearer token. Read for every query, because tokens are renewed.
    pub token_file: Option<PathBuf>,
    /// Certificates in PEM that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// Why no client could be made for an address.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Without the address: it may hold a password.
    #[error("the address of the metrics server is not a URL: {reason}")]
    ParseUrl { reason: String },
    #[error("the address of the metrics server begins with {scheme:?}; http and https are known")]
    UnknownScheme { scheme: String },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("cannot set up TLS for the metrics server: {reason}")]
    SetUpTls { reason: String },
}

/// A Prometheus server.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    range: Url,
    instant: Url,
    /// The base without credentials, for messages.
    server: String,
    token_file: Option<PathBuf>,
    max_body: usize,
    timeout: Duration,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Prometheus {
    /// A client for `address`. Connects to nothing yet, so a server that is away is no error here.
    pub fn new(address: Address) -> Result<Self, ConnectError> {
        let mut base = Url::parse(&address.url)
            .map_err(|error| ConnectError::ParseUrl { reason: error.to_string() })?;
        let tls = match base.scheme() {
            "http" => None,
            "https" => Some(trust(address.ca_file.as_deref())?),
            other => return Err(ConnectError::UnknownScheme { scheme: answer::sanitized(other) }),
        };
        let mut client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        // Without a configuration of its own the client would look for the process's default one.
        client = client.tls_backend_preconfigured(match tls {
            Some(tls) => tls,
            None => trust_nobody()?,
        });
        let client =
            client.build().map_err(|error| ConnectError::SetUpTls { reason: chain(&error) })?;
        let path = format!("{}/", base.path().trim_end_matches('/'));
        base.set_path(&path);
        base.set_query(None);
        base.set_fragment(None);
        let endpoint = |name: &str| {
            let mut url = base.clone();
            url.set_path(&format!("{path}api/v1/{name}"));
            url
        };
        Ok(Self {
            client,
            range: endpoint("query_range"),
            instant: endpoint("query"),
            server: without_credentials(&base),
            token_file: address.token_file,
            max_body: MAX_BODY,
            timeout: ANSWER_TIMEOUT,
        })
    }

    async fn ask(&self, url: &Url, form: &[(&str, &str)]) -> Result<Answer, QueryError> {
        let asking = async {
            let mut request = self
                .client
                .post(url.clone())
                .header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(encode(form));
            if let Some(token) = self.token().await? {
                request = request.bearer_auth(token);
            }
            let response = request.send().await.map_err(|error| self.unasked(error))?;
            let status = response.status().as_u16();
            let body = self.body(response).await?;
            answer::read(&body).map_err(|why| self.unanswered(why, status))
        };
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = self.timeout.as_secs();
                Err(QueryError::TimedOut { server: self.server.clone(), seconds })
            }
        }
    }

    async fn token(&self) -> Result<Option<String>, QueryError> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let failed = |reason: String| QueryError::ReadToken {
            server: self.server.clone(),
            reason: format!("{}: {reason}", file.display()),
        };
        let token = tokio::fs::read_to_string(file).await.map_err(|e| failed(e.to_string()))?;
        let token = token.trim();
        if token.is_empty() || token.len() > MAX_TOKEN || token.chars().any(char::is_control) {
            return Err(failed("it is not a token".to_owned()));
        }
        Ok(Some(token.to_owned()))
    }

    /// The body, piece by piece and no further than the bound.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, QueryError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.unasked(error))? {
            if body.len() + piece.len() > self.max_body {
                let reason = format!("its answer is larger than {} bytes", self.max_body);
                return Err(QueryError::TooMuch { server: self.server.clone(), reason });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    fn unasked(&self, error: reqwest::Error) -> QueryError {
        // The address may hold a password; `server` names it without.
        QueryError::Ask { server: self.server.clone(), reason: chain(&error.without_url()) }
    }

    fn unanswered(&self, why: NoAnswer, status: u16) -> QueryError {
        let server = self.server.clone();
        match why {
            NoAnswer::TooMuch(reason) => QueryError::TooMuch { server, reason },
            NoAnswer::Refused(reason) => QueryError::Refused { server, status, reason },
            // A proxy's page about an error is no garbage: it is a refusal.
            NoAnswer::Garbled(reason) if status >= 300 => {
                QueryError::Refused { server, status, reason }
            }
            NoAnswer::Garbled(reason) => QueryError::Garbled { server, reason },
        }
    }
}

impl Metrics for Prometheus {
    fn range<'a>(
        &'a self,
        query: &'a str,
        window: Window,
    ) -> BoxFuture<'a, Result<Answer, QueryError>> {
        async move {
            let form = [
                ("query", query),
                ("start", &seconds(window.start.as_millisecond().into())),
                ("end", &seconds(window.end.as_millisecond().into())),
                ("step", &step(window.step)),
                ("timeout", SERVER_TIMEOUT),
            ];
            self.ask(&self.range, &form).await
        }
        .boxed()
    }

    fn instant<'a>(
        &'a self,
        query: &'a str,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Answer, QueryError>> {
        async move {
            let at = seconds(at.as_millisecond().into());
            let form = [("query", query), ("time", &at), ("timeout", SERVER_TIMEOUT)];
            self.ask(&self.instant, &form).await
        }
        .boxed()
    }
}

fn encode(form: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form.invalid").expect("a constant URL is a URL");
    url.query_pairs_mut().extend_pairs(form);
    url.query().unwrap_or_default().to_owned()
}

fn without_credentials(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path().trim_end_matches('/');
    format!("{}://{}{port}{path}", url.scheme(), url.host_str().unwrap_or_default())
}

fn step(step: SignedDuration) -> String {
    seconds(step.as_millis())
}

/// Milliseconds as the decimal seconds that Prometheus reads exactly.
fn seconds(milliseconds: i128) -> String {
    let sign = if milliseconds < 0 { "-" } else { "" };
    let magnitude = milliseconds.unsigned_abs();
    format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000)
}

/// An error with all its causes: the outermost one of a client says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        reason.push_str(": ");
        reason.push_str(&inner.to_string());
        cause = inner.source();
    }
    answer::sanitized(&reason)
}
