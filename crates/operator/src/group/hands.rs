//! Gives orders to providers, beside the controllers: a slow provider in one group delays no other.
//!
//! A machine has one order at a time. What came of it stays in memory until it is on record; how
//! often to try again is decided elsewhere. An order that was accepted and does not show yet counts
//! as under way for a while, since giving it again would change nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sojourn_core::group::observed::Answer;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::{Order, Provider, ProviderError, Sight, Which};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Orders at the same time, of all groups.
const MOST_AT_ONCE: usize = 1024;
/// One group has no more than this, and no more than a few while many orders are under way.
const MOST_OF_A_GROUP: usize = 128;
const FEW_OF_A_GROUP: usize = 4;
const MANY_AT_ONCE: usize = 512;
/// A provider that has not answered by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// What was accepted should show by then; else it is ordered again.
const SETTLING: Duration = Duration::from_secs(60);

/// Reads what a machine is to be made from, at the moment that it is made.
pub(crate) trait Blueprints: fmt::Debug + Send + Sync {
    /// The order for the very object, or why there is none.
    fn order<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<Order, String>>;
}

/// What is to be done about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Create,
    Delete,
}

/// One order.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Whoever is woken by the answer, and shares its slots with all its machines.
    pub(crate) owner: Owner,
    pub(crate) machine: Key,
    pub(crate) uid: String,
    pub(crate) id: Option<String>,
    pub(crate) deed: Deed,
    pub(crate) provider: Arc<dyn Provider>,
}

/// Who decides about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Group(Key),
    /// The machine itself: it is on demand.
    Itself(Key),
}

/// The way to give orders and to read what came of them.
#[derive(Clone)]
pub(crate) struct Hands(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    moved: Notify,
    blueprints: Arc<dyn Blueprints>,
    wake: Box<dyn Fn(&Owner) + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    /// By uid of the machine's object.
    slots: HashMap<String, Slot>,
    lines: HashMap<Owner, Line>,
    /// Owners whose orders wait, in turn.
    turn: VecDeque<Owner>,
    running: usize,
}

#[derive(Debug, Default)]
struct Slot {
    busy: bool,
    answer: Option<Answer>,
    /// What was accepted and need not show before then.
    settling: Option<(Deed, Instant)>,
}

/// The orders of one owner.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Job>,
    running: usize,
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("state", &*self.0.lock()).finish_non_exhaustive()
    }
}

/// What is known of a machine at its provider, with what is known of its orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grip {
    pub(crate) sight: Known<Sight>,
    pub(crate) answer: Option<Answer>,
    pub(crate) asked: bool,
}

impl Hands {
    /// The hands, and the work that somebody has to run.
    pub(crate) fn new(
        blueprints: Arc<dyn Blueprints>,
        wake: impl Fn(&Owner) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let inner = Inner {
            state: Mutex::default(),
            moved: Notify::new(),
            blueprints,
            wake: Box::new(wake),
        };
        let hands = Self(Arc::new(inner));
        let inner = hands.0.clone();
        let work = async move {
            // Ends with this future: whoever drops it leaves no order behind.
            let mut jobs = JoinSet::new();
            loop {
                let job = inner.next().await;
                while jobs.try_join_next().is_some() {}
                jobs.spawn(inner.clone().run(job));
            }
        };
        (hands, work)
    }

    /// Gives an order, unless one for the machine is under way.
    pub(crate) fn give(&self, job: Job) {
        let mut state = self.0.lock();
        let slot = state.slots.entry(job.uid.clone()).or_default();
        let settles =
            slot.settling.is_some_and(|(deed, until)| deed == job.deed && Instant::now() < until);
        if slot.busy || settles {
            return;
        }
        *slot = Slot { busy: true, ..Slot::default() };
        let owner = job.owner.clone();
        let line = state.lines.entry(owner.clone()).or_default();
        line.waiting.push_back(job);
        if line.waiting.len() == 1 {
            state.turn.push_back(owner);
        }
        drop(state);
        self.0.moved.notify_one();
    }

    /// What is known of a machine.
    pub(crate) fn feel(&self, provider: &dyn Provider, which: Which<'_>) -> Grip {
        let sight = provider.look(which);
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(which.uid) else {
            return Grip { sight, answer: None, asked: false };
        };
        let settles =
            slot.settling.filter(|(deed, until)| Instant::now() < *until && !shows(*deed, &sight));
        slot.settling = settles;
        let grip = match settles {
            // It was made; that it is not seen yet says nothing.
            Some((Deed::Create, _)) if sight.is_absent() => {
                Grip { sight: Known::Unknown, answer: slot.answer.clone(), asked: true }
            }
            Some(_) => Grip { sight, answer: slot.answer.clone(), asked: true },
            None => Grip { sight, answer: slot.answer.clone(), asked: slot.busy },
        };
        if slot.is_empty() {
            state.slots.remove(which.uid);
        }
        grip
    }

