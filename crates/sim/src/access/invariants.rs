//! What really happened to sessions, and what must never. It believes the decisions that an API server was given and
//! the objects that an observer saw, and nothing that the operator says of its reasons.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use sojourn_api::access::status::BreakglassSessionStatus;
use sojourn_api::access::{BreakglassSession, session};
use sojourn_core::access::session::{State, Terms};
use sojourn_core::key::Key;
use sojourn_core::moment::ceil_second;
use sojourn_drivers::notify::Notice;
use sojourn_operator::access::SESSION_WATCH_SECONDS;
use sojourn_operator::clock::VirtualClock;

use crate::event_log::{EventLog, invariants};
use crate::simulation::Checker;

/// Clocks differ by so much at most, twice: of who saw a use and of who decides.
const MAX_EARLY: SignedDuration = SignedDuration::from_secs(4);
/// So late, at most, an end is seen after it was decided: it is written and watched for in between.
const MAX_SEEN_LATE: SignedDuration = SignedDuration::from_secs(1);
/// So long a watch of sessions may be silent: kube's watcher waits for 5 s beyond the time that it asked for.
pub(super) const MAX_SESSION_SILENCE: Duration =
    Duration::from_secs(SESSION_WATCH_SECONDS as u64 + 5);
/// So late a replica learns what somebody did at another one, with a few lists that fail and what clocks differ by.
const MAX_WATCH_LAG: SignedDuration =
    SignedDuration::from_secs(MAX_SESSION_SILENCE.as_secs() as i64 + 25);
/// A replica that is killed loses at most so much of what it saw, with what a write that failed waits.
const MAX_LOST: SignedDuration = SignedDuration::from_secs(75);
/// The stage of such a notice's id that says when a session ends unless it is used.
const IDLE_WARNING: &str = "idle-warning";
/// So much of the time in which nobody can be asked may go unnoticed at its ends.
const UNNOTICED: SignedDuration = SignedDuration::from_secs(25);

invariants! {
    /// What must hold of sessions in every run.
    Invariant {
        /// Nothing ends for want of use before its time, counted from what was really used and really blind.
        NotEarly,
        /// Nor before a time that its user was told.
        Promised,
        /// Nothing is allowed after the deadline, by the clock of the replica that decides.
        NothingAfterDeadline,
        /// What is counted is what was allowed.
        ExactCounts,
        /// States follow each other as they may; a final one stays.
        LegalTransitions,
        /// A record is not deleted before it was kept for as long as it should be.
        Retained,
        /// Once nothing fails any more, what is due is done within a bound.
        Liveness,
        /// No task of the operator ends by itself, and no observer is cut off.
        NothingBreaks,
    }
}

/// One allowed request.
#[derive(Debug, Clone)]
struct Use {
    /// By the clock of the replica that decided.
    at: Timestamp,
    replica: String,
}

/// A time with its end, if that has come.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    begin: Timestamp,
    end: Option<Timestamp>,
}

impl Stretch {
    /// How much of it is between two times.
    fn within(self, from: Timestamp, until: Timestamp) -> SignedDuration {
        let end = self.end.map_or(until, |end| end.min(until));
        end.duration_since(self.begin.max(from)).max(SignedDuration::ZERO)
    }
}

/// Notes that something can be done from now on, or cannot.
fn note_stretch(stretches: &mut Vec<Stretch>, possible: bool, now: Timestamp) {
    match (possible, stretches.last_mut()) {
        (true, Some(Stretch { end: end @ None, .. })) => *end = Some(now),
        (false, Some(Stretch { end: None, .. })) | (true, _) => {}
        (false, _) => stretches.push(Stretch { begin: now, end: None }),
    }
}

/// One session.
#[derive(Debug)]
struct Life {
    key: Key,
    terms: Terms,
    last: BreakglassSession,
    activated_at: Option<Timestamp>,
    restarted_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// When it was to end before somebody ended it, if somebody did.
    before_act: Option<Timestamp>,
    uses: Vec<Use>,
    /// The latest time at which its user was told that it ends unless it is used.
    promised: Option<Timestamp>,
}

