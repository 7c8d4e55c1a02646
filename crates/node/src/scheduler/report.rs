//! Which Pods still need a condition that says why they wait.
//!
//! A Pod that joins a class that does not fit is told at once. When a class's reason changes, all
//! of its Pods are told, one after the other, on a *walk* through the class. Walks through one
//! class back off, so that a reason that flickers while ten thousand Pods come and go does not
//! become ten thousand writes per flicker.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{ClassKey, Queue, Rank};

/// Between the first and the second walk; doubles from walk to walk.
const MIN_REPORT_DELAY: Duration = Duration::from_secs(1);
const MAX_REPORT_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Pods that joined a class that does not fit.
    joined: VecDeque<(ClassKey, Rank)>,
    walks: VecDeque<Walk>,
    /// Walks that are put off.
    later: BTreeSet<(Instant, ClassKey)>,
    backoffs: HashMap<ClassKey, ReportBackoff>,
}

#[derive(Debug)]
struct Walk {
    class: ClassKey,
    after: Option<Rank>,
}

#[derive(Debug)]
struct ReportBackoff {
    /// No walk before.
    next: Instant,
    pause: Duration,
    state: WalkState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkState {
    Idle,
    /// A walk is put off until `next`.
    PutOff,
    Walking,
    /// The reason changed during a walk.
    Overtaken,
}

impl Reports {
    pub(super) fn joined(&mut self, class: &ClassKey, rank: Rank) {
        self.joined.push_back((class.clone(), rank));
    }

    /// The class's reason is new.
    pub(super) fn changed(&mut self, class: &ClassKey, now: Instant) {
        let backoff = self.backoffs.entry(class.clone()).or_insert(ReportBackoff {
            next: now,
            pause: MIN_REPORT_DELAY,
            state: WalkState::Idle,
        });
        match backoff.state {
            WalkState::Idle if backoff.next <= now => {
                backoff.state = WalkState::Walking;
                self.walks.push_back(Walk { class: class.clone(), after: None });
            }
            WalkState::Idle => {
                backoff.state = WalkState::PutOff;
                self.later.insert((backoff.next, class.clone()));
            }
            WalkState::Walking => backoff.state = WalkState::Overtaken,
            WalkState::PutOff | WalkState::Overtaken => {}
        }
    }

    /// The next Pod to look at, with its class's reason. The caller skips those that know.
    pub(super) fn next(&mut self, queue: &Queue, now: Instant) -> Option<(Arc<str>, Arc<str>)> {
        while let Some((class, rank)) = self.joined.pop_front() {
            if let Some(reason) = queue.class(&class).and_then(|class| class.reason.clone()) {
                return Some((rank.uid, reason));
            }
        }
        while let Some((due, class)) = self.later.first().cloned().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, class.clone()));
            if let Some(backoff) = self.backoffs.get_mut(&class) {
                backoff.state = WalkState::Walking;
                self.walks.push_back(Walk { class, after: None });
            }
        }
        while let Some(walk) = self.walks.front_mut() {
            let from = match &walk.after {
                Some(rank) => Bound::Excluded(rank.clone()),
                None => Bound::Unbounded,
            };
            let step = queue.class(&walk.class).and_then(|class| {
                let rank = class.members.range((from, Bound::Unbounded)).next()?;
                Some((rank.clone(), class.reason.clone()?))
            });
            if let Some((rank, reason)) = step {
                walk.after = Some(rank.clone());
                return Some((rank.uid, reason));
            }
            if let Some(walk) = self.walks.pop_front() {
                self.end(walk.class, now);
            }
        }
        None
    }

    fn end(&mut self, class: ClassKey, now: Instant) {
        let Some(backoff) = self.backoffs.get_mut(&class) else { return };
        backoff.next = now + backoff.pause;
        backoff.pause = (backoff.pause * 2).min(MAX_REPORT_DELAY);
        if backoff.state == WalkState::Overtaken {
            backoff.state = WalkState::PutOff;
            self.later.insert((backoff.next, class));
        } else {
            backoff.state = WalkState::Idle;
        }
    }

    /// No Pod of the class waits any more.
    pub(super) fn forget(&mut self, class: &ClassKey) {
        self.backoffs.remove(class);
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }
}
