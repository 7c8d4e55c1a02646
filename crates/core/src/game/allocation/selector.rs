//! Which servers somebody would take.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Candidate;
use crate::game::server::SdkState;

/// What a server must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedState {
    /// Nobody's.
    Ready,
    /// Somebody's, with room for more.
    Allocated,
}

/// So much of a counter must be left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterFilter {
    pub name: String,
    pub min_available: i64,
}

/// All of it must hold; what is left out always does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    pub labels: BTreeMap<String, String>,
    pub state: Option<WantedState>,
    pub counters: Vec<CounterFilter>,
    /// So many seats must be free.
    pub free_seats: Option<u32>,
    pub name: Option<String>,
}

impl Selector {
    pub(super) fn matches(&self, candidate: &Candidate, now: Timestamp) -> bool {
        let labels = &candidate.labels;
        let counted = |filter: &CounterFilter| {
            let known = candidate.counters.get(&filter.name);
            known.is_some_and(|(count, capacity)| capacity - count >= filter.min_available)
        };
        self.name.as_deref().is_none_or(|name| candidate.server.name == name)
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.state.is_none_or(|state| state == state_of(candidate))
            && self.counters.iter().all(counted)
            && self.free_seats.is_none_or(|seats| {
                candidate.server.free_seats(candidate.max_players, now) >= seats
            })
    }
}

fn state_of(candidate: &Candidate) -> WantedState {
    let server = &candidate.server;
    let taken = server.sdk_state == Some(SdkState::Allocated)
        || !server.grants.is_empty()
        || server.active_players.unwrap_or(0) > 0;
    if taken { WantedState::Allocated } else { WantedState::Ready }
}
