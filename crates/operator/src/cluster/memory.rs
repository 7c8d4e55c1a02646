//! What this process alone remembers of clusters: what it asked and when, and what it heard. Nothing of it is
//! needed: a process that knows nothing asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use sojourn_core::cluster::Recent;
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;

use crate::event::Transition;

/// So much is kept of one cluster that nobody could be told yet; what is over is in the log.
const MAX_UNTOLD: usize = 32;

/// Of every cluster that was looked at.
#[derive(Debug, Default)]
pub(super) struct Memories(Mutex<HashMap<Key, Memory>>);

#[derive(Debug)]
struct Memory {
    uid: String,
    /// Since when it is looked at here.
    since: Timestamp,
    /// When it is asked about next by itself; nothing, if that is not known.
    due: Option<Timestamp>,
    listed_at: Option<Timestamp>,
    probed_at: Option<Timestamp>,
    /// How often its provider said that something is another.
    heard: u64,
    /// How often it had when it was last asked.
    asked_after: u64,
    contacts: Vec<String>,
    contacts_changed_at: Option<Timestamp>,
    records_kept: Option<KeptRecords>,
    /// What people are told of as soon as it is on record.
    untold: Vec<Transition>,
    /// What was warned of and holds still, by the reason of its Event.
    warned: BTreeMap<&'static str, Vec<String>>,
}

/// That somebody else has to be told where its records are, should it vanish.
#[derive(Debug, Clone)]
pub(super) struct KeptRecords {
    pub(super) about: ObjectReference,
    pub(super) place: String,
}

/// What a look finds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    pub(super) recent: Recent,
    /// Whether it is time to ask again.
    pub(super) is_due: bool,
    /// Whether its provider said that something is another since it was last asked.
    pub(super) has_news: bool,
    pub(super) contacts_changed_at: Option<Timestamp>,
}

/// A cluster that is gone.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) uid: String,
    pub(super) records_kept: Option<KeptRecords>,
}

impl Memories {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a look. The answer has the uid of another that was there before under that name, too.
    pub(super) fn look(
        &self,
        key: &Key,
        uid: &str,
        contacts: &[String],
        now: Timestamp,
    ) -> (Remembered, Option<Gone>) {
        let mut all = self.lock();
        let other = all.get(key).is_some_and(|memory| memory.uid != uid);
        let gone = if other { all.remove(key) } else { None };
        let memory = all.entry(key.clone()).or_insert_with(|| Memory {
            uid: uid.to_owned(),
            since: now,
            due: None,
            listed_at: None,
            probed_at: None,
            heard: 0,
            asked_after: 0,
            contacts: contacts.to_vec(),
            contacts_changed_at: None,
            records_kept: None,
            untold: Vec::new(),
            warned: BTreeMap::new(),
        });
        if memory.contacts != contacts {
            memory.contacts = contacts.to_vec();
            memory.contacts_changed_at = Some(now);
        }
        let Memory { since, listed_at, probed_at, .. } = *memory;
        let found = Remembered {
            recent: Recent { listed_at, probed_at, since },
            is_due: memory.due.is_none_or(|due| due <= now),
            has_news: memory.heard != memory.asked_after,
            contacts_changed_at: memory.contacts_changed_at,
        };
        (found, gone.map(Memory::gone))
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Memory)) {
        if let Some(memory) = self.lock().get_mut(key) {
            change(memory);
        }
    }

    /// Its provider is asked now: what it says from here on is news.
    pub(super) fn asks_provider(&self, key: &Key) {
        self.change(key, |memory| memory.asked_after = memory.heard);
    }

    /// Its machines were listed, or could not be.
    pub(super) fn listed(&self, key: &Key, at: Timestamp) {
        self.change(key, |memory| memory.listed_at = memory.listed_at.max(Some(at)));
    }

    pub(super) fn probed(&self, key: &Key, at: Timestamp) {
        self.change(key, |memory| memory.probed_at = memory.probed_at.max(Some(at)));
    }

    /// A look is over that asked for what was due; the next time is `wake`. A look that did not ask puts
    /// nothing off that is due before.
    pub(super) fn ends(&self, key: &Key, was_due: bool, wake: Wake) {
        let wake = wake.at().unwrap_or(Timestamp::MAX);
        self.change(key, |memory| {
            memory.due = Some(memory.due.filter(|_| !was_due).map_or(wake, |due| due.min(wake)));
        });
    }

    /// What was learnt is not on record: everything is asked again.
    pub(super) fn failed(&self, key: &Key) {
        self.change(key, |memory| memory.due = None);
    }

    pub(super) fn keeps_records(&self, key: &Key, kept: Option<KeptRecords>) {
        self.change(key, |memory| memory.records_kept = kept);
    }

    /// People are told that, once it is on record.
    pub(super) fn tell_later(&self, key: &Key, transition: Transition) {
        self.change(key, |memory| {
            if memory.untold.len() < MAX_UNTOLD {
                memory.untold.push(transition);
            }
        });
    }

    /// What people are to be told.
    pub(super) fn take_untold(&self, key: &Key) -> Vec<Transition> {
        let mut untold = Vec::new();
        self.change(key, |memory| untold = std::mem::take(&mut memory.untold));
        untold
    }

    /// Whether something of what is to be warned of now was not warned of before. What does not hold any more is
    /// forgotten.
    pub(super) fn is_news(&self, key: &Key, reason: &'static str, now: &[String]) -> bool {
        let mut is_news = false;
        self.change(key, |memory| {
            let before = memory.warned.insert(reason, now.to_vec()).unwrap_or_default();
            is_news = now.iter().any(|one| !before.contains(one));
        });
        is_news
    }

    /// The provider says that something about its machines is another.
    pub(super) fn hear(&self, key: &Key) {
        self.change(key, |memory| memory.heard = memory.heard.wrapping_add(1));
    }

    pub(super) fn forget(&self, key: &Key) -> Option<Gone> {
        self.lock().remove(key).map(Memory::gone)
    }
}

