//! `httpGet`: asks a server of the Pod's, as a kubelet does.
//!
//! Whatever answers is the Pod's and may be hostile: heads and bodies are bounded, redirects lead
//! nowhere but to the same port, and everything together has one time limit.

mod tls;
mod url;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPGetAction;
use tokio::io::{AsyncRead, AsyncWrite};

use super::tcp::dial_error;
use super::{NotRun, ProbeOutcome};
use crate::dial::PodRoute;
use url::Url;

/// How much of an answer is read, as by a kubelet.
const MAX_BODY_BYTES: usize = 10 << 10;
/// How long an answer's head may be; what a server is expected to say fits many times.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How many requests one probe makes when it is sent on and on, as by a kubelet.
const MAX_REQUESTS_PER_PROBE: usize = 10;
/// These say how a request is sent, which is ours to decide.
const OURS: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// What a request is for; it is told to the server by `User-Agent`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Probe,
    Lifecycle,
}

impl Purpose {
    const fn user_agent(self) -> &'static str {
        match self {
            Self::Probe => "kube-probe/1.36",
            Self::Lifecycle => "kube-lifecycle/1.36",
        }
    }
}

/// Whether a server says that all is well.
pub(super) async fn probe(
    action: &HTTPGetAction,
    route: &PodRoute,
    address: SocketAddr,
    timeout: Duration,
) -> Result<ProbeOutcome, NotRun> {
    let get = Get::new(action, route, address, Purpose::Probe)?;
    let answered = match tokio::time::timeout(timeout, get.follow()).await {
        Ok(answered) => answered,
        Err(_) => Err(HttpError::Timeout),
    };
    match answered {
        Ok(answer) => answer.outcome(),
        Err(error) => Ok(ProbeOutcome::Failure(get.failure(&error))),
    }
}

/// Sends one request and does not mind what is answered, as a hook does.
pub(super) async fn notify(
    action: &HTTPGetAction,
    route: &PodRoute,
    address: SocketAddr,
    timeout: Duration,
) -> Result<(), NotRun> {
    let mut get = Get::new(action, route, address, Purpose::Lifecycle)?;
    let sent = async {
        match get.follow().await {
            // A kubelet asks once more, without encryption and without secrets.
            Err(HttpError::NotTls) => {
                get.url.secure = false;
                get.headers.remove(header::AUTHORIZATION);
                get.follow().await
            }
            other => other,
        }
    };
    let sent = match tokio::time::timeout(timeout, sent).await {
        Ok(sent) => sent.map(drop),
        Err(_) => Err(HttpError::Timeout),
    };
    sent.map_err(|error| NotRun::new(get.failure(&error)))
}

#[derive(Debug, thiserror::Error)]
enum HttpError {
    #[error("{0}")]
    Dial(String),
    #[error("http: server gave HTTP response to HTTPS client")]
    NotTls,
    #[error("tls: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Exchange(#[from] hyper::Error),
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    #[error("stopped after {MAX_REQUESTS_PER_PROBE} redirects")]
    Redirects,
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Timeout,
}

/// One request, and those that it is redirected to.
#[derive(Debug)]
struct Get {
    route: PodRoute,
    address: SocketAddr,
    url: Url,
    headers: HeaderMap,
}

impl Get {
    fn new(
        action: &HTTPGetAction,
        route: &PodRoute,
        address: SocketAddr,
        purpose: Purpose,
    ) -> Result<Self, NotRun> {
        let secure = action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"));
        let url = Url::new(secure, address, action.path.as_deref().unwrap_or_default());
        let headers = headers(action, address, purpose)?;
        Ok(Self { route: route.clone(), address, url, headers })
    }

    async fn follow(&self) -> Result<Answer, HttpError> {
        let mut url = self.url.clone();
        for _ in 0..MAX_REQUESTS_PER_PROBE {
            let answer = self.ask(&url).await?;
            match answer.redirect.as_deref().and_then(|location| url.redirected(location)) {
                Some(next) => url = next,
                None => return Ok(answer),
            }
        }
        Err(HttpError::Redirects)
    }

    async fn ask(&self, url: &Url) -> Result<Answer, HttpError> {
        let stream = self
            .route
            .connect(self.address.port(), self.address)
            .await
            .map_err(|error| HttpError::Dial(dial_error(self.address, &error)))?;
        if !url.secure {
            return self.exchange(url, stream).await;
        }
        let stream = tls::connect(self.address.ip(), stream).await.map_err(|error| {
            if tls::is_plain_text(&error) { HttpError::NotTls } else { HttpError::Tls(error) }
        })?;
        self.exchange(url, stream).await
    }

    async fn exchange<S>(&self, url: &Url, stream: S) -> Result<Answer, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut request = Request::get(url.target()).body(Empty::<Bytes>::new())?;
        *request.headers_mut() = self.headers.clone();
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await?;
        let exchange = async { Ok(Answer::read(sender.send_request(request).await?).await) };
        // Both ends of it live here, so that nothing goes on when the probe is dropped.
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            // The server hung up; what it said before counts, and if that was too little, the
            // exchange knows why.
            _ = &mut connection => exchange.await,
        }
    }

    fn failure(&self, error: &HttpError) -> String {
        format!("Get \"{}\": {error}", self.url)
    }
}

/// The headers of a request: the action's own, and what a kubelet adds.
fn headers(
    action: &HTTPGetAction,
    address: SocketAddr,
    purpose: Purpose,
) -> Result<HeaderMap, NotRun> {
    let mut headers = HeaderMap::new();
    let mut host = None;
    for given in action.http_headers.iter().flatten() {
        let unfit =
            |what: &str| NotRun::new(format!("header {:?} has an invalid {what}", given.name));
        let name = HeaderName::try_from(&given.name).map_err(|_| unfit("name"))?;
        let value = HeaderValue::try_from(&given.value).map_err(|_| unfit("value"))?;
        if name == header::HOST && !value.is_empty() {
            host.get_or_insert(value);
        } else if !OURS.contains(&name) {
            headers.append(name, value);
        }
    }
    let host = match host {
        Some(host) => host,
        None => HeaderValue::try_from(address.to_string())
            .map_err(|_| NotRun::new("the Pod's address is no host".to_owned()))?,
    };
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, HeaderValue::from_static(purpose.user_agent()));
    }
    match headers.get(header::ACCEPT) {
        None => {
            headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        }
        Some(accept) if accept.is_empty() => {
            headers.remove(header::ACCEPT);
        }
        Some(_) => {}
    }
    Ok(headers)
}

/// What a server said.
#[derive(Debug)]
struct Answer {
    status: u16,
    redirect: Option<String>,
    /// Its beginning; or why it broke off.
    body: Result<Vec<u8>, String>,
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Self {
        let status = response.status().as_u16();
        let location = response.headers().get(header::LOCATION);
        let redirect = location
            .filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
            .and_then(|location| location.to_str().ok())
            .map(str::to_owned);
        Self { status, redirect, body: read_body(response.into_body()).await }
    }

    fn outcome(self) -> Result<ProbeOutcome, NotRun> {
        let body = self.body.map_err(NotRun::new)?;
        Ok(match self.status {
            200..=299 => ProbeOutcome::Success,
            300..=399 => ProbeOutcome::Warning(format!(
                "Probe terminated redirects, Response body: {}",
                String::from_utf8_lossy(&body)
            )),
            // Without the body: whoever may read events may not be meant to read that.
            status => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        })
    }
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
        if let Some(data) = frame.data_ref() {
            let room = MAX_BODY_BYTES - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if read.len() == MAX_BODY_BYTES {
                break;
            }
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