    /// The answer is on record now.
    pub(crate) fn taken(&self, uid: &str, answer: &Answer) {
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(uid) else { return };
        if slot.answer.as_ref() == Some(answer) {
            slot.answer = None;
        }
        if slot.is_empty() {
            state.slots.remove(uid);
        }
    }

    /// Nothing that is under way or waits to be taken in.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.lock();
        state.running == 0 && state.turn.is_empty()
    }
}

impl Slot {
    const fn is_empty(&self) -> bool {
        !self.busy && self.answer.is_none() && self.settling.is_none()
    }
}

/// Whether what was ordered can be seen.
fn shows(deed: Deed, sight: &Known<Sight>) -> bool {
    match deed {
        Deed::Create => matches!(sight, Known::Is(_)),
        Deed::Delete => sight.is_absent(),
    }
}

impl State {
    /// The next order that may begin, fairly among owners.
    fn take(&mut self) -> Option<Job> {
        if self.running >= MOST_AT_ONCE {
            return None;
        }
        let most = if self.running < MANY_AT_ONCE { MOST_OF_A_GROUP } else { FEW_OF_A_GROUP };
        for _ in 0..self.turn.len() {
            let owner = self.turn.pop_front()?;
            let Some(line) = self.lines.get_mut(&owner) else { continue };
            if line.running >= most {
                self.turn.push_back(owner);
                continue;
            }
            let Some(job) = line.waiting.pop_front() else { continue };
            line.running += 1;
            self.running += 1;
            if !line.waiting.is_empty() {
                self.turn.push_back(owner);
            }
            return Some(job);
        }
        None
    }

    fn finish(&mut self, owner: &Owner) {
        self.running = self.running.saturating_sub(1);
        if let Some(line) = self.lines.get_mut(owner) {
            line.running = line.running.saturating_sub(1);
            if line.running == 0 && line.waiting.is_empty() {
                self.lines.remove(owner);
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> Job {
        loop {
            let moved = self.moved.notified();
            if let Some(job) = self.lock().take() {
                return job;
            }
            moved.await;
        }
    }

    /// Carries out one order and leaves the answer.
    async fn run(self: Arc<Self>, job: Job) {
        let carried_out = AssertUnwindSafe(self.carry_out(&job)).catch_unwind();
        let answer = match tokio::time::timeout(PATIENCE, carried_out).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(machine = %job.machine, "a provider panicked; it is tried again");
                Answer::Failed { message: "the provider broke".to_owned() }
            }
            Err(_) => {
                let message = format!("no answer within {} s", PATIENCE.as_secs());
                Answer::Failed { message }
            }
        };
        let accepted = matches!(answer, Answer::Created { .. } | Answer::Deleted);
        let which = Which { key: &job.machine, uid: &job.uid, id: job.id.as_deref() };
        let shown = shows(job.deed, &job.provider.look(which));
        // A deletion that was accepted is no news before the machine is gone.
        let told = answer != Answer::Deleted || shown;
        {
            let mut state = self.lock();
            state.finish(&job.owner);
            let until = Instant::now() + SETTLING;
            let settling = (accepted && !shown).then_some((job.deed, until));
            let slot = Slot { busy: false, answer: told.then_some(answer), settling };
            state.slots.insert(job.uid.clone(), slot);
        }
        self.moved.notify_one();
        (self.wake)(&job.owner);
        if accepted && !shown {
            tokio::time::sleep(SETTLING).await;
            if !shows(job.deed, &job.provider.look(which)) {
                (self.wake)(&job.owner);
            }
        }
    }

    async fn carry_out(&self, job: &Job) -> Answer {
        let which = Which { key: &job.machine, uid: &job.uid, id: job.id.as_deref() };
        let done = match job.deed {
            Deed::Create => match self.blueprints.order(&job.machine, &job.uid).await {
                Ok(order) => job.provider.create(&order).await.map(|id| Answer::Created { id }),
                Err(why) => Err(ProviderError::Failed(why)),
            },
            Deed::Delete => job.provider.delete(which).await.map(|()| Answer::Deleted),
        };
        done.unwrap_or_else(|error| match error {
            ProviderError::Refused(message) => Answer::Refused { message },
            ProviderError::Failed(message) => Answer::Failed { message },
        })
    }
}

#[cfg(test)]
mod tests;
