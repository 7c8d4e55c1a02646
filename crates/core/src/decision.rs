//! What every decision looks like.

use jiff::Timestamp;

/// What a family's `decide` returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<S, E, R> {
    /// The new state, whole.
    pub next: S,
    /// What to do, in order. Each is complete in itself: whoever carries it out chooses nothing.
    pub effects: Vec<E>,
    pub wake: Wake,
    /// Why. Having nothing to do has a reason, too.
    pub why: Vec<R>,
}

/// When to look again, if nothing changes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    At(Timestamp),
    OnChange,
}

impl Wake {
    /// The earlier of the two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a.min(b)),
            (Self::At(at), Self::OnChange) | (Self::OnChange, Self::At(at)) => Self::At(at),
            (Self::OnChange, Self::OnChange) => Self::OnChange,
        }
    }

    /// Brings the wake forward to `at`.
    pub fn by(&mut self, at: Timestamp) {
        *self = self.min(Self::At(at));
    }

    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::OnChange => None,
        }
    }
}
