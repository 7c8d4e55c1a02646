//! Times that come back at the same distance, each object at its own: what happens then needs no memory of when
//! it happened last, and so no write.

use jiff::{SignedDuration, Timestamp};

use crate::spread::jitter;

/// Nothing comes back sooner.
const MIN_INTERVAL_MILLIS: i64 = 1_000;

fn interval_millis(interval: SignedDuration) -> i64 {
    i64::try_from(interval.as_millis())
        .unwrap_or(i64::MAX / 4)
        .clamp(MIN_INTERVAL_MILLIS, i64::MAX / 4)
}

fn offset_millis(interval: i64, key: &str) -> i64 {
    let jitter = jitter(SignedDuration::from_millis(interval), key);
    i64::try_from(jitter.as_millis()).unwrap_or_default()
}

/// The first such time after `now`.
pub fn next_tick(interval: SignedDuration, key: &str, now: Timestamp) -> Timestamp {
    let interval = interval_millis(interval);
    let since = now.as_millisecond().saturating_sub(offset_millis(interval, key));
    let next = since.saturating_add(interval - since.rem_euclid(interval));
    let next = next.saturating_add(offset_millis(interval, key));
    Timestamp::from_millisecond(next).unwrap_or(Timestamp::MAX)
}

/// Whether such a time came after `last`, and until `now`.
pub fn ticked(interval: SignedDuration, key: &str, last: Timestamp, now: Timestamp) -> bool {
    next_tick(interval, key, last) <= now
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_come_at_the_same_distance_and_differ_between_objects() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let interval = SignedDuration::from_mins(10);
        let first = next_tick(interval, "u1", now);
        assert!(first > now && first <= now + interval);
        assert_eq!(next_tick(interval, "u1", first), first + interval);
        assert_ne!(next_tick(interval, "u2", now), first);
        assert!(ticked(interval, "u1", now, first));
        assert!(!ticked(interval, "u1", first, first));
    }

    proptest! {
        #[test]
        fn a_tick_is_always_later(
            second in -377_705_023_201_i64..253_402_207_000,
            interval in prop_oneof![Just(SignedDuration::MIN), Just(SignedDuration::ZERO),
                Just(SignedDuration::MAX), (1_i64..1_000_000).prop_map(SignedDuration::from_secs)],
        ) {
            let now = Timestamp::from_second(second).unwrap();
            prop_assert!(next_tick(interval, "u1", now) > now);
        }
    }
}
