//! What the node answers: logs of its containers, and that it is well. Status and words are those
//! of a kubelet, since whoever asks was made for one.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::tls::{Allowed, Peer};
use crate::folder::PodFolder;
use crate::log::{self, Folders, Query, QueryError, Source};

/// How many logs may be followed at once. Each holds some files open and a few blocks of memory.
pub(super) const MAX_FOLLOWERS: usize = 512;

/// The Pods of a node, as far as their logs are concerned.
pub(crate) trait Pods: Send + Sync + 'static {
    fn find(&self, namespace: &str, pod: &str, container: &str) -> LogLookup;
}

#[derive(Debug, Clone)]
pub(crate) enum LogLookup {
    NoPod,
    /// The Pod has no container of that name.
    NoContainer,
    Container(Runs),
}

/// The runs of a container whose logs can be asked for.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    pub folder: PodFolder,
    /// The run that goes on, or else the last one that did.
    pub current: Option<CurrentRun>,
    /// The run that the status has as `lastState`, if any.
    pub previous: Option<u32>,
    /// While there was no run yet: what it waits for, one word as in the status.
    pub waiting: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct CurrentRun {
    pub attempt: u32,
    /// Becomes true when it has ended and its log is complete.
    pub ended: watch::Receiver<bool>,
}

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Everything that requests have in common.
#[derive(Clone)]
pub(super) struct Service {
    pods: Arc<dyn Pods>,
    folders: Arc<Folders>,
    allowed: Arc<Allowed>,
    follows: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

/// Why there is no log to send.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl Refusal {
    fn new(status: StatusCode, words: impl fmt::Display) -> Self {
        Self(status, words.to_string())
    }

    fn bad_request(words: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let status = match error {
            QueryError::Undecodable => StatusCode::BAD_REQUEST,
            QueryError::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error)
    }
}

impl Service {
    pub(super) fn new(
        pods: Arc<dyn Pods>,
        folders: Folders,
        allowed: Allowed,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            pods,
            folders: Arc::new(folders),
            allowed: Arc::new(allowed),
            follows: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            stop,
        }
    }

    pub(super) async fn answer<B>(&self, peer: &Peer, request: &Request<B>) -> Response<Body> {
        match self.route(peer, request).await {
            Ok(body) => plain(StatusCode::OK, body),
            Err(Refusal(status, words)) => {
                let mut response = plain(status, whole(words));
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    let get = HeaderValue::from_static("GET");
                    response.headers_mut().insert(header::ALLOW, get);
                }
                response
            }
        }
    }

    async fn route<B>(&self, peer: &Peer, request: &Request<B>) -> Result<Body, Refusal> {
        let (method, path) = (request.method(), request.uri().path());
        if !self.allowed.admits(peer) {
            let words = format!("Forbidden (user={}, verb={method}, path={path})", peer.user);
            return Err(Refusal::new(StatusCode::FORBIDDEN, words));
        }
        let not_found = || Refusal::new(StatusCode::NOT_FOUND, "404 page not found");
        let mut parts = path.strip_prefix('/').unwrap_or_default().split('/');
        let known = parts.next().unwrap_or_default();
        if !matches!(known, "healthz" | "containerLogs") {
            return Err(not_found());
        }
        if method != Method::GET {
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"));
        }
        let parts: Vec<&str> = parts.take(4).collect();
        match (known, parts.as_slice()) {
            ("healthz", []) => Ok(whole("ok".to_owned())),
            ("containerLogs", &[namespace, pod, container]) => {
                let query = Query::parse(request.uri().query().unwrap_or(""), Timestamp::now())?;
                self.log(namespace, pod, container, query).await
            }
            _ => Err(not_found()),
        }
    }

    /// Names that are not a Pod's are not used for anything but looking them up.
    async fn log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        query: Query,
    ) -> Result<Body, Refusal> {
        let runs = match self.pods.find(namespace, pod, container) {
            LogLookup::NoPod => {
                let words = format!("pod {pod:?} does not exist");
                return Err(Refusal::new(StatusCode::NOT_FOUND, words));
            }
            LogLookup::NoContainer => {
                let words = format!("container {container:?} not found in pod {pod:?}");
                return Err(Refusal::new(StatusCode::NOT_FOUND, words));
            }
            LogLookup::Container(runs) => runs,
        };
        let previous = query.previous;
        let no_previous = || {
            Refusal::bad_request(format_args!(
                "previous terminated container {container:?} in pod {pod:?} not found"
            ))
        };
        let CurrentRun { attempt, ended } = if previous {
            let attempt = runs.previous.ok_or_else(no_previous)?;
            CurrentRun { attempt, ended: watch::Sender::new(true).subscribe() }
        } else {
            runs.current.ok_or_else(|| {
                let whose = format!("container {container:?} in pod {pod:?}");
                Refusal::bad_request(match runs.waiting {
                    Some(reason) => format!("{whose} is waiting to start: {reason}"),
                    None => format!("{whose} is waiting to start - no logs yet"),
                })
            })?
        };
        let permit = if query.follow { Some(self.permit()?) } else { None };
        let container = container.to_owned();
        let source = Source { folder: runs.folder, container, attempt, ended };
        match log::open(source, query, self.folders.clone()).await {
            Ok(Some(blocks)) => Ok(streamed(blocks, permit, self.stop.clone())),
            Ok(None) if previous => Err(no_previous()),
            // It has said nothing yet.
            Ok(None) => Ok(whole(String::new())),
            Err(error) => {
                let words = format!("the log cannot be read: {error}");
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, words))
            }
        }
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.follows.clone().try_acquire_owned().map_err(|_| {
            let words = format!("{MAX_FOLLOWERS} logs are being followed; more are too many");
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, words)
        })
    }
}

fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    // What a container wrote is nothing for a browser to guess about.
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// Sends blocks as they come. A follower's place is free again when its answer is over.
fn streamed(
    blocks: mpsc::Receiver<io::Result<Bytes>>,
    permit: Option<OwnedSemaphorePermit>,
    stop: watch::Receiver<bool>,
) -> Body {
    let state = (blocks, permit, stop);
    let frames = stream::unfold(state, |(mut blocks, permit, mut stop)| async move {
        // What is there is sent even if the node stops; only waiting ends.
        let block = match blocks.try_recv() {
            Ok(block) => Some(block),
            Err(mpsc::error::TryRecvError::Disconnected) => None,
            Err(mpsc::error::TryRecvError::Empty) => tokio::select! {
                block = blocks.recv() => block,
                _ = stop.wait_for(|stop| *stop), if permit.is_some() => None,
            },
        };
        block.map(|block| (block.map(Frame::data), (blocks, permit, stop)))
    });
    StreamBody::new(frames).boxed_unsync()
}
