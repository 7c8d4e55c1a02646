//! Whether machines of the present template live: a template is tried with one machine first, and a
//! machine that ends by itself soon after it became ready is a failure like one that cannot be made.

use jiff::{SignedDuration, Timestamp};

use super::decision_builder::DecisionBuilder;
use super::member::Member;
use super::observed::Power;
use super::reason::Reason;
use super::roster::{CIRCUIT_BREAKER_FAILURES, Roster};
use super::state::{Phase, YoungDeaths};
use crate::known::Known;
use crate::moment::{ceil_second, saturating_add};

/// A machine that ends by itself before it was ready for this long has died young.
const MIN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

impl Roster<'_> {
    /// How long a machine must have been ready so that its end is no failure.
    fn required_lifetime(&self) -> SignedDuration {
        self.intent.min_ready.max(MIN_LIFETIME)
    }

    fn is_of_template(&self, member: &Member<'_>) -> bool {
        *member.intent.template == *self.intent.template
    }

    /// Assesses the present template by its machines: whether it is proven, and whether
    /// those that died young were followed by one that lives.
    pub(super) fn assess_template(&mut self, builder: &mut DecisionBuilder) {
        self.reset_if_template_changed();
        if !self.group.proven {
            let trial = self.intent.trial;
            self.group.proven = !trial.is_positive()
                || self.ready_since(None, trial, builder).is_some_and(|since| since <= builder.now);
        }
        let Some(last) = self.group.young_deaths.as_ref().map(|deaths| deaths.at) else { return };
        let lives = self.ready_since(Some(last), self.required_lifetime(), builder);
        if lives.is_some_and(|since| since <= builder.now) {
            self.group.young_deaths = None;
            self.clear_failures();
        }
    }

    /// Another template begins its own count.
    fn reset_if_template_changed(&mut self) {
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
        builder: &mut DecisionBuilder,
    ) -> Option<Timestamp> {
        let ready = self.members.iter().filter(|one| one.is_ready() && self.is_of_template(one));
        let since = ready.filter_map(|one| one.state.ready_at.max(after)).min()?;
        let until = saturating_add(since, span);
        if until > builder.now {
            builder.wake_at(until);
        }
        Some(until)
    }

    /// Records a machine that is found dead. One that was ready for long enough, that somebody
    /// deletes, or that its provider said it would take, has not failed.
    pub(super) fn record_death(&mut self, index: usize, builder: &mut DecisionBuilder) {
        let member = &self.members[index];
        let state = &*member.state;
        let deleted = member.intent.deleting
            || matches!(&member.seen.provider, Known::Is(found) if found.power == Power::Deleting);
        let (Some(served), None, false) = (state.served_at, state.interrupted_at, deleted) else {
            return;
        };
        let ready_for = builder.now.duration_since(state.ready_at.unwrap_or(served));
        if ready_for >= self.required_lifetime() || !self.is_of_template(member) {
            return;
        }
        let machine = member.name().to_owned();
        let ready_for = SignedDuration::from_secs(ready_for.as_secs().max(0));
        let count = self.group.young_deaths.as_ref().map_or(0, |deaths| deaths.count);
        let count = count.saturating_add(1);
        self.group.young_deaths =
            Some(YoungDeaths { count, machine, at: ceil_second(builder.now), ready_for });
        self.record_failure(None, builder.now);
    }

    /// What keeps rotations from beginning while machines die young.
    pub(super) fn dying_young(&self, builder: &mut DecisionBuilder) -> Option<Reason> {
        let YoungDeaths { count, machine, ready_for, .. } = self.group.young_deaths.clone()?;
        let until = self.retry_time(builder);
        Some(Reason::DyingYoung { deaths: count, machine, ready_for, until })
    }

    /// What goes wrong with making machines, if anything does.
    pub(super) fn create_failing(&self, builder: &mut DecisionBuilder) -> Option<Reason> {
        let group = &*self.group;
        // Machines that could be made and died young have their own reason.
        let failing = group.failures > 0 && (group.young_deaths.is_none() || group.error.is_some());
        failing.then(|| Reason::CreateFailing {
            failures: group.failures,
            error: group.error.clone(),
            until: self.retry_time(builder),
        })
    }

    /// When another machine may be tried, if that is in the future; the group wakes then.
    fn retry_time(&self, builder: &mut DecisionBuilder) -> Option<Timestamp> {
        let until = self.group.retry_at.filter(|until| *until > builder.now)?;
        builder.wake_at(until);
        Some(until)
    }

    /// How long a replacement must have been ready before the old machine goes. One of a template
    /// that is not proven is tried for longer; while machines die young, until it is sure to live.
    pub(super) fn replacement_ready_for(&self, replacement: usize) -> SignedDuration {
        if !self.is_of_template(&self.members[replacement]) {
            return self.intent.min_ready;
        }
        let trial = if self.group.young_deaths.is_some() {
            self.required_lifetime()
        } else if self.group.proven {
            SignedDuration::ZERO
        } else {
            self.intent.trial
        };
        self.intent.min_ready.max(trial)
    }

    /// The machine that has to live before another is made, if one is tried at a time.
    pub(super) fn on_trial(&self, builder: &mut DecisionBuilder) -> Option<Reason> {
        let cautious =
            self.group.failures >= CIRCUIT_BREAKER_FAILURES && self.group.young_deaths.is_some();
        if self.group.proven && !cautious {
            return None;
        }
        let trial = self.intent.trial;
        for member in self.members.iter().filter(|one| self.is_of_template(one)) {
            let leaves = member.is_leaving() || member.intent.deleting || member.is_dead();
            // An unhealthy one proves nothing any more, and must not block its own replacement.
            if leaves || member.state.phase == Phase::Failed || member.is_unhealthy() {
                continue;
            }
            let lived = member.state.ready_at.map(|since| saturating_add(since, trial));
            let until = lived.filter(|until| *until > builder.now);
            if lived.is_some() && until.is_none() && self.group.proven {
                continue;
            }
            if let Some(until) = until {
                builder.wake_at(until);
            }
            return Some(Reason::Trial { machine: member.name().to_owned(), until });
        }
        None
    }

    /// Whether one machine has to live before others are made.
    pub(super) const fn creates_one_at_a_time(&self) -> bool {
        !self.group.proven || self.group.failures >= CIRCUIT_BREAKER_FAILURES
    }

    /// Gives failures as reasons for as long as they last. Once nothing is to be made, they are
    /// cleared.
    pub(super) fn report_failures(&mut self, builder: &mut DecisionBuilder) {
        if let Some(reason) = self.dying_young(builder) {
            builder.add_reason(reason);
        }
        let attempts = |member: &&Member<'_>| {
            member.state.phase == Phase::Provisioning && member.state.attempts > 0
        };
        if let Some(member) = self.members.iter().find(attempts) {
            builder.add_reason(Reason::CreateFailing {
                failures: member.state.attempts,
                error: member.state.error.clone(),
                until: member.state.retry_at.filter(|until| *until > builder.now),
            });
        }
        let Some(reason) = self.create_failing(builder) else { return };
        let wanting =
            |member: &Member<'_>| member.wants_replacement() || member.state.phase == Phase::Failed;
        let made = self.counts.starting == 0
            && self.group.reserved.is_empty()
            && self.counts.staying >= self.intent.size
            && !self.members.iter().any(wanting);
        if made && self.group.young_deaths.is_none() {
            self.clear_failures();
        } else {
            builder.add_reason(reason);
        }
    }
}
