//! What becomes of a note: a new Event, a higher count of one that is there, or nothing.
//!
//! The three rules are those of Kubernetes' own clients, and so are their numbers:
//! the same again raises the count; many that differ in their words alone become one; and of one
//! object there are only so many.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{EventType, NodeEvent};

/// How long something counts as having just happened.
const AGGREGATION_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// So many different messages of one reason within the window; the next ones share an Event.
const MAX_SIMILAR: usize = 10;
/// Events of one object at once, and then one every so often.
const OBJECT_BURST: i32 = 25;
const OBJECT_REFILL: SignedDuration = SignedDuration::from_mins(5);
/// How much of each kind is remembered; the oldest is forgotten first.
const MAX_REMEMBERED: usize = 4096;

/// The longest message that the API takes.
const MAX_MESSAGE_BYTES: usize = 1024;
/// The longest name of an object, less what we put behind it.
const MAX_NAME_BYTES: usize = 253 - 17;

/// Where Events go that are about something without a namespace.
const CLUSTER_NAMESPACE: &str = "default";

/// An Event and whether it is there already.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    pub(super) event: Event,
    pub(super) raises: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Object {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    field_path: Option<String>,
}

impl Object {
    fn of(reference: &ObjectReference) -> Self {
        Self {
            kind: reference.kind.clone(),
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
            field_path: reference.field_path.clone(),
        }
    }

    /// All of an object's containers share its allowance.
    fn whole(&self) -> Self {
        Self { field_path: None, ..self.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AggregateKey {
    object: Object,
    kind: EventType,
    reason: String,
}

/// Remembers what was lately written.
#[derive(Debug)]
pub(super) struct Series {
    source: EventSource,
    /// By what it is about and its words, which are `None` for those that share an Event.
    written: Recent<(AggregateKey, Option<String>), Event>,
    similar: Recent<AggregateKey, HashSet<String>>,
    /// When an object's allowance would be full again.
    allowance: Recent<Object, Timestamp>,
}

impl Series {
    pub(super) fn new(source: EventSource) -> Self {
        Self {
            source,
            written: Recent::default(),
            similar: Recent::default(),
            allowance: Recent::default(),
        }
    }

    pub(super) fn take(&mut self, note: &NodeEvent) -> Option<Write> {
        let object = Object::of(&note.about);
        if !self.allows(object.whole(), note.at) {
            return None;
        }
        let alike = AggregateKey { object, kind: note.kind, reason: note.reason.clone() };
        let messages = self.similar.get_or_insert(&alike, note.at, HashSet::new);
        let shared = messages.len() >= MAX_SIMILAR && !messages.contains(&note.message);
        if !shared {
            messages.insert(note.message.clone());
        }
        let (words, message) = if shared {
            (None, bounded(&format!("(combined from similar events): {}", note.message)))
        } else {
            (Some(note.message.clone()), note.message.clone())
        };

        let key = (alike, words);
        let known = self.written.get(&key, note.at);
        let raises = known.is_some();
        let event = match known {
            Some(event) => Event {
                count: event.count.map(|count| count.saturating_add(1)),
                last_timestamp: Some(Time(note.at)),
                message: Some(message),
                ..event.clone()
            },
            None => self.event(note, message),
        };
        self.written.insert(key, note.at, event.clone());
        Some(Write { event, raises })
    }

    fn allows(&mut self, object: Object, now: Timestamp) -> bool {
        let full = *self.allowance.get_or_insert(&object, now, || now);
        let next = full.max(now).saturating_add(OBJECT_REFILL).unwrap_or(now);
        if next.duration_since(now) > OBJECT_REFILL * OBJECT_BURST {
            return false;
        }
        self.allowance.insert(object, now, next);
        true
    }

    fn event(&self, note: &NodeEvent, message: String) -> Event {
        let name = note.about.name.as_deref().unwrap_or_default();
        let name = name.get(..MAX_NAME_BYTES.min(name.len())).unwrap_or_default();
        let name = name.trim_end_matches(['-', '.']);
        let namespace = note.about.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}", note.at.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: note.about.clone(),
            type_: Some(note.kind.as_str().to_owned()),
            reason: Some(note.reason.clone()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(note.at)),
            last_timestamp: Some(Time(note.at)),
            source: Some(self.source.clone()),
            reporting_component: self.source.component.clone(),
            reporting_instance: self.source.host.clone(),
            ..Event::default()
        }
    }
}

/// As much of a message as the API takes.
pub(super) fn bounded(message: &str) -> String {
    const CUT: &str = "...";
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MAX_MESSAGE_BYTES - CUT.len());
    format!("{}{CUT}", &message[..end])
}

/// A map that forgets what was not used within [`AGGREGATION_WINDOW`], and the oldest when it is
/// full.
#[derive(Debug)]
struct Recent<K, V>(HashMap<K, (Timestamp, V)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    fn get(&self, key: &K, now: Timestamp) -> Option<&V> {
        self.0.get(key).filter(|(used, _)| is_recent(*used, now)).map(|(_, value)| value)
    }

    fn insert(&mut self, key: K, now: Timestamp, value: V) {
        if !self.0.contains_key(&key) {
            self.make_room(now);
        }
        self.0.insert(key, (now, value));
    }

    /// Does not count as use: what is only looked at grows old.
    fn get_or_insert(&mut self, key: &K, now: Timestamp, new: impl FnOnce() -> V) -> &mut V {
        if self.get(key, now).is_none() {
            self.insert(key.clone(), now, new());
        }
        let (_, value) = self.0.get_mut(key).expect("it was just put there");
        value
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.0.len() < MAX_REMEMBERED {
            return;
        }
        self.0.retain(|_, (used, _)| is_recent(*used, now));
        if self.0.len() >= MAX_REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.0.remove(&key);
            }
        }
    }
}

