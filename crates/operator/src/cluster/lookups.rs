//! Questions about clusters that are asked beside the controllers: a slow provider or a slow cluster delays no other,
//! and no reconciler waits.
//!
//! Of each object one question is asked at a time, and of each account not more than its provider is to answer at once.
//! The answer stays here until somebody takes it.

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
    /// Of one account.
    pub per_account: usize,
    pub timeout: Duration,
}

/// Whose question it is.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub key: &'a Key,
    /// Of the object.
    pub uid: &'a str,
    /// Questions with the same count together.
    pub account: &'a str,
}

impl Default for LookupLimits {
    fn default() -> Self {
        Self { concurrent: 4096, per_account: usize::MAX, timeout: Duration::from_secs(120) }
    }
}

/// Asks one kind of question. Clones share everything.
pub struct Lookups<T>(Arc<Inner<T>>);

struct Inner<T> {
    concurrent: usize,
    timeout: Duration,
    state: Mutex<State<T>>,
    asked: Notify,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
}

struct State<T> {
    per_account: usize,
    /// Those that ask or wait, by name.
    accounts: HashMap<Arc<str>, Account<T>>,
    /// Accounts that may ask, in turn.
    ready: VecDeque<Arc<str>>,
    /// By the uid of the object.
    slots: HashMap<String, Slot<T>>,
}

/// The questions of one account.
struct Account<T> {
    waiting: VecDeque<Question<T>>,
    running: usize,
    /// It has its turn.
    is_ready: bool,
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
    account: Arc<str>,
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
            .field("accounts", &state.accounts.len())
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
        let LookupLimits { concurrent, per_account, timeout } = limits;
        let state = State {
            per_account,
            accounts: HashMap::new(),
            ready: VecDeque::new(),
            slots: HashMap::new(),
        };
        let inner = Arc::new(Inner {
            concurrent,
            timeout,
            state: Mutex::new(state),
            asked: Notify::new(),
            wake: Box::new(wake),
        });
        let lookups = Self(inner.clone());
        let work = async move {
            let mut running = JoinSet::new();
            loop {
                while running.len() < inner.concurrent.max(1)
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
        asker: Asker<'_>,
        asking: impl Future<Output = T> + Send + 'static,
        otherwise: fn() -> T,
    ) {
        let Asker { key, uid, account } = asker;
        {
            let mut state = self.0.lock();
            match state.slots.get_mut(uid) {
                Some(Slot::Asked) => return,
                // The question under way is of an object that is gone, and uids never come back.
                Some(Slot::Abandoned) => return,
                Some(Slot::Answered(_)) | None => {}
            }
            state.slots.insert(uid.to_owned(), Slot::Asked);
            let (key, uid, account) = (key.clone(), uid.to_owned(), Arc::from(account));
            state.queue(Question { key, uid, account, asking: asking.boxed(), otherwise });
        }
        self.0.asked.notify_one();
    }

    /// From now on, so many questions of one account are under way at a time.
    pub fn limit_accounts(&self, per_account: usize) {
        let mut state = self.0.lock();
        if state.per_account != per_account {
            state.per_account = per_account;
            state.restart();
            drop(state);
            self.0.asked.notify_one();
        }
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
        let under_way = !state.drop_waiting(uid);
        match state.slots.get_mut(uid) {
            Some(slot @ Slot::Asked) if under_way => *slot = Slot::Abandoned,
            Some(Slot::Asked | Slot::Answered(_)) => drop(state.slots.remove(uid)),
            Some(Slot::Abandoned) | None => {}
        }
    }

    /// Whether nothing is remembered of any object.
    pub fn is_empty(&self) -> bool {
        let state = self.0.lock();
        state.slots.is_empty() && state.accounts.values().all(|account| account.waiting.is_empty())
    }

    /// Whether any question is under way.
    pub fn is_asking(&self) -> bool {
        let state = self.0.lock();
        state.slots.values().any(|slot| !matches!(slot, Slot::Answered(_)))
    }
}

impl<T> State<T> {
    /// Has a question wait for its turn.
    fn queue(&mut self, question: Question<T>) {
        let name = question.account.clone();
        let account = self.accounts.entry(name.clone()).or_insert_with(|| Account {
            waiting: VecDeque::new(),
            running: 0,
            is_ready: false,
        });
        account.waiting.push_back(question);
        if !account.is_ready {
            account.is_ready = true;
            self.ready.push_back(name);
        }
    }

    /// Gives every account its turn: they may ask more than before.
    fn restart(&mut self) {
        let mut names: Vec<_> = self.accounts.keys().cloned().collect();
        names.sort_unstable();
        names.iter().for_each(|name| self.give_turn(name));
    }

    fn give_turn(&mut self, name: &Arc<str>) {
        let Some(account) = self.accounts.get_mut(name) else { return };
        if account.waiting.is_empty() {
            if account.running == 0 && !account.is_ready {
                self.accounts.remove(name);
            }
        } else if !account.is_ready {
            account.is_ready = true;
            self.ready.push_back(name.clone());
        }
    }

    /// The next question that may be asked, fairly among accounts.
    fn next(&mut self) -> Option<Question<T>> {
        while let Some(name) = self.ready.pop_front() {
            let Some(account) = self.accounts.get_mut(&name) else { continue };
            account.is_ready = false;
            if account.running >= self.per_account.max(1) {
                // It has its turn again when one of its questions is answered.
                continue;
            }
            let question = account.waiting.pop_front();
            account.running += usize::from(question.is_some());
            self.give_turn(&name);
            if question.is_some() {
                return question;
            }
        }
        None
    }

    /// A question of an account is answered.
    fn leave(&mut self, name: &Arc<str>) {
        if let Some(account) = self.accounts.get_mut(name) {
            account.running = account.running.saturating_sub(1);
        }
        self.give_turn(name);
    }

    /// Whether there was a question of it that nobody had begun to ask.
    fn drop_waiting(&mut self, uid: &str) -> bool {
        let mut dropped = false;
        for account in self.accounts.values_mut() {
            let before = account.waiting.len();
            account.waiting.retain(|question| question.uid != uid);
            dropped |= account.waiting.len() != before;
        }
        dropped
    }
}

impl<T> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Question<T>> {
        self.lock().next()
    }

    async fn run(self: Arc<Self>, question: Question<T>) {
        let Question { key, uid, account, asking, otherwise } = question;
        let asked = AssertUnwindSafe(asking).catch_unwind();
        let answer = match tokio::time::timeout(self.timeout, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(cluster = %key, "a question about a cluster panicked; it is asked again");
                otherwise()
            }
            Err(_) => otherwise(),
        };
        let wanted = {
            let mut state = self.lock();
            state.leave(&account);
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
