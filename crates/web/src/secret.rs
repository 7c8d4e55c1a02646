//! Random values that prove something to whoever hands them in.
//!
//! Only digests are kept, and looked up by digest: how long a look-up takes says nothing about a
//! secret, and a dump of memory's maps holds none.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// 256 bits, which nobody guesses.
const RANDOM_BYTES: usize = 32;
/// What those bytes are as text; nothing longer is even hashed.
const TEXT_LENGTH: usize = 43;

/// 256 random bits as text that fits into a path. Shown only on demand.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub(crate) fn random() -> Self {
        let mut bytes = [0_u8; RANDOM_BYTES];
        SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is kept of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest([u8; SHA256_OUTPUT_LEN]);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut kept = [0; SHA256_OUTPUT_LEN];
        kept.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(kept)
    }

    /// Of a text that somebody says is one of our secrets.
    pub(crate) fn of_secret(text: &str) -> Option<Self> {
        (text.len() == TEXT_LENGTH).then(|| Self::of(text.as_bytes()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_have_their_length_and_do_not_show_themselves() {
        let (one, other) = (Secret::random(), Secret::random());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), TEXT_LENGTH);
        assert_eq!(format!("{one:?} {:?}", one.digest()), "Secret(…) Digest(…)");
        assert_eq!(Digest::of_secret(one.reveal()), Some(one.digest()));
        assert_eq!(Digest::of_secret("short"), None);
    }
}
