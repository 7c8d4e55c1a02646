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

mod observed;
mod stay;
mod words;

use jiff::{SignedDuration, Timestamp};

use crate::decision::Wake;
use crate::key::Key;
use crate::known::Known;
use crate::moment::{earlier, later};

pub use observed::{Changes, Mark, Node, Pod, Seen, Tried, Volume};
pub use stay::{Stay, Toleration};

/// Endpoints and schedulers need so long to learn that a Node takes nothing new: what is empty
/// before may not be afterwards.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// A Pod is given at least this, so that its node ends it and it is not merely forgotten.
const SHORTEST_GRACE: SignedDuration = SignedDuration::from_secs(1);

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
    pub words: String,
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
    Restore(Changes),
}

/// What to do about a Node whose machine is draining.
pub fn plan(drain: &Drain, seen: &Seen<'_>, now: Timestamp) -> Plan {
    let node = match seen.node {
        Known::Unknown => return Plan::waiting(words::NODE_UNKNOWN),
        Known::Absent if seen.known => return Plan::done(words::NODE_ABSENT),
        // Another cluster may have it, and this one would acknowledge what it knows nothing of.
        Known::Absent => return Plan::refused(words::NODE_NEVER_SEEN),
        Known::Is(node) if node.shut_down && !node.ready => return Plan::done(words::SHUT_DOWN),
        Known::Is(node) => node,
    };
    let since = match marked(drain, node, now) {
        Ok(since) => since,
        // Nothing is evicted before nothing new can come.
        Err(mark) => {
            let steps = vec![Step::Cordon(mark)];
            return Plan { steps, ..Plan::waiting(words::CORDONING) };
        }
    };
    let Known::Is(pods) = seen.pods else { return Plan::waiting(words::PODS_UNKNOWN) };
    let to_go: Vec<&Pod> = pods.iter().filter(|pod| pod.stays().is_none()).collect();
    if to_go.is_empty() {
        return empty(drain, seen, since, now);
    }
    let mut plan = Plan::waiting(&words::pods(&to_go, seen.tried));
    for pod in to_go {
        plan.take_out(pod, drain, seen.tried.get(&pod.uid), now);
    }
    plan
}

/// What to do about a Node whose drain was withdrawn. Nothing, if it carries no mark.
pub fn withdrawn(node: &Node) -> Option<Step> {
    node.mark.as_ref().map(|mark| Step::Restore(mark.changed))
}

/// Since when the Node is ready to be emptied; otherwise what to write on it.
fn marked(drain: &Drain, node: &Node, now: Timestamp) -> Result<Timestamp, Mark> {
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
                changed: Changes {
                    cordoned: changed.cordoned || !node.unschedulable,
                    excluded: changed.excluded || !node.excluded,
                },
            })
        }
    }
}

/// No Pod is left that has to go.
fn empty(drain: &Drain, seen: &Seen<'_>, since: Timestamp, now: Timestamp) -> Plan {
    let over = now >= drain.deadline;
    let settled = later(since, SETTLED_AFTER);
    if !over && now < settled {
        return Plan {
            wake: Wake::At(settled.min(drain.deadline)),
            ..Plan::waiting(words::SETTLING)
        };
    }
    let Known::Is(volumes) = seen.volumes else {
        let words = words::VOLUMES_UNKNOWN;
        if over {
            return Plan::done(words);
        }
        return Plan { wake: Wake::At(drain.deadline), ..Plan::waiting(words) };
    };
    let attached: Vec<&Volume> = volumes.iter().filter(|volume| !volume.in_use).collect();
    if over || attached.is_empty() {
        return Plan::done(&words::emptied(&attached));
    }
    Plan { wake: Wake::At(drain.deadline), ..Plan::waiting(&words::volumes(&attached)) }
}

impl Plan {
    fn waiting(words: &str) -> Self {
        Self {
            steps: Vec::new(),
            wake: Wake::OnChange,
            done: false,
            refused: false,
            words: words.to_owned(),
        }
    }

    fn refused(words: &str) -> Self {
        Self { refused: true, ..Self::waiting(words) }
    }

    fn done(words: &str) -> Self {
        Self { done: true, ..Self::waiting(words) }
    }

    /// The next thing for one Pod, and when to look at it again.
    fn take_out(&mut self, pod: &Pod, drain: &Drain, tried: Option<&Tried>, now: Timestamp) {
        if pod.leaves_at.is_some_and(|at| at <= drain.deadline) {
            // It has its time. One that outstays it is the machine's end to settle.
            return;
        }
        let (of, uid) = (pod.key.clone(), pod.uid.clone());
        let grace = pod.grace.max(SHORTEST_GRACE);
        let last = earlier(drain.deadline, grace);
        let forced = now >= last;
        // A refused eviction holds up another one, but never the last call.
        let pause = tried.filter(|tried| tried.forced == forced).map(|tried| tried.retry_at);
        if let Some(at) = pause.filter(|at| *at > now) {
            self.wake.by(if forced { at } else { at.min(last) });
            return;
        }
        if forced {
            let left = SignedDuration::from_secs(drain.deadline.duration_since(now).as_secs());
            let grace = left.min(grace).max(SHORTEST_GRACE);
            self.steps.push(Step::Delete { pod: of, uid, grace });
        } else if pod.leaves_at.is_none() {
            self.steps.push(Step::Evict { pod: of, uid });
            self.wake.by(last);
        } else {
            self.wake.by(last);
        }
    }
}

#[cfg(test)]
mod tests;
