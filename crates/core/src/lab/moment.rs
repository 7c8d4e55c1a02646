//! Arithmetic on times that neither overflows nor promises fractions of a second.
//!
//! The API keeps whole seconds. A time that is remembered is therefore one, rounded so that nothing
//! ever comes early: what has passed counts from the next whole second, and now is the last one.

use jiff::{SignedDuration, Timestamp};

/// The last whole second.
pub(super) fn down(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The next whole second, unless it is one.
pub(super) fn up(at: Timestamp) -> Timestamp {
    if at.subsec_nanosecond() <= 0 {
        return down(at);
    }
    at.as_second().checked_add(1).and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(at)
}

/// `span` after `at`; as late as there is a time, if that is too late to say.
pub(super) fn later(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(if span.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// `span`, so many times.
pub(super) fn times(span: SignedDuration, count: u32) -> SignedDuration {
    span.saturating_mul(i32::try_from(count).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn whole_seconds() {
        assert_eq!(up(at("2026-01-01T00:00:00.001Z")), at("2026-01-01T00:00:01Z"));
        assert_eq!(up(at("2026-01-01T00:00:00Z")), at("2026-01-01T00:00:00Z"));
        assert_eq!(down(at("2026-01-01T00:00:00.999Z")), at("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        assert_eq!(later(Timestamp::MAX, SignedDuration::MAX), Timestamp::MAX);
        assert_eq!(later(Timestamp::MIN, SignedDuration::MIN), Timestamp::MIN);
        assert_eq!(times(SignedDuration::MAX, u32::MAX), SignedDuration::MAX);
        let _ = (up(Timestamp::MAX), down(Timestamp::MIN), up(Timestamp::MIN));
    }
}
