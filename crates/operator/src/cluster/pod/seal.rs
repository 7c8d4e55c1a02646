//! What shows that a record is as we wrote it. Records are beside the Pods, where others may write Secrets without
//! being allowed to create Pods; we make Pods of records, with rights of our own.

use std::fmt;

use ring::hmac;

use super::record::Manifest;

/// Seals records.
#[derive(Clone)]
pub struct RecordSeal(hmac::Key);

impl fmt::Debug for RecordSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSeal").finish_non_exhaustive()
    }
}

impl RecordSeal {
    /// The same key seals the same records again after a restart.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub(super) fn of(&self, namespace: &str, manifest: &Manifest, text: &[u8]) -> String {
        hex::encode(hmac::sign(&self.0, &sealed(namespace, manifest.place(), text)))
    }

    /// Whether a text was sealed as this record of this namespace.
    pub(super) fn is_of(
        &self,
        seal: &str,
        namespace: &str,
        place: (&str, &str),
        text: &[u8],
    ) -> bool {
        let Ok(seal) = hex::decode(seal) else { return false };
        hmac::verify(&self.0, &sealed(namespace, place, text), &seal).is_ok()
    }
}

/// No name of an object and no value of a label has a line break, so nothing else reads the same.
fn sealed(namespace: &str, (infra_id, name): (&str, &str), text: &[u8]) -> Vec<u8> {
    [format!("{namespace}\n{infra_id}\n{name}\n").as_bytes(), text].concat()
}
