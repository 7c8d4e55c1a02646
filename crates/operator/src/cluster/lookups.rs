//! Questions about clusters that are asked beside the controllers: a slow provider or a slow cluster delays no other,
//! and no reconciler waits.
//!
//! Of each object one question is asked at a time. Its answer stays here until somebody takes it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sojourn_core::key::Key;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How much is asked at once, and how long an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupLimits {
    pub concurrent: usize,
    pub timeout: Duration,
}

impl Default for LookupLimits {
    fn default() -> Self {
        Self { concurrent: 4096, timeout: Duration::from_secs(120) }
    }
}

/// Asks one kind of question. Clones share everything.
pub struct Lookups<T>(Arc<Inner<T>>);

struct Inner<T> {
    limits: LookupLimits,
    state: Mutex<State<T>>,
    asked: Notify,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
}

struct State<T> {
    waiting: VecDeque<Question<T>>,
    /// By the uid of the object.
    slots: HashMap<String, Slot<T>>,
}

enum Slot<T> {
    Asked,
    Answered(T),
    /// Its object is gone, and nobody wants the answer that is on its way.
    Abandoned,
}

struct Question<T> {
    key: Key,
    uid: String,
    asking: BoxFuture<'static, T>,
    /// What is answered if nobody does.
    otherwise: fn() -> T,
}

impl<T> Clone for Lookups<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Lookups<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Lookups")
            .field("slots", &state.slots.len())
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Lookups<T> {
    /// The lookups, and the work that somebody has to run: whoever drops it leaves no question behind. `wake` is
    /// called for whom there is an answer.
    pub fn new(
        limits: LookupLimits,
        wake: impl Fn(&Key) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let state = State { waiting: VecDeque::new(), slots: HashMap::new() };
        let inner = Arc::new(Inner {
            limits,
            state: Mutex::new(state),
            asked: Notify::new(),
            wake: Box::new(wake),
        });
        let lookups = Self(inner.clone());
        let work = async move {
            let mut running = JoinSet::new();
            loop {
                while running.len() < inner.limits.concurrent.max(1)
                    && let Some(question) = inner.next()
                {
                    running.spawn(inner.clone().run(question));
                }
                tokio::select! {
                    () = inner.asked.notified() => {}
                    Some(_) = running.join_next() => {}
                }
            }
        };
        (lookups, work)
    }

    /// Asks, unless the object has a question under way. An answer that nobody took is forgotten. `otherwise` is
    /// answered when the time is up, or the question cannot be asked.
    pub fn ask(
        &self,
        key: &Key,
        uid: &str,
        asking: impl Future<Output = T> + Send + 'static,
        otherwise: fn() -> T,
    ) {
        {
            let mut state = self.0.lock();
            match state.slots.get_mut(uid) {
                Some(Slot::Asked) => return,
                // The question under way is of an object that is gone, and uids never come back.
                Some(Slot::Abandoned) => return,
                Some(Slot::Answered(_)) | None => {}
            }
            state.slots.insert(uid.to_owned(), Slot::Asked);
            let (key, uid) = (key.clone(), uid.to_owned());
            state.waiting.push_back(Question { key, uid, asking: asking.boxed(), otherwise });
        }
        self.0.asked.notify_one();
    }

    /// Whether a question is under way.
    pub fn is_asked(&self, uid: &str) -> bool {
        matches!(self.0.lock().slots.get(uid), Some(Slot::Asked))
    }

    /// The answer, once.
    pub fn take(&self, uid: &str) -> Option<T> {
        let mut state = self.0.lock();
        let answered = matches!(state.slots.get(uid), Some(Slot::Answered(_)));
        match answered.then(|| state.slots.remove(uid)).flatten() {
            Some(Slot::Answered(answer)) => Some(answer),
            Some(Slot::Asked | Slot::Abandoned) | None => None,
        }
    }

    /// Its object is gone.
    pub fn forget(&self, uid: &str) {
        let mut state = self.0.lock();
        let before = state.waiting.len();
        state.waiting.retain(|question| question.uid != uid);
        let under_way = state.waiting.len() == before;
        match state.slots.get_mut(uid) {
            Some(slot @ Slot::Asked) if under_way => *slot = Slot::Abandoned,
            Some(Slot::Asked | Slot::Answered(_)) => drop(state.slots.remove(uid)),
            Some(Slot::Abandoned) | None => {}
        }
    }

    /// Whether nothing is remembered of any object.
    pub fn is_empty(&self) -> bool {
        let state = self.0.lock();
        state.slots.is_empty() && state.waiting.is_empty()
    }

    /// Whether any question is under way.
    pub fn is_asking(&self) -> bool {
        let state = self.0.lock();
        state.slots.values().any(|slot| !matches!(slot, Slot::Answered(_)))
    }
}

impl<T> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Question<T>> {
        self.lock().waiting.pop_front()
    }

    async fn run(self: Arc<Self>, question: Question<T>) {
        let Question { key, uid, asking, otherwise } = question;
        let asked = AssertUnwindSafe(asking).catch_unwind();
        let answer = match tokio::time::timeout(self.limits.timeout, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(cluster = %key, "a question about a cluster panicked; it is asked again");
                otherwise()
            }
            Err(_) => otherwise(),
        };
        let wanted = {
            let mut state = self.lock();
            let wanted = matches!(state.slots.get(&uid), Some(Slot::Asked));
            if wanted {
                state.slots.insert(uid, Slot::Answered(answer));
            } else {
                state.slots.remove(&uid);
            }
            wanted
        };
        if wanted {
            (self.wake)(&key);
        }
    }
}

#[cfg(test)]
mod tests;