/// Records what happens to sessions.
#[derive(Debug)]
pub struct SessionChecker {
    log: EventLog,
    lives: BTreeMap<String, Life>,
    /// When replicas ended without a word.
    ended: BTreeMap<String, Timestamp>,
    /// Stretches in which the API server of a cluster could ask nobody.
    blind: BTreeMap<String, Vec<Stretch>>,
    /// Stretches in which nothing could be written.
    unwritable: Vec<Stretch>,
    pub uses: u64,
    pub idle_expiries: u64,
    /// How often somebody was told when a session ends unless it is used.
    pub promises: u64,
    pub expiries: u64,
    pub deletions: u64,
    /// How long sessions that have ended were active, all together.
    active_for: SignedDuration,
}

impl Checker for SessionChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.log.violated(Invariant::NothingBreaks.name(), &Key::new("", ""), message.to_owned());
    }
}

impl SessionChecker {
    pub(super) fn new(clock: Arc<VirtualClock>) -> Self {
        Self {
            log: EventLog::new(clock),
            lives: BTreeMap::new(),
            ended: BTreeMap::new(),
            blind: BTreeMap::new(),
            unwritable: Vec::new(),
            uses: 0,
            idle_expiries: 0,
            promises: 0,
            expiries: 0,
            deletions: 0,
            active_for: SignedDuration::ZERO,
        }
    }

    pub fn note(&mut self, message: impl Into<String>) {
        self.log.note(message);
    }

    /// How long sessions were active so far, all together.
    pub fn active_for(&self) -> SignedDuration {
        let now = self.log.now();
        let active = self.lives.values().filter(|life| life.ended_at.is_none());
        let active = active.filter_map(|life| Some(now.duration_since(life.activated_at?)));
        active.fold(self.active_for, SignedDuration::saturating_add)
    }

    /// How long nobody could be asked, all together.
    pub fn blind_for(&self) -> SignedDuration {
        let now = self.log.now();
        let stretches = self.blind.values().flatten();
        let spans = stretches.map(|stretch| stretch.within(stretch.begin, now));
        spans.fold(SignedDuration::ZERO, SignedDuration::saturating_add)
    }

    fn violated(&mut self, invariant: Invariant, key: &Key, message: String) {
        self.log.violated(invariant.name(), key, message);
    }

    /// The session of that name, as it was last seen.
    pub fn session(&self, key: &Key) -> Option<&BreakglassSession> {
        self.lives.values().find(|life| life.key == *key).map(|life| &life.last)
    }

    /// The sessions that are there, as they were last seen.
    pub fn sessions(&self) -> impl Iterator<Item = (&Key, &BreakglassSession)> {
        self.lives.values().map(|life| (&life.key, &life.last))
    }

    /// How often a session was really used.
    pub fn uses_of(&self, key: &Key) -> usize {
        self.lives.values().find(|life| life.key == *key).map_or(0, |life| life.uses.len())
    }

    /// How much use a replica has really seen.
    pub fn uses_through(&self, replica: &str) -> u64 {
        let uses = self.lives.values().flat_map(|life| &life.uses);
        uses.filter(|one| one.replica == replica).count() as u64
    }

    pub(super) fn webhook_reachable(&mut self, cluster: &str, reachable: bool) {
        let now = self.log.now();
        self.log.note(format!("the webhook can be reached from {cluster}: {reachable}"));
        note_stretch(self.blind.entry(cluster.to_owned()).or_default(), reachable, now);
    }

    pub(super) fn api_reachable(&mut self, reachable: bool) {
        let now = self.log.now();
        self.log.note(format!("the API can be reached: {reachable}"));
        note_stretch(&mut self.unwritable, reachable, now);
    }

