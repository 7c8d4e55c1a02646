//! When things that happen to many objects happen: jitter and back-off. What spreads them is derived from
//! hashes, so it differs between objects and is reproducible.

use jiff::SignedDuration;

use crate::moment::times;

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(5);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(2);
/// More would not fit, and no wait is as long.
const MAX_DOUBLINGS: u32 = 16;

/// A number that has nothing to do with any other text's.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// One of `places`, by what something is called: many things are spread over all of them.
pub fn spread_over(places: usize, parts: &[&str]) -> usize {
    let places = u64::try_from(places.max(1)).unwrap_or(u64::MAX);
    usize::try_from(hash(parts) % places).unwrap_or_default()
}

/// Somewhere between nothing and `span`.
pub fn jitter(span: SignedDuration, key: &str) -> SignedDuration {
    let millis = u64::try_from(span.as_millis()).unwrap_or_default();
    let offset = if millis == 0 { 0 } else { hash(&[key, "jitter"]) % millis };
    SignedDuration::from_millis(i64::try_from(offset).unwrap_or_default())
}

/// How long to wait after so many failures in a row: `min` after the first, twice as long after each
/// further one, `max` at most.
pub fn doubling(failures: u32, min: SignedDuration, max: SignedDuration) -> SignedDuration {
    times(min, 1 << failures.saturating_sub(1).min(MAX_DOUBLINGS)).min(max)
}

/// How long to wait after so many failures in a row: five seconds, doubling to two minutes, and up
/// to a quarter more.
pub fn backoff(key: &str, failures: u32) -> SignedDuration {
    let span = doubling(failures, MIN_BACKOFF, MAX_BACKOFF);
    let millis = i64::try_from(hash(&[key, &failures.to_string()]) % 256).unwrap_or_default();
    span + SignedDuration::from_millis(
        i64::try_from(span.as_millis() / 4).unwrap_or_default() * millis / 256,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // case: group 69
    #[test]
    fn back_off_doubles_from_five_seconds_to_two_minutes_and_a_quarter_more_at_most() {
        for (failures, seconds) in [
            (0, 5),
            (1, 5),
            (2, 10),
            (3, 20),
            (4, 40),
            (5, 80),
            (6, 120),
            (7, 120),
            (u32::MAX, 120),
        ] {
            let wait = backoff("u1", failures);
            let min = SignedDuration::from_secs(seconds);
            assert!(wait >= min && wait <= min + min / 4, "{failures}: {wait}");
        }
        assert_ne!(backoff("u1", 3), backoff("u2", 3));
    }

    #[test]
    fn a_wait_doubles_and_ends_at_its_maximum_however_often_it_failed() {
        let (second, day) = (SignedDuration::from_secs(1), SignedDuration::from_hours(24));
        for (failures, seconds) in [(0, 1), (1, 1), (2, 2), (3, 4), (17, 65_536), (18, 65_536)] {
            assert_eq!(doubling(failures, second, day).as_secs(), seconds, "{failures}");
        }
        assert_eq!(doubling(u32::MAX, second, second * 30), second * 30);
    }

    #[test]
    fn jitter_stays_within() {
        let hour = SignedDuration::from_hours(1);
        let offsets: BTreeSet<_> = (0..50).map(|key| jitter(hour, &key.to_string())).collect();
        assert!(offsets.len() > 40);
        assert!(offsets.iter().all(|offset| *offset < hour && !offset.is_negative()));
        assert_eq!(jitter(SignedDuration::ZERO, "u1"), SignedDuration::ZERO);
        assert_eq!(jitter(SignedDuration::MIN, "u1"), SignedDuration::ZERO);
    }
}
