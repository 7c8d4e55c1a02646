//! What becomes of a collection: members are made, marked, taken back and replaced. Somebody who plays loses nothing by
//! any of it: whoever is marked goes when it is empty.

mod rollout;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use self::rollout::Rollout;
use super::census::{Census, census};
use super::failure::{FailBehavior, Failure, FailureAction, FailurePolicy, FailureRecord};
use super::scale_in::victims;
use super::server::{Server, ServerHealth};
use crate::decision::{Decision, Wake};

/// How members of an old template are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateStrategy {
    /// They take nobody new, and go when they are empty, a quarter at a time.
    #[default]
    Rolling,
    /// The same, but they take new players until then.
    OnEmpty,
    /// Those that are empty go at once.
    Recreate,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionIntent {
    pub replicas: u32,
    /// Of the template as it is now.
    pub revision: String,
    pub generation: i64,
    pub failure_policy: FailurePolicy,
    pub update_strategy: UpdateStrategy,
    /// What somebody acknowledged last.
    pub acknowledge: Option<String>,
    /// It is being deleted: its members drain.
    pub deleting: bool,
}

/// What the installation allows each collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionLimits {
    /// So many are made at a time.
    pub creation_batch: u32,
    /// So many may be on their way.
    pub max_pending: u32,
}

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct CollectionObserved<'a> {
    /// Servers that are its members, marked ones too.
    pub members: &'a [Server],
    /// Servers that left it, were marked by scaling in, and are there.
    pub draining: &'a [Server],
    /// So many were made that nobody has seen yet.
    pub unseen: u32,
    pub limits: CollectionLimits,
}

/// One thing to do. A server is named with its uid: one of the same name is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionEffect {
    /// Make so many of the template as it is now.
    Create {
        count: u32,
    },
    /// It leaves the collection, takes nobody new, and goes when it is empty.
    Mark {
        name: String,
        uid: String,
        why: MarkReason,
    },
    /// It is a member again.
    TakeBack {
        name: String,
        uid: String,
    },
    /// It failed: it leaves the collection, and stays for somebody to look at.
    Quarantine {
        name: String,
        uid: String,
    },
    Delete {
        name: String,
        uid: String,
    },
    /// The same server begins again, for the so-manieth time.
    Restart {
        name: String,
        uid: String,
        restarts: u32,
    },
}

/// Why a server is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkReason {
    ScaleIn,
    /// Its template is old.
    Replaced,
    /// The collection is being deleted.
    CollectionDeleted,
    /// It was marked, by itself or by somebody, and is still a member.
    MarkedBefore,
}

/// Why something is done, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionReason {
    Steady,
    Deleting { members: u32 },
    NeedsIntervention { since: Timestamp, failures: u32 },
    Failed { names: Vec<String> },
    ScalesOut { missing: u32, now: u32 },
    ScalesIn { surplus: u32 },
    Replaces { old: u32 },
    Acknowledged,
}

/// What a collection remembers, and what it shows.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionState {
    pub failures: FailureRecord,
    pub census: Census,
}

pub type CollectionDecision = Decision<CollectionState, CollectionEffect, CollectionReason>;

/// What becomes of a collection now.
pub fn decide(
    mut failures: FailureRecord,
    intent: &CollectionIntent,
    seen: &CollectionObserved<'_>,
    now: Timestamp,
) -> CollectionDecision {
    let mut effects = Vec::new();
    let mut why = Vec::new();
    if let Some(word) = &intent.acknowledge
        && failures.acknowledge(word)
    {
        why.push(CollectionReason::Acknowledged);
    }
    failures.forget(intent.failure_policy.window, now);
    let (marked, members): (Vec<&Server>, Vec<&Server>) =
        seen.members.iter().partition(|member| member.marked_for_deletion);
    effects.extend(marked.iter().map(|server| mark(server, MarkReason::MarkedBefore)));
    if intent.deleting {
        effects.extend(members.iter().map(|one| mark(one, MarkReason::CollectionDeleted)));
        let count = u32::try_from(seen.members.len()).unwrap_or(u32::MAX);
        why.push(CollectionReason::Deleting { members: count });
        return finish(failures, &members, intent, effects, why);
    }
    let counted = handle_failures(&mut failures, &members, intent, now, &mut effects, &mut why);
    if let Some(since) = failures.tripped_at {
        let count = failures.times_failed();
        why.push(CollectionReason::NeedsIntervention { since, failures: count });
        return at_once_if(counted, finish(failures, &members, intent, effects, why), now);
    }
    // One that begins again is missed by nobody else.
    let restarts = intent.failure_policy.behavior == FailBehavior::Restart;
    let working: Vec<&Server> = members
        .iter()
        .copied()
        .filter(|one| one.health != ServerHealth::Failed || restarts)
        .collect();
    let rollout = Rollout::of(&working, intent, seen.unseen, now);
    let surplus = rollout.surplus();
    if rollout.old() > 0 {
        why.push(CollectionReason::Replaces { old: rollout.old() });
    }
    if surplus > 0 {
        let count = usize::try_from(surplus).unwrap_or(usize::MAX);
        let chosen = victims(&working, count, &intent.revision, intent.generation, now);
        effects.extend(chosen.iter().map(|one| mark(one, MarkReason::ScaleIn)));
        why.push(CollectionReason::ScalesIn { surplus });
    } else {
        let old = rollout.replaceable();
        effects.extend(old.iter().map(|one| mark(one, MarkReason::Replaced)));
        scale_out(&rollout, intent, seen, &mut effects, &mut why);
    }
    if why.is_empty() {
        why.push(CollectionReason::Steady);
    }
    at_once_if(counted, finish(failures, &members, intent, effects, why), now)
}

