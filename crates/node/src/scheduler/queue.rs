//! Pods that wait for a node.
//!
//! Pods with equal demands fit or do not fit together, so they wait together, in a *class*: if its
//! first Pod does not fit now, none of them does, and none is looked at until something changes
//! that could help. Ten thousand Pods of one template cost one look, not ten thousand.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::demand::Demand;

/// Who comes first: priority, then age. The uid makes it an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: Reverse<i32>,
    pub(super) created: Timestamp,
    pub(super) uid: Arc<str>,
}

/// A demand as text.
pub(super) type ClassKey = Arc<str>;

#[derive(Debug)]
pub(super) struct Class {
    pub(super) demand: Arc<Demand>,
    pub(super) members: BTreeSet<Rank>,
    /// Its first Pod did not fit when it was last looked at, and nothing has changed since.
    blocked: bool,
    /// Why it did not fit then.
    pub(super) reason: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    classes: HashMap<ClassKey, Class>,
    /// Classes that are to be looked at, by their first Pod.
    ready: BTreeSet<(Rank, ClassKey)>,
    /// Which classes ask for a claim.
    by_claim: HashMap<String, BTreeSet<ClassKey>>,
}

impl Queue {
    /// Whether the Pod's class is known not to fit.
    pub(super) fn add(&mut self, key: &ClassKey, demand: &Arc<Demand>, rank: Rank) -> bool {
        let class = self.classes.entry(key.clone()).or_insert_with(|| {
            for claim in &demand.usage.claims {
                self.by_claim.entry(claim.clone()).or_default().insert(key.clone());
            }
            Class { demand: demand.clone(), members: BTreeSet::new(), blocked: false, reason: None }
        });
        if class.blocked {
            class.members.insert(rank);
            return true;
        }
        if let Some(first) = class.members.first() {
            self.ready.remove(&(first.clone(), key.clone()));
        }
        class.members.insert(rank);
        self.make_ready(key);
        false
    }

    pub(super) fn remove(&mut self, key: &ClassKey, rank: &Rank) {
        let Some(class) = self.classes.get_mut(key) else { return };
        if let Some(first) = class.members.first() {
            self.ready.remove(&(first.clone(), key.clone()));
        }
        class.members.remove(rank);
        if !class.members.is_empty() {
            return self.make_ready(key);
        }
        if let Some(class) = self.classes.remove(key) {
            for claim in &class.demand.usage.claims {
                if let Some(classes) = self.by_claim.get_mut(claim) {
                    classes.remove(key);
                    if classes.is_empty() {
                        self.by_claim.remove(claim);
                    }
                }
            }
        }
    }

    fn make_ready(&mut self, key: &ClassKey) {
        let Some(class) = self.classes.get(key).filter(|class| !class.blocked) else { return };
        if let Some(first) = class.members.first() {
            self.ready.insert((first.clone(), key.clone()));
        }
    }

    /// The Pod that comes first among those that might fit.
    pub(super) fn first(&self) -> Option<(&Rank, &ClassKey, &Arc<Demand>)> {
        let (rank, key) = self.ready.first()?;
        Some((rank, key, &self.classes.get(key)?.demand))
    }

    pub(super) fn class(&self, key: &ClassKey) -> Option<&Class> {
        self.classes.get(key)
    }

    /// The class does not fit, and why. Whether that is news.
    pub(super) fn block(&mut self, key: &ClassKey, reason: &str) -> bool {
        let Some(class) = self.classes.get_mut(key) else { return false };
        if let Some(first) = class.members.first() {
            self.ready.remove(&(first.clone(), key.clone()));
        }
        class.blocked = true;
        if class.reason.as_deref() == Some(reason) {
            return false;
        }
        class.reason = Some(reason.into());
        true
    }

    /// Something changed that may help any Pod.
    pub(super) fn unblock_all(&mut self) {
        for (key, class) in &mut self.classes {
            if let (true, Some(first)) = (class.blocked, class.members.first()) {
                class.blocked = false;
                self.ready.insert((first.clone(), key.clone()));
            }
        }
    }

    /// A claim changed, which helps only those that ask for it.
    pub(super) fn unblock_claim(&mut self, claim: &str) {
        for key in self.by_claim.get(claim).into_iter().flatten() {
            if let Some(class) = self.classes.get_mut(key)
                && let (true, Some(first)) = (class.blocked, class.members.first())
            {
                class.blocked = false;
                self.ready.insert((first.clone(), key.clone()));
            }
        }
    }
}
