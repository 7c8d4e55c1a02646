//! The terms: each proposes how many members there should be, or abstains.

use jiff::{SignedDuration, Timestamp};

use super::super::census::CollectionHealth;
use super::super::server::PodState;
use super::AutoscalerObserved;
use crate::decision::Wake;
use crate::moment::saturating_add;
use crate::schedule::{Window, WindowState};

/// How much is to be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    Count(u32),
    /// Of all members; less than a hundred.
    Percent(u8),
}

/// A term beside the classic one.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalingTerm {
    /// So many members that are nobody's.
    ReadyBuffer(Buffer),
    /// So many seats that nobody has.
    FreeSeats(u32),
    /// At least so many while a window is open.
    Schedule { window: Window, replicas: u32 },
    /// One for each that a request waits for.
    PendingDemand,
    /// So much of a counter that is left.
    Counter { name: String, free: u32 },
    /// What somebody else says.
    Webhook,
}

/// The rule of the percentages: one more above, one less below, and then a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassicTerm {
    pub scale_in_percent: u8,
    pub scale_out_percent: u8,
    pub cool_down: SignedDuration,
}

/// What a webhook said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookAnswer {
    /// Nobody was asked yet, or the answer could not be read.
    #[default]
    Unknown,
    Replicas(u32),
    /// It leaves it to the other terms.
    Abstains,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) term: &'static str,
    pub(super) replicas: u32,
    pub(super) inputs: String,
}

/// A term that cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermError {
    pub term: &'static str,
}

type Proposed = (Result<Option<Proposal>, TermError>, Wake);

impl ScalingTerm {
    pub(super) fn propose(&self, seen: &AutoscalerObserved<'_>, now: Timestamp) -> Proposed {
        let proposal = |term, replicas: u64, inputs| {
            let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
            Ok(Some(Proposal { term, replicas, inputs }))
        };
        let occupied = u64::from(seen.occupied);
        match self {
            Self::ReadyBuffer(Buffer::Count(count)) => {
                let inputs = format!("{occupied} occupied, {count} to be free");
                (proposal("readyBuffer", occupied + u64::from(*count), inputs), Wake::OnChange)
            }
            Self::ReadyBuffer(Buffer::Percent(percent)) => {
                let percent = u64::from(*percent).min(99);
                let wanted = (occupied * 100).div_ceil(100 - percent);
                let inputs = format!("{occupied} occupied, {percent} % to be free");
                (proposal("readyBuffer", wanted, inputs), Wake::OnChange)
            }
            Self::FreeSeats(seats) => {
                let Some(per_server) = seen.max_players else {
                    return (Err(TermError { term: "freeSeats" }), Wake::OnChange);
                };
                let inputs = format!("{} seats free of {seats} wanted", seen.free_seats);
                let (seats, per_server) = (u64::from(*seats), u64::from(per_server));
                let wanted = sized(seen.members, seen.free_seats, seats, per_server);
                (proposal("freeSeats", wanted, inputs), Wake::OnChange)
            }
            Self::Schedule { window, replicas } => match window.at(now) {
                WindowState::Open { until } => {
                    let inputs = format!("open until {until}");
                    (proposal("schedule", u64::from(*replicas), inputs), Wake::At(until))
                }
                WindowState::Closed { until } => (Ok(None), until.map_or(Wake::OnChange, Wake::At)),
            },
            Self::PendingDemand => {
                let inputs = format!("{occupied} occupied, {} wanted", seen.waiting);
                let wanted = occupied + u64::from(seen.waiting);
                (proposal("pendingDemand", wanted, inputs), Wake::OnChange)
            }
            Self::Counter { name, free } => {
                let known = seen.counters.iter().find(|counter| counter.name == name);
                let Some(counter) = known.filter(|_| seen.members > 0) else {
                    return (Ok(None), Wake::OnChange);
                };
                let left = u64::try_from(counter.capacity - counter.count).unwrap_or(0);
                let capacity = u64::try_from(counter.capacity).unwrap_or(0);
                let per_server = capacity / u64::from(seen.members);
                if per_server == 0 {
                    return (Err(TermError { term: "counter" }), Wake::OnChange);
                }
                let inputs = format!("{name}: {left} of {capacity} left, {free} wanted");
                let wanted = sized(seen.members, left, u64::from(*free), per_server);
                (proposal("counter", wanted, inputs), Wake::OnChange)
            }
            Self::Webhook => match seen.webhook {
                WebhookAnswer::Unknown => (Err(TermError { term: "webhook" }), Wake::OnChange),
                WebhookAnswer::Abstains => (Ok(None), Wake::OnChange),
                WebhookAnswer::Replicas(replicas) => {
                    (proposal("webhook", u64::from(replicas), String::new()), Wake::OnChange)
                }
            },
        }
    }
}

/// So many members that `wanted` of something are free, of which each brings `per_server`.
fn sized(members: u32, free: u64, wanted: u64, per_server: u64) -> u64 {
    let members = u64::from(members);
    let per_server = per_server.max(1);
    match free.checked_sub(wanted) {
        Some(spare) => members.saturating_sub(spare / per_server),
        None => members + (wanted - free).div_ceil(per_server),
    }
}

impl ClassicTerm {
    const NAME: &'static str = "classic";

    /// Where it may not act it proposes what there is, so that nothing is taken away for want of it.
    pub(super) fn propose(
        &self,
        seen: &AutoscalerObserved<'_>,
        last: Option<Timestamp>,
        now: Timestamp,
    ) -> Proposed {
        let present = |inputs: String| {
            Ok(Some(Proposal { term: Self::NAME, replicas: seen.replicas, inputs }))
        };
        let Some(max_players) = seen.max_players else {
            return (Err(TermError { term: Self::NAME }), Wake::OnChange);
        };
        let steady = seen.health == CollectionHealth::Healthy
            && seen.pod_state == Some(PodState::Running)
            && seen.members > 0;
        if !steady {
            return (present("not all members are ready".to_owned()), Wake::OnChange);
        }
        // At the end of the rest exactly it still rests.
        let rests_until = last
            .map(|at| saturating_add(at, self.cool_down))
            .map(|end| saturating_add(end, SignedDuration::from_secs(1)));
        if let Some(until) = rests_until.filter(|until| now < *until) {
            return (present(format!("rests until {until}")), Wake::At(until));
        }
        let capacity = u64::from(max_players) * u64::from(seen.members);
        let load = seen.players * 100;
        let inputs = format!("{} players of {capacity}", seen.players);
        let replicas = if load > capacity * u64::from(self.scale_out_percent) {
            seen.replicas.saturating_add(1)
        } else if load < capacity * u64::from(self.scale_in_percent) {
            seen.replicas.saturating_sub(1)
        } else {
            seen.replicas
        };
        (Ok(Some(Proposal { term: Self::NAME, replicas, inputs })), Wake::OnChange)
    }
}
