//! A connection to the API that fails as real ones do: before a write took effect, after it did, with a
//! conflict, and with watches that lose an event, fall silent and are then cut.
//!
//! Whether a request fails is drawn from the seed, the request and how often it was made, not from a
//! common sequence: two requests that change places change nothing.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep};
use tower::Service;

use crate::rng::Rng;
use crate::trace::Trace;

/// A watch that lost an event stays silent for at most so long, as a dead connection would.
const MAX_SILENCE: Duration = Duration::from_secs(290);
/// The timeout of watches that are not to be opened again all the time.
const LONG_WATCH_SECONDS: &str = "timeoutSeconds=100000000";

/// An object that is written more often than this within an hour is in a hot loop.
const MAX_WRITES_PER_HOUR: u64 = 600;
const HOUR: Duration = Duration::from_secs(3600);

/// How often requests fail, and in which way, in a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// A write is refused, and nothing was changed.
    pub before: u64,
    /// A write took effect, and its answer was lost.
    pub after: u64,
    /// A write is answered with a conflict, as if somebody else had written before.
    pub conflict: u64,
    /// A read fails.
    pub read: u64,
    /// A watch loses an event, and is cut soon after.
    pub lost: u64,
}

impl Rates {
    /// Draws each rate, up to a maximum of its own.
    pub fn draw(rng: &mut Rng, max: Self) -> Self {
        let mut up_to = |max: u64| rng.below(max + 1);
        Self {
            before: up_to(max.before),
            after: up_to(max.after),
            conflict: up_to(max.conflict),
            read: up_to(max.read),
            lost: up_to(max.lost),
        }
    }
}

/// The faults of one process's connections, drawn from a seed.
#[derive(Debug)]
pub struct Faults {
    rates: Rates,
    enabled: AtomicBool,
    /// Whether the API can be reached at all.
    reachable: AtomicBool,
    long_watches: bool,
    rng: Rng,
    asked: Mutex<HashMap<String, u64>>,
    /// Writes that took effect since `kill_after` was set.
    writes: AtomicU64,
    /// After so many of them the process is killed; zero means never.
    kill_after: AtomicU64,
    /// Counts the orders to cut every watch.
    cuts: watch::Sender<u64>,
    /// Every request of the process but its watches.
    requests: AtomicU64,
    /// Watches are silent until there were so many orders to cut them.
    silent_until: AtomicU64,
    /// Watches of these kinds, by their plurals, are silent for at most so long.
    silences: Mutex<BTreeMap<&'static str, Duration>>,
    held: watch::Sender<HeldWrites>,
    /// How often each object was written within the hour since the first of these writes.
    lately: Mutex<HashMap<String, (Instant, u64)>>,
    /// Objects in a hot loop, with the last write. Further writes to them are never answered, so that the
    /// simulation ends.
    hot: Mutex<BTreeMap<String, String>>,
    trace: Trace,
}

/// Writes that are held before they reach the API.
#[derive(Debug, Default)]
struct HeldWrites {
    /// Writes by this method are held.
    method: Option<Method>,
    waiting: u64,
}

impl Faults {
    pub fn new(rates: Rates, rng: Rng, long_watches: bool, trace: Trace) -> Arc<Self> {
        Arc::new(Self {
            rates,
            enabled: AtomicBool::new(true),
            reachable: AtomicBool::new(true),
            long_watches,
            rng,
            asked: Mutex::default(),
            writes: AtomicU64::new(0),
            kill_after: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
            requests: AtomicU64::new(0),
            silent_until: AtomicU64::new(0),
            silences: Mutex::default(),
            held: watch::Sender::default(),
            lately: Mutex::default(),
            hot: Mutex::default(),
            trace,
        })
    }

    /// How many requests were made so far, watches left out.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Holds writes by this method before they reach the API, until they are released.
    pub fn hold(&self, method: Method) {
        self.held.send_modify(|held| held.method = Some(method));
    }

