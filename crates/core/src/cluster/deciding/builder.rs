//! A decision while it is made: its inputs, and what was added to it so far.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::super::effect::Effect;
use super::super::intent::{Intent, Poll, Settings};
use super::super::needs::next_drift_check;
use super::super::observed::Observed;
use super::super::operation::{Operation, OperationId, Step};
use super::super::power::Conditions;
use super::super::reason::Reason;
use super::super::state::{Action, ClusterState, NoticeKind, PowerWrite, UpcomingAction};
use super::ClusterDecision;
use crate::decision::{Decision, Wake};
use crate::moment::{ceil_second, floor_second};
use crate::notice::Outbox;

/// What the stored state says about things that follow only from what is on record.
#[derive(Debug)]
pub(super) struct Stored {
    /// The operation that is under way, once its inventory is written down.
    pub(super) acting: Option<OperationId>,
    /// Ids of the machines that its inventory has.
    pub(super) machines: BTreeSet<String>,
    pub(super) power_write: Option<PowerWrite>,
    pub(super) is_settled: bool,
    pub(super) outbox: Option<Outbox<NoticeKind>>,
}

impl Stored {
    fn of(state: &ClusterState) -> Self {
        let operation = state.operation_under_way();
        let acting = operation.filter(|operation| operation.step != Step::Record);
        let machines = acting.map(|_| &state.inventory.machines).into_iter().flatten();
        Self {
            acting: acting.map(|operation| operation.id),
            machines: machines.map(|machine| machine.id.clone()).collect(),
            power_write: state.power_write,
            is_settled: state.settled().is_some(),
            outbox: state.outbox.waits().then(|| state.outbox.clone()),
        }
    }

    /// Whether a machine may be called for an operation.
    pub(super) fn may_call(&self, operation: &Operation, id: &str) -> bool {
        self.acting == Some(operation.id) && self.machines.contains(id)
    }
}

#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) intent: &'a Intent,
    pub(super) seen: &'a Observed<'a>,
    pub(super) settings: &'a Settings,
    /// A whole second.
    pub(super) now: Timestamp,
    pub(super) next: ClusterState,
    pub(super) stored: Stored,
    pub(super) effects: Vec<Effect>,
    wake: Wake,
    why: Vec<Reason>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        state: ClusterState,
        seen: &'a Observed<'a>,
        intent: &'a Intent,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Self {
        Self {
            intent,
            seen,
            settings,
            now: floor_second(now),
            stored: Stored::of(&state),
            next: ClusterState { upcoming: None, ..state },
            effects: Vec::new(),
            wake: Wake::OnChange,
            why: Vec::new(),
        }
    }

    pub(super) fn conditions(&self) -> Conditions {
        self.next.conditions.unwrap_or(Conditions::INITIALIZED)
    }

    pub(super) fn because(&mut self, reason: Reason) {
        self.why.push(reason);
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake.by(ceil_second(at));
    }

    /// Asks for the next decision at once: this one recorded something that the next one acts on.
    pub(super) fn wake_now(&mut self) {
        self.wake.by(self.now);
    }

    /// Looks again at what has moved since then.
    pub(super) fn wake_poll(&mut self, poll: Poll, since: Timestamp) {
        self.wake_at(poll.next(since.min(self.now), self.now));
    }

    /// Looks again when the machines of a cluster that has settled are listed next.
    pub(super) fn wake_drift_check(&mut self) {
        self.wake_at(next_drift_check(self.intent, self.settings, self.now));
    }

    /// Whether an operation only says what others did.
    pub(super) fn reports(&self, operation: &Operation) -> bool {
        operation.only_reports(self.intent.on_drift)
    }

    /// Something will happen by itself. The earliest is told.
    pub(super) fn foresee(&mut self, action: Action, at: Timestamp, why: Reason) {
        if self.next.upcoming.as_ref().is_none_or(|upcoming| at < upcoming.at) {
            self.next.upcoming = Some(UpcomingAction { action, at, why });
        }
    }

    pub(super) fn finish(self) -> ClusterDecision {
        Decision { next: self.next, effects: self.effects, wake: self.wake, why: self.why }
    }
}
