//! Whether machines of the present template live: a template is tried with one machine first, and a
//! machine that ends by itself soon after it became ready is a failure like one that cannot be made.

use jiff::{SignedDuration, Timestamp};

use super::member::Member;
use super::observed::Power;
use super::reason::Reason;
use super::roster::{BREAKER, Roster};
use super::state::{Phase, YoungDeaths};
use super::turn::Turn;
use crate::known::Known;
use crate::moment::{later, up};

/// A machine that ends by itself before it was ready for this long has died young.
const YOUNG: SignedDuration = SignedDuration::from_mins(10);

impl Roster<'_> {
    /// How long a machine must have been ready so that its end is no failure.
    fn youth(&self) -> SignedDuration {
        self.intent.min_ready.max(YOUNG)
    }

    fn is_of_template(&self, member: &Member<'_>) -> bool {
        *member.intent.template == *self.intent.template
    }

    /// Takes in what the machines of the present template show: whether it is proven, and whether
    /// those that died young were followed by one that lives.
    pub(super) fn assess(&mut self, turn: &mut Turn) {
        self.begin_anew_if_changed();
        if !self.group.proven {
            let trial = self.intent.trial;
            self.group.proven = !trial.is_positive()
                || self.ready_since(None, trial, turn).is_some_and(|since| since <= turn.now);
        }
        let Some(last) = self.group.young_deaths.as_ref().map(|deaths| deaths.at) else { return };
        let lives = self.ready_since(Some(last), self.youth(), turn);
        if lives.is_some_and(|since| since <= turn.now) {
            self.group.young_deaths = None;
            self.clear_failures();
        }
    }

    /// Another template begins its own count.
    fn begin_anew_if_changed(&mut self) {
        if self.group.template.as_deref() == Some(&*self.intent.template) {
            return;
        }
        // A record without a template is of a time when none was written down.
        if self.group.template.replace(self.intent.template.clone()).is_some() {
            self.group.young_deaths = None;
            self.clear_failures();
        }
        self.group.proven = false;
    }

    /// When the first of the machines that are seen ready will have been so for this long, counted
    /// from `after` at the earliest. If that is to come, it wakes the group.
    fn ready_since(
        &self,
        after: Option<Timestamp>,
        span: SignedDuration,
        turn: &mut Turn,
    ) -> Option<Timestamp> {
        let ready = self.members.iter().filter(|one| one.is_ready() && self.is_of_template(one));
        let since = ready.filter_map(|one| one.state.ready_at.max(after)).min()?;
        let until = later(since, span);
        if until > turn.now {
            turn.wake_at(until);
        }
        Some(until)
    }

    /// Takes note of a machine that is found dead. One that was ready for long enough, that somebody
    /// deletes, or that its provider said it would take, has not failed.
    pub(super) fn note_death(&mut self, index: usize, turn: &mut Turn) {
        let member = &self.members[index];
        let state = &*member.state;
        let deleted = member.intent.deleting
            || matches!(&member.seen.provider, Known::Is(found) if found.power == Power::Deleting);
        let (Some(served), None, false) = (state.served_at, state.interrupted_at, deleted) else {
            return;
        };
        let ready_for = turn.now.duration_since(state.ready_at.unwrap_or(served));
        if ready_for >= self.youth() || !self.is_of_template(member) {
            return;
        }
        let machine = member.name().to_owned();
        let ready_for = SignedDuration::from_secs(ready_for.as_secs().max(0));
        let count = self.group.young_deaths.as_ref().map_or(0, |deaths| deaths.count);
        let count = count.saturating_add(1);
        self.group.young_deaths = Some(YoungDeaths { count, machine, at: up(turn.now), ready_for });
        self.failed(None, turn.now);
    }

    /// What keeps rotations from beginning while machines die young.
    pub(super) fn dying_young(&self, turn: &mut Turn) -> Option<Reason> {
        let YoungDeaths { count, machine, ready_for, .. } = self.group.young_deaths.clone()?;
        let until = self.retries_at(turn);
        Some(Reason::DyingYoung { deaths: count, machine, ready_for, until })
    }

    /// What goes wrong with making machines, if anything does.
    pub(super) fn create_failing(&self, turn: &mut Turn) -> Option<Reason> {
        let group = &*self.group;
        // Machines that could be made and died young are another matter.
        let failing = group.failures > 0 && (group.young_deaths.is_none() || group.error.is_some());
        failing.then(|| Reason::CreateFailing {
            failures: group.failures,
            error: group.error.clone(),
            until: self.retries_at(turn),
        })
    }

    /// When another machine may be tried, if that is to come. What is said changes then.
    fn retries_at(&self, turn: &mut Turn) -> Option<Timestamp> {
        let until = self.group.retry_at.filter(|until| *until > turn.now)?;
        turn.wake_at(until);
        Some(until)
    }

    /// How long a replacement must have been ready before the old machine goes. One of a template
    /// that is not proven is tried for longer; while machines die young, until it is sure to live.
    pub(super) fn replacement_ready_for(&self, replacement: usize) -> SignedDuration {
        if !self.is_of_template(&self.members[replacement]) {
            return self.intent.min_ready;
        }
        let trial = if self.group.young_deaths.is_some() {
            self.youth()
        } else if self.group.proven {
            SignedDuration::ZERO
        } else {
            self.intent.trial
        };
        self.intent.min_ready.max(trial)
    }

    /// The machine that has to live before another is made, if one is tried at a time.
    pub(super) fn on_trial(&self, turn: &mut Turn) -> Option<Reason> {
        let cautious = self.group.failures >= BREAKER && self.group.young_deaths.is_some();
        if self.group.proven && !cautious {
            return None;
        }
        let trial = self.intent.trial;
        for member in self.members.iter().filter(|one| self.is_of_template(one)) {
            let leaves = member.is_leaving() || member.intent.deleting || member.is_dead();
            // One that is ill shows nothing any more, and must not be in its own way.
            if leaves || member.state.phase == Phase::Failed || member.is_ill() {
                continue;
            }
            let lived = member.state.ready_at.map(|since| later(since, trial));
            let until = lived.filter(|until| *until > turn.now);
            if lived.is_some() && until.is_none() && self.group.proven {
                continue;
            }
            if let Some(until) = until {
                turn.wake_at(until);
            }
            return Some(Reason::Trial { machine: member.name().to_owned(), until });
        }
        None
    }

    /// Whether one machine has to live before others are made.
    pub(super) const fn tries_one(&self) -> bool {
        !self.group.proven || self.group.failures >= BREAKER
    }

    /// Says what fails for as long as it does. Once nothing is to be made any more, nothing fails.
    pub(super) fn report_failures(&mut self, turn: &mut Turn) {
        if let Some(reason) = self.dying_young(turn) {
            turn.because(reason);
        }
        let attempts = |member: &&Member<'_>| {
            member.state.phase == Phase::Provisioning && member.state.attempts > 0
        };
        if let Some(member) = self.members.iter().find(attempts) {
            turn.because(Reason::CreateFailing {
                failures: member.state.attempts,
                error: member.state.error.clone(),
                until: member.state.retry_at.filter(|until| *until > turn.now),
            });
        }
        let Some(reason) = self.create_failing(turn) else { return };
        let wanting =
            |member: &Member<'_>| member.wants_replacement() || member.state.phase == Phase::Failed;
        let made = self.ledger.starting == 0
            && self.group.reserved.is_empty()
            && self.ledger.staying >= self.intent.size
            && !self.members.iter().any(wanting);
        if made && self.group.young_deaths.is_none() {
            self.clear_failures();
        } else {
            turn.because(reason);
        }
    }
}
