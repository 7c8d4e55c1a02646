//! Calls of a provider, and what comes of them.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::operation::OperationId;
use crate::moment::saturating_add;
use crate::spread::doubling;

/// A wait that a provider asks for is never longer.
const MAX_RETRY_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// What kind of failure a call came to, as the provider protocol has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// It will not be carried out, however often it is sent.
    Refused,
    Quota,
    Capacity,
    /// Whoever asks is not known, or may not do that.
    Auth,
    Throttled,
    NotFound,
    /// The machine is in a state in which that cannot be done.
    Conflict,
    Transient,
}

impl ErrorClass {
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::Quota,
        Self::Capacity,
        Self::Auth,
        Self::Throttled,
        Self::NotFound,
        Self::Conflict,
        Self::Transient,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "Refused",
            Self::Quota => "Quota",
            Self::Capacity => "Capacity",
            Self::Auth => "Auth",
            Self::Throttled => "Throttled",
            Self::NotFound => "NotFound",
            Self::Conflict => "Conflict",
            Self::Transient => "Transient",
        }
    }

    /// The class of that name, if there is one.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    pub class: ErrorClass,
    pub message: String,
    /// The provider asks not to be called again before.
    pub retry_after: Option<SignedDuration>,
}

impl CallFailure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.as_str(), self.message)
    }
}

/// What came of a call about one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    pub operation: OperationId,
    /// The machine's id.
    pub machine: String,
    pub at: Timestamp,
    pub result: Result<(), CallFailure>,
}

/// How long calls wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After the first failure; twice as long after each further one.
    pub min: SignedDuration,
    pub max: SignedDuration,
    /// After the provider did not accept who we are: that takes a person.
    pub auth: SignedDuration,
    /// After a call that was accepted, and before it is made again because nothing moved.
    pub accepted: SignedDuration,
}

impl RetryPolicy {
    /// When to call again after so many failures in a row.
    pub fn after_failure(&self, failure: &CallFailure, failures: u32, at: Timestamp) -> Timestamp {
        let doubled = doubling(failures, self.min, self.max);
        let wait = match failure.class {
            ErrorClass::Auth => self.auth,
            ErrorClass::Refused
            | ErrorClass::Quota
            | ErrorClass::Capacity
            | ErrorClass::Throttled
            | ErrorClass::NotFound
            | ErrorClass::Conflict
            | ErrorClass::Transient => doubled,
        };
        let asked = failure.retry_after.map_or(SignedDuration::ZERO, |asked| {
            asked.clamp(SignedDuration::ZERO, MAX_RETRY_AFTER)
        });
        saturating_add(at, wait.max(asked))
    }

    /// When to call again if the n-th call was accepted and nothing came of it.
    pub fn after_call(&self, attempts: u32, at: Timestamp) -> Timestamp {
        saturating_add(at, doubling(attempts, self.accepted, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        min: SignedDuration::from_secs(10),
        max: SignedDuration::from_mins(5),
        auth: SignedDuration::from_mins(5),
        accepted: SignedDuration::from_mins(1),
    };

    fn wait(failure: &CallFailure, failures: u32) -> i64 {
        let at = Timestamp::UNIX_EPOCH;
        POLICY.after_failure(failure, failures, at).duration_since(at).as_secs()
    }

    #[test]
    fn classes_are_known_by_their_names() {
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::of(class.as_str()), Some(class));
        }
        assert_eq!(ErrorClass::of("refused"), None);
    }

    #[test]
    fn waits_double_and_end_at_five_minutes() {
        let failure = CallFailure::new(ErrorClass::Transient, "503");
        let waits = [1, 2, 3, 4, 5, 6, u32::MAX].map(|failures| wait(&failure, failures));
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        let calls = [1, 2, 3, 4, u32::MAX].map(|attempts| {
            let at = Timestamp::UNIX_EPOCH;
            POLICY.after_call(attempts, at).duration_since(at).as_secs()
        });
        assert_eq!(calls, [60, 120, 240, 300, 300]);
    }

    #[test]
    fn who_is_not_known_is_tried_every_five_minutes() {
        let failure = CallFailure::new(ErrorClass::Auth, "401");
        assert_eq!(wait(&failure, 1), 300);
    }

    #[test]
    fn what_a_provider_asks_for_is_given_within_bounds() {
        let asks = |asked| CallFailure {
            retry_after: Some(asked),
            ..CallFailure::new(ErrorClass::Throttled, "slow down")
        };
        assert_eq!(wait(&asks(SignedDuration::from_secs(45)), 1), 45);
        assert_eq!(wait(&asks(SignedDuration::from_secs(1)), 1), 10);
        assert_eq!(wait(&asks(SignedDuration::MAX), 1), 3600);
        assert_eq!(wait(&asks(SignedDuration::MIN), 1), 10);
    }
}
