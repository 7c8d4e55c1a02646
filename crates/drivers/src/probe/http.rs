//! Checks over the network: HTTP and TCP.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use reqwest::header::{ACCEPT, HOST};
use reqwest::{Client, Response};
use tokio::net::TcpStream;

use super::{Codes, Observation, Probe, Target, answer};
use crate::dial::{Dial, Direct, Endpoint};
use crate::guard::{self, Allow};

/// What servers see in their logs.
const USER_AGENT: &str = "sojourn-status-check";
/// More than any status answer needs.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// No check lasts longer, whatever its configuration says.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks over HTTP, within the guard.
pub struct HttpProbe {
    client: Client,
    allow: Allow,
    dial: Arc<dyn Dial>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot set up the HTTP client for status checks: {0}")]
    BuildClient(#[source] reqwest::Error),
}

impl HttpProbe {
    /// Status URLs may lead to addresses that are allowed.
    pub fn new(allow: Allow) -> Result<Self, ProbeError> {
        let client = guard::client(&allow).user_agent(USER_AGENT).http1_only();
        let client = client.build().map_err(ProbeError::BuildClient)?;
        Ok(Self { client, allow, dial: Arc::new(Direct) })
    }

    /// Connects to instances by this dialer.
    #[must_use]
    pub fn dialing(self, dial: Arc<dyn Dial>) -> Self {
        Self { dial, ..self }
    }

    async fn observe(&self, target: &Target) -> Observation {
        match target {
            Target::Contract { url, keep, end, .. } => self.ask(url, keep, end).await,
            Target::Reach { endpoint, http, .. } => self.reach(endpoint, *http).await,
        }
    }

    async fn ask(&self, url: &str, keep: &Codes, end: &Codes) -> Observation {
        let url = match guard::check_url(url, &self.allow) {
            Ok(url) => url,
            Err(refused) => return Observation::Unclear(refused.to_string()),
        };
        let host = url.host_str().unwrap_or_default().to_owned();
        let answer = match self.client.get(url).header(ACCEPT, "application/json").send().await {
            Ok(answer) => answer,
            Err(error) => return Observation::Unclear(failure(&host, &error)),
        };
        let code = answer.status().as_u16();
        // A code in both lists keeps: that can be undone.
        if keep.contains(code) {
            keep_observation(answer).await
        } else if end.contains(code) {
            Observation::Ends
        } else {
            Observation::Unclear(format!("{host} answered {code}, which neither keeps nor ends"))
        }
    }

    async fn reach(&self, endpoint: &Endpoint, http: bool) -> Observation {
        let address = endpoint.address;
        let stream = match self.dial.dial(endpoint).await {
            Ok(stream) => stream,
            Err(error) => {
                let words = format!("cannot connect to {address}: {error}");
                return Observation::Unreachable(words);
            }
        };
        match if http { request_root(stream, address).await } else { Ok(()) } {
            Ok(()) => Observation::Reachable,
            // Something took the connection. It is not clear that nobody uses it.
            Err(error) => Observation::Unclear(format!(
                "no answer from {address} that can be read: {}",
                deepest(error.as_ref())
            )),
        }
    }
}

impl Probe for HttpProbe {
    fn check<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        let timeout = target.timeout().min(MAX_TIMEOUT);
        let observe = tokio::time::timeout(timeout, self.observe(target));
        observe.map(move |seen| seen.unwrap_or_else(|_| target.timed_out(timeout))).boxed()
    }
}

impl fmt::Debug for HttpProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProbe").field("allow", &self.allow).finish_non_exhaustive()
    }
}

/// Asks for the page at the root; whatever is answered is an answer.
async fn request_root(
    stream: TcpStream,
    address: SocketAddr,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let request = http::Request::get("/")
        .header(HOST, address.to_string())
        .header(http::header::USER_AGENT, USER_AGENT)
        .header(http::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MAX_BODY_BYTES).handshake(TokioIo::new(stream)).await?;
    let answer = sender.send_request(request);
    // Both ends of it live here, so that nothing goes on when the look is over.
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => drop(answer?),
        // It hung up; what it said before counts.
        _ = &mut connection => drop(answer.await?),
    }
    Ok(())
}

/// The bottom of an error, where the words are that help.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.last().map_or_else(String::new, ToString::to_string)
}

/// The code keeps; the body may say until when.
async fn keep_observation(mut answer: Response) -> Observation {
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => {
                let cause = root_cause(&error);
                return Observation::Unclear(format!("the answer broke off: {cause}"));
            }
        }
        if body.len() > MAX_BODY_BYTES {
            return too_long(&body);
        }
    }
    match answer::deadline(&body) {
        Ok(deadline) => Observation::Keeps { deadline },
        Err(words) => Observation::Unclear(words),
    }
}

/// A page of any length keeps; JSON that is not read to its end may hide a deadline.
fn too_long(start: &[u8]) -> Observation {
    match start.trim_ascii_start().first() {
        Some(b'{') => {
            Observation::Unclear(format!("the answer is longer than {MAX_BODY_BYTES} bytes"))
        }
        _ => Observation::Keeps { deadline: None },
    }
}

/// Why there is no answer, without the URL, which may carry secrets.
fn failure(host: &str, error: &reqwest::Error) -> String {
    if let Some(refused) = guard::refusal(error) {
        refused.to_string()
    } else if error.is_connect() {
        format!("cannot connect to {host}: {}", root_cause(error))
    } else {
        format!("no answer from {host} that can be read: {}", root_cause(error))
    }
}

/// The bottom of an error, where the words are that help.
fn root_cause(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string)
}
