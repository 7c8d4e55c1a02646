//! Opaque bearer tokens: made from random bytes, kept only as hashes.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::digest;

use crate::auth::identity::Identity;
use crate::clock::{Entropy, NoRandomness};

/// Tells our tokens from others at a glance, for people and for secret scanners.
const PREFIX: &str = "sojourn_";
const RANDOM_BYTES: usize = 32;

/// A token in the clear. It exists only between being made and being handed over.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, NoRandomness> {
        let mut bytes = [0; RANDOM_BYTES];
        entropy.fill(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// A token that was made here before, by its text.
    pub fn recognize(text: &str) -> Option<Self> {
        let random = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (random.len() == RANDOM_BYTES).then(|| Self(text.to_owned()))
    }

    /// The text that the client sends.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// Logs must never show a token.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a token: what is stored. Tokens carry 256 random bits, so that no salt and no slow
/// hash is needed.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }
}

/// Takes the same time wherever two hashes differ.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for TokenHash {}

impl Hash for TokenHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not the hash of a token: {0}")]
pub struct BadHash(#[from] hex::FromHexError);

impl FromStr for TokenHash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash)?;
        Ok(Self(hash))
    }
}

/// Whom a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    pub identity: Identity,
    /// Not valid from this moment on.
    pub expires: Option<Timestamp>,
}

/// The tokens that are good, by their hashes.
#[derive(Clone, Debug, Default)]
pub struct TokenTable(HashMap<TokenHash, TokenEntry>);

impl TokenTable {
    pub fn insert(&mut self, hash: TokenHash, holder: TokenEntry) {
        self.0.insert(hash, holder);
    }

    pub fn revoke(&mut self, hash: &TokenHash) -> bool {
        self.0.remove(hash).is_some()
    }

    /// Forgets what has expired.
    pub fn sweep(&mut self, now: Timestamp) {
        self.0.retain(|_, holder| holder.is_valid(now));
    }

    pub fn find(&self, token: &str, now: Timestamp) -> Option<&Identity> {
        let holder = self.0.get(&TokenHash::of(token))?;
        holder.is_valid(now).then_some(&holder.identity)
    }
}

impl TokenEntry {
    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SeededEntropy;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn tokens_are_long_and_never_printed() {
        let entropy = SeededEntropy::new(1);
        let [a, b] = [(), ()].map(|()| Token::generate(&entropy).unwrap());
        assert_ne!(a, b);
        assert_eq!(a.reveal().len(), PREFIX.len() + 43);
        assert!(a.reveal().starts_with("sojourn_"));
        assert_eq!(format!("{a:?}"), "Token(…)");
        assert_eq!(Token::recognize(a.reveal()), Some(a));
        assert_eq!(Token::recognize("sojourn_short"), None);
        assert_eq!(Token::recognize("password"), None);
    }

    #[test]
    fn hashes_are_sha256_in_hex() {
        let hash = TokenHash::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse::<TokenHash>().unwrap(), hash);
        assert_ne!(hash, TokenHash::of("abd"));
        assert!("abc".parse::<TokenHash>().is_err());
    }

    #[test]
    fn the_table_forgets_what_is_revoked_or_expired() {
        let entropy = SeededEntropy::new(2);
        let token = Token::generate(&entropy).unwrap();
        let mut table = TokenTable::default();
        let holder = TokenEntry { identity: Identity::anonymous(), expires: Some(at(100)) };
        table.insert(token.hash(), holder);
        assert_eq!(table.find(token.reveal(), at(99)), Some(&Identity::anonymous()));
        assert_eq!(table.find(token.reveal(), at(100)), None);
        assert_eq!(table.find("other", at(0)), None);
        table.sweep(at(99));
        assert!(table.revoke(&token.hash()));
        assert!(!table.revoke(&token.hash()));
        assert_eq!(table.find(token.reveal(), at(0)), None);
    }
}