    /// Releases the writes that are held.
    pub fn release(&self) {
        self.held.send_replace(HeldWrites::default());
    }

    /// Waits until a write is held.
    pub async fn until_held(&self) {
        // The sender is ours.
        drop(self.held.subscribe().wait_for(|held| held.waiting > 0).await);
    }

    /// The objects that were written in a hot loop, with the last write.
    pub fn hot_objects(&self) -> BTreeMap<String, String> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether an object is written in a hot loop.
    fn is_hot(&self, path: &str, what: &str) -> bool {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, writes) = lately.entry(path.to_owned()).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() > HOUR {
            (*since, *writes) = (Instant::now(), 0);
        }
        *writes += 1;
        let hot = *writes > MAX_WRITES_PER_HOUR;
        if hot {
            let mut all = self.hot.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(path.to_owned(), what.to_owned());
        }
        hot
    }

    async fn pass(&self, method: &Method) {
        if self.held.borrow().method.as_ref() != Some(method) {
            return;
        }
        self.held.send_modify(|held| held.waiting += 1);
        drop(self.held.subscribe().wait_for(|held| held.method.is_none()).await);
    }

    /// Cuts every watch, so that its client lists again.
    pub fn cut_watches(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Silences every open watch until it is cut.
    pub fn silence_watches(&self) {
        self.silent_until.store(*self.cuts.borrow() + 1, Ordering::Relaxed);
    }

    /// Clients give up a silent watch of a kind, named by its plural, sooner than others.
    pub fn bound_silence(&self, plural: &'static str, longest: Duration) {
        let mut silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        silences.insert(plural, longest);
    }

    fn max_silence(&self, path: &str) -> Duration {
        let plural = path.rsplit('/').next().unwrap_or_default();
        let silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        silences.get(plural).copied().unwrap_or(MAX_SILENCE)
    }

    /// Whether the API can be reached from now on. While it cannot, every watch is cut and every request fails.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::Relaxed);
        if !reachable {
            self.cut_watches();
        }
    }

    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    /// Nothing fails while faults are disabled.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// The process is to be killed right after its n-th write from now; never, if that is zero.
    pub fn kill_after(&self, writes: u64) {
        self.writes.store(0, Ordering::Relaxed);
        self.kill_after.store(writes, Ordering::Relaxed);
    }

    /// Whether the process that was to be killed still lives.
    pub fn kill_is_pending(&self) -> bool {
        self.kill_after.load(Ordering::Relaxed) > 0
    }

    fn fails(&self, chance: u64, what: &str, request: &str) -> bool {
        if chance == 0 || !self.enabled.load(Ordering::Relaxed) {
            return false;
        }
        let what = format!("{what} {request}");
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(what.clone()).or_default();
        *times += 1;
        self.rng.split(&format!("{what} {times}")).permille(chance)
    }

    /// Counts a write; answers whether the process is killed right after it.
    fn wrote(&self) -> bool {
        let limit = self.kill_after.load(Ordering::Relaxed);
        let writes = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if limit == 0 || writes < limit {
            return false;
        }
        self.kill_after.store(0, Ordering::Relaxed);
        true
    }
}

/// The connection of one process to the API. When the process is killed, no request goes through any more.
#[derive(Debug)]
pub struct Connection {
    faults: Arc<Faults>,
    dead: AtomicBool,
    killed: Notify,
}

impl Connection {
    pub fn new(faults: Arc<Faults>) -> Arc<Self> {
        Arc::new(Self { faults, dead: AtomicBool::new(false), killed: Notify::new() })
    }

    /// From now on no request is answered. The supervisor of the process ends it.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.killed.notify_one();
    }

    /// Waits until the process is to be ended.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// A client whose requests go through this connection.
    pub fn client(self: &Arc<Self>, inner: Client) -> Client {
        Client::new(Faulty { inner, connection: self.clone() }, "default")
    }
}

