//! What a cluster shows of a Node that is being drained, and what came of asking its Pods to go.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};

use super::skip::{SkipReason, Toleration, skip_reason};
use crate::key::Key;
use crate::known::Known;
use crate::moment::saturating_add;

const FIRST_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(1);
const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// Everything that a plan is told.
#[derive(Debug, Clone, Copy)]
pub struct DrainObservation<'a> {
    pub node: Known<&'a Node>,
    /// The cluster was seen to have its Node, now or before.
    pub known: bool,
    /// The Pods that are bound to it.
    pub pods: Known<&'a [Pod]>,
    /// The volumes that are attached to it.
    pub volumes: Known<&'a [Volume]>,
    /// What came of earlier attempts, by the Pod's uid. Whoever forgot them tries again at once.
    pub attempts: &'a BTreeMap<String, EvictionAttempts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub unschedulable: bool,
    /// It is labelled out of external load balancers.
    pub excluded: bool,
    pub ready: bool,
    /// Its cloud says that its machine does not run.
    pub shut_down: bool,
    pub mark: Option<Mark>,
}

/// What the agent writes on a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The id of the drain that it is about.
    pub drain: String,
    /// Since when nothing new comes to the Node.
    pub since: Timestamp,
    pub changed: NodeChanges,
}

/// What is to be taken back, should the drain be withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeChanges {
    pub cordoned: bool,
    pub excluded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub key: Key,
    pub uid: String,
    /// A DaemonSet keeps it on this Node, whatever the Node says.
    pub of_daemon_set: bool,
    /// The Node itself runs it, from a file: the API shows a mirror of it.
    pub mirror: bool,
    /// All its containers have ended for good.
    pub finished: bool,
    pub tolerations: Vec<Toleration>,
    /// The time that it asks for to end.
    pub grace: SignedDuration,
    /// It is leaving, and will have been ended by then.
    pub leaves_at: Option<Timestamp>,
}

impl Pod {
    /// Why it is left alone, if it is.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        skip_reason(self)
    }
}

/// A volume that is attached to the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    /// A Pod that is left alone uses it, so it is not going to be detached.
    pub in_use: bool,
}

/// What came of asking one Pod to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictionAttempts {
    /// How often in a row.
    pub count: u32,
    pub retry_at: Timestamp,
    /// It was told to go, and not asked.
    pub forced: bool,
    /// What it was refused with.
    pub refusal: Option<String>,
}

impl EvictionAttempts {
    /// After one more attempt, with the refusal if there was one. Pauses grow, and differ from Pod to
    /// Pod, so that those who wait for the same budget do not ask for it together.
    #[must_use]
    pub fn after(
        before: Option<&Self>,
        uid: &str,
        forced: bool,
        refusal: Option<String>,
        now: Timestamp,
    ) -> Self {
        let before = before.filter(|attempts| attempts.forced == forced);
        let count = before.map_or(0, |attempts| attempts.count).saturating_add(1);
        let longest = FIRST_RETRY_DELAY.saturating_mul(1 << count.min(8)).min(MAX_RETRY_DELAY);
        let mut hasher = DefaultHasher::new();
        (uid, count).hash(&mut hasher);
        let share = i32::try_from(hasher.finish() % 1000).unwrap_or_default();
        let half = longest / 2;
        let pause = half.saturating_add(half.saturating_mul(share) / 1000);
        let retry_at = saturating_add(now, pause);
        Self { count, retry_at, forced, refusal }
    }
}
