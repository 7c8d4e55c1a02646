//! What a server can say of itself or ask for, and why that is refused.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sojourn_core::game::server::{ServerHealth, ServerState};

/// Before the keys of labels and annotations that servers set, so that they touch no others.
pub(super) const METADATA_PREFIX: &str = "agones.dev/sdk-";
/// As long as a name in a label may be.
const MAX_NAME_CHARS: usize = 63;
/// The longest reservation that is still a point in time.
pub(super) const MAX_RESERVATION_SECONDS: i64 = 100 * 366 * 24 * 3_600;

/// What a server says, read and checked for its form. Whether numbers are in range is for whoever takes it in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SdkRequest {
    Ready,
    /// It is alive.
    Health,
    Allocate,
    Shutdown,
    /// Zero: until it says something else.
    Reserve(SignedDuration),
    /// The key has Agones' prefix already.
    SetLabel {
        key: String,
        value: String,
    },
    /// The key has Agones' prefix already.
    SetAnnotation {
        key: String,
        value: String,
    },
    /// Refused with [`SdkError::AlreadyExists`] if that player is there, which is told as `false`.
    PlayerConnect(String),
    /// Refused with [`SdkError::NotFound`] if that player is not there, which is told as `false`.
    PlayerDisconnect(String),
    SetPlayerCapacity(i64),
    UpdateCounter {
        name: String,
        change: CounterChange,
    },
    UpdateList {
        name: String,
        capacity: Option<i64>,
        /// In place of all that are there.
        values: Option<Vec<String>>,
    },
    AddListValue {
        name: String,
        value: String,
    },
    RemoveListValue {
        name: String,
        value: String,
    },
    SetActivePlayers(u32),
    SetHealth(#[serde(with = "HealthWord")] ServerHealth),
    SetState(#[serde(with = "StateWord")] ServerState),
    SetMarkedForDeletion(bool),
    /// Not its own word, but that of whoever listens to it: nothing was heard.
    Silence(Silence),
}

impl SdkRequest {
    /// The same rules as those of its own routes, for what comes from elsewhere.
    pub(crate) fn check(&self) -> Result<(), SdkError> {
        let wrong = |words: &str| Err(SdkError::Invalid(words.to_owned()));
        match self {
            Self::SetLabel { key, .. } | Self::SetAnnotation { key, .. }
                if !is_metadata_key(key) =>
            {
                wrong("key: is none that a server may set")
            }
            Self::SetLabel { value, .. } if !value.is_empty() && !is_name(value) => {
                wrong("value: is none of a label")
            }
            Self::Reserve(span) if !(0..=MAX_RESERVATION_SECONDS).contains(&span.as_secs()) => {
                wrong("seconds: is no time to reserve for")
            }
            _ => Ok(()),
        }
    }

    /// Whether it comes to the same when it is taken in twice.
    pub const fn can_be_repeated(&self) -> bool {
        !matches!(self, Self::UpdateCounter { change: CounterChange { diff: 1.. | ..=-1, .. }, .. })
    }
}

/// How long nothing was heard of a server that pings, as whoever listens to it measured it: clocks of machines differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    /// Since its last ping, if there was one.
    pub since_ping: Option<SignedDuration>,
    /// Since it could be heard.
    pub listening_for: SignedDuration,
}

/// Whether a label or an annotation of this key is a server's own.
pub(super) fn is_metadata_key(key: &str) -> bool {
    key.strip_prefix(METADATA_PREFIX).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        && key.rsplit_once('/').is_some_and(|(_, name)| is_name(name))
}

/// Whether Kubernetes takes it as a name in a key, or as the value of a label.
pub(super) fn is_name(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= MAX_NAME_CHARS
        && ends(text.bytes().next())
        && ends(text.bytes().last())
        && text.bytes().all(inside)
}

/// A health, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ServerHealth")]
enum HealthWord {
    Creating,
    Healthy,
    Failed,
}

/// A state, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ServerState")]
enum StateWord {
    Idle,
    Assigned,
    Running,
    PostMatch,
}

/// What becomes of a counter: first its capacity, then its count, then the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterChange {
    pub count: Option<i64>,
    pub capacity: Option<i64>,
    pub diff: i64,
}

/// Why what a server says is not taken in. The texts are sent to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum SdkError {
    /// There is no such server, or not any more.
    #[error("the server is not known")]
    UnknownServer,
    #[error("not found: {0}")]
    NotFound(String),
    #[error("already exists: {0}")]
    AlreadyExists(String),
    #[error("out of range: {0}")]
    OutOfRange(String),
    #[error("invalid: {0}")]
    Invalid(String),
    #[error("unavailable: {0}")]
    Unavailable(String),
    #[error("the server was changed at the same time; try again")]
    Conflict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_token_sets_no_more_than_a_server_may() {
        let label = |key: &str, value: &str| {
            SdkRequest::SetLabel { key: key.to_owned(), value: value.to_owned() }.check().is_ok()
        };
        assert!(label("agones.dev/sdk-map", "dust") && label("agones.dev/sdk-map", ""));
        for key in ["", "map", "agones.dev/sdk-", "agones.dev/sdk-a/b", "DedicatedGameServerName"] {
            assert!(!label(key, "dust"), "{key}");
        }
        assert!(!label("agones.dev/sdk-map", "a b"));
        let key = "game.sojourn.dev/acknowledge".to_owned();
        SdkRequest::SetAnnotation { key, value: String::new() }.check().expect_err("not its own");
        SdkRequest::Reserve(SignedDuration::MAX).check().expect_err("no point in time");
        SdkRequest::Reserve(SignedDuration::from_secs(-1)).check().expect_err("over already");
        SdkRequest::Ready.check().expect("it may");
    }
}