#[derive(Clone)]
struct Faulty {
    inner: Client,
    connection: Arc<Connection>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type AnswerBody = UnsyncBoxBody<Bytes, Failure>;
type Answer = Response<AnswerBody>;

impl Service<Request<Body>> for Faulty {
    type Response = Answer;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Answer, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, connection) = (self.inner.clone(), self.connection.clone());
        Box::pin(async move {
            if connection.is_dead() {
                return std::future::pending().await;
            }
            if !connection.faults.is_reachable() {
                return Err("the API cannot be reached".into());
            }
            let query = request.uri().query().unwrap_or_default();
            if query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1") {
                return watch_api(inner, connection, request).await;
            }
            connection.faults.requests.fetch_add(1, Ordering::Relaxed);
            if matches!(*request.method(), Method::GET | Method::HEAD) {
                return read(inner, &connection.faults, request).await;
            }
            write(inner, &connection, request).await
        })
    }
}

async fn read(inner: Client, faults: &Faults, request: Request<Body>) -> Result<Answer, Failure> {
    if faults.fails(faults.rates.read, "read", request.uri().path()) {
        return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "the read was lost"));
    }
    forward(inner, request).await
}

async fn write(
    inner: Client,
    connection: &Connection,
    request: Request<Body>,
) -> Result<Answer, Failure> {
    let faults = &connection.faults;
    faults.pass(request.method()).await;
    let named = format!("{} {}", request.method(), request.uri().path());
    if faults.fails(faults.rates.before, "before", &named) {
        return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "refused before it took effect"));
    }
    if *request.method() != Method::POST && faults.fails(faults.rates.conflict, "conflict", &named)
    {
        return Ok(refusal(StatusCode::CONFLICT, "somebody else was faster"));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    // Secrets are drawn by the operator and not from the seed, so they are left out of the trace, and so are
    // the reviews that are signed with them.
    let secret = named.contains("/secrets") || named.contains("/subjectaccessreviews");
    let shown = if secret { "".into() } else { String::from_utf8_lossy(&body) };
    let what = format!("{named} {shown}");
    if faults.is_hot(head.uri.path(), &what) {
        return std::future::pending().await;
    }
    let answer = forward(inner, Request::from_parts(head, Body::from(Vec::from(body)))).await?;
    faults.trace.add(&format!("{what} {}", answer.status()));
    if answer.status().is_success() && faults.wrote() {
        // The process dies here; whoever waits is dropped with it.
        connection.kill();
        return std::future::pending().await;
    }
    if faults.fails(faults.rates.after, "after", &named) {
        return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer was lost"));
    }
    Ok(answer)
}

async fn watch_api(
    inner: Client,
    connection: Arc<Connection>,
    mut request: Request<Body>,
) -> Result<Answer, Failure> {
    if connection.faults.long_watches {
        *request.uri_mut() = with_long_timeout(request.uri())?;
    }
    let path = request.uri().path().to_owned();
    let mut cuts = connection.faults.cuts.subscribe();
    let cut = Box::pin(async move {
        // The sender lives as long as the connection.
        drop(cuts.changed().await);
    });
    let answer = forward(inner, request).await?;
    let watched =
        |body| Watch { body, connection, path, cut, silence: None, over: false }.boxed_unsync();
    Ok(answer.map(watched))
}

/// The same watch without end and without bookmarks, so that a virtual month is not spent on opening it
/// again.
fn with_long_timeout(uri: &Uri) -> Result<Uri, Failure> {
    let kept = uri.query().unwrap_or_default().split('&').filter(|pair| {
        !pair.starts_with("timeoutSeconds=") && !pair.starts_with("allowWatchBookmarks=")
    });
    let pairs: Vec<&str> = kept.chain([LONG_WATCH_SECONDS]).collect();
    Ok(format!("{}?{}", uri.path(), pairs.join("&")).parse()?)
}

