//! Limits by user on what lasts longer than the work for it: watches, logs, large lists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fairness::Flow;

/// One in this many permits is not for workloads.
const RESERVED_SHARE: usize = 4;

/// How many permits each user holds.
#[derive(Debug)]
pub(crate) struct Quota {
    total: usize,
    per_user: usize,
    usage: Mutex<QuotaUsage>,
}

#[derive(Debug, Default)]
struct QuotaUsage {
    all: usize,
    workload: usize,
    users: HashMap<Arc<str>, usize>,
}

impl Quota {
    pub(crate) fn new(total: usize, per_user: usize) -> Self {
        Self { total, per_user, usage: Mutex::default() }
    }

    /// Takes a permit, if there is one for this user.
    pub(crate) fn take(self: &Arc<Self>, flow: &Flow) -> Option<QuotaPermit> {
        let workload = flow.level.is_workload();
        let mut usage = self.lock();
        if !self.has_capacity(&usage, flow) {
            return None;
        }
        usage.all += 1;
        usage.workload += usize::from(workload);
        *usage.users.entry(flow.user.clone()).or_default() += 1;
        Some(QuotaPermit { quota: self.clone(), user: flow.user.clone(), workload })
    }

    /// Whether there is none for this user now.
    pub(crate) fn is_full_for(&self, flow: &Flow) -> bool {
        !self.has_capacity(&self.lock(), flow)
    }

    fn has_capacity(&self, usage: &QuotaUsage, flow: &Flow) -> bool {
        let own = usage.users.get(&flow.user).copied().unwrap_or_default();
        let shared = self.total - self.total / RESERVED_SHARE;
        usage.all < self.total
            && (!flow.level.is_workload() || usage.workload < shared && own < self.per_user)
    }

    fn lock(&self) -> MutexGuard<'_, QuotaUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    quota: Arc<Quota>,
    user: Arc<str>,
    workload: bool,
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut usage = self.quota.lock();
        usage.all -= 1;
        usage.workload -= usize::from(self.workload);
        let Some(own) = usage.users.get_mut(&self.user) else { return };
        *own -= 1;
        if *own == 0 {
            usage.users.remove(&self.user);
        }
    }
}
