//! The server that gets the archive: where it is, how it is trusted, and how long it may be silent.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use reqwest::{Client, RequestBuilder, Url, redirect};
use tokio::time::{Instant, MissedTickBehavior};

use super::answer::{Answer, MAX_BODY};
use super::packing::Meter;
use super::receipt::printable;
use super::{Progress, SubmissionRequest, SubmitError};
use crate::trust::{trust, trust_nobody};

/// No name has more addresses that are worth a try.
const MAX_ADDRESSES: usize = 16;

/// How often progress is looked for, at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Slices of a part that is in memory anyway: small enough to see it moving.
const SLICE_BYTES: usize = 64 * 1024;

pub(super) struct Peer<'a> {
    client: Client,
    pub url: Url,
    stall: Duration,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
}

impl<'a> Peer<'a> {
    /// Resolves the name once; every connection goes to one of the addresses that were found and
    /// allowed then.
    pub(super) async fn find(
        submission: &SubmissionRequest,
        allow: &(dyn Fn(IpAddr) -> bool + Send + Sync),
        progress: &'a (dyn Fn(Progress) + Send + Sync),
    ) -> Result<Self, SubmitError> {
        let url = parse(&submission.url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let addresses = addresses(&url, &host, allow, submission.connect_timeout).await?;
        let prepare = |source| SubmitError::Prepare { host: host.clone(), source };
        // Without TLS nobody needs to be trusted, and reading certificates takes memory.
        let tls = match url.scheme() {
            "https" => trust(submission.ca_file.as_deref())?,
            _ => trust_nobody()?,
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(submission.connect_timeout)
            .resolve_to_addrs(&host, &addresses)
            .user_agent(concat!("sojourn/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| prepare(io::Error::other(error)))?;
        Ok(Self { client, url, stall: submission.stall_timeout, progress })
    }

    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request and reads the answer, as long as something moves.
    pub(super) async fn exchange(
        &self,
        doing: &'static str,
        request: RequestBuilder,
        meter: &Meter,
    ) -> Result<Answer, SubmitError> {
        let sending = async {
            request.send().await.map_err(|error| SubmitError::Exchange {
                doing,
                url: self.shown(),
                source: error.without_url(),
            })
        };
        let sent = |bytes| Progress::Sent { bytes };
        let mut response = self.watched(doing, meter, sent, sending).await?;
        let status = response.status();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        // The result is in the status; what cannot be read of the rest is only not read.
        let reading = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = MAX_BODY - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == MAX_BODY {
                    break;
                }
            }
        };
        _ = tokio::time::timeout(self.stall, reading).await;
        Ok(Answer { status, headers, body })
    }

    /// Waits for `work` as long as the meter moves, and tells how far it is.
    pub(super) async fn watched<T>(
        &self,
        doing: &'static str,
        meter: &Meter,
        told: impl Fn(u64) -> Progress,
        work: impl Future<Output = Result<T, SubmitError>>,
    ) -> Result<T, SubmitError> {
        let mut work = pin!(work);
        let mut ticks = tokio::time::interval(
            PROGRESS_INTERVAL.min(self.stall / 4).max(Duration::from_millis(1)),
        );
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut since) = (meter.read(), Instant::now());
        loop {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                _ = ticks.tick() => None,
            };
            let bytes = meter.read();
            if bytes != seen {
                (seen, since) = (bytes, Instant::now());
                (self.progress)(told(bytes));
            }
            if let Some(done) = done {
                return done;
            }
            if since.elapsed() >= self.stall {
                return Err(SubmitError::Stalled { doing, url: self.shown(), after: self.stall });
            }
        }
    }

    /// Why an answer is no success.
    pub(super) fn refused(&self, doing: &'static str, answer: &Answer) -> SubmitError {
        SubmitError::Refused {
            doing,
            url: self.shown(),
            status: answer.status.as_u16(),
            words: printable(&answer.text()),
        }
    }

    /// The URL as messages show it: its query may hold a signature.
    pub(super) fn shown(&self) -> String {
        shown(&self.url)
    }
}

fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn parse(text: &str) -> Result<Url, SubmitError> {
    let refuse = |url: String, why| Err(SubmitError::Url { url, why });
    let Ok(url) = Url::parse(text) else {
        return refuse(
            text.split(['?', '#']).next().unwrap_or_default().to_owned(),
            "it is no URL",
        );
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse(shown(&url), "only http and https are served");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse(shown(&url), "credentials belong into a Secret");
    }
    if !url.has_host() {
        return refuse(shown(&url), "it names no host");
    }
    Ok(url)
}

async fn addresses(
    url: &Url,
    host: &str,
    allow: &(dyn Fn(IpAddr) -> bool + Send + Sync),
    timeout: Duration,
) -> Result<Vec<SocketAddr>, SubmitError> {
    let failed = |source| SubmitError::Resolve { host: host.to_owned(), source };
    let port = url.port_or_known_default().unwrap_or_default();
    // An address in a URL is written in brackets when it is of version 6.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let found: Vec<SocketAddr> =
        tokio::time::timeout(timeout, tokio::net::lookup_host((name, port)))
            .await
            .map_err(|_elapsed| failed(io::ErrorKind::TimedOut.into()))?
            .map_err(failed)?
            .take(MAX_ADDRESSES)
            .collect();
    let allowed: Vec<SocketAddr> =
        found.iter().copied().filter(|address| allow(address.ip().to_canonical())).collect();
    if allowed.is_empty() {
        let addresses = found.iter().map(SocketAddr::ip).collect();
        return Err(SubmitError::NotAllowed { host: host.to_owned(), addresses });
    }
    Ok(allowed)
}

/// Bytes in memory as a body that shows how it moves.
pub(super) struct Metered {
    left: Bytes,
    meter: Meter,
}

impl Metered {
    pub(super) fn new(bytes: Bytes, meter: Meter) -> Self {
        Self { left: bytes, meter }
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.left.len().min(SLICE_BYTES);
        let slice = self.left.split_to(size);
        self.meter.add(size);
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.left.len()).unwrap_or(u64::MAX))
    }
}
