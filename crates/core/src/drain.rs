//! Drain: how a Node of some cluster is emptied before its machine goes.
//!
//! [`plan`] is the one decision of the drain agent. It is told what the cluster shows and remembers
//! nothing, so whoever asks next goes on where the last one ended: the mark on the Node says since
//! when it is cordoned, and Pods say themselves whether they are leaving.
//!
//! **Asked first, told at the end.** Pods are evicted, which a PodDisruptionBudget may refuse for as
//! long as there is time. A Pod is deleted without asking only when no more than its own grace is
//! left until the deadline: whatever happens then, its end is as gentle as it can be.
//!
//! **Undone when withdrawn.** What the agent changed of a Node is written on it; what somebody else
//! had changed before stays as it was.

mod message;
mod observed;
mod skip;

use jiff::{SignedDuration, Timestamp};

use crate::decision::Wake;
use crate::key::Key;
use crate::known::Known;
use crate::moment::{saturating_add, saturating_sub};

pub use observed::{DrainObservation, EvictionAttempts, Mark, Node, NodeChanges, Pod, Volume};
pub use skip::{SkipReason, Toleration};

/// Endpoints and schedulers need so long to learn that a Node takes nothing new: what is empty
/// before may not be afterwards.
const CORDON_SETTLE_TIME: SignedDuration = SignedDuration::from_secs(5);
/// A Pod is given at least this, so that its node ends it and it is not merely forgotten.
const MIN_GRACE: SignedDuration = SignedDuration::from_secs(1);

/// A drain that is open, as its Machine tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    pub id: String,
    pub deadline: Timestamp,
}

/// What to do about a Node now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In any order, side by side.
    pub steps: Vec<Step>,
    pub wake: Wake,
    pub done: bool,
    /// It is not ours to drain, as far as we can tell.
    pub refused: bool,
    /// What to say about it.
    pub message: String,
}

/// One thing to do, complete in itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Cordon the Node, keep external load balancers away from it, and write the mark on it.
    Cordon(Mark),
    /// Ask for this very Pod to go.
    Evict { pod: Key, uid: String },
    /// Have this very Pod go within its grace.
    Delete { pod: Key, uid: String, grace: SignedDuration },
    /// Take back what was changed, and the mark.
    Restore(NodeChanges),
}

/// What to do about a Node whose machine is draining.
pub fn plan(drain: &Drain, seen: &DrainObservation<'_>, now: Timestamp) -> Plan {
    let node = match seen.node {
        Known::Unknown => return Plan::waiting(message::NODE_UNKNOWN),
        Known::Absent if seen.known => return Plan::done(message::NODE_ABSENT),
        // Another cluster may have it, and this one would acknowledge what it knows nothing of.
        Known::Absent => return Plan::refused(message::NODE_NEVER_SEEN),
        Known::Is(node) if node.shut_down && !node.ready => return Plan::done(message::SHUT_DOWN),
        Known::Is(node) => node,
    };
    let since = match cordoned_since(drain, node, now) {
        Ok(since) => since,
        // Nothing is evicted before nothing new can come.
        Err(mark) => {
            let steps = vec![Step::Cordon(mark)];
            return Plan { steps, ..Plan::waiting(message::CORDONING) };
        }
    };
    let Known::Is(pods) = seen.pods else { return Plan::waiting(message::PODS_UNKNOWN) };
    let to_go: Vec<&Pod> = pods.iter().filter(|pod| pod.skip_reason().is_none()).collect();
    if to_go.is_empty() {
        return plan_empty_node(drain, seen, since, now);
    }
    let mut plan = Plan::waiting(&message::pods(&to_go, seen.attempts));
    for pod in to_go {
        plan.plan_pod(pod, drain, seen.attempts.get(&pod.uid), now);
    }
    plan
}

/// What to do about a Node whose drain was withdrawn. Nothing, if it carries no mark.
pub fn plan_restore(node: &Node) -> Option<Step> {
    node.mark.as_ref().map(|mark| Step::Restore(mark.changed))
}

