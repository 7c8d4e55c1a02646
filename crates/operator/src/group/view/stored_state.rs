//! The state of a machine, in a compact form while nothing happens to it.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_core::group::state::{Machine, Phase};

/// The state of a machine.
#[derive(Debug)]
pub(super) enum StoredState {
    Compact(CompactState),
    /// It is on its way out, or something went wrong with it.
    Full(Box<Machine>),
}

/// A machine to which nothing happens. Times are whole seconds, as the API keeps them.
#[derive(Debug)]
pub(super) struct CompactState {
    phase: Phase,
    provider_id: Option<Arc<str>>,
    asked_at: Second,
    registered_at: Second,
    served_at: Second,
    ready_at: Second,
}

/// A second, or none.
#[derive(Debug, Clone, Copy)]
struct Second(i64);

impl Second {
    const NONE: i64 = i64::MIN;

    fn of(at: Option<Timestamp>) -> Self {
        Self(at.map_or(Self::NONE, Timestamp::as_second))
    }

    fn time(self) -> Option<Timestamp> {
        (self.0 != Self::NONE).then(|| Timestamp::from_second(self.0).ok()).flatten()
    }
}

impl StoredState {
    pub(super) fn of(state: Machine) -> Self {
        let compact = CompactState {
            phase: state.phase,
            provider_id: state.provider_id.clone(),
            asked_at: Second::of(state.asked_at),
            registered_at: Second::of(state.registered_at),
            served_at: Second::of(state.served_at),
            ready_at: Second::of(state.ready_at),
        };
        if compact.to_state() == state {
            Self::Compact(compact)
        } else {
            Self::Full(Box::new(state))
        }
    }

    pub(super) fn to_state(&self) -> Machine {
        match self {
            Self::Compact(compact) => compact.to_state(),
            Self::Full(state) => (**state).clone(),
        }
    }

    pub(super) fn equals(&self, state: &Machine) -> bool {
        match self {
            Self::Compact(compact) => compact.equals(state),
            Self::Full(own) => **own == *state,
        }
    }

    /// The provider's name for a machine that is ready and has nothing else to remember.
    pub(super) const fn id_if_ready(&self) -> Option<&Arc<str>> {
        match self {
            Self::Compact(CompactState { phase: Phase::Ready, provider_id, .. }) => {
                provider_id.as_ref()
            }
            Self::Compact(_) | Self::Full(_) => None,
        }
    }

    pub(super) fn provider_id(&self) -> Option<&str> {
        match self {
            Self::Compact(compact) => compact.provider_id.as_deref(),
            Self::Full(state) => state.provider_id.as_deref(),
        }
    }
}

impl CompactState {
    /// Compares without building the full state, since thousands are compared at a time.
    fn equals(&self, state: &Machine) -> bool {
        let Machine {
            phase,
            provider_id,
            asked_at,
            registered_at,
            served_at,
            ready_at,
            interrupted_at: None,
            rotation: None,
            warned: None,
            attempts: 0,
            retry_at: None,
            error: None,
        } = state
        else {
            return false;
        };
        let same_id = match (&self.provider_id, provider_id) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other) || own == other,
            (own, other) => own.is_none() && other.is_none(),
        };
        same_id
            && self.phase == *phase
            && self.asked_at.time() == *asked_at
            && self.registered_at.time() == *registered_at
            && self.served_at.time() == *served_at
            && self.ready_at.time() == *ready_at
    }

    fn to_state(&self) -> Machine {
        Machine {
            phase: self.phase,
            provider_id: self.provider_id.clone(),
            asked_at: self.asked_at.time(),
            registered_at: self.registered_at.time(),
            served_at: self.served_at.time(),
            ready_at: self.ready_at.time(),
            ..Machine::default()
        }
    }
}
