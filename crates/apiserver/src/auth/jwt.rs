//! JSON Web Tokens with ES256, and nothing else: the algorithm is ours to choose, never the token's.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

/// A token is a header of a request; nothing that we sign comes near this.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What precedes the point in the DER of a P-256 public key.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("the signing key is not PKCS#8 in PEM")]
    NotPem,
    #[error("the signing key is not a P-256 key: {0}")]
    Rejected(ring::error::KeyRejected),
    #[error("no signing key could be made")]
    Generate,
}

/// Why a token is not good; texts as upstream's library words them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JwtError {
    /// Not a token of ours at all: somebody else may know it.
    #[error("not a signed token")]
    NotAToken,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    BadSignature,
}

/// A P-256 key that signs.
#[derive(Debug)]
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    rng: SystemRandom,
    id: String,
}

impl SigningKey {
    /// A new key, as PKCS#8 in PEM; keep it, or every token becomes void at the next start.
    #[expect(clippy::disallowed_methods, reason = "the library asks for this very type")]
    pub(crate) fn generate_pem() -> Result<String, KeyError> {
        let rng = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng)
            .map_err(|_| KeyError::Generate)?;
        let encoded = STANDARD.encode(der.as_ref());
        let mut pem = format!("{PEM_BEGIN}\n");
        for line in encoded.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|&byte| char::from(byte)));
            pem.push('\n');
        }
        pem.push_str(PEM_END);
        pem.push('\n');
        Ok(pem)
    }

    #[expect(clippy::disallowed_methods, reason = "the library asks for this very type")]
    pub(crate) fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let inner = pem
            .split_once(PEM_BEGIN)
            .and_then(|(_, rest)| rest.split_once(PEM_END))
            .map(|(inner, _)| inner)
            .ok_or(KeyError::NotPem)?;
        let encoded: String = inner.split_whitespace().collect();
        let der = STANDARD.decode(encoded).map_err(|_| KeyError::NotPem)?;
        let rng = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &rng)
            .map_err(KeyError::Rejected)?;
        let id = key_id(pair.public_key().as_ref());
        Ok(Self { pair, rng, id })
    }

    pub(crate) fn verifying(&self) -> VerifyingKey {
        VerifyingKey { point: self.pair.public_key().as_ref().to_vec(), id: self.id.clone() }
    }

    /// Signs the claims. Fails only if the system has no random numbers left to give.
    pub(crate) fn sign<C: Serialize>(&self, claims: &C) -> Result<String, SignError> {
        // A key id is in the alphabet of base64, so it needs no escaping.
        let header = format!(r#"{{"alg":"{ALGORITHM}","kid":"{}"}}"#, self.id);
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims)?, &mut token);
        let signature =
            self.pair.sign(&self.rng, token.as_bytes()).map_err(|_| SignError::NoRandomness)?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.as_ref(), &mut token);
        Ok(token)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    #[error("the claims are not JSON: {0}")]
    Claims(#[from] serde_json::Error),
    #[error("no random numbers")]
    NoRandomness,
}

/// A P-256 key that checks signatures.
#[derive(Clone, Debug)]
pub(crate) struct VerifyingKey {
    point: Vec<u8>,
    id: String,
}

/// Upstream's key id: the hash of the public key in DER.
fn key_id(point: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&SPKI_PREFIX);
    context.update(point);
    URL_SAFE_NO_PAD.encode(context.finish().as_ref())
}

const ALGORITHM: &str = "ES256";

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that must be understood; we understand none.
    crit: Option<serde_json::Value>,
}

