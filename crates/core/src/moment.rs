//! Arithmetic on times that neither overflows nor promises fractions of a second.
//!
//! The API keeps whole seconds. A time that is remembered is therefore one, rounded so that nothing
//! ever comes early: what has passed counts from the next whole second, and now is the last one.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The last whole second.
pub fn floor_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The next whole second, unless it is one.
pub fn ceil_second(at: Timestamp) -> Timestamp {
    if at.subsec_nanosecond() <= 0 {
        return floor_second(at);
    }
    at.as_second().checked_add(1).and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(at)
}

/// `span` after `at`; as late as there is a time, if that is too late to say.
pub fn saturating_add(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(if span.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// `span` before `at`.
pub fn saturating_sub(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_sub(span).unwrap_or(if span.is_negative() { Timestamp::MAX } else { Timestamp::MIN })
}

/// `span`, so many times.
pub fn times(span: SignedDuration, count: u32) -> SignedDuration {
    span.saturating_mul(i32::try_from(count).unwrap_or(i32::MAX))
}

/// A time in words: RFC 3339 in UTC, to the second.
#[derive(Debug, Clone, Copy)]
pub struct Utc(pub Timestamp);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a precision jiff writes as many decimals as there are.
        write!(f, "{:.0}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn whole_seconds() {
        assert_eq!(ceil_second(at("2026-01-01T00:00:00.001Z")), at("2026-01-01T00:00:01Z"));
        assert_eq!(ceil_second(at("2026-01-01T00:00:00Z")), at("2026-01-01T00:00:00Z"));
        assert_eq!(floor_second(at("2026-01-01T00:00:00.999Z")), at("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        assert_eq!(saturating_add(Timestamp::MAX, SignedDuration::MAX), Timestamp::MAX);
        assert_eq!(saturating_add(Timestamp::MIN, SignedDuration::MIN), Timestamp::MIN);
        assert_eq!(saturating_sub(Timestamp::MIN, SignedDuration::MAX), Timestamp::MIN);
        assert_eq!(saturating_sub(Timestamp::MAX, SignedDuration::MIN), Timestamp::MAX);
        assert_eq!(times(SignedDuration::MAX, u32::MAX), SignedDuration::MAX);
        let _ = (
            ceil_second(Timestamp::MAX),
            floor_second(Timestamp::MIN),
            ceil_second(Timestamp::MIN),
        );
    }
}
