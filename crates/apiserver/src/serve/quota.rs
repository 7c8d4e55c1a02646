//! What lasts longer than the work for it is counted by user: watches, logs, large answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fairness::Flow;

/// One in this many places is not for workloads.
const KEPT_SHARE: usize = 4;

/// Who holds how many.
#[derive(Debug)]
pub(crate) struct Quota {
    total: usize,
    per_user: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    workload: usize,
    users: HashMap<Arc<str>, usize>,
}

impl Quota {
    pub(crate) fn new(total: usize, per_user: usize) -> Self {
        Self { total, per_user, held: Mutex::default() }
    }

    /// Takes a place, if there is one for this user.
    pub(crate) fn take(self: &Arc<Self>, flow: &Flow) -> Option<Place> {
        let workload = flow.level.is_workload();
        let mut held = self.lock();
        if !self.has_place(&held, flow) {
            return None;
        }
        held.all += 1;
        held.workload += usize::from(workload);
        *held.users.entry(flow.user.clone()).or_default() += 1;
        Some(Place { quota: self.clone(), user: flow.user.clone(), workload })
    }

    /// Whether there is none for this user now.
    pub(crate) fn is_full_for(&self, flow: &Flow) -> bool {
        !self.has_place(&self.lock(), flow)
    }

    fn has_place(&self, held: &Held, flow: &Flow) -> bool {
        let own = held.users.get(&flow.user).copied().unwrap_or_default();
        let shared = self.total - self.total / KEPT_SHARE;
        held.all < self.total
            && (!flow.level.is_workload() || held.workload < shared && own < self.per_user)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    quota: Arc<Quota>,
    user: Arc<str>,
    workload: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.quota.lock();
        held.all -= 1;
        held.workload -= usize::from(self.workload);
        let Some(own) = held.users.get_mut(&self.user) else { return };
        *own -= 1;
        if *own == 0 {
            held.users.remove(&self.user);
        }
    }
}
