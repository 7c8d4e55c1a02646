//! What really happened to one instance.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::NoticeState;
use sojourn_core::activity::Source;
use sojourn_core::keep::{MAX_KEEP_DURATION, MAX_KEEPS};
use sojourn_core::key::Key;

use super::key_of;
use super::submission::hands_in;

/// An instance from its creation to its end.
#[derive(Debug)]
pub struct InstanceHistory {
    pub key: Key,
    pub template: Key,
    pub created_at: Timestamp,
    pub running: bool,
    /// When it was last started or stopped.
    pub changed_at: Timestamp,
    pub deleting: bool,
    pub gone_at: Option<Timestamp>,
    pub uses: Vec<InstanceUse>,
    pub accepted: Vec<AcceptedNotice>,
    /// How each notice stood when it was last stored.
    pub notices: BTreeMap<String, NoticeState>,
    pub person_stops: bool,
    pub person_deletes: bool,
    /// Somebody gave up what was owed.
    pub given_up: bool,
    pub kept_until: Option<Timestamp>,
    keeps: u32,
    /// How often it ended in a way that hands in what it keeps.
    pub(super) hand_ins: usize,
    /// It has run since it was last handed in, so there is work in it.
    pub(super) has_work: bool,
    /// The object as it was last seen.
    pub last: Instance,
}

/// One use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceUse {
    pub at: Timestamp,
    pub source: Source,
    /// Its source could see it.
    pub seen: bool,
}

/// A notice that the mail server accepted.
#[derive(Debug, Clone)]
pub struct AcceptedNotice {
    pub at: Timestamp,
    pub id: String,
    /// E.g. `inactivity-2`.
    pub stage: String,
    pub deadline: Option<Timestamp>,
    /// The sender was told that it was accepted.
    pub acknowledged: bool,
    /// How often the operator had been killed by then.
    pub operator: usize,
    /// No other operator ran beside it.
    pub alone: bool,
}

impl InstanceHistory {
    pub(super) fn new(instance: &Instance, now: Timestamp) -> Self {
        let key = key_of(instance);
        let template = &instance.spec.template;
        let namespace = template.namespace.clone().unwrap_or_else(|| key.namespace.to_string());
        Self {
            template: Key::new(namespace, template.name.clone()),
            key,
            created_at: instance.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0),
            running: instance.spec.running,
            changed_at: now,
            deleting: false,
            gone_at: None,
            uses: Vec::new(),
            accepted: Vec::new(),
            notices: BTreeMap::new(),
            person_stops: false,
            person_deletes: false,
            given_up: false,
            kept_until: None,
            keeps: 0,
            hand_ins: 0,
            has_work: false,
            last: instance.clone(),
        }
    }

    /// It ends: what was written since the last end is to be handed in, if anything keeps it.
    pub(super) fn ends(&mut self) {
        if std::mem::take(&mut self.has_work) && hands_in(&self.last) {
            self.hand_ins += 1;
        }
    }

    /// What a request to keep it gives: within the allowance, not for longer than is ever given, and never less
    /// than before.
    pub(super) fn keep(&mut self, asked: Timestamp, now: Timestamp) {
        let given = asked.min(now.checked_add(MAX_KEEP_DURATION).unwrap_or(Timestamp::MAX));
        let holds = self.kept_until.is_some_and(|until| now < until);
        if given <= now || (holds && self.kept_until.is_some_and(|until| given <= until)) {
            return;
        }
        if self.keeps < MAX_KEEPS {
            self.keeps += 1;
            self.kept_until = Some(given);
        }
    }

    /// The warnings that were accepted after `since` on the newest ladder of this name, the first
    /// acceptance of each. A ladder begins anew when it was left: with its first warning.
    pub(super) fn warnings(&self, ladder: &str, since: Timestamp) -> Vec<&AcceptedNotice> {
        let mut climbed: Vec<&AcceptedNotice> = Vec::new();
        for one in self.accepted.iter().filter(|one| one.at >= since && one.is_of(ladder)) {
            if climbed.iter().any(|known| known.id == one.id) {
                continue;
            }
            if one.stage.ends_with("-1") {
                climbed.clear();
            }
            climbed.push(one);
        }
        climbed
    }

    /// The latest deadline that anybody was told on a ladder, ever.
    pub(super) fn announced_deadline(&self, ladder: &str) -> Option<Timestamp> {
        self.accepted.iter().filter(|one| one.is_of(ladder)).filter_map(|one| one.deadline).max()
    }

    /// The last use that was seen, of those that `counts`.
    pub(super) fn last_use(&self, counts: impl Fn(&InstanceUse) -> bool) -> Option<Timestamp> {
        self.uses.iter().filter(|one| one.seen && counts(one)).map(|one| one.at).max()
    }

    /// When nothing of it has been used since, by what was seen and is known by now.
    pub(super) fn idle_since(&self, known: impl Fn(&InstanceUse) -> bool) -> Timestamp {
        self.last_use(known).map_or(self.changed_at, |at| at.max(self.changed_at))
    }
}

impl AcceptedNotice {
    fn is_of(&self, ladder: &str) -> bool {
        self.stage.strip_prefix(ladder).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Less than this is rounding: the API keeps whole seconds.
pub(super) const ROUNDING: SignedDuration = SignedDuration::from_secs(2);
