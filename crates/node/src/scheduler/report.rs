//! Which Pods are still to be told why they wait.
//!
//! A Pod that joins a class that does not fit is told at once. When a class's verdict changes, all
//! of its Pods are told, one after the other, on a *walk* through the class. Walks through one
//! class back off, so that a verdict that flickers while ten thousand Pods come and go does not
//! become ten thousand writes per flicker.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{ClassKey, Queue, Rank};

/// Between the first and the second walk; doubles from walk to walk.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Pods that joined a class that does not fit.
    joined: VecDeque<(ClassKey, Rank)>,
    walks: VecDeque<Walk>,
    /// Walks that are put off.
    later: BTreeSet<(Instant, ClassKey)>,
    paces: HashMap<ClassKey, Pace>,
}

#[derive(Debug)]
struct Walk {
    class: ClassKey,
    after: Option<Rank>,
}

#[derive(Debug)]
struct Pace {
    /// No walk before.
    next: Instant,
    pause: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// A walk is put off until `next`.
    PutOff,
    Walking,
    /// The verdict changed during a walk.
    Overtaken,
}

impl Reports {
    pub(super) fn joined(&mut self, class: &ClassKey, rank: Rank) {
        self.joined.push_back((class.clone(), rank));
    }

    /// The class's verdict is new.
    pub(super) fn changed(&mut self, class: &ClassKey, now: Instant) {
        let pace = self.paces.entry(class.clone()).or_insert(Pace {
            next: now,
            pause: FIRST_PAUSE,
            state: State::Idle,
        });
        match pace.state {
            State::Idle if pace.next <= now => {
                pace.state = State::Walking;
                self.walks.push_back(Walk { class: class.clone(), after: None });
            }
            State::Idle => {
                pace.state = State::PutOff;
                self.later.insert((pace.next, class.clone()));
            }
            State::Walking => pace.state = State::Overtaken,
            State::PutOff | State::Overtaken => {}
        }
    }

    /// The next Pod to look at, with what its class's verdict is. The caller skips those that know.
    pub(super) fn next(&mut self, queue: &Queue, now: Instant) -> Option<(Arc<str>, Arc<str>)> {
        while let Some((class, rank)) = self.joined.pop_front() {
            if let Some(verdict) = queue.class(&class).and_then(|class| class.verdict.clone()) {
                return Some((rank.uid, verdict));
            }
        }
        while let Some((due, class)) = self.later.first().cloned().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, class.clone()));
            if let Some(pace) = self.paces.get_mut(&class) {
                pace.state = State::Walking;
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
                Some((rank.clone(), class.verdict.clone()?))
            });
            if let Some((rank, verdict)) = step {
                walk.after = Some(rank.clone());
                return Some((rank.uid, verdict));
            }
            if let Some(walk) = self.walks.pop_front() {
                self.end(walk.class, now);
            }
        }
        None
    }

    fn end(&mut self, class: ClassKey, now: Instant) {
        let Some(pace) = self.paces.get_mut(&class) else { return };
        pace.next = now + pace.pause;
        pace.pause = (pace.pause * 2).min(LONGEST_PAUSE);
        if pace.state == State::Overtaken {
            pace.state = State::PutOff;
            self.later.insert((pace.next, class));
        } else {
            pace.state = State::Idle;
        }
    }

    /// No Pod of the class waits any more.
    pub(super) fn forget(&mut self, class: &ClassKey) {
        self.paces.remove(class);
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }
}
