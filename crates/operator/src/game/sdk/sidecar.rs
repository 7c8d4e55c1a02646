//! A server's SDK from inside its Pod: what it says goes on to the operator, but for its pings, which stay here until
//! they are missing.
//!
//! While nobody says or watches anything, nothing is sent: a server that is well is silent. While somebody watches the
//! server, one request waits at the operator for its next change.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use jiff::SignedDuration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::request::{SdkError, SdkRequest, Silence};
use super::view::GameServerView;
use super::wire::{Call, Look, MAX_WAIT_SECONDS, Refusal};
use super::{SdkBackend, ServerIdentity};

/// So long what a server says is tried. Its own call may take a little longer, so that it is told why it failed.
const SAY_TIMEOUT: Duration = Duration::from_secs(25);
/// So long one attempt may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So long it is asked how the server is; then it is told as it was known last.
const VIEW_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Calls under way at a time; a server that says more waits.
const MAX_CALLS: usize = 8;
/// However short the period of pings is, silence is not told more often.
const MIN_SILENCE_INTERVAL: Duration = Duration::from_secs(1);

/// The way to the operator.
pub trait Upstream: Send + Sync + std::fmt::Debug {
    /// Asks once. Whoever asked may go away at any time.
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<GameServerView, CallError>>;
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The operator answered, and that is what the server is to be told.
    #[error(transparent)]
    Refused(SdkError),
    /// The operator surely did not hear it.
    #[error("{0}")]
    Unheard(String),
    /// It may have heard it, or not.
    #[error("{0}")]
    Unsure(String),
}

/// What the operator's answer means for whoever said something.
pub fn answered(status: StatusCode, body: &[u8]) -> Result<GameServerView, CallError> {
    if status == StatusCode::OK {
        return serde_json::from_slice(body).map_err(|error| {
            CallError::Unsure(format!("the operator's answer cannot be read: {error}"))
        });
    }
    // Somebody in between, who may have passed it on, has other words.
    let Ok(refusal) = serde_json::from_slice::<Refusal>(body) else {
        let words = format!("the operator's address answers {status}");
        let heard = status.is_server_error();
        return Err(if heard { CallError::Unsure(words) } else { CallError::Unheard(words) });
    };
    let words = format!("the operator answers {status}: {}", refusal.message);
    Err(match (refusal.error, status) {
        (Some(error), _) => CallError::Refused(error),
        // It was read, and cannot be taken in however often it is sent.
        (None, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE) => {
            CallError::Refused(SdkError::Invalid(words))
        }
        (None, _) => CallError::Unheard(words),
    })
}

/// What is known in here of one server.
#[derive(Debug)]
pub struct Sidecar {
    upstream: Arc<dyn Upstream>,
    calls: Semaphore,
    pings: Mutex<Pings>,
    /// Something about pings is not as it was.
    rearmed: Notify,
    last: Mutex<Option<GameServerView>>,
    watched: watch::Sender<Watched>,
    watcher_came: Notify,
    /// Servers differ in it, so that not all of them come back at a time.
    seed: u64,
}

#[derive(Debug)]
struct Pings {
    listening_since: Instant,
    last: Option<Instant>,
    /// How long they may be missing; nothing while nobody expects them.
    limit: Option<Duration>,
    /// Not before then is silence told again.
    not_before: Instant,
}

/// What those who watch know.
#[derive(Debug, Clone)]
enum Watched {
    Unknown,
    Is(Arc<GameServerView>),
    Gone,
}

impl Sidecar {
    /// With what has to run for it.
    pub fn new(
        identity: &ServerIdentity,
        upstream: Arc<dyn Upstream>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let mut seed = DefaultHasher::new();
        identity.hash(&mut seed);
        let now = Instant::now();
        let pings = Pings { listening_since: now, last: None, limit: None, not_before: now };
        let sidecar = Arc::new(Self {
            upstream,
            calls: Semaphore::new(MAX_CALLS),
            pings: Mutex::new(pings),
            rearmed: Notify::new(),
            last: Mutex::default(),
            watched: watch::Sender::new(Watched::Unknown),
            watcher_came: Notify::new(),
            seed: seed.finish(),
        });
        let working = sidecar.clone();
        let work = async move {
            futures::future::join(working.tell_of_silence(), working.follow()).await;
        };
        (sidecar, work)
    }

