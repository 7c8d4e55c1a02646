//! What the example game server tells of itself, and to whom: Agones' routes on loopback, and the classic ones.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use http::{Method, StatusCode};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// How long an answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Before it is tried again for the first time; then twice as long each time, up to the second.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(2);

/// How often something is tried while nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts(u32);

impl Attempts {
    pub(super) const ONCE: Self = Self(1);
    /// While somebody waits for the answer: some ten seconds, where nobody listens.
    pub(super) const FEW: Self = Self(10);
    /// At the start, when whoever answers may be on its way, too: some three minutes.
    pub(super) const MANY: Self = Self(90);

    /// How long to wait after each but the last.
    fn delays(self) -> impl Iterator<Item = Duration> {
        let doubled = |delay: &Duration| Some((*delay * 2).min(MAX_DELAY));
        let retries = usize::try_from(self.0.saturating_sub(1)).unwrap_or(usize::MAX);
        std::iter::successors(Some(FIRST_DELAY), doubled).take(retries)
    }
}

/// One thing that a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report<'a> {
    Ready,
    Ping,
    Allocate,
    Reserve {
        seconds: u32,
    },
    Shutdown,
    Label {
        key: &'a str,
        value: &'a str,
    },
    Annotation {
        key: &'a str,
        value: &'a str,
    },
    Players(u32),
    State(&'a str),
    /// The classic word for how it is.
    Health(&'a str),
    MarkedForDeletion,
}

/// Where reports go. Without an endpoint nobody is told anything.
pub(super) struct Sdk {
    client: reqwest::Client,
    server_name: Option<String>,
    agones: Option<Url>,
    classic: Option<Classic>,
}

/// The classic routes: they name the server in each body, and show its code.
struct Classic {
    url: Url,
    code: SecretString,
    server_name: String,
    namespace: String,
}

impl Sdk {
    /// By what the environment says. Without `AGONES_SDK_HTTP_PORT` there is none.
    pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let (client, server_name) = (client()?, variable("SERVER_NAME"));
        let Some(port) = variable("AGONES_SDK_HTTP_PORT") else {
            return Ok(Self { client, server_name, agones: None, classic: None });
        };
        let port: u16 = port.parse().context("AGONES_SDK_HTTP_PORT is not a port")?;
        let agones = Url::parse(&format!("http://127.0.0.1:{port}/")).context("no address")?;
        let classic = match variable("API_SERVER_URL") {
            None => None,
            Some(url) => {
                let text = |name: &str| variable(name).with_context(|| format!("no {name}"));
                // Its paths are beneath the last segment, if there is one.
                let url = format!("{}/", url.trim_end_matches('/'));
                Some(Classic {
                    url: Url::parse(&url).context("API_SERVER_URL is not an address")?,
                    code: text("API_SERVER_CODE")?.into(),
                    server_name: text("SERVER_NAME")?,
                    namespace: text("SERVER_NAMESPACE")?,
                })
            }
        };
        Ok(Self { client, server_name, agones: Some(agones), classic })
    }

    /// What the server is called, where it was told.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Where Agones' routes are, if they are anywhere.
    pub(super) const fn endpoint(&self) -> Option<&Url> {
        self.agones.as_ref()
    }

    /// Tells it. What nobody hears is told again; what is refused is not.
    pub(super) async fn tell(&self, report: Report<'_>, attempts: Attempts) -> anyhow::Result<()> {
        let Some(said) = self.said(report)? else { return Ok(()) };
        let mut delays = attempts.delays();
        loop {
            let request = self.client.request(said.method.clone(), said.url.clone());
            let problem = match request.json(&said.body).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    anyhow!("it is not available")
                }
                Ok(answer) => bail!("{} is refused: {}", said.url.path(), answer.status()),
                // The address has the code in it.
                Err(error) => error.without_url().into(),
            };
            let Some(delay) = delays.next() else {
                return Err(problem.context(format!("nobody answers at {}", said.url.path())));
            };
            tracing::debug!(path = said.url.path(), error = format!("{problem:#}"), "not heard");
            tokio::time::sleep(delay).await;
        }
    }

    /// Nothing where there is nobody to tell.
    fn said(&self, report: Report<'_>) -> anyhow::Result<Option<Said>> {
        let agones = |method: Method, path: &str, body: Value| -> anyhow::Result<Option<Said>> {
            let Some(base) = &self.agones else { return Ok(None) };
            Ok(Some(Said { method, url: base.join(path)?, body }))
        };
        let classic = |path: &str, field: &str, value: Value| -> anyhow::Result<Option<Said>> {
            let Some(classic) = &self.classic else { return Ok(None) };
            let mut url = classic.url.join(path)?;
            url.query_pairs_mut().append_pair("code", classic.code.expose_secret());
            let mut body =
                json!({"serverName": classic.server_name, "namespace": classic.namespace});
            body[field] = value;
            Ok(Some(Said { method: Method::POST, url, body }))
        };
        let pair = |key: &str, value: &str| json!({"key": key, "value": value});
        match report {
            Report::Ready => agones(Method::POST, "ready", json!({})),
            Report::Ping => agones(Method::POST, "health", json!({})),
            Report::Allocate => agones(Method::POST, "allocate", json!({})),
            Report::Shutdown => agones(Method::POST, "shutdown", json!({})),
            // Numbers of 64 bits are strings in the JSON of protobuf.
            Report::Reserve { seconds } => {
                agones(Method::POST, "reserve", json!({"seconds": seconds.to_string()}))
            }
            Report::Label { key, value } => agones(Method::PUT, "metadata/label", pair(key, value)),
            Report::Annotation { key, value } => {
                agones(Method::PUT, "metadata/annotation", pair(key, value))
            }
            Report::Players(players) => classic("setactiveplayers", "playerCount", json!(players)),
            Report::State(state) => classic("setdgsstate", "state", json!(state)),
            Report::Health(health) => classic("setsdgshealth", "health", json!(health)),
            Report::MarkedForDeletion => {
                classic("setdgsmarkedfordeletion", "markedForDeletion", json!(true))
            }
        }
    }
}

/// A report as it goes over the wire.
struct Said {
    method: Method,
    url: Url,
    body: Value,
}

/// It trusts nobody's certificate: the endpoint is on loopback, without TLS.
fn client() -> anyhow::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot set up TLS")?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(REQUEST_TIMEOUT)
        .build()
        .context("cannot make a client")
}