/// A client whose requests never fail and whose watches last.
pub fn reliable_client(inner: Client, trace: Trace) -> Client {
    Connection::new(Faults::new(Rates::default(), Rng::new(0), true, trace)).client(inner)
}

async fn forward(inner: Client, request: Request<Body>) -> Result<Answer, Failure> {
    let answer = inner.send(request).await?;
    Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
}

fn refusal(code: StatusCode, message: &str) -> Answer {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = code;
    answer
}

/// A watch that loses an event now and then. It is silent after that, until it is cut: the client
/// lists anew, as it would after a connection that broke.
struct Watch {
    body: AnswerBody,
    connection: Arc<Connection>,
    path: String,
    cut: BoxFuture<'static, ()>,
    silence: Option<Pin<Box<Sleep>>>,
    over: bool,
}

const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"#,
    r#""status":"Failure","message":"too old","reason":"Expired","code":410}}"#,
    "\n"
);

impl http_body::Body for Watch {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let mut gone = self.cut.as_mut().poll(context).is_ready();
        if let Some(silence) = &mut self.silence {
            gone |= silence.as_mut().poll(context).is_ready();
            if !gone {
                return Poll::Pending;
            }
        }
        if gone {
            self.over = true;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(GONE.as_bytes())))));
        }
        let faults = &self.connection.faults;
        if *faults.cuts.borrow() < faults.silent_until.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let faults = &self.connection.faults;
        if frame.is_none() || !faults.fails(faults.rates.lost, "lost", &self.path) {
            return Poll::Ready(frame);
        }
        let longest = faults.max_silence(&self.path).as_secs();
        let times = faults.rng.split(&self.path).below(longest);
        let mut silence = Box::pin(tokio::time::sleep(Duration::from_secs(times)));
        let over = silence.as_mut().poll(context).is_ready();
        self.silence = Some(silence);
        if over {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_made_long_and_nothing_else_is_changed() {
        let uri: Uri = "/apis/a/v1/b?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&\
                        labelSelector=x"
            .parse()
            .unwrap();
        let long = with_long_timeout(&uri).unwrap().to_string();
        assert_eq!(long, "/apis/a/v1/b?&watch=true&labelSelector=x&timeoutSeconds=100000000");
    }

    #[test]
    fn how_long_a_watch_is_silent_is_bounded_by_its_kind() {
        let faults = Faults::new(Rates::default(), Rng::new(0), false, Trace::starting_now());
        let bound = Duration::from_secs(35);
        faults.bound_silence("machines", bound);
        assert_eq!(faults.max_silence("/apis/a/v1/machines"), bound);
        assert_eq!(faults.max_silence("/apis/a/v1/namespaces/b/machines"), bound);
        assert_eq!(faults.max_silence("/apis/a/v1/machinegroups"), MAX_SILENCE);
    }

    #[test]
    fn what_fails_depends_on_the_request_and_not_on_the_order() {
        let draw = |paths: [&str; 2]| {
            let rates = Rates { read: 500, ..Rates::default() };
            let faults = Faults::new(rates, Rng::new(3), false, Trace::starting_now());
            let mut drawn: Vec<(String, bool)> = Vec::new();
            for _ in 0..20 {
                for path in paths {
                    drawn.push((path.to_owned(), faults.fails(500, "read", path)));
                }
            }
            drawn.sort();
            drawn
        };
        assert_eq!(draw(["/a", "/b"]), draw(["/b", "/a"]));
    }

    #[test]
    fn the_process_dies_of_its_nth_write() {
        let faults = Faults::new(Rates::default(), Rng::new(0), false, Trace::starting_now());
        assert!(!faults.wrote());
        faults.kill_after(2);
        assert_eq!([faults.wrote(), faults.wrote(), faults.wrote()], [false, true, false]);
        assert!(!faults.kill_is_pending());
    }
}
