//! What servers are called: their collection's name and an end that differs for each.

use crate::spread::hash;

/// What the ends of names are made of: no vowels, so that no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

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
}