/// Since when the Node is cordoned for this drain; otherwise the mark to write on it.
fn cordoned_since(drain: &Drain, node: &Node, now: Timestamp) -> Result<Timestamp, Mark> {
    let before = node.mark.as_ref();
    let since = before
        .filter(|mark| mark.drain == drain.id && node.unschedulable && mark.since <= now)
        .map(|mark| mark.since);
    match since {
        Some(since) if node.excluded => Ok(since),
        since => {
            // What an earlier drain changed and nobody took back is ours to take back still.
            let changed = before.map(|mark| mark.changed).unwrap_or_default();
            Err(Mark {
                drain: drain.id.clone(),
                since: since.unwrap_or(now),
                changed: NodeChanges {
                    cordoned: changed.cordoned || !node.unschedulable,
                    excluded: changed.excluded || !node.excluded,
                },
            })
        }
    }
}

/// Plans for a Node on which no Pod is left that has to go.
fn plan_empty_node(
    drain: &Drain,
    seen: &DrainObservation<'_>,
    since: Timestamp,
    now: Timestamp,
) -> Plan {
    let over = now >= drain.deadline;
    let settled_at = saturating_add(since, CORDON_SETTLE_TIME);
    if !over && now < settled_at {
        return Plan {
            wake: Wake::At(settled_at.min(drain.deadline)),
            ..Plan::waiting(message::SETTLING)
        };
    }
    let Known::Is(volumes) = seen.volumes else {
        let message = message::VOLUMES_UNKNOWN;
        if over {
            return Plan::done(message);
        }
        return Plan { wake: Wake::At(drain.deadline), ..Plan::waiting(message) };
    };
    let attached: Vec<&Volume> = volumes.iter().filter(|volume| !volume.in_use).collect();
    if over || attached.is_empty() {
        return Plan::done(&message::emptied(&attached));
    }
    Plan { wake: Wake::At(drain.deadline), ..Plan::waiting(&message::volumes(&attached)) }
}

impl Plan {
    fn waiting(message: &str) -> Self {
        Self {
            steps: Vec::new(),
            wake: Wake::OnChange,
            done: false,
            refused: false,
            message: message.to_owned(),
        }
    }

    fn refused(message: &str) -> Self {
        Self { refused: true, ..Self::waiting(message) }
    }

    fn done(message: &str) -> Self {
        Self { done: true, ..Self::waiting(message) }
    }

    /// Plans the next step for one Pod, and when to look at it again.
    fn plan_pod(
        &mut self,
        pod: &Pod,
        drain: &Drain,
        attempts: Option<&EvictionAttempts>,
        now: Timestamp,
    ) {
        if pod.leaves_at.is_some_and(|at| at <= drain.deadline) {
            // It ends in time by itself. One that does not goes with its machine.
            return;
        }
        let (of, uid) = (pod.key.clone(), pod.uid.clone());
        let grace = pod.grace.max(MIN_GRACE);
        let force_at = saturating_sub(drain.deadline, grace);
        let forced = now >= force_at;
        // A refused eviction delays another one, but never the forced deletion.
        let pause =
            attempts.filter(|attempts| attempts.forced == forced).map(|attempts| attempts.retry_at);
        if let Some(at) = pause.filter(|at| *at > now) {
            self.wake.by(if forced { at } else { at.min(force_at) });
            return;
        }
        if forced {
            let left = SignedDuration::from_secs(drain.deadline.duration_since(now).as_secs());
            let grace = left.min(grace).max(MIN_GRACE);
            self.steps.push(Step::Delete { pod: of, uid, grace });
        } else if pod.leaves_at.is_none() {
            self.steps.push(Step::Evict { pod: of, uid });
            self.wake.by(force_at);
        } else {
            self.wake.by(force_at);
        }
    }
}

#[cfg(test)]
mod tests;
