//! The credential of one server on the classic routes.

use std::fmt;

use ring::hmac;

/// A server's token. It is kept as a key and what that key makes of the token, so that it can be compared in a time
/// that tells nothing, and read nowhere.
#[derive(Clone)]
pub struct SdkCode {
    key: hmac::Key,
    tag: hmac::Tag,
    usable: bool,
}

impl SdkCode {
    /// The code of that token. Nothing equals an empty one.
    pub fn new(token: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let tag = hmac::sign(&key, token.as_bytes());
        Self { key, tag, usable: !token.is_empty() }
    }

    pub(super) fn equals(&self, given: &str) -> bool {
        self.usable && hmac::verify(&self.key, given.as_bytes(), self.tag.as_ref()).is_ok()
    }
}

impl fmt::Debug for SdkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SdkCode")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_equals_a_code_and_none_an_empty_one() {
        let code = SdkCode::new("s3cret");
        assert!(code.equals("s3cret"));
        for other in ["", "s3cre", "s3crets", "S3CRET", "s3cret\0"] {
            assert!(!code.equals(other), "{other:?}");
        }
        assert!(!SdkCode::new("").equals(""));
    }

    #[test]
    fn a_code_shows_nothing_of_its_token() {
        assert_eq!(format!("{:?}", SdkCode::new("s3cret")), "SdkCode");
    }
}