fn is_recent(used: Timestamp, now: Timestamp) -> bool {
    now.duration_since(used) <= AGGREGATION_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        Series::new(EventSource {
            component: Some("kubelet".to_owned()),
            host: Some("here".to_owned()),
        })
    }

    fn note(second: i64, name: &str, reason: &str, message: &str) -> NodeEvent {
        NodeEvent {
            about: ObjectReference {
                kind: Some("Pod".to_owned()),
                namespace: Some("shop".to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            kind: EventType::Warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_second(1_800_000_000 + second).unwrap(),
        }
    }

    fn line(write: Option<Write>) -> String {
        write.map_or_else(
            || "dropped".to_owned(),
            |write| {
                let verb = if write.raises { "raise to" } else { "new" };
                format!("{verb} {}: {}", write.event.count.unwrap(), write.event.message.unwrap())
            },
        )
    }

    #[test]
    fn the_same_within_ten_minutes_is_counted() {
        let mut series = series();
        for (second, name, reason, message, want) in [
            (0, "a", "BackOff", "again", "new 1: again"),
            (10, "a", "BackOff", "again", "raise to 2: again"),
            (11, "a", "BackOff", "other", "new 1: other"),
            (12, "a", "Failed", "again", "new 1: again"),
            (13, "b", "BackOff", "again", "new 1: again"),
            // Ten minutes count from the last time, not the first.
            (610, "a", "BackOff", "again", "raise to 3: again"),
            (1211, "a", "BackOff", "again", "new 1: again"),
        ] {
            assert_eq!(line(series.take(&note(second, name, reason, message))), want, "{second}");
        }
    }

    #[test]
    fn a_raised_event_is_the_first_one() {
        let mut series = series();
        let first = series.take(&note(0, "a", "BackOff", "again")).unwrap().event;
        let second = series.take(&note(5, "a", "BackOff", "again")).unwrap().event;
        assert_eq!(first.metadata.name.as_deref(), Some("a.18fae27693b40000"));
        assert_eq!(first.metadata.name, second.metadata.name);
        assert_eq!(first.first_timestamp, second.first_timestamp);
        assert_ne!(first.last_timestamp, second.last_timestamp);
        let source = first.source.unwrap();
        assert_eq!(
            (source.component.as_deref(), source.host.as_deref()),
            (Some("kubelet"), Some("here"))
        );
    }

    #[test]
    fn many_that_differ_in_words_alone_become_one() {
        let mut series = series();
        for number in 0..10 {
            let message = format!("try {number}");
            assert_eq!(
                line(series.take(&note(number, "a", "Failed", &message))),
                format!("new 1: {message}")
            );
        }
        for (second, message, want) in [
            (10, "try 10", "new 1: (combined from similar events): try 10"),
            (11, "try 11", "raise to 2: (combined from similar events): try 11"),
            (12, "try 3", "raise to 2: try 3"),
        ] {
            assert_eq!(line(series.take(&note(second, "a", "Failed", message))), want);
        }
        assert_eq!(line(series.take(&note(13, "a", "Other", "try 12"))), "new 1: try 12");
        assert_eq!(line(series.take(&note(700, "a", "Failed", "try 13"))), "new 1: try 13");
    }

    #[test]
    fn an_object_has_an_allowance() {
        let mut series = series();
        for number in 0..25 {
            assert_ne!(line(series.take(&note(0, "a", "X", &number.to_string()))), "dropped");
        }
        for (second, name, dropped) in [
            (0, "a", true),
            (299, "a", true),
            (299, "b", false),
            (300, "a", false),
            (300, "a", true),
            (900, "a", false),
            (900, "a", false),
            (900, "a", true),
        ] {
            let got = line(series.take(&note(second, name, "X", "y")));
            assert_eq!(got == "dropped", dropped, "{name} at {second}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut series = series();
        for number in 0..MAX_REMEMBERED + 10 {
            series.take(&note(0, &format!("pod-{number}"), "X", "y")).unwrap();
        }
        assert_eq!(series.written.0.len(), MAX_REMEMBERED);
        assert_eq!(series.similar.0.len(), MAX_REMEMBERED);
        assert_eq!(series.allowance.0.len(), MAX_REMEMBERED);
        series.take(&note(1000, "one", "X", "y")).unwrap();
        assert_eq!(series.written.0.len(), 1, "what is old is forgotten together");
    }

    #[test]
    fn names_and_messages_fit() {
        let mut series = series();
        let long = format!("{}.{}", "a".repeat(MAX_NAME_BYTES - 1), "b".repeat(16));
        let event = series.take(&note(0, &long, "X", "y")).unwrap().event;
        let name = event.metadata.name.unwrap();
        assert_eq!(name, format!("{}.18fae27693b40000", "a".repeat(MAX_NAME_BYTES - 1)));
        let text = bounded(&"ä".repeat(600));
        assert_eq!((text.len(), text.ends_with("ä...")), (1023, true));
        assert_eq!(bounded("short"), "short");
    }
}
