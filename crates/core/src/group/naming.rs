//! The names of machines and the ids of rotations.

use jiff::Timestamp;

use crate::spread::hash;

/// No vowels and nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_LETTERS: u32 = 5;
const NAME_COUNT: u64 = 27_u64.pow(NAME_LETTERS);
/// Not a multiple of three, so that serials come to different names until all are used.
const STRIDE: u64 = 5_394_827;

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
}
