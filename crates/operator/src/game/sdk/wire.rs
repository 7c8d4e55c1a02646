//! What goes from the Pod of a server to the operator: JSON, posted to `/v1/sdk/<namespace>/<name>` with the Pod's token.
//!
//! | body | answer |
//! |---|---|
//! | `{"say": …}`, what a server says | the server as it is then |
//! | `{"look": {"after": "17", "waitSeconds": 30}}` | the server, at once if it is not as that version has it, or else when it changes or the time is over |
//!
//! Whatever is not 200 has a [`Refusal`].

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::request::{SdkError, SdkRequest};
use super::status::Status;

/// For whom the tokens of Pods have to be.
pub const AUDIENCE: &str = "game.sojourn.dev/sdk";
/// Of a question: more than a server may send to its SDK, for it is written otherwise here.
pub const MAX_CALL_BYTES: usize = 256 << 10;
/// Of an answer: no object of the API is longer.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;
/// So long a look may wait.
pub const MAX_WAIT_SECONDS: u32 = 30;

/// Where the operator hears a server.
pub fn path(namespace: &str, name: &str) -> String {
    format!("/v1/sdk/{namespace}/{name}")
}

/// What is asked of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Call {
    Say(SdkRequest),
    Look(Look),
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Look {
    /// The version that is known already.
    pub after: Option<String>,
    pub wait_seconds: u32,
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub message: String,
    /// What the server is told. Without it, the operator did not even hear what was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SdkError>,
}

impl Refusal {
    /// The call did not get so far that anything was said.
    pub fn unheard(message: &str) -> Self {
        Self { message: message.to_owned(), error: None }
    }

    pub(crate) fn of(error: SdkError) -> (StatusCode, Self) {
        let status = Status::from(error.clone()).code.http();
        (status, Self { message: error.to_string(), error: Some(error) })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;
    use sojourn_core::game::server::{ServerHealth, ServerState};

    use super::super::{CounterChange, Silence};
    use super::*;

    #[test]
    fn whatever_a_server_says_is_read_as_it_was_written() {
        let text = || "x".to_owned();
        let change = CounterChange { count: None, capacity: Some(4), diff: -1 };
        let silence = Silence {
            since_ping: Some(SignedDuration::from_millis(15_250)),
            listening_for: SignedDuration::from_secs(3_600),
        };
        for request in [
            SdkRequest::Ready,
            SdkRequest::Health,
            SdkRequest::Allocate,
            SdkRequest::Shutdown,
            SdkRequest::Reserve(SignedDuration::from_secs(90)),
            SdkRequest::SetLabel { key: text(), value: text() },
            SdkRequest::SetAnnotation { key: text(), value: text() },
            SdkRequest::PlayerConnect(text()),
            SdkRequest::PlayerDisconnect(text()),
            SdkRequest::SetPlayerCapacity(i64::MAX),
            SdkRequest::UpdateCounter { name: text(), change },
            SdkRequest::UpdateList { name: text(), capacity: None, values: Some(vec![text()]) },
            SdkRequest::AddListValue { name: text(), value: text() },
            SdkRequest::RemoveListValue { name: text(), value: text() },
            SdkRequest::SetActivePlayers(3),
            SdkRequest::SetHealth(ServerHealth::Failed),
            SdkRequest::SetState(ServerState::PostMatch),
            SdkRequest::SetMarkedForDeletion(true),
            SdkRequest::Silence(silence),
        ] {
            let call = Call::Say(request);
            let written = serde_json::to_vec(&call).expect("it can be written");
            assert_eq!(serde_json::from_slice::<Call>(&written).expect("and read"), call);
        }
        let written = serde_json::to_value(Call::Say(SdkRequest::SetState(ServerState::Running)));
        assert_eq!(written.expect("JSON"), json!({"say": {"setState": "Running"}}));
    }

    #[test]
    fn a_refusal_says_whether_anything_was_heard() {
        let (status, refusal) = Refusal::of(SdkError::OutOfRange("full".to_owned()));
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let written = serde_json::to_value(&refusal).expect("JSON");
        assert_eq!(
            written,
            json!({"message": "out of range: full", "error": {"outOfRange": "full"}})
        );
        let unheard = serde_json::to_value(Refusal::unheard("later")).expect("JSON");
        assert_eq!(unheard, json!({"message": "later"}));
    }

    #[test]
    fn only_differences_cannot_be_repeated() {
        let counter = |diff| SdkRequest::UpdateCounter {
            name: "rooms".to_owned(),
            change: CounterChange { count: None, capacity: None, diff },
        };
        assert!(!counter(1).can_be_repeated() && !counter(-1).can_be_repeated());
        assert!(counter(0).can_be_repeated() && SdkRequest::Ready.can_be_repeated());
    }
}
