//! Values derived from hashes, so that they differ between machines and are reproducible: names,
//! ids, jitter, back-off.

use jiff::{SignedDuration, Timestamp};

use crate::moment::times;

/// No vowels and nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_LETTERS: u32 = 5;
const NAME_COUNT: u64 = 27_u64.pow(NAME_LETTERS);
/// Not a multiple of three, so that serials come to different names until all are used.
const STRIDE: u64 = 5_394_827;

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(5);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(2);
/// After so many failures it does not grow any more.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

/// A number that has nothing to do with any other text's.
fn hash(parts: &[&str]) -> u64 {
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

/// The name of a group's machine number `serial`.
pub(super) fn machine_name(group: &str, uid: &str, serial: u64) -> String {
    let start = hash(&[uid]) % NAME_COUNT;
    let mut rest = ((serial % NAME_COUNT) * STRIDE + start) % NAME_COUNT;
    let mut name = format!("{group}-");
    for _ in 0..NAME_LETTERS {
        let letter = usize::try_from(rest % 27).unwrap_or_default();
        name.push(char::from(ALPHABET[letter]));
        rest /= 27;
    }
    name
}

/// The id of a rotation that begins now.
pub(super) fn rotation_id(uid: &str, now: Timestamp) -> String {
    format!("{:016x}", hash(&[uid, &now.as_nanosecond().to_string()]))
}

/// Somewhere between nothing and `span`.
pub(super) fn jitter(span: SignedDuration, key: &str) -> SignedDuration {
    let millis = u64::try_from(span.as_millis()).unwrap_or_default();
    let offset = if millis == 0 { 0 } else { hash(&[key, "jitter"]) % millis };
    SignedDuration::from_millis(i64::try_from(offset).unwrap_or_default())
}

/// How long to wait after so many failures in a row: five seconds, doubling to two minutes, and up
/// to a quarter more.
pub(super) fn backoff(key: &str, failures: u32) -> SignedDuration {
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

    #[test]
    fn names_differ_until_all_are_used() {
        let names: BTreeSet<String> =
            (0..20_000).map(|serial| machine_name("web", "u1", serial)).collect();
        assert_eq!(names.len(), 20_000);
        assert!(names.iter().all(|name| name.len() == "web-".len() + 5));
        assert_ne!(machine_name("web", "u1", 1), machine_name("web", "u2", 1));
        assert_eq!(machine_name("web", "u1", NAME_COUNT), machine_name("web", "u1", 0));
    }

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
