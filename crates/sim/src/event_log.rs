//! What happened in a simulation, in words, and which invariants it violated.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sojourn_core::key::Key;
use sojourn_operator::clock::{Clock, VirtualClock};

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant in its family's list.
    pub invariant: &'static str,
    pub at: Timestamp,
    /// The object of which it did not hold; empty, if it is about no object.
    pub key: Key,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, at, key, message } = self;
        write!(f, "{at} {invariant} {key}: {message}")
    }
}

/// Everything that happened, as the simulation and not the operator tells it.
#[derive(Debug)]
pub struct EventLog {
    clock: Arc<VirtualClock>,
    entries: Vec<(Timestamp, String)>,
    violations: Vec<Violation>,
}

impl EventLog {
    pub const fn new(clock: Arc<VirtualClock>) -> Self {
        Self { clock, entries: Vec::new(), violations: Vec::new() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn note(&mut self, message: impl Into<String>) {
        self.entries.push((self.now(), message.into()));
    }

    pub fn violated(&mut self, invariant: &'static str, key: &Key, message: String) {
        self.note(format!("VIOLATED {invariant} {key}: {message}"));
        let at = self.now();
        self.violations.push(Violation { invariant, at, key: key.clone(), message });
    }

    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What happened, in order of time. Entries of one instant are sorted by their words, because the
    /// order of independent tasks within an instant is not drawn from the seed.
    pub fn lines(&self) -> Vec<String> {
        let mut entries = self.entries.clone();
        entries.sort();
        entries.into_iter().map(|(at, message)| format!("{at} {message}")).collect()
    }

    /// How many entries contain these words.
    pub fn count(&self, words: &str) -> usize {
        self.entries.iter().filter(|(_, message)| message.contains(words)).count()
    }
}

/// Declares the invariants of a family, so that each has the name by which violations are reported.
macro_rules! invariants {
    ($(#[$enum_doc:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$enum_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// The name by which a violation is reported.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }
        }
    };
}
pub(crate) use invariants;
