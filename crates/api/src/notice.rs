//! What people were told or are about to be told, as a status holds it, and the way to and from the outbox.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::notice::{Delivery, MAX_NOTICES, Notice, NoticeId, Outbox};

use crate::limit;
use crate::schema;
use crate::time::{read, written};

/// What somebody was told or is about to be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NoticeStatus<K> {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<K>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<NoticeState>,
    /// Which warning it is …
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub alert: Option<u32>,
    /// … of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub of: Option<u32>,
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub recorded_at: Option<Time>,
    /// When the next attempt is due, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    /// When it was accepted, or given up on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub delivered_at: Option<Time>,
    /// When what it warns of happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl<K> Default for NoticeStatus<K> {
    fn default() -> Self {
        Self {
            id: String::new(),
            kind: None,
            state: None,
            alert: None,
            of: None,
            attempts: 0,
            recorded_at: None,
            retry_at: None,
            delivered_at: None,
            deadline: None,
            error: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoticeState {
    Waiting,
    Delivered,
    Waived,
}

pub(crate) fn write_outbox<K: Copy, W: From<K>>(outbox: &Outbox<K>) -> Vec<NoticeStatus<W>> {
    outbox.notices.iter().map(write_notice).collect()
}

fn write_notice<K: Copy, W: From<K>>(notice: &Notice<K>) -> NoticeStatus<W> {
    let (state, retry_at, delivered_at) = match notice.delivery {
        Delivery::Waiting { next } => (NoticeState::Waiting, Some(next), None),
        Delivery::Delivered { at } => (NoticeState::Delivered, None, Some(at)),
        Delivery::Waived { at } => (NoticeState::Waived, None, Some(at)),
    };
    NoticeStatus {
        id: notice.id.to_string(),
        kind: Some(notice.kind.into()),
        state: Some(state),
        alert: notice.alert.map(|(alert, _)| alert),
        of: notice.alert.map(|(_, of)| of),
        attempts: notice.attempts,
        recorded_at: written(Some(notice.recorded_at)),
        retry_at: written(retry_at),
        delivered_at: written(delivered_at),
        deadline: written(notice.deadline),
        error: notice.error.as_deref().map(limit::truncated),
    }
}

pub(crate) fn read_outbox<K, W: Copy + Into<K>>(wire: &[NoticeStatus<W>]) -> Outbox<K> {
    Outbox { notices: wire.iter().filter_map(read_notice).take(MAX_NOTICES).collect() }
}

/// A notice of which nobody knows what it said, or when it was given, was never given.
fn read_notice<K, W: Copy + Into<K>>(wire: &NoticeStatus<W>) -> Option<Notice<K>> {
    let retry_at = read(wire.retry_at.as_ref());
    let delivered_at = read(wire.delivered_at.as_ref());
    let recorded_at = read(wire.recorded_at.as_ref()).or(retry_at).or(delivered_at)?;
    let waiting = |next: Option<Timestamp>| Delivery::Waiting { next: next.unwrap_or(recorded_at) };
    let delivery = match (wire.state?, delivered_at) {
        (NoticeState::Delivered, Some(at)) => Delivery::Delivered { at },
        (NoticeState::Waived, Some(at)) => Delivery::Waived { at },
        (NoticeState::Waiting | NoticeState::Delivered | NoticeState::Waived, _) => {
            waiting(retry_at)
        }
    };
    (!wire.id.is_empty()).then_some(())?;
    Some(Notice {
        id: NoticeId::stored(wire.id.clone()),
        kind: wire.kind?.into(),
        alert: wire.alert.zip(wire.of),
        deadline: read(wire.deadline.as_ref()),
        recorded_at,
        attempts: wire.attempts,
        delivery,
        error: wire.error.clone(),
    })
}
