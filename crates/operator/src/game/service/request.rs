//! What a matchmaker asks for, as it writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use sojourn_core::game::allocation::{AllocationRequest, CounterFilter, Selector, WantedState};

use super::bounded_wait;

const MAX_REQUEST_ID: usize = 256;
const MAX_SELECTORS: usize = 32;
const MAX_MATCHES: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AllocateBody {
    request_id: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    #[serde(default)]
    collection: Option<String>,
    #[serde(default)]
    selectors: Vec<SelectorBody>,
    #[serde(default)]
    seats: Option<u32>,
    #[serde(default)]
    wait_seconds: u64,
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SelectorBody {
    match_labels: BTreeMap<String, String>,
    state: Option<StateBody>,
    counters: BTreeMap<String, CounterBody>,
    free_seats: Option<u32>,
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum StateBody {
    Ready,
    Allocated,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct CounterBody {
    min_available: i64,
}

/// What is asked for, and how long it may wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) request: AllocationRequest,
    pub(super) wait: Duration,
}

impl AllocateBody {
    pub(super) fn read(self) -> Result<Asked, String> {
        if self.request_id.is_empty() || self.request_id.len() > MAX_REQUEST_ID {
            return Err(format!("requestId must have 1 to {MAX_REQUEST_ID} characters"));
        }
        if self.selectors.len() > MAX_SELECTORS {
            return Err(format!("selectors must be at most {MAX_SELECTORS}"));
        }
        if self.seats == Some(0) {
            return Err("seats must be at least 1; left out, a whole server is given".to_owned());
        }
        let selectors: Result<Vec<Selector>, String> =
            self.selectors.into_iter().enumerate().map(selector).collect();
        let request = AllocationRequest {
            request_id: self.request_id,
            namespace: self.namespace,
            collection: self.collection,
            selectors: selectors?,
            seats: self.seats,
        };
        Ok(Asked { request, wait: bounded_wait(self.wait_seconds) })
    }
}

fn selector((index, body): (usize, SelectorBody)) -> Result<Selector, String> {
    if body.match_labels.len() > MAX_MATCHES || body.counters.len() > MAX_MATCHES {
        return Err(format!("selectors[{index}] must name at most {MAX_MATCHES} of each"));
    }
    let state = body.state.map(|state| match state {
        StateBody::Ready => WantedState::Ready,
        StateBody::Allocated => WantedState::Allocated,
    });
    let counters = body
        .counters
        .into_iter()
        .map(|(name, counter)| CounterFilter { name, min_available: counter.min_available });
    Ok(Selector {
        labels: body.match_labels,
        state,
        counters: counters.collect(),
        free_seats: body.free_seats,
        name: body.name,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_bounded() {
        let read = |body: serde_json::Value| {
            let body: Result<AllocateBody, _> = serde_json::from_value(body);
            body.map_err(|error| error.to_string()).and_then(AllocateBody::read)
        };
        let asked = read(json!({
            "requestId": "m-1", "namespace": "play", "collection": "arena", "waitSeconds": 9_999,
            "selectors": [{"matchLabels": {"map": "de"}, "state": "Ready", "freeSeats": 2,
                           "counters": {"rooms": {"minAvailable": 1}}}],
        }))
        .expect("sensible");
        assert_eq!(asked.wait, super::super::super::allocator::MAX_WAIT);
        assert_eq!(asked.request.selectors[0].state, Some(WantedState::Ready));
        assert_eq!(asked.request.selectors[0].free_seats, Some(2));
        for wrong in [
            json!({}),
            json!({"requestId": ""}),
            json!({"requestId": "x", "seats": 0}),
            json!({"requestId": "x", "selectors": [{"state": "Sleeping"}]}),
            json!({"requestId": "x", "select": []}),
        ] {
            read(wrong.clone()).expect_err(&wrong.to_string());
        }
    }
}