    /// Asks once, in its time and in its turn.
    async fn call(&self, call: &Call, limit: Duration) -> Result<GameServerView, CallError> {
        let Ok(_turn) = timeout(limit, self.calls.acquire()).await else {
            return Err(CallError::Unheard("too much is said at a time".to_owned()));
        };
        self.ask(call, limit).await
    }

    async fn ask(&self, call: &Call, limit: Duration) -> Result<GameServerView, CallError> {
        let asked = timeout(limit, self.upstream.call(call)).await;
        let late = || Err(CallError::Unsure("the operator did not answer in time".to_owned()));
        let view = asked.unwrap_or_else(|_| late())?;
        self.learn(&view);
        Ok(view)
    }

    /// Says it until it is heard. What cannot be said twice is said again only if it surely was not heard.
    async fn say(&self, request: SdkRequest) -> Result<GameServerView, SdkError> {
        let repeated = request.can_be_repeated();
        let call = Call::Say(request);
        let deadline = Instant::now() + SAY_TIMEOUT;
        let mut delays = self.delays();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let problem = match self.call(&call, left.min(CALL_TIMEOUT)).await {
                Ok(view) => return Ok(view),
                Err(CallError::Refused(SdkError::Unavailable(why))) if repeated => why,
                Err(CallError::Refused(SdkError::Conflict)) => SdkError::Conflict.to_string(),
                Err(CallError::Refused(error)) => return Err(error),
                Err(CallError::Unheard(why)) => why,
                Err(CallError::Unsure(why)) if repeated => why,
                Err(CallError::Unsure(why)) => {
                    let why = format!("{why}; nobody knows whether it was heard");
                    return Err(SdkError::Unavailable(why));
                }
            };
            let delay = delays.next().unwrap_or(MAX_DELAY);
            if Instant::now() + delay >= deadline {
                tracing::warn!(problem, "what the server says is not heard");
                return Err(SdkError::Unavailable(problem));
            }
            tracing::debug!(problem, "what the server says is not heard yet");
            sleep(delay).await;
        }
    }

    /// How long to wait before each further attempt.
    fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let seed = self.seed;
        let doubled = |delay: &Duration| Some((*delay * 2).min(MAX_DELAY));
        let delays = std::iter::successors(Some(FIRST_DELAY), doubled).zip(0_u32..);
        delays.map(move |(delay, attempt)| {
            let mut hasher = DefaultHasher::new();
            (seed, attempt).hash(&mut hasher);
            let share = u32::try_from(hasher.finish() % 100).unwrap_or(0);
            delay / 2 + delay * share / 200
        })
    }

    /// The server is so.
    fn learn(&self, view: &GameServerView) {
        let limit = view.pings_expected.then(|| {
            let period = Duration::try_from(view.health.period).unwrap_or_default();
            period.saturating_mul(view.health.failure_threshold).max(MIN_SILENCE_INTERVAL)
        });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(view.clone());
        let mut pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        if pings.limit != limit {
            if let (None, Some(limit)) = (pings.limit, limit) {
                // What was not expected was not missing.
                pings.not_before = Instant::now() + limit;
            }
            pings.limit = limit;
            self.rearmed.notify_one();
        }
    }

    fn known(&self) -> Option<GameServerView> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ping(&self) {
        let mut pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        pings.last = Some(Instant::now());
    }

    /// When pings are missing for so long that it is to be told.
    fn silent_at(&self) -> Option<Instant> {
        let pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        let since = pings.last.unwrap_or(pings.listening_since);
        Some((since + pings.limit?).max(pings.not_before))
    }

    fn silence(&self) -> Silence {
        let pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |instant: Instant| {
            SignedDuration::try_from(instant.elapsed()).unwrap_or(SignedDuration::MAX)
        };
        Silence { since_ping: pings.last.map(since), listening_for: since(pings.listening_since) }
    }

    /// Tells the operator when pings are missing, again and again until it expects none: whether that is a failure is
    /// decided there.
    async fn tell_of_silence(&self) {
        // Whoever begins anew in the middle of a server's life does not know yet whether it pings.
        let mut delays = self.delays();
        while let Err(problem) = self.call(&Call::Look(Look::default()), CALL_TIMEOUT).await {
            tracing::warn!(%problem, "the operator does not say how the server is");
            sleep(delays.next().unwrap_or(MAX_DELAY)).await;
        }
        loop {
            let changed = self.rearmed.notified();
            match self.silent_at() {
                None => changed.await,
                Some(at) if at > Instant::now() => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                Some(_) => {
                    let call = Call::Say(SdkRequest::Silence(self.silence()));
                    if let Err(problem) = self.call(&call, CALL_TIMEOUT).await {
                        tracing::warn!(%problem, "nobody hears that pings are missing");
                    }
                    let mut pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
                    let interval = pings.limit.unwrap_or_default();
                    pings.not_before = Instant::now() + interval.max(MIN_SILENCE_INTERVAL);
                }
            }
        }
    }

    /// Keeps those informed who watch, while there are any.
    async fn follow(&self) {
        loop {
            let came = self.watcher_came.notified();
            if self.watched.receiver_count() == 0 {
                came.await;
                continue;
            }
            tokio::select! {
                () = self.follow_changes() => {}
                () = self.watched.closed() => {}
            }
            self.watched.send_replace(Watched::Unknown);
        }
    }

    /// Passes on every change until the server is gone and nobody watches any more.
    async fn follow_changes(&self) {
        let (mut after, mut delays) = (None, self.delays());
        loop {
            let wait_seconds = if after.is_none() { 0 } else { MAX_WAIT_SECONDS };
            let call = Call::Look(Look { after: after.clone(), wait_seconds });
            let limit = CALL_TIMEOUT + Duration::from_secs(u64::from(wait_seconds));
            // Those who wait take no turn from those who speak.
            match self.ask(&call, limit).await {
                Ok(view) => {
                    delays = self.delays();
                    if after.as_ref() != Some(&view.resource_version) {
                        after = Some(view.resource_version.clone());
                        self.watched.send_replace(Watched::Is(Arc::new(view)));
                    }
                    continue;
                }
                Err(CallError::Refused(SdkError::UnknownServer)) => {
                    self.watched.send_replace(Watched::Gone);
                }
                Err(problem) => tracing::debug!(%problem, "changes of the server are not seen"),
            }
            sleep(delays.next().unwrap_or(MAX_DELAY)).await;
        }
    }
}

