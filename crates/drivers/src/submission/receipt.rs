//! What stays of a submission, and how a Job tells it.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::name::is_unfit;
use super::packing::Packed;

/// What Kubernetes keeps of a termination message.
pub const MAX_TERMINATION_MESSAGE: usize = 4096;

/// How much of an answer is kept, in characters.
const MAX_WORDS: usize = 200;

/// A submission that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Bytes of the archive.
    pub size: u64,
    /// Its SHA-256, 64 hex digits in lower case.
    pub sha256: String,
    /// What the server said, at most 200 printable characters.
    pub receipt: String,
    /// Files, folders and links of the volume that are in the archive.
    pub entries: u64,
    /// Those that are not.
    pub skipped: u64,
    /// An earlier attempt had sent it, so nothing was sent now.
    #[serde(default)]
    pub already_there: bool,
}

/// Why a termination message is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("the message has {0} bytes, more than {MAX_TERMINATION_MESSAGE}")]
    TooLong(usize),
    #[error("the message is not the JSON of a receipt")]
    Parse(#[source] serde_json::Error),
    #[error("the message's sha256 is not 64 hex digits in lower case")]
    Digest,
}

impl Receipt {
    pub(super) fn new(packed: &Packed, words: &str, already_there: bool) -> Self {
        Self {
            size: packed.size,
            sha256: packed.hex(),
            receipt: printable(words),
            entries: packed.contents.entries,
            skipped: packed.contents.skipped,
            already_there,
        }
    }

    /// JSON of at most [`MAX_TERMINATION_MESSAGE`] bytes.
    pub fn to_termination_message(&self) -> String {
        let kept = Self { receipt: printable(&self.receipt), ..self.clone() };
        serde_json::to_string(&kept).expect("numbers and strings are always JSON")
    }

    /// Reads what [`Receipt::to_termination_message`] wrote; anything else is an error, since a
    /// container may write anything.
    pub fn from_termination_message(message: &str) -> Result<Self, MessageError> {
        if message.len() > MAX_TERMINATION_MESSAGE {
            return Err(MessageError::TooLong(message.len()));
        }
        let mut parsed: Self = serde_json::from_str(message).map_err(MessageError::Parse)?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if parsed.sha256.len() != 64 || !parsed.sha256.bytes().all(is_digit) {
            return Err(MessageError::Digest);
        }
        parsed.receipt = printable(&parsed.receipt);
        Ok(parsed)
    }
}

/// The first printable characters of a text on one line: others become one space together.
pub(super) fn printable(text: &str) -> String {
    let is_gap = |c: char| c.is_whitespace() || (is_unfit(c) && c != '/' && c != '\\');
    let mut words = String::new();
    for word in text.split(is_gap).filter(|word| !word.is_empty()) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > MAX_WORDS * 4 {
            break;
        }
    }
    words.chars().take(MAX_WORDS).collect::<String>().trim_end().to_owned()
}