/// What was counted is handled as soon as that is on record.
fn at_once_if(
    counted: bool,
    mut decision: CollectionDecision,
    now: Timestamp,
) -> CollectionDecision {
    if counted {
        decision.wake.by(now);
    }
    decision
}

/// Failures are handled one by one, in the order of names; the one that finds the limit reached stays as it is.
/// Answers whether one was counted that was not on record.
fn handle_failures(
    failures: &mut FailureRecord,
    members: &[&Server],
    intent: &CollectionIntent,
    now: Timestamp,
    effects: &mut Vec<CollectionEffect>,
    why: &mut Vec<CollectionReason>,
) -> bool {
    let mut failed: Vec<&Server> =
        members.iter().copied().filter(|one| one.health == ServerHealth::Failed).collect();
    failed.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names = Vec::new();
    let mut counted = false;
    for server in failed {
        let (name, uid) = (server.name.clone(), server.uid.clone());
        match failures.fails(Failure::of(server, now), &intent.failure_policy) {
            FailureAction::Leave => {}
            FailureAction::Count => {
                counted = true;
                names.push(name);
            }
            FailureAction::Handle => effects.push(match intent.failure_policy.behavior {
                FailBehavior::Remove => CollectionEffect::Quarantine { name, uid },
                FailBehavior::Delete => CollectionEffect::Delete { name, uid },
                FailBehavior::Restart => {
                    CollectionEffect::Restart { name, uid, restarts: server.restarts + 1 }
                }
            }),
        }
    }
    if !names.is_empty() {
        why.push(CollectionReason::Failed { names });
    }
    counted
}

/// Takes back what scaling in has marked before anything new is made.
fn scale_out(
    rollout: &Rollout<'_>,
    intent: &CollectionIntent,
    seen: &CollectionObserved<'_>,
    effects: &mut Vec<CollectionEffect>,
    why: &mut Vec<CollectionReason>,
) {
    let missing = rollout.missing();
    if missing == 0 {
        return;
    }
    let is_current =
        |one: &&Server| one.revision == intent.revision && one.health == ServerHealth::Healthy;
    let mut back: Vec<&Server> = seen.draining.iter().filter(is_current).collect();
    // Those with the most players would have stayed the longest.
    back.sort_by(|a, b| {
        let players = |one: &Server| one.active_players.unwrap_or(0);
        players(b).cmp(&players(a)).then_with(|| a.name.cmp(&b.name))
    });
    back.truncate(usize::try_from(missing).unwrap_or(usize::MAX));
    let taken = u32::try_from(back.len()).unwrap_or(u32::MAX);
    effects.extend(
        back.into_iter()
            .map(|one| CollectionEffect::TakeBack { name: one.name.clone(), uid: one.uid.clone() }),
    );
    let CollectionLimits { creation_batch, max_pending } = seen.limits;
    let room = max_pending.saturating_sub(rollout.pending());
    let count = (missing - taken).min(creation_batch).min(room);
    if count > 0 {
        effects.push(CollectionEffect::Create { count });
    }
    why.push(CollectionReason::ScalesOut { missing, now: taken + count });
}

fn mark(server: &Server, why: MarkReason) -> CollectionEffect {
    CollectionEffect::Mark { name: server.name.clone(), uid: server.uid.clone(), why }
}

fn finish(
    failures: FailureRecord,
    members: &[&Server],
    intent: &CollectionIntent,
    effects: Vec<CollectionEffect>,
    why: Vec<CollectionReason>,
) -> CollectionDecision {
    let census = census(members.iter().copied(), intent.replicas, failures.tripped_at.is_some());
    let wake = failures.next_change(intent.failure_policy.window);
    Decision {
        next: CollectionState { failures, census },
        effects,
        wake: wake.map_or(Wake::OnChange, Wake::At),
        why,
    }
}

/// A quarter, of which at least one is made.
pub(super) const SURGE_PERCENT: u32 = 25;