    /// Whether a use may have gone with the replica that saw it: that was killed before it could write it down.
    fn may_be_lost(&self, one: &Use) -> bool {
        self.ended.get(&one.replica).is_some_and(|ended| {
            let unwritable = self.unwritable.iter().map(|stretch| stretch.within(one.at, *ended));
            let unwritable = unwritable.fold(SignedDuration::ZERO, SignedDuration::saturating_add);
            ended.duration_since(one.at) <= MAX_LOST.saturating_add(unwritable)
        })
    }

    /// The stretches in which nobody could see whether a session is used.
    fn blind_of(&self, session: &BreakglassSession) -> &[Stretch] {
        self.blind.get(&session.spec.cluster).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn replica_ended(&mut self, name: &str) {
        self.log.note(format!("{name} has ended"));
        let now = self.log.now();
        self.ended.insert(name.to_owned(), now);
    }

    /// An API server was told that a request is allowed.
    pub(super) fn allowed(&mut self, replica: &str, reason: &str, at: Timestamp) {
        let uids = reason.split("(uid ").skip(1).filter_map(|part| part.split(')').next());
        for uid in uids {
            self.uses += 1;
            let Some(life) = self.lives.get_mut(uid) else { continue };
            let deadline = life.deadline_known_to_all(&self.unwritable);
            life.uses.push(Use { at, replica: replica.to_owned() });
            if life.before_act.is_some() {
                // Whoever has not heard of that act goes by this use.
                life.before_act = life.before_act.max(life.latest_deadline());
            }
            let key = life.key.clone();
            self.log.note(format!("{key} is used through {replica}"));
            if let Some(deadline) = deadline.filter(|deadline| at >= *deadline) {
                let message =
                    format!("{replica} allows it at {at}, and the deadline is {deadline}");
                self.violated(Invariant::NothingAfterDeadline, &key, message);
            }
        }
    }

    /// Somebody gets a mail.
    pub(super) fn told(&mut self, notice: &Notice) {
        let mut parts = notice.id.split('.');
        let (Some(uid), Some(IDLE_WARNING)) = (parts.next(), parts.next()) else { return };
        if let Some(life) = self.lives.get_mut(uid) {
            life.promised = life.promised.max(notice.facts.deadline);
            self.promises += 1;
        }
    }

    pub(super) fn saw(&mut self, object: BreakglassSession) {
        let uid = object.uid().unwrap_or_default();
        let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
        let now = self.log.now();
        if !self.lives.contains_key(&uid) {
            let Ok(read) = session(&object) else { return };
            self.log.note(format!("{key} is requested"));
            let life = Life {
                key: key.clone(),
                terms: read.terms,
                last: object.clone(),
                activated_at: None,
                restarted_at: None,
                ended_at: None,
                before_act: None,
                uses: Vec::new(),
                promised: None,
            };
            self.lives.insert(uid.clone(), life);
        }
        let Some(life) = self.lives.get_mut(&uid) else { return };
        let (before, after) = (state_of(&life.last), state_of(&object));
        let extensions = |one: &BreakglassSession| one.status.as_ref().map_or(0, |s| s.extensions);
        if extensions(&object) > extensions(&life.last) {
            life.restarted_at = Some(now);
        }
        if after.is_some_and(State::is_final) && status_of(&object).ended_by.is_some() {
            life.before_act = life.before_act.or(life.latest_deadline());
        }
        life.last = object;
        if before == after {
            return;
        }
        self.log.note(format!("{key} goes from {before:?} to {after:?}"));
        let legal = match (before, after) {
            (None, Some(State::Pending)) => true,
            (Some(before), Some(after)) => before.may_become(after),
            (None, Some(_)) | (_, None) => false,
        };
        if !legal {
            self.violated(Invariant::LegalTransitions, &key, format!("{before:?} to {after:?}"));
        }
        self.entered(&uid, after, now);
    }

    fn entered(&mut self, uid: &str, state: Option<State>, now: Timestamp) {
        let Some(life) = self.lives.get_mut(uid) else { return };
        if let Some(activated_at) = life.activated_at.filter(|_| state.is_some_and(State::is_final))
        {
            self.active_for = self.active_for.saturating_add(now.duration_since(activated_at));
        }
        match state {
            Some(State::Approved) => life.activated_at = Some(now),
            Some(State::IdleExpired) => {
                self.idle_expiries += 1;
                life.ended_at = Some(now);
                self.check_idle(uid, now);
            }
            Some(State::Expired) => {
                self.expiries += 1;
                life.ended_at = Some(now);
            }
            Some(State::Rejected | State::Withdrawn | State::ApprovalTimeout) => {
                life.ended_at = Some(now);
            }
            Some(State::Pending | State::WaitingForScheduledTime) | None => {}
        }
    }

    /// It ended because nobody used it: for long enough, by what really happened.
    fn check_idle(&mut self, uid: &str, now: Timestamp) {
        let Some(life) = self.lives.get(uid) else { return };
        let last_use =
            life.uses.iter().filter(|one| !self.may_be_lost(one)).map(|one| one.at).max();
        let from = last_use.max(life.activated_at).max(life.restarted_at).unwrap_or(now);
        let blind: SignedDuration = self
            .blind_of(&life.last)
            .iter()
            .map(|stretch| stretch.within(from, now))
            .map(|span| span.saturating_sub(UNNOTICED).max(SignedDuration::ZERO))
            .fold(SignedDuration::ZERO, SignedDuration::saturating_add);
        let least = life.least_span(last_use.is_some());
        let due = least.map(|span| from + span + blind - MAX_EARLY);
        let (key, promised) = (life.key.clone(), life.promised);
        if let Some(promised) = promised.filter(|promised| now < *promised - MAX_EARLY) {
            let message = format!("it ends at {now}, and its user was told {promised}");
            self.violated(Invariant::Promised, &key, message);
        }
        if due.is_none_or(|due| now < due) {
            let message = format!(
                "it ends at {now}, was last used at {last_use:?}, counts from {from} with {blind:#} \
                 blind, and may be unused for {least:?}"
            );
            self.violated(Invariant::NotEarly, &key, message);
        }
    }

    pub(super) fn saw_deleted(&mut self, object: &BreakglassSession) {
        let uid = object.uid().unwrap_or_default();
        let Some(life) = self.lives.get(&uid) else { return };
        let (key, now) = (life.key.clone(), self.log.now());
        let kept = life.ended_at.map(|ended| now.duration_since(ended));
        let retain_for = life.terms.retain_for;
        self.deletions += 1;
        self.log.note(format!("{key} is deleted"));
        let slack = MAX_EARLY + MAX_SEEN_LATE;
        if kept.is_none_or(|kept| kept.saturating_add(slack) < retain_for) {
            let message = format!("it was kept for {kept:?} of {retain_for:#}");
            self.violated(Invariant::Retained, &key, message);
        }
        self.check_count(&uid);
        self.lives.remove(&uid);
    }

    /// What is counted is what was allowed, but for what went with a replica that was killed.
    fn check_count(&mut self, uid: &str) {
        let Some(life) = self.lives.get(uid) else { return };
        let lost = life.uses.iter().filter(|one| self.may_be_lost(one));
        let (all, lost) = (life.uses.len() as u64, lost.count() as u64);
        let counted = status_of(&life.last).activity_count;
        let key = life.key.clone();
        if counted > all || counted < all - lost {
            let replicas = status_of(&life.last).activity_by_replica;
            let message = format!(
                "{counted} are counted of {all}, of which {lost} may have been lost: {replicas:?}"
            );
            self.violated(Invariant::ExactCounts, &key, message);
        }
        let Some(life) = self.lives.get(uid) else { return };
        if lost == 0 {
            let last = life.uses.iter().map(|one| ceil_second(one.at)).max();
            let stored = status_of(&life.last).last_activity.map(|time| time.0);
            if stored != last {
                let message = format!("the last use is {last:?}, and {stored:?} is on record");
                self.violated(Invariant::ExactCounts, &key, message);
            }
        }
    }

    /// Everything that was counted is right, and what was due is done.
    pub(super) fn check_end(&mut self, slack: SignedDuration) {
        let now = self.log.now();
        let uids: Vec<String> = self.lives.keys().cloned().collect();
        for uid in uids {
            self.check_count(&uid);
            let Some(life) = self.lives.get(&uid) else { continue };
            let late = |at: Option<Timestamp>| at.is_some_and(|at| at + slack < now);
            let status = status_of(&life.last);
            let overdue = match state_of(&life.last) {
                None => true,
                Some(State::Approved | State::WaitingForScheduledTime) => {
                    late(status.expires_at.map(|time| time.0))
                        || late(
                            life.latest_deadline().filter(|_| self.blind_of(&life.last).is_empty()),
                        )
                }
                Some(State::Pending) => {
                    let created = life.last.creation_timestamp().map(|time| time.0);
                    late(created.map(|created| created + life.terms.approval_timeout))
                }
                Some(
                    State::Rejected
                    | State::Withdrawn
                    | State::Expired
                    | State::IdleExpired
                    | State::ApprovalTimeout,
                ) => late(life.ended_at.map(|ended| ended + life.terms.retain_for)),
            };
            let (key, state) = (life.key.clone(), state_of(&life.last));
            if overdue {
                self.violated(Invariant::Liveness, &key, format!("it is still {state:?}"));
            }
        }
    }
}

impl Life {
    /// The shortest time without use after which it may end; nothing, if it does not for that.
    fn least_span(&self, used: bool) -> Option<SignedDuration> {
        let first = self.terms.first_use_timeout.filter(|_| !used);
        first.unwrap_or(self.terms.idle_timeout).span()
    }

