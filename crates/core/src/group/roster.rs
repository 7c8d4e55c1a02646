//! The machines of a group in a decision, and the count of them.

use jiff::Timestamp;

use super::cause::{self, Causes};
use super::decision_builder::DecisionBuilder;
use super::intent::{self, Intent};
use super::member::{self, Member};
use super::naming;
use super::observed::Observed;
use super::reason::Reason;
use super::removal;
use super::state::{self, Cause, Phase, Reservation, RotationPhase, RotationStart, Tier};
use crate::by_name::ByName;
use crate::moment::{ceil_second, saturating_add, saturating_sub};
use crate::spread;

/// Names that wait for their machine, at most.
pub(super) const MAX_RESERVED: usize = 100;
/// Starts that are remembered for budgets per span; larger budgets count as this one.
pub(super) const MAX_REMEMBERED_STARTS: usize = 500;
/// From so many failures in a row on, one machine at a time is tried.
pub(super) const CIRCUIT_BREAKER_FAILURES: u32 = 3;

#[derive(Debug)]
pub(super) struct Roster<'a> {
    pub(super) intent: &'a Intent,
    pub(super) group: &'a mut state::Group,
    /// In the order of names.
    pub(super) members: Vec<Member<'a>>,
    /// The same, the oldest first.
    pub(super) by_age: Vec<usize>,
    pub(super) counts: MachineCounts,
    /// So many of the reservations are on record.
    pub(super) recorded: usize,
    /// The causes that any of the members has.
    pub(super) causes: Causes,
}

/// Whatever may come to be a machine counts from its reservation on, and a machine
/// counts until it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MachineCounts {
    /// Those that will be there when every open rotation is through: what `size` is about.
    pub(super) staying: u32,
    /// Those that are on their way out, or will be once their replacement is ready.
    pub(super) going: u32,
    /// Those that are seen to work, and that nobody drains.
    pub(super) ready: u32,
    /// Those that never worked yet.
    pub(super) starting: u32,
    pub(super) unhealthy: u32,
    pub(super) unknown: u32,
    /// Open rotations and removals.
    pub(super) open: u32,
    /// Rotations, by cause, whose machine is there: what budgets are about.
    pub(super) by_cause: [u32; 8],
    /// Those of `going` that are forced.
    pub(super) forced: u32,
}

