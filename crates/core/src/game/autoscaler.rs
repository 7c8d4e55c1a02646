//! How many members a collection should have. Each term proposes a number, and the highest one counts; what a term
//! cannot tell keeps the collection from shrinking, and nothing more.

mod stabilization;
mod term;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use super::census::CollectionHealth;
use super::server::PodState;
use crate::decision::Wake;

pub use self::stabilization::Recommendation;
use self::stabilization::stabilize;
use self::term::Proposal;
pub use self::term::{Buffer, ClassicTerm, ScalingTerm, TermError, WebhookAnswer};

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoscalerIntent {
    pub enabled: bool,
    pub min: u32,
    pub max: u32,
    /// The rule of the percentages, if there is one.
    pub classic: Option<ClassicTerm>,
    pub terms: Vec<ScalingTerm>,
    /// Only what was proposed for so long is done.
    pub up_window: SignedDuration,
    pub down_window: SignedDuration,
}

/// What was seen of a collection. What is marked for deletion is in none of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoscalerObserved<'a> {
    /// What the collection is to have now.
    pub replicas: u32,
    /// Members that are there, failed ones too.
    pub members: u32,
    /// Members that are somebody's: with players, granted, reserved or allocated.
    pub occupied: u32,
    pub players: u64,
    /// Seats of one server; nothing, if nobody has said how many it has.
    pub max_players: Option<u32>,
    /// Seats of available members that nobody has.
    pub free_seats: u64,
    /// Servers that requests wait for.
    pub waiting: u32,
    pub health: CollectionHealth,
    pub pod_state: Option<PodState>,
    /// What each counter has left and holds, by its name.
    pub counters: &'a [ObservedCounter<'a>],
    /// What the webhook said last.
    pub webhook: WebhookAnswer,
}

/// The sum of a counter over the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedCounter<'a> {
    pub name: &'a str,
    pub count: i64,
    pub capacity: i64,
}

/// What the autoscaler remembers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AutoscalerState {
    pub last_scale_time: Option<Timestamp>,
    pub last_decision: Option<LastDecision>,
    /// What was proposed within the windows, oldest first.
    pub recommendations: Vec<Recommendation>,
}

/// The last change, and what it was for.
#[derive(Debug, Clone, PartialEq)]
pub struct LastDecision {
    pub from: u32,
    pub to: u32,
    /// Which term wanted it.
    pub term: String,
    pub inputs: String,
    pub reason: String,
}

/// What the autoscaler wants.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoscalerDecision {
    pub next: AutoscalerState,
    /// To be written to the scale subresource.
    pub replicas: Option<u32>,
    pub wake: Wake,
    pub why: String,
}

/// How many members there should be now.
pub fn autoscale(
    mut state: AutoscalerState,
    intent: &AutoscalerIntent,
    seen: &AutoscalerObserved<'_>,
    now: Timestamp,
) -> AutoscalerDecision {
    let rest = |next: AutoscalerState, wake: Wake, why: &str| AutoscalerDecision {
        next,
        replicas: None,
        wake,
        why: why.to_owned(),
    };
    if !intent.enabled {
        return rest(state, Wake::OnChange, "it is switched off");
    }
    if matches!(seen.health, CollectionHealth::Failed | CollectionHealth::NeedsIntervention) {
        return rest(state, Wake::OnChange, "members have failed");
    }
    let mut wake = Wake::OnChange;
    let mut best: Option<Proposal> = None;
    let mut unknown: Option<&'static str> = None;
    let classic = intent.classic.iter().map(|term| term.propose(seen, state.last_scale_time, now));
    let terms = intent.terms.iter().map(|term| term.propose(seen, now));
    for (proposed, again) in classic.chain(terms) {
        wake = wake.min(again);
        match proposed {
            Ok(Some(proposal)) => {
                if best.as_ref().is_none_or(|known| proposal.replicas > known.replicas) {
                    best = Some(proposal);
                }
            }
            Ok(None) => {}
            Err(TermError { term }) => unknown = Some(term),
        }
    }
    // Without a proposal the bounds hold all the same.
    let proposal = best.unwrap_or_else(|| Proposal {
        term: "bounds",
        replicas: seen.replicas,
        inputs: String::new(),
    });
    let mut wanted = proposal.replicas.clamp(intent.min, intent.max.max(intent.min));
    if unknown.is_some() && wanted < seen.replicas {
        wanted = seen.replicas.clamp(intent.min, intent.max.max(intent.min));
    }
    let windows = (intent.up_window, intent.down_window);
    let (settled, again) =
        stabilize(&mut state.recommendations, wanted, seen.replicas, windows, now);
    wake = wake.min(again);
    if settled == seen.replicas {
        let why = match unknown {
            Some(term) => format!("{term} cannot tell, so nothing is taken away"),
            None => format!("{} wants {}", proposal.term, proposal.replicas),
        };
        return rest(state, wake, &why);
    }
    let reason = format!(
        "{} wants {}; from {} to {} are allowed",
        proposal.term, proposal.replicas, intent.min, intent.max
    );
    state.last_scale_time = Some(now);
    state.last_decision = Some(LastDecision {
        from: seen.replicas,
        to: settled,
        term: proposal.term.to_owned(),
        inputs: proposal.inputs,
        reason: reason.clone(),
    });
    AutoscalerDecision { next: state, replicas: Some(settled), wake, why: reason }
}