impl SdkBackend for Sidecar {
    fn take<'a>(
        &'a self,
        _: &'a ServerIdentity,
        request: SdkRequest,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        async move {
            if request == SdkRequest::Health {
                self.ping();
                // Whoever pings is told nothing.
                return Ok(self.known().unwrap_or_default());
            }
            self.say(request).await
        }
        .boxed()
    }

    /// As the operator has it, or, if it cannot be asked, as it was.
    fn view<'a>(
        &'a self,
        _: &'a ServerIdentity,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        async move {
            match self.call(&Call::Look(Look::default()), VIEW_TIMEOUT).await {
                Ok(view) => Ok(view),
                Err(CallError::Refused(SdkError::UnknownServer)) => Err(SdkError::UnknownServer),
                Err(problem) => {
                    self.known().ok_or_else(|| SdkError::Unavailable(problem.to_string()))
                }
            }
        }
        .boxed()
    }

    fn watch(&self, _: &ServerIdentity) -> BoxStream<'static, GameServerView> {
        let mut views = self.watched.subscribe();
        views.mark_changed();
        self.watcher_came.notify_one();
        stream::unfold(views, |mut views| async move {
            loop {
                views.changed().await.ok()?;
                let watched = views.borrow_and_update().clone();
                match watched {
                    Watched::Unknown => {}
                    Watched::Is(view) => return Some(((*view).clone(), views)),
                    Watched::Gone => return None,
                }
            }
        })
        .boxed()
    }
}
