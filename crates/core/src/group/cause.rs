//! Why a machine should go now, and when it will be so.

use jiff::{SignedDuration, Timestamp};

use super::intent::{self, Intent, Kept};
use super::member::Member;
use super::observed::Health;
use super::state::{Cause, Tier};
use crate::moment::saturating_add;
use crate::spread;
use crate::term::Term;

/// The causes for which machines are replaced, the most pressing first.
pub(super) const BY_RANK: [Cause; 6] = [
    Cause::Forced,
    Cause::Interrupted,
    Cause::Unhealthy,
    Cause::Manual,
    Cause::Drifted,
    Cause::Expired,
];

/// A set of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Causes(u8);

impl Causes {
    pub(super) const NONE: Self = Self(0);

    const fn bit(cause: Cause) -> u8 {
        1 << cause as u8
    }

    pub(super) const fn has(self, cause: Cause) -> bool {
        self.0 & Self::bit(cause) != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, cause: Cause, holds: bool) {
        if holds {
            self.0 |= Self::bit(cause);
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// In order of rank.
    pub(super) fn iter(self) -> impl Iterator<Item = Cause> {
        BY_RANK.into_iter().filter(move |cause| self.has(*cause))
    }

    pub(super) fn first(self) -> Option<Cause> {
        self.iter().next()
    }
}

pub(super) const fn tier(cause: Cause) -> Tier {
    match cause {
        Cause::Forced => Tier::Forced,
        Cause::Expired
        | Cause::Unhealthy
        | Cause::Drifted
        | Cause::Interrupted
        | Cause::OnDemand
        | Cause::Scale
        | Cause::Manual => Tier::Eligible,
    }
}

/// Why this machine would be removed now, whatever the state of the rest of the group is.
pub(super) fn causes_of(member: &Member<'_>, intent: &Intent, now: Timestamp) -> Causes {
    let machine = member.intent;
    let mut causes =
        if is_kept(machine.kept, now) { Causes::NONE } else { deferrable(member, intent, now) };
    causes.add(Cause::Forced, passed(forced_at(machine, intent), now));
    causes.add(Cause::Interrupted, member.state.interrupted_at.is_some());
    causes.add(Cause::Manual, machine.drain.is_some());
    causes
}

/// Those that wait while it is kept.
pub(super) fn deferrable(member: &Member<'_>, intent: &Intent, now: Timestamp) -> Causes {
    let machine = member.intent;
    let mut causes = Causes::NONE;
    causes.add(Cause::Unhealthy, unhealthy_long_enough(member, intent.unhealthy_after));
    let asked = intent.rotate_before.is_some_and(|before| machine.created_at < before);
    causes.add(Cause::Manual, asked);
    causes.add(Cause::Drifted, *machine.template != *intent.template);
    causes.add(Cause::Expired, passed(eligible_at(machine, intent), now));
    causes
}

/// Nothing is due at its time, only after it.
fn passed(at: Option<Timestamp>, now: Timestamp) -> bool {
    at.is_some_and(|at| now > at)
}

pub(super) fn is_kept(kept: Kept, now: Timestamp) -> bool {
    match kept {
        Kept::No => false,
        Kept::Until(until) => now < until,
        Kept::Always => true,
    }
}

/// Unhealthy for long enough. Once that was found, it stays so until the machine is seen ready:
/// a new leader has not watched it for as long.
fn unhealthy_long_enough(member: &Member<'_>, after: SignedDuration) -> bool {
    let found = member.state.rotation.as_ref().is_some_and(|rotation| {
        rotation.cause == Cause::Unhealthy || rotation.also.contains(&Cause::Unhealthy)
    });
    match member.health() {
        Some(Health::Ready) => false,
        Some(Health::Unhealthy { observed }) => {
            found || (member.state.served_at.is_some() && observed >= after)
        }
        None => found,
    }
}

pub(super) fn forced_at(machine: &intent::Machine, intent: &Intent) -> Option<Timestamp> {
    aged(machine, intent.expiry.forced)
}

/// Jitter only delays, and never past the forced age.
pub(super) fn eligible_at(machine: &intent::Machine, intent: &Intent) -> Option<Timestamp> {
    let eligible = aged(machine, intent.expiry.eligible)?;
    let eligible = saturating_add(eligible, spread::jitter(intent.expiry.jitter, &machine.uid));
    Some(forced_at(machine, intent).map_or(eligible, |forced| eligible.min(forced)))
}

fn aged(machine: &intent::Machine, age: Term) -> Option<Timestamp> {
    age.span().map(|age| saturating_add(machine.created_at, age))
}

#[cfg(test)]
mod tests;
