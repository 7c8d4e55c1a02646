//! The decision about a cluster: one step on its way down or up.
//!
//! **Recorded first.** An operation, its inventory and a power state that is to be written are on record before
//! anything follows from them: machines are called only for an operation that the *stored* state holds, and only
//! those that its inventory has.

mod announcing;
mod builder;
mod certificates;
mod deletion;
mod machines;
mod power_write;
mod readiness;
mod steering;
#[cfg(test)]
mod tests;
mod timeout;

use jiff::Timestamp;

use self::builder::Builder;
use super::call::{CallFailure, ErrorClass};
use super::effect::Effect;
use super::intent::{Intent, Settings};
use super::observed::{Observed, Target};
use super::operation::{ErrorKind, Operation};
use super::power::{Conditions, Direction, HibernatingReason, ReadyReason};
use super::reachability::Probe;
use super::reason::Reason;
use super::recovery::recover;
use super::state::ClusterState;
use crate::decision::Decision;
use crate::moment::ceil_second;

pub type ClusterDecision = Decision<ClusterState, Effect, Reason>;

/// What becomes of a cluster now. `state` is what is on record.
pub fn decide(
    state: ClusterState,
    seen: &Observed<'_>,
    intent: &Intent,
    settings: &Settings,
    now: Timestamp,
) -> ClusterDecision {
    let mut builder = Builder::new(state, seen, intent, settings, now);
    builder.next.outbox.settle(seen.deliveries);
    builder.next.outbox.expire(settings.on_undeliverable, builder.now);
    if builder.next.keep.apply_request(intent.keep_until, builder.now).is_err() {
        builder.because(Reason::KeepAllowanceUsedUp);
    }
    if intent.deleting {
        deletion::decide(&mut builder);
    } else {
        deletion::prepare(&mut builder);
        live(&mut builder);
    }
    announcing::send(&mut builder);
    builder.finish()
}

/// What becomes of a cluster that nobody deletes.
fn live(builder: &mut Builder<'_>) {
    let is_new = builder.next.conditions.is_none();
    if is_new {
        let known = recover(builder.seen).inventory;
        builder.next.inventory.add_records(&known.machines);
        builder.next.conditions = Some(Conditions::INITIALIZED);
    }
    if !builder.intent.installed {
        builder.because(Reason::NotInstalled);
        announcing::leave(builder);
        builder.next.conditions = Some(Conditions::INITIALIZED);
        return;
    }
    record_installation(builder, is_new);
    if builder.intent.paused {
        return pause(builder);
    }
    let Some(stopped) = builder.intent.stopped() else { return unsupported(builder) };
    if builder.conditions().hibernating == HibernatingReason::Unsupported {
        builder.because(Reason::Supported);
        builder.next.conditions = Some(Conditions::resuming(ReadyReason::Initialized));
        return builder.wake_now();
    }
    let written = power_write::settle(builder);
    announcing::remember_schedules(builder, written);
    if builder.next.power_write.is_none() {
        announcing::decide(builder);
    }
    steering::decide(builder, stopped, written);
    observe_reachability(builder);
    certificates::approve(builder);
    record_written(builder);
}

/// Writes down, once, since when it is installed.
fn record_installation(builder: &mut Builder<'_>, is_new: bool) {
    if builder.next.installed_at.is_some() {
        return;
    }
    if is_new {
        builder.next.installed_at = Some(builder.intent.created_at);
    } else if builder.conditions() == Conditions::INITIALIZED && builder.next.operation.is_none() {
        builder.next.installed_at = Some(builder.now);
    }
}

/// Nothing is done, and nobody knows what others do. What was begun stays on record.
fn pause(builder: &mut Builder<'_>) {
    builder.because(Reason::Paused);
    announcing::leave(builder);
    builder.next.conditions = Some(Conditions::PAUSED);
    builder.next.running_since = None;
    builder.next.power_write = None;
}

/// Nobody can stop its machines.
fn unsupported(builder: &mut Builder<'_>) {
    builder.because(Reason::Unsupported);
    announcing::leave(builder);
    builder.next.conditions = Some(Conditions::UNSUPPORTED);
    builder.next.power_write = None;
    observe_reachability(builder);
}

/// Takes in what came of what a resume wrote into the cluster. That it failed is on record until it went well, or
/// nothing is left to write.
fn record_written(builder: &mut Builder<'_>) {
    let writes = builder.effects.iter().any(Effect::writes_into_cluster);
    let (now, retry) = (builder.now, builder.settings.retry);
    let operation = builder.next.operation.as_mut();
    let is_resume = |one: &&mut Operation| !one.is_done() && one.direction == Direction::Resume;
    let Some(operation) = operation.filter(is_resume) else { return };
    match (builder.seen.target, builder.seen.written) {
        (Target::Unreadable(_), _) => {}
        (Target::NotRead | Target::Read(_), Some(Err(message))) => {
            let failure = CallFailure::new(ErrorClass::Transient, message);
            operation.failed(ErrorKind::Target, message.to_owned(), now, |failures| {
                ceil_second(retry.after_failure(&failure, failures, now))
            });
        }
        (Target::NotRead | Target::Read(_), Some(Ok(()))) => {
            operation.succeeded(ErrorKind::Target);
        }
        (Target::Read(_), None) if !writes => operation.succeeded(ErrorKind::Target),
        (Target::NotRead | Target::Read(_), None) => {}
    }
}

/// Takes in what a probe came to, and asks for the next one.
fn observe_reachability(builder: &mut Builder<'_>) {
    if !builder.intent.has_kubeconfig || builder.intent.fake {
        return;
    }
    let settled = builder.next.settled();
    // Whoever reads it has probed it.
    let read = |result| Some(Probe { at: builder.now, result });
    let read = match builder.seen.target {
        Target::NotRead => None,
        Target::Unreadable(message) => read(Err(message.clone())),
        Target::Read(_) => read(Ok(())),
    };
    let probe = read.as_ref().or(builder.seen.probe);
    let reachability = std::mem::take(&mut builder.next.reachability);
    builder.next.reachability = reachability.observe(settled, probe, builder.now);
    let (uid, settings) = (&builder.intent.uid, builder.settings);
    let next = match builder.seen.probe {
        // The one that is due is made before the next decision.
        None => builder.next.reachability.next_probe(uid, settings, builder.now),
        Some(probe) => {
            let last = probe.at.min(builder.now);
            builder.next.reachability.next_probe(uid, settings, last)
        }
    };
    if let Some(at) = next.filter(|at| *at > builder.now) {
        builder.wake_at(at);
    }
}
