//! Values derived from hashes, so that they differ between objects and are reproducible: jitter and
//! back-off.

use jiff::SignedDuration;

use crate::moment::times;

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(5);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(2);
/// After so many failures it does not grow any more.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

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

/// Somewhere between nothing and `span`.
pub fn jitter(span: SignedDuration, key: &str) -> SignedDuration {
    let millis = u64::try_from(span.as_millis()).unwrap_or_default();
    let offset = if millis == 0 { 0 } else { hash(&[key, "jitter"]) % millis };
    SignedDuration::from_millis(i64::try_from(offset).unwrap_or_default())
}

/// How long to wait after so many failures in a row: five seconds, doubling to two minutes, and up
/// to a quarter more.
pub fn backoff(key: &str, failures: u32) -> SignedDuration {
    let doubled = 1_u32 << failures.saturating_sub(1).min(MAX_BACKOFF_DOUBLINGS);
    let span = times(MIN_BACKOFF, doubled).min(MAX_BACKOFF);
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
    fn jitter_stays_within() {
        let hour = SignedDuration::from_hours(1);
        let offsets: BTreeSet<_> = (0..50).map(|key| jitter(hour, &key.to_string())).collect();
        assert!(offsets.len() > 40);
        assert!(offsets.iter().all(|offset| *offset < hour && !offset.is_negative()));
        assert_eq!(jitter(SignedDuration::ZERO, "u1"), SignedDuration::ZERO);
        assert_eq!(jitter(SignedDuration::MIN, "u1"), SignedDuration::ZERO);
    }
}
