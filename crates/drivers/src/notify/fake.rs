//! A scripted channel: accepts, refuses, loses and delays notices as its caller decides.
//!
//! It draws no lots and reads no clock: who scripts it gives the time and decides each turn, so the
//! same decisions give the same run.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{Channel, Notice, SendError};

/// How one attempt goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptedAttempt {
    /// So long (by tokio's clock) nothing happens. Who gives up meanwhile has sent nothing.
    pub before: Duration,
    pub effect: Effect,
    /// So long after it the answer comes. Who gives up meanwhile has sent it and does not know.
    pub after: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Effect {
    #[default]
    Accept,
    /// For good: a bad address.
    Refuse(String),
    /// Nothing has happened, and may the next time.
    FailBefore(String),
    /// It has arrived, and the sender is told that it has not.
    FailAfter(String),
}

impl From<Effect> for ScriptedAttempt {
    fn from(effect: Effect) -> Self {
        Self { effect, ..Self::default() }
    }
}

/// What has arrived, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub at: Timestamp,
    pub notice: Notice,
}

type Decide = dyn FnMut(&Notice) -> ScriptedAttempt + Send;

/// The channel. Its clones are the same channel.
#[derive(Clone)]
pub struct Script {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    decide: Arc<Mutex<Box<Decide>>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Script {
    /// `now` says what time it is when a notice arrives; `decide` is asked once for every attempt.
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        decide: impl FnMut(&Notice) -> ScriptedAttempt + Send + 'static,
    ) -> Self {
        Self {
            now: Arc::new(now),
            decide: Arc::new(Mutex::new(Box::new(decide))),
            received: Arc::default(),
        }
    }

    /// Accepts everything at once.
    pub fn accepting(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::new(now, |_| ScriptedAttempt::default())
    }

    /// Everything that has arrived, in order, repetitions too.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.received).clone()
    }

    async fn take(&self, notice: &Notice) -> Result<(), SendError> {
        let attempt = (lock(&self.decide))(notice);
        wait(attempt.before).await;
        if matches!(attempt.effect, Effect::Accept | Effect::FailAfter(_)) {
            let at = (self.now)();
            lock(&self.received).push(Received { at, notice: notice.clone() });
        }
        wait(attempt.after).await;
        match attempt.effect {
            Effect::Accept => Ok(()),
            Effect::Refuse(words) => Err(SendError::Refused(words)),
            Effect::FailBefore(words) | Effect::FailAfter(words) => {
                Err(SendError::Transient(words))
            }
        }
    }
}

impl Channel for Script {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.take(notice))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("received", &lock(&self.received).len())
            .finish_non_exhaustive()
    }
}

/// No wait is no timer either: tokio rounds up to the next millisecond.
async fn wait(span: Duration) {
    if !span.is_zero() {
        tokio::time::sleep(span).await;
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::notify::test_family::{self, DUE};

    fn notice(id: &str) -> Notice {
        Notice { id: id.to_owned(), ..test_family::notice(DUE) }
    }

    /// A channel whose attempts go as `turns` say, then well, on a clock that starts in 1970.
    fn scripted(turns: impl Into<VecDeque<ScriptedAttempt>>) -> Script {
        let start = tokio::time::Instant::now();
        let mut turns = turns.into();
        Script::new(
            move || Timestamp::UNIX_EPOCH + start.elapsed(),
            move |_| turns.pop_front().unwrap_or_default(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_goes_as_decided() {
        let script = scripted([
            Effect::Refuse("no such person".into()).into(),
            Effect::FailBefore("down".into()).into(),
            Effect::FailAfter("cut".into()).into(),
            ScriptedAttempt { before: Duration::from_secs(5), ..ScriptedAttempt::default() },
        ]);
        let sent = notice("a");
        assert_eq!(script.send(&sent).await, Err(SendError::Refused("no such person".into())));
        assert_eq!(script.send(&sent).await, Err(SendError::Transient("down".into())));
        assert_eq!(script.received(), []);
        assert_eq!(script.send(&sent).await, Err(SendError::Transient("cut".into())));
        assert_eq!(script.send(&sent).await, Ok(()));
        let at: Vec<_> = script.received().iter().map(|received| received.at.as_second()).collect();
        assert_eq!(at, [0, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_before_the_effect_has_sent_nothing_and_after_it_has() {
        let minute = Duration::from_secs(60);
        let script = scripted([
            ScriptedAttempt { before: minute, ..ScriptedAttempt::default() },
            ScriptedAttempt { after: minute, ..ScriptedAttempt::default() },
        ]);
        for arrived in [0, 1] {
            let sent = notice("a");
            let gave_up = tokio::time::timeout(minute / 2, script.send(&sent)).await;
            assert!(gave_up.is_err());
            assert_eq!(script.received().len(), arrived);
        }
    }
}