impl Memory {
    fn gone(self) -> Gone {
        Gone { uid: self.uid, records_kept: self.records_kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn look(memories: &Memories, uid: &str, seconds: i64) -> (Remembered, Option<Gone>) {
        memories.look(&Key::new("a", "blue"), uid, &[], at(seconds))
    }

    #[test]
    fn what_is_due_is_asked_once_and_is_put_off_by_nobody() {
        let (memories, key) = (Memories::default(), Key::new("a", "blue"));
        assert!(look(&memories, "u-1", 0).0.is_due, "nobody knows when it was asked");
        memories.ends(&key, true, Wake::At(at(10)));
        assert!(!look(&memories, "u-1", 5).0.is_due);
        memories.ends(&key, false, Wake::At(at(15)));
        assert!(look(&memories, "u-1", 10).0.is_due, "a look between did not put it off");
        memories.ends(&key, true, Wake::OnChange);
        assert!(!look(&memories, "u-1", 1_000_000).0.is_due);
        memories.failed(&key);
        assert!(look(&memories, "u-1", 1_000_001).0.is_due);
    }

    #[test]
    fn what_a_provider_says_while_it_is_asked_is_news() {
        let (memories, key) = (Memories::default(), Key::new("a", "blue"));
        memories.hear(&key);
        assert!(!look(&memories, "u-1", 0).0.has_news, "nobody looked at it before");
        memories.hear(&key);
        assert!(look(&memories, "u-1", 1).0.has_news);
        memories.asks_provider(&key);
        assert!(!look(&memories, "u-1", 2).0.has_news);
        memories.hear(&key);
        assert!(look(&memories, "u-1", 3).0.has_news);
    }

    #[test]
    fn another_of_the_same_name_begins_anew() {
        let (memories, key) = (Memories::default(), Key::new("a", "blue"));
        look(&memories, "u-1", 0);
        memories.listed(&key, at(7));
        memories.listed(&key, at(5));
        assert_eq!(look(&memories, "u-1", 8).0.recent.listed_at, Some(at(7)));
        let (found, gone) = look(&memories, "u-2", 9);
        assert_eq!(gone.unwrap().uid, "u-1");
        assert_eq!(found.recent, Recent { since: at(9), ..Recent::default() });
        assert_eq!(memories.forget(&key).unwrap().uid, "u-2");
        assert!(memories.forget(&key).is_none());
    }

    #[test]
    fn other_contacts_are_noticed() {
        let (memories, key) = (Memories::default(), Key::new("a", "blue"));
        let told = |address: &str, seconds| {
            memories.look(&key, "u-1", &[address.to_owned()], at(seconds)).0.contacts_changed_at
        };
        assert_eq!(told("a@example.org", 0), None);
        assert_eq!(told("b@example.org", 1), Some(at(1)));
        assert_eq!(told("b@example.org", 2), Some(at(1)));
    }
}
