//! The controller of groups: one group with all its machines in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_api::group::convert::Wanted;
use sojourn_core::decision::{Decision, Wake};
use sojourn_core::group::effect::Effect;
use sojourn_core::group::intent::{Fleet, Intent};
use sojourn_core::group::observed::Observed;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state::State;
use sojourn_core::group::{decide, forecast};
use sojourn_core::key::Key;

use super::family::Family;
use super::fleet::{self, Counted};
use super::subject::Subject;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// The controller of InstanceGroups and of the Machines that they own.
#[derive(Debug, Clone)]
pub(crate) struct Groups(pub(crate) Arc<Family>);

/// What was decided about a group.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Nothing, if it cannot be told what is wanted.
    pub(crate) decision: Option<Decision<State, Effect, Reason>>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for Groups {
    type Object = Subject;
    type Observed = Observed;
    type Decision = Verdict;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "group"
    }

    fn parse(&self, key: &Key) -> Target<Subject> {
        match Subject::find(&self.0.world, key, &self.0.config.current()) {
            Some(subject) if self.0.is_held_up(&subject) => Target::Unusable,
            Some(subject) => Target::Is(subject),
            None => {
                self.0.refusals.forget(key);
                self.0.counts.forget(key);
                self.0.wake_groups(&self.0.rotations.forget(key));
                Target::Gone
            }
        }
    }

    async fn observe(&self, subject: &Subject) -> Observed {
        self.0.look(subject)
    }

    fn decide(&self, subject: &Subject, seen: &Observed, now: Timestamp) -> Verdict {
        let wanted = subject.wanted.as_ref().ok();
        let decision = wanted.map(|wanted| self.0.decide_group(subject, wanted, seen, now));
        Verdict { decision, now }
    }

    async fn execute(&self, subject: &Subject, verdict: &Verdict) -> Result<(), RequestError> {
        let (Some(group), Some(decision)) = (subject.group(), &verdict.decision) else {
            return Ok(());
        };
        self.0.hold_group(subject, group).await?;
        self.0.carry_out(subject, group, &decision.effects).await
    }

    async fn publish(
        &self,
        subject: &Subject,
        seen: &Observed,
        verdict: &Verdict,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        self.0.say(subject, seen, verdict, executed).await
    }

    fn wake(&self, verdict: &Verdict) -> Wake {
        verdict.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

impl Family {
    /// One decision, with what all groups together may have open, and what comes of it next.
    fn decide_group(
        &self,
        subject: &Subject,
        wanted: &Wanted,
        seen: &Observed,
        now: Timestamp,
    ) -> Decision<State, Effect, Reason> {
        let most = self.config.current().max_rotations;
        let (mut decision, freed) = self.rotations.decide(&subject.key, |others| {
            let fleet = Some(Fleet { most, others });
            let intent = Intent { fleet, ..wanted.intent.clone() };
            let decision = decide(subject.remembered(), &subject.wishes, seen, &intent, now);
            let waits = |why: &Reason| matches!(why, Reason::FleetBudget { .. });
            let waits = decision.why.iter().any(waits);
            let counted = Counted { open: fleet::open(&decision.next), waits };
            (decision, counted)
        });
        self.wake_groups(&freed);
        let next = &decision.next;
        let coming = forecast::next(next, &subject.wishes, seen, &wanted.intent, now);
        decision.next.group.coming = coming;
        decision
    }

    fn wake_groups(&self, groups: &[Key]) {
        groups.iter().for_each(|key| self.world.group_queue.wake(key));
    }
}