    /// The longest time without use that a replica may go by: until the first use there is but one, and after it somebody
    /// may not have heard of it yet. Nothing, if it does not end for that.
    fn longest_span(&self) -> Option<SignedDuration> {
        let unused = self.least_span(false)?;
        if self.uses.is_empty() {
            return Some(unused);
        }
        self.least_span(true).map(|used| used.max(unused))
    }

    /// When it ends at the latest, whoever decides. What somebody did elsewhere a replica learns from its watch, which
    /// may be silent for a while, and which cannot be opened in `outages` of the API.
    fn deadline_known_to_all(&self, outages: &[Stretch]) -> Option<Timestamp> {
        let Some(before_act) = self.before_act else { return self.latest_deadline() };
        let ended_at = self.ended_at?;
        let mut learnt = ended_at + MAX_WATCH_LAG;
        for outage in outages.iter().filter(|outage| outage.end.is_none_or(|end| end > ended_at)) {
            if outage.begin < learnt {
                // Afterwards as much passes until the next try.
                learnt = outage.end.map_or(before_act, |end| learnt.max(end + MAX_WATCH_LAG));
            }
        }
        Some(learnt.min(before_act))
    }

    /// When it ends at the latest, by what was really used and by what is on record.
    fn latest_deadline(&self) -> Option<Timestamp> {
        let status = status_of(&self.last);
        let expires_at = status.expires_at.map(|time| time.0);
        let Some(longest) = self.longest_span() else { return expires_at };
        let last_use = self.uses.iter().map(|one| ceil_second(one.at)).max();
        let activated_at = status.activated_at.map(|time| time.0);
        let restarted_at = status.idle_restarted_at.map(|time| time.0);
        let from = last_use.max(activated_at).max(restarted_at)?;
        let idle = (from + longest).max(status.idle_deadline.map_or(Timestamp::MIN, |time| time.0));
        expires_at.map(|expires_at| expires_at.min(idle))
    }
}

fn status_of(object: &BreakglassSession) -> BreakglassSessionStatus {
    object.status.clone().unwrap_or_default()
}

/// Where a session is in its life.
pub fn state_of(object: &BreakglassSession) -> Option<State> {
    object.status.as_ref()?.state.map(State::from)
}