/// A token taken apart but not yet believed.
#[derive(Debug)]
pub(crate) struct Unverified<'a> {
    signed: &'a str,
    header: Vec<u8>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    pub(crate) fn parse(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::NotAToken);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::NotAToken)?;
        let (header, payload) = signed.split_once('.').ok_or(JwtError::NotAToken)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::NotAToken);
        Ok(Self {
            signed,
            // A further dot is outside the alphabet, so four parts fail here.
            header: decode(header)?,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }

    /// What the token claims, before anything has been checked.
    pub(crate) fn unverified_claims<C: Deserialize<'a>>(&'a self) -> Result<C, JwtError> {
        serde_json::from_slice(&self.payload).map_err(|_| JwtError::NotAToken)
    }

    /// Checks the signature with the key that the token names, or with each if it names none.
    pub(crate) fn verify(&self, keys: &[VerifyingKey]) -> Result<(), JwtError> {
        let header: Header =
            serde_json::from_slice(&self.header).map_err(|_| JwtError::NotAToken)?;
        let named = |key: &&VerifyingKey| header.kid.is_empty() || key.id == header.kid;
        let mut candidates = keys.iter().filter(named).peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::UnknownKey);
        }
        if header.alg != ALGORITHM || header.crit.is_some() {
            return Err(JwtError::BadSignature);
        }
        let good = candidates.any(|key| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.point)
                .verify(self.signed.as_bytes(), &self.signature)
                .is_ok()
        });
        if good { Ok(()) } else { Err(JwtError::BadSignature) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_pem(&SigningKey::generate_pem().unwrap()).unwrap()
    }

    fn check(token: &str, keys: &[VerifyingKey]) -> Result<Value, JwtError> {
        let token = Unverified::parse(token)?;
        token.verify(keys)?;
        token.unverified_claims()
    }

    fn part(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    #[test]
    fn signs_and_verifies() {
        let (key, other) = (key(), key());
        let keys = [other.verifying(), key.verifying()];
        let claims = json!({"iss": "me", "n": 1});
        let token = key.sign(&claims).unwrap();
        assert_eq!(check(&token, &keys), Ok(claims));
        assert_eq!(check(&token, &keys[..1]), Err(JwtError::UnknownKey));
        assert_eq!(check(&token, &[]), Err(JwtError::UnknownKey));
    }

    #[test]
    fn refuses_what_was_tampered_with() {
        let key = key();
        let keys = [key.verifying()];
        let token = key.sign(&json!({"iss": "me"})).unwrap();
        let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else {
            panic!("three parts");
        };
        let forged = part(r#"{"iss":"me","admin":true}"#);
        let no_id = part(r#"{"alg":"ES256"}"#);
        let cases = [
            (format!("{header}.{forged}.{signature}"), JwtError::BadSignature),
            (format!("{header}.{payload}."), JwtError::BadSignature),
            (format!("{}.{payload}.", part(r#"{"alg":"none"}"#)), JwtError::BadSignature),
            (
                format!("{}.{payload}.{signature}", part(r#"{"alg":"HS256"}"#)),
                JwtError::BadSignature,
            ),
            (format!("{no_id}.{payload}.{signature}"), JwtError::BadSignature),
            (
                format!("{}.{payload}.{signature}", part(r#"{"alg":"ES256","kid":"x"}"#)),
                JwtError::UnknownKey,
            ),
            (
                format!("{}.{payload}.{signature}", part(r#"{"alg":"ES256","crit":["b64"]}"#)),
                JwtError::BadSignature,
            ),
            (format!("{}.{payload}.{signature}", part("[]")), JwtError::NotAToken),
            (format!("{header}.{payload}"), JwtError::NotAToken),
            (format!("{token}.x"), JwtError::NotAToken),
            (format!("{token}="), JwtError::NotAToken),
            ("a.b.c.d".to_owned(), JwtError::NotAToken),
            (String::new(), JwtError::NotAToken),
            ("x".repeat(MAX_TOKEN_BYTES + 1), JwtError::NotAToken),
        ];
        for (token, expected) in cases {
            assert_eq!(check(&token, &keys), Err(expected), "{token}");
        }
        // Without an id every key is tried.
        let signed = format!("{no_id}.{payload}");
        let signature = key.pair.sign(&key.rng, signed.as_bytes()).unwrap();
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
        assert_eq!(check(&token, &keys), Ok(json!({"iss": "me"})));
    }

    #[test]
    fn key_ids_are_upstreams() {
        // Taken from a kube-apiserver that signed with this key.
        let point = hex::decode(concat!(
            "049f5571c664e02bb1e3fceaf235e95c979ca569db5368f885f4f48299a5c8d87e",
            "6123c09669eacb897e438619904c52b79819f5bc3ca2542a715cf615abccac51"
        ))
        .unwrap();
        assert_eq!(key_id(&point), "NPvfHCz1KXu2vE7dZT0Zj5XIXMfofcaoXAItq037E1A");
    }

    #[test]
    fn keys_survive_being_written_down() {
        let pem = SigningKey::generate_pem().unwrap();
        assert!(pem.lines().all(|line| line.len() <= 64), "{pem}");
        let (a, b) = (SigningKey::from_pem(&pem).unwrap(), SigningKey::from_pem(&pem).unwrap());
        assert_eq!(a.id, b.id);
        let token = a.sign(&json!({})).unwrap();
        assert_eq!(check(&token, &[b.verifying()]), Ok(json!({})));
        for bad in ["", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----", PEM_BEGIN] {
            assert!(matches!(SigningKey::from_pem(bad), Err(KeyError::NotPem)), "{bad}");
        }
        let empty = format!("{PEM_BEGIN}\nAAAA\n{PEM_END}");
        assert!(matches!(SigningKey::from_pem(&empty), Err(KeyError::Rejected(_))));
    }
}
