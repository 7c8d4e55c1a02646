//! The token of a link: fields in a fixed order, then a signature over them.
//!
//! | bytes          | what                                            |
//! |----------------|-------------------------------------------------|
//! | 1              | version                                         |
//! | 1              | what it does                                    |
//! | 8              | when it ends: seconds since 1970, big-endian    |
//! | 2 + n, 4 times | family, namespace, name, uid: length, then text |
//! | 4              | of version 3: how often it had been done        |
//! | 2 + n          | of version 3: who gets it: length, then text    |
//! | 32             | HMAC-SHA256                                     |
//!
//! What has neither of the two is of version 2.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use sojourn_core::key::Key;

use super::{LinkClaim, LinkError, LinkSubject};

/// Of a link that acts as nobody in particular.
const PLAIN: u8 = 2;
/// Of one that acts as whoever it was sent to.
const PERSONAL: u8 = 3;
const SIGNATURE_BYTES: usize = 32;
/// Names and uids of Kubernetes are far shorter together.
const MAX_TOKEN_BYTES: usize = 2048;
/// What the key signs here, so that a signature of something else is none of a link.
const LINK_CONTEXT: &[u8] = b"sojourn link\0";
const FORM_CONTEXT: &[u8] = b"sojourn form\0";

pub(super) fn encode(
    signer: &hmac::Key,
    LinkSubject { family, key, uid, recipient, count }: LinkSubject<'_>,
    verb: u8,
    expires: Timestamp,
) -> String {
    let personal = !recipient.is_empty() || count > 0;
    let mut bytes = vec![if personal { PERSONAL } else { PLAIN }, verb];
    bytes.extend(expires.as_second().to_be_bytes());
    for text in [family, &*key.namespace, &*key.name, uid] {
        push_text(&mut bytes, text);
    }
    if personal {
        bytes.extend(count.to_be_bytes());
        push_text(&mut bytes, recipient);
    }
    let signature = sign(signer, LINK_CONTEXT, &bytes);
    bytes.extend(signature.as_ref());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// No name of Kubernetes is longer than can be said; one that were would give a link that cannot be read.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(text.as_bytes());
}

pub(super) fn decode(signer: &hmac::Key, token: &str) -> Result<LinkClaim, LinkError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(LinkError::Malformed);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| LinkError::Malformed)?;
    if bytes.first().is_some_and(|version| ![PLAIN, PERSONAL].contains(version)) {
        return Err(LinkError::Version);
    }
    let length = bytes.len().checked_sub(SIGNATURE_BYTES).ok_or(LinkError::Malformed)?;
    let (said, signature) = bytes.split_at(length);
    hmac::verify(signer, &[LINK_CONTEXT, said].concat(), signature)
        .map_err(|_| LinkError::Forged)?;
    parse(said, signature).ok_or(LinkError::Malformed)
}

/// Proves that the page of this link was shown.
pub(super) fn form_token(signer: &hmac::Key, token: &str) -> String {
    URL_SAFE_NO_PAD.encode(sign(signer, FORM_CONTEXT, token.as_bytes()))
}

pub(super) fn is_form_token(signer: &hmac::Key, token: &str, form: &str) -> bool {
    let signature = URL_SAFE_NO_PAD.decode(form).unwrap_or_default();
    hmac::verify(signer, &[FORM_CONTEXT, token.as_bytes()].concat(), &signature).is_ok()
}

fn sign(signer: &hmac::Key, what: &[u8], bytes: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(signer);
    context.update(what);
    context.update(bytes);
    context.sign()
}

fn parse(said: &[u8], signature: &[u8]) -> Option<LinkClaim> {
    let (&[version, verb], rest) = said.split_first_chunk()?;
    let (seconds, mut rest) = rest.split_first_chunk()?;
    let family = take_text(&mut rest)?;
    let key = Key::new(take_text(&mut rest)?, take_text(&mut rest)?);
    let uid = take_text(&mut rest)?;
    let (mut count, mut recipient) = (0, String::new());
    if version == PERSONAL {
        let (number, after) = rest.split_first_chunk()?;
        rest = after;
        count = u32::from_be_bytes(*number);
        recipient = take_text(&mut rest)?;
    }
    let claim = LinkClaim {
        family,
        key,
        uid,
        recipient,
        count,
        verb,
        expires: Timestamp::from_second(i64::from_be_bytes(*seconds)).ok()?,
        id: URL_SAFE_NO_PAD.encode(&signature[..SIGNATURE_BYTES / 2]),
    };
    rest.is_empty().then_some(claim)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}
