//! What servers are called: their collection's name and an end that differs for each.

use crate::spread::hash;

/// What the ends of names are made of: no vowels, so that no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// So many names are tried before one is taken that is known to be somebody's: whoever makes the server is refused then,
/// and tries again later.
const MAX_ATTEMPTS: usize = 32;

/// A name that follows from what is told. Whether somebody has it is found out by whoever makes the server.
pub fn server_name(collection: &str, uid: &str, version: &str, serial: u64) -> String {
    let mut number = hash(&[uid, version, &serial.to_string()]);
    let mut name = format!("{collection}-");
    for _ in 0..SUFFIX {
        let length = ALPHABET.len() as u64;
        let index = usize::try_from(number % length).unwrap_or(0);
        name.push(char::from(ALPHABET[index]));
        number /= length;
    }
    name
}

/// The first of these names that nobody is known to have. Of ten thousand servers some few would be refused otherwise.
pub fn unused_server_name(
    (collection, uid, version): (&str, &str, &str),
    mut serial: impl FnMut() -> u64,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let mut name = server_name(collection, uid, version, serial());
    for _ in 1..MAX_ATTEMPTS {
        if !is_taken(&name) {
            break;
        }
        name = server_name(collection, uid, version, serial());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_from_what_is_told_and_hardly_meet() {
        assert_eq!(server_name("a", "u", "7", 1), server_name("a", "u", "7", 1));
        let names: BTreeSet<String> = (0..1_000).map(|n| server_name("a", "u", "7", n)).collect();
        assert!(names.len() > 995, "{}", names.len());
        assert!(names.iter().all(|name| name.len() == "a-".len() + SUFFIX));
    }
    #[test]
    fn a_name_that_somebody_has_is_not_taken() {
        let of = ("a", "u", "7");
        let name = |serial| server_name("a", "u", "7", serial);
        let mut serials = 0..;
        let mut serial = || serials.next().unwrap_or_default();
        assert_eq!(unused_server_name(of, &mut serial, |_| false), name(0));
        let taken = [name(1), name(2)];
        let is_taken = |one: &str| taken.iter().any(|known| known == one);
        assert_eq!(unused_server_name(of, &mut serial, is_taken), name(3));
        assert_eq!(
            unused_server_name(of, &mut serial, |_| false),
            name(4),
            "none is asked for in vain"
        );
        let last = name(4 + u64::try_from(MAX_ATTEMPTS).expect("few"));
        assert_eq!(unused_server_name(of, &mut serial, |_| true), last, "it comes to an end");
    }
}