impl MachineCounts {
    fn of(members: &[Member<'_>], reserved: usize) -> Self {
        let mut counts =
            Self { staying: u32::try_from(reserved).unwrap_or(u32::MAX), ..Self::default() };
        for member in members {
            counts.add(member);
        }
        counts
    }

    fn add(&mut self, member: &Member<'_>) {
        self.adjust(member, |count, by| *count = count.saturating_add(by));
    }

    fn remove(&mut self, member: &Member<'_>) {
        self.adjust(member, |count, by| *count = count.saturating_sub(by));
    }

    fn adjust(&mut self, member: &Member<'_>, change: fn(&mut u32, u32)) {
        let leaving = member.is_leaving();
        let failed = member.state.phase == Phase::Failed;
        let goes = leaving || failed || member.intent.deleting || member.replacement().is_some();
        let occupies = member.occupies();
        change(if goes { &mut self.going } else { &mut self.staying }, u32::from(occupies));
        change(&mut self.open, u32::from(goes || member.state.rotation.is_some()));
        if let Some(rotation) = &member.state.rotation {
            // A rotation whose machine is gone is over but for the object.
            change(&mut self.by_cause[rotation.cause as usize], u32::from(occupies || !leaving));
            let forced = rotation.tier == Tier::Forced && goes && occupies;
            change(&mut self.forced, u32::from(forced));
        }
        if leaving {
            return;
        }
        change(&mut self.ready, u32::from(member.is_ready()));
        if member.is_unknown() {
            change(&mut self.unknown, 1);
        } else if member.is_unhealthy() {
            change(&mut self.unhealthy, 1);
        } else if member.state.served_at.is_none() {
            change(&mut self.starting, 1);
        }
    }

    /// Everything that takes up room.
    pub(super) const fn total(&self) -> u32 {
        self.staying.saturating_add(self.going)
    }

    /// `total`, once the group has its size.
    pub(super) fn committed(&self, size: u32) -> u32 {
        self.staying.max(size).saturating_add(self.going)
    }
}

impl<'a> Roster<'a> {
    pub(super) fn new(
        group: &'a mut state::Group,
        states: &'a mut ByName<state::Machine>,
        machines: &'a [intent::Machine],
        seen: &'a Observed,
        intent: &'a Intent,
    ) -> Self {
        let members = member::assemble(states, machines, seen);
        let created = |(index, member): (usize, &Member<'_>)| (member.intent.created_at, index);
        let mut by_age: Vec<_> = members.iter().enumerate().map(created).collect();
        by_age.sort_unstable();
        let by_age = by_age.into_iter().map(|(_, index)| index).collect();
        let (counts, causes) = (MachineCounts::default(), Causes::NONE);
        Self { intent, group, members, by_age, counts, recorded: 0, causes }
    }

    pub(super) fn recount(&mut self) {
        self.counts = MachineCounts::of(&self.members, self.group.reserved.len());
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.members.binary_search_by(|member| member.name().cmp(name)).ok()
    }

    /// The members that match, the oldest first. It sorts, so it is meant for few matches.
    pub(super) fn oldest_first(&self, which: impl Fn(&Member<'_>) -> bool) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        let mut found: Vec<usize> =
            members.filter(|(_, member)| which(member)).map(|(index, _)| index).collect();
        found.sort_by_key(|&index| (self.members[index].intent.created_at, index));
        found
    }

    pub(super) fn frozen(&self, now: Timestamp) -> Option<Timestamp> {
        self.intent.freeze_until.filter(|until| now < *until)
    }

    pub(super) fn min_healthy(&self) -> u32 {
        self.intent.min_healthy.min(self.intent.size)
    }

    /// How many there may be at a time, beside rotations that begin: forced ones have their own room.
    pub(super) fn max_total(&self) -> u32 {
        let Intent { size, surge, expiry, .. } = self.intent;
        size.saturating_add(*surge).saturating_add(self.counts.forced.min(expiry.forced_surge))
    }

    /// Whether so many stay ready when this one goes.
    pub(super) fn can_spare(&self, index: usize) -> Result<(), Reason> {
        let (ready, min) = (self.counts.ready, self.min_healthy());
        if self.members[index].is_ready() && ready <= min {
            return Err(Reason::MinHealthy { ready, min });
        }
        Ok(())
    }

    /// Begins to remove a machine, and counts that.
    pub(super) fn begin_removal(
        &mut self,
        index: usize,
        cause: Cause,
        builder: &mut DecisionBuilder,
    ) {
        let timeout = match self.intent.expiry.policy {
            intent::ForcedPolicy::TerminateAnyway if cause == Cause::Forced => {
                jiff::SignedDuration::ZERO
            }
            _ => self.intent.drain_timeout,
        };
        self.counts.remove(&self.members[index]);
        removal::begin_removal(&mut self.members[index], cause, timeout, builder);
        self.counts.add(&self.members[index]);
    }

    /// Whether a machine may be made now. If not, and time alone clears it, that wakes the group.
    pub(super) fn can_create(&self, builder: &mut DecisionBuilder) -> Result<(), Reason> {
        if let Some(until) = self.group.retry_at.filter(|until| *until > builder.now) {
            builder.wake_at(until);
            let failing = self.create_failing(builder).or_else(|| self.dying_young(builder));
            let (failures, until) = (self.group.failures, Some(until));
            let unsaid = || Reason::CreateFailing { failures, error: None, until };
            return Err(failing.unwrap_or_else(unsaid));
        }
        let tried = self.group.reserved.len();
        let starting = self.counts.starting;
        if self.group.failures >= CIRCUIT_BREAKER_FAILURES && (tried > 0 || starting > 0) {
            return Err(Reason::Starting { machines: starting.max(1) });
        }
        if let Some(reserved) = self.group.reserved.first().filter(|_| self.creates_one_at_a_time())
        {
            return Err(Reason::Trial { machine: reserved.name.clone(), until: None });
        }
        if let Some(reason) = self.on_trial(builder) {
            return Err(reason);
        }
        if tried >= MAX_RESERVED {
            return Err(Reason::Starting { machines: starting });
        }
        Ok(())
    }

    /// Reserves a name for a machine that was never there.
    pub(super) fn reserve(
        &mut self,
        replaces: Option<String>,
        builder: &mut DecisionBuilder,
    ) -> String {
        let name = loop {
            let name = naming::machine_name(&self.intent.name, &self.intent.uid, self.group.serial);
            self.group.serial = self.group.serial.wrapping_add(1);
            let taken = self.group.reserved.iter().any(|reserved| reserved.name == name);
            if !taken && self.find(&name).is_none() {
                break name;
            }
        };
        self.group.reserved.push(Reservation { name: name.clone(), replaces });
        self.counts.staying = self.counts.staying.saturating_add(1);
        builder.wake_now();
        name
    }

    /// Gives a machine a replacement, in a rotation that it has or that begins.
    pub(super) fn replace(&mut self, index: usize, cause: Cause, builder: &mut DecisionBuilder) {
        let machine = self.members[index].name().to_owned();
        let name = self.reserve(Some(machine.clone()), builder);
        if self.members[index].state.rotation.is_none() {
            self.record_start(cause, builder.now);
            builder.add_reason(Reason::Begins { machine, cause });
        }
        let member = &mut self.members[index];
        self.counts.remove(member);
        let mut rotation = match member.state.rotation.take() {
            Some(rotation) => rotation,
            None => removal::new_rotation(member, cause, builder),
        };
        rotation.replacement = Some(name);
        rotation.phase = RotationPhase::Reserved;
        rotation.tier = rotation.tier.max(cause::tier(cause));
        member.state.rotation = Some(rotation);
        self.counts.add(member);
    }

    /// Remembers a start for budgets per span.
    fn record_start(&mut self, cause: Cause, now: Timestamp) {
        let Some(longest) = self.intent.budgets.iter().filter_map(|budget| budget.per).max() else {
            return;
        };
        let since = saturating_sub(now, longest);
        self.group.started.retain(|started| started.at > since);
        if self.group.started.len() >= MAX_REMEMBERED_STARTS {
            self.group.started.remove(0);
        }
        self.group.started.push(RotationStart { at: ceil_second(now), cause });
    }

    /// Changes what is remembered of a machine, and the count with it.
    pub(super) fn update(&mut self, index: usize, change: impl FnOnce(&mut Member<'a>)) {
        self.counts.remove(&self.members[index]);
        change(&mut self.members[index]);
        self.counts.add(&self.members[index]);
    }

    /// Gives up a reservation.
    pub(super) fn drop_reservation(&mut self, position: usize) {
        self.group.reserved.remove(position);
        self.recorded -= usize::from(position < self.recorded);
        self.counts.staying = self.counts.staying.saturating_sub(1);
    }

    /// A machine could not be made, did not come up, or did not live. Several at once count once.
    pub(super) fn record_failure(&mut self, error: Option<String>, now: Timestamp) {
        if error.is_some() {
            self.group.error = error;
        }
        if self.group.retry_at.is_some_and(|until| until > now) {
            return;
        }
        self.group.failures = self.group.failures.saturating_add(1);
        let wait = spread::backoff(&self.intent.uid, self.group.failures);
        self.group.retry_at = Some(ceil_second(saturating_add(now, wait)));
    }

    /// A machine is ready for the first time: failures are cleared, unless machines die young,
    /// where that alone says little.
    pub(super) fn record_success(&mut self) {
        self.group.error = None;
        if self.group.young_deaths.is_none() {
            self.clear_failures();
        }
    }

    pub(super) fn clear_failures(&mut self) {
        self.group.failures = 0;
        self.group.error = None;
        self.group.retry_at = None;
    }
}
