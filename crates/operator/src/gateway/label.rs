//! The name of an environment's origin: one DNS label, below `localhost` or `gateway.domain`.
//!
//! It holds the environment, the instance, and a hash over namespace, name and uid. An instance that
//! is made again has another uid and so another origin: what its predecessor left in browsers
//! (service workers, storage, cookies) is not its own.

use ring::digest::{Context, SHA256};
use sojourn_core::key::Key;

/// The longest label of a DNS name.
const MAX_LABEL_BYTES: usize = 63;
/// As many as the longest names of an environment (20) and an instance (32) leave room for. Uids
/// are random, so nobody can look for one with somebody else's hash; and names are in the label, too.
const HASH_CHARS: usize = 9;
const BASE_32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The label of an environment of the instance with this uid.
pub(crate) fn label(key: &Key, uid: &str, environment: &str) -> String {
    let mut label = format!("{environment}-{}", key.name.replace('.', "-"));
    // The prefix `xn--` marks an internationalized (punycode) label.
    if label.starts_with("xn--") {
        label.insert_str(0, "e-");
    }
    label.truncate(MAX_LABEL_BYTES - HASH_CHARS - 1);
    format!("{label}-{}", hash(key, uid))
}

/// The part of a label by which its instance is found.
pub(crate) fn hash_of(label: &str) -> Option<&str> {
    label.rsplit_once('-').map(|(_, hash)| hash)
}

/// The same for all environments of one instance.
pub(crate) fn hash(key: &Key, uid: &str) -> String {
    let mut context = Context::new(&SHA256);
    for part in [&*key.namespace, &*key.name, uid] {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let bits =
        digest.as_ref().iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let letter = |at: usize| {
        let five = usize::try_from(bits >> (59 - 5 * at) & 31).unwrap_or_default();
        char::from(BASE_32[five])
    };
    (0..HASH_CHARS).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_dns_label(text: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.starts_with("xn--")
    }

    #[test]
    fn a_label_holds_environment_instance_and_a_hash() {
        let key = Key::new("course", "ada");
        let one = label(&key, "u-1", "web");
        assert!(one.starts_with("web-ada-") && one.len() == 17, "{one}");
        assert_eq!(hash_of(&one), Some(hash(&key, "u-1").as_str()));
        assert_eq!(label(&key, "u-1", "web"), one, "it stays");
    }

    #[test]
    fn every_label_is_one_of_dns() {
        let longest = Key::new("n".repeat(63), "i".repeat(32));
        let full = label(&longest, "0a2c7a36-12f5-4a9e-9c3b-2f6b2f0f7a11", &"e".repeat(20));
        assert_eq!(full.len(), 63);
        assert!(full.starts_with(&format!("{}-{}-", "e".repeat(20), "i".repeat(32))), "{full}");
        for (instance, environment) in [
            ("a", "b"),
            ("a.b", "c"),
            ("a", "xn--b"),
            (&"i".repeat(32), &format!("xn--{}", "e".repeat(16))),
            (&"i".repeat(253), "web"),
            ("a--b", "c--d"),
        ] {
            let label = label(&Key::new("ns", instance), "u", environment);
            assert!(is_dns_label(&label), "{label}");
        }
    }

    #[test]
    fn no_two_environments_share_a_label() {
        let of = |namespace: &str, name: &str, uid: &str, environment: &str| {
            label(&Key::new(namespace, name), uid, environment)
        };
        let all = [
            of("ns", "ada", "u-1", "web"),
            of("ns", "ada", "u-2", "web"),
            of("ns2", "ada", "u-1", "web"),
            of("ns", "bob", "u-1", "web"),
            of("ns", "ada", "u-1", "db"),
            of("ns", "b-ada", "u-1", "a"),
            of("ns", "ada", "u-1", "a-b"),
            of("n", "sada", "u-1", "web"),
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(one == other, i == j, "{one} {other}");
            }
        }
    }
}
