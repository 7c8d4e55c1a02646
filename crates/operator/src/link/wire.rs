//! The token of a link: fields in a fixed order, then a signature over them.
//!
//! | bytes          | what                                            |
//! |----------------|-------------------------------------------------|
//! | 1              | version                                         |
//! | 1              | action                                          |
//! | 8              | when it ends: seconds since 1970, big-endian    |
//! | 2 + n, 3 times | namespace, name, uid: length, then text         |
//! | 32             | HMAC-SHA256                                     |

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use sojourn_core::key::Key;

use super::{Action, Claim, LinkError};

const VERSION: u8 = 1;
const SIGNATURE: usize = 32;
/// Names and uids of Kubernetes are far shorter together.
const TOKEN_LIMIT: usize = 2048;
/// What the key signs here, so that a signature of something else is none of a link.
const LINK: &[u8] = b"sojourn link\0";
const FORM: &[u8] = b"sojourn form\0";

pub(super) fn encode(
    signer: &hmac::Key,
    key: &Key,
    uid: &str,
    action: Action,
    expires: Timestamp,
) -> String {
    let mut bytes = vec![VERSION, letter(action)];
    bytes.extend(expires.as_second().to_be_bytes());
    for text in [&*key.namespace, &*key.name, uid] {
        // No name of Kubernetes is longer; one that were would give a link that cannot be read.
        bytes.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    let signature = sign(signer, LINK, &bytes);
    bytes.extend(signature.as_ref());
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn decode(signer: &hmac::Key, token: &str) -> Result<Claim, LinkError> {
    if token.len() > TOKEN_LIMIT {
        return Err(LinkError::Malformed);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| LinkError::Malformed)?;
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(LinkError::Version);
    }
    let length = bytes.len().checked_sub(SIGNATURE).ok_or(LinkError::Malformed)?;
    let (said, signature) = bytes.split_at(length);
    hmac::verify(signer, &[LINK, said].concat(), signature).map_err(|_| LinkError::Forged)?;
    parse(said, signature).ok_or(LinkError::Malformed)
}

/// Proves that the page of this link was shown.
pub(super) fn form_token(signer: &hmac::Key, token: &str) -> String {
    URL_SAFE_NO_PAD.encode(sign(signer, FORM, token.as_bytes()))
}

pub(super) fn is_form_token(signer: &hmac::Key, token: &str, form: &str) -> bool {
    let signature = URL_SAFE_NO_PAD.decode(form).unwrap_or_default();
    hmac::verify(signer, &[FORM, token.as_bytes()].concat(), &signature).is_ok()
}

fn sign(signer: &hmac::Key, what: &[u8], bytes: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(signer);
    context.update(what);
    context.update(bytes);
    context.sign()
}

fn parse(said: &[u8], signature: &[u8]) -> Option<Claim> {
    let (&[_, action], rest) = said.split_first_chunk()?;
    let (seconds, mut rest) = rest.split_first_chunk()?;
    let mut text = || {
        let (length, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = after;
        String::from_utf8(text.to_vec()).ok()
    };
    let (namespace, name, uid) = (text()?, text()?, text()?);
    let claim = Claim {
        key: Key::new(namespace, name),
        uid,
        action: action_of(action)?,
        expires: Timestamp::from_second(i64::from_be_bytes(*seconds)).ok()?,
        id: URL_SAFE_NO_PAD.encode(&signature[..SIGNATURE / 2]),
    };
    rest.is_empty().then_some(claim)
}

const fn letter(action: Action) -> u8 {
    match action {
        Action::KeepHour => b'h',
        Action::KeepTomorrow => b't',
        Action::Stop => b's',
    }
}

const fn action_of(letter: u8) -> Option<Action> {
    match letter {
        b'h' => Some(Action::KeepHour),
        b't' => Some(Action::KeepTomorrow),
        b's' => Some(Action::Stop),
        _ => None,
    }
}
