//! The sessions that are not over, found by their users.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hashbrown::DefaultHashBuilder;
use jiff::Timestamp;
use sojourn_core::access::grant::Grant;
use sojourn_core::access::session::{Session, SessionState, State};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_rbac::{Attributes, Policy, User};
use tokio::sync::watch;

/// How many locks users are spread over. Each is held to find a list, no longer.
const SHARDS: usize = 64;
/// The name of the user as whom a session asks the policy; only its group is meant to be bound.
const SUBJECT_PREFIX: &str = "sojourn:session:";

/// All sessions that may grant something. Finding those of a user copies none of them.
#[derive(Debug)]
pub(super) struct SessionIndex {
    shards: Vec<RwLock<ByUser>>,
    hasher: DefaultHashBuilder,
    /// What changes one session at a time need to know; decisions do not look at it.
    known: Mutex<KnownSessions>,
    unfinished: watch::Sender<SessionCounts>,
}

/// How many sessions are not over, by their clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::access) struct SessionCounts(HashMap<Box<str>, usize>);

impl SessionCounts {
    pub(in crate::access) fn of(&self, cluster: &str) -> usize {
        self.0.get(cluster).copied().unwrap_or(0)
    }

    pub(in crate::access) fn total(&self) -> usize {
        self.0.values().sum()
    }

    fn add(&mut self, cluster: &str) {
        *self.0.entry(cluster.into()).or_default() += 1;
    }

    fn subtract(&mut self, cluster: &str) {
        let left = self.of(cluster).saturating_sub(1);
        if left == 0 {
            self.0.remove(cluster);
        } else {
            self.0.insert(cluster.into(), left);
        }
    }
}

/// The sessions of each user, oldest activation first, then by uid.
type ByUser = HashMap<Box<str>, Arc<[Arc<IndexedSession>]>>;

#[derive(Debug, Default)]
struct KnownSessions {
    group_prefixes: Vec<String>,
    /// By key, sessions that are not over.
    unfinished: HashMap<Key, KnownSession>,
}

#[derive(Debug, Clone)]
struct KnownSession {
    user: Box<str>,
    cluster: Box<str>,
    uid: Box<str>,
    last_use: Arc<LastUse>,
}

/// When this replica last allowed something by a session, in microseconds. It outlives every version of
/// its session, so that no use is forgotten while one takes another's place.
#[derive(Debug)]
struct LastUse(AtomicI64);

impl Default for LastUse {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl LastUse {
    fn get(&self) -> Option<Timestamp> {
        // There is no such time before the first use.
        Timestamp::from_microsecond(self.0.load(Ordering::Acquire)).ok()
    }

    fn record(&self, at: Timestamp) {
        self.0.fetch_max(at.as_microsecond(), Ordering::AcqRel);
    }
}

/// One approved session.
#[derive(Debug)]
pub(super) struct IndexedSession {
    pub(super) key: Key,
    pub(super) uid: Box<str>,
    cluster: Box<str>,
    group: Box<str>,
    issuer: Option<Box<str>>,
    grant: Grant,
    stored_use: Option<Timestamp>,
    last_use: Arc<LastUse>,
    /// As whom the policy is asked.
    subject: User,
}

impl IndexedSession {
    /// Whether it is for this cluster and, if it is pinned to an issuer, for users of that one.
    pub(super) fn is_of(&self, cluster: &str, issuer: Option<&str>) -> bool {
        let vouched = self.issuer.as_deref().is_none_or(|pinned| issuer == Some(pinned));
        vouched && *self.cluster == *cluster
    }

    /// Whether it has not ended, whatever has been written about that so far.
    pub(super) fn is_granted_at(&self, now: Timestamp) -> bool {
        let last_use = self.stored_use.max(self.last_use.get());
        self.grant.until(last_use).is_some_and(|until| now < until)
    }

    pub(super) fn allows(&self, policy: &Policy, request: &Attributes<'_>) -> bool {
        policy.authorize(&Attributes { user: &self.subject, ..*request }).is_allowed()
    }

    pub(super) fn record(&self, now: Timestamp) {
        self.last_use.record(now);
    }

    /// Whether a use has to be on record before it is answered: nothing is yet, or by what is it would end soon.
    pub(super) fn is_near_deadline(&self, now: Timestamp) -> bool {
        self.grant.must_store_first(self.stored_use, now)
    }

    fn of(
        key: &Key,
        (session, state, usage): (&Session, &SessionState, &Usage),
        group_prefixes: &[String],
        last_use: Arc<LastUse>,
    ) -> Self {
        let group = &session.granted_group;
        Self {
            key: key.clone(),
            uid: session.uid.as_str().into(),
            cluster: session.cluster.as_str().into(),
            group: group.as_str().into(),
            issuer: session.issuer.as_deref().map(Into::into),
            grant: Grant::of(&session.terms, state),
            stored_use: usage.last_use(),
            last_use,
            subject: subject(&session.uid, group, group_prefixes),
        }
    }

    fn with_group_prefixes(&self, group_prefixes: &[String]) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            cluster: self.cluster.clone(),
            group: self.group.clone(),
            issuer: self.issuer.clone(),
            grant: self.grant,
            stored_use: self.stored_use,
            last_use: self.last_use.clone(),
            subject: subject(&self.uid, &self.group, group_prefixes),
        }
    }
}

/// Has the group alone, as it is and with every prefix: nothing of what its user may do otherwise.
fn subject(uid: &str, group: &str, group_prefixes: &[String]) -> User {
    let prefixed = group_prefixes.iter().map(|prefix| format!("{prefix}{group}"));
    User {
        name: format!("{SUBJECT_PREFIX}{uid}"),
        groups: std::iter::once(group.to_owned()).chain(prefixed).collect(),
        ..User::default()
    }
}

impl SessionIndex {
    pub(super) fn new(group_prefixes: &[String]) -> Self {
        let known =
            KnownSessions { group_prefixes: group_prefixes.to_vec(), ..KnownSessions::default() };
        Self {
            shards: std::iter::repeat_with(RwLock::default).take(SHARDS).collect(),
            hasher: DefaultHashBuilder::default(),
            known: Mutex::new(known),
            unfinished: watch::Sender::new(SessionCounts::default()),
        }
    }

    /// The approved sessions of a user.
    pub(super) fn of(&self, user: &str) -> Arc<[Arc<IndexedSession>]> {
        let by_user = self.shard(user).read().unwrap_or_else(PoisonError::into_inner);
        by_user.get(user).cloned().unwrap_or_default()
    }

    /// How many sessions are not over.
    pub(super) fn unfinished(&self) -> watch::Receiver<SessionCounts> {
        self.unfinished.subscribe()
    }

    /// The session is now so, or it is gone. A session that somebody deletes grants nothing any more.
    pub(super) fn upsert(&self, key: &Key, session: Option<(&Session, &SessionState, &Usage)>) {
        // Held until the end, so that of two changes of one session the latter stays.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let live = session.filter(|(session, state, _)| {
            !session.deleting && !state.state.is_some_and(State::is_final)
        });
        let before = known.unfinished.remove(key);
        let cluster_before = before.as_ref().map(|before| before.cluster.clone());
        let cluster_now = live.map(|(session, ..)| Box::from(session.cluster.as_str()));
        if let Some(before) = &before {
            let other_user = |session: &Session| *session.user != *before.user;
            if live.is_none_or(|(session, ..)| other_user(session)) {
                self.replace(&before.user, key, None);
            }
        }
        if let Some(all @ (session, state, _)) = live {
            let same = before.filter(|before| *before.uid == *session.uid);
            let last_use = same.map(|before| before.last_use).unwrap_or_default();
            let approved = state.state == Some(State::Approved);
            let indexed = approved
                .then(|| IndexedSession::of(key, all, &known.group_prefixes, last_use.clone()));
            self.replace(&session.user, key, indexed);
            let (user, uid) = (session.user.as_str().into(), session.uid.as_str().into());
            let cluster = session.cluster.as_str().into();
            known.unfinished.insert(key.clone(), KnownSession { user, cluster, uid, last_use });
        }
        self.unfinished.send_if_modified(|counts| {
            if let Some(cluster) = &cluster_before {
                counts.subtract(cluster);
            }
            if let Some(cluster) = &cluster_now {
                counts.add(cluster);
            }
            cluster_before != cluster_now
        });
    }

    /// Bindings may name groups with these prefixes from now on.
    pub(super) fn set_group_prefixes(&self, group_prefixes: &[String]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.group_prefixes == group_prefixes {
            return;
        }
        known.group_prefixes = group_prefixes.to_vec();
        for shard in &self.shards {
            let mut by_user = shard.write().unwrap_or_else(PoisonError::into_inner);
            for sessions in by_user.values_mut() {
                let renamed = |session: &Arc<IndexedSession>| {
                    Arc::new(session.with_group_prefixes(group_prefixes))
                };
                *sessions = sessions.iter().map(renamed).collect();
            }
        }
    }

    /// Replaces the entry of one session in the list of its user.
    fn replace(&self, user: &str, key: &Key, session: Option<IndexedSession>) {
        let mut by_user = self.shard(user).write().unwrap_or_else(PoisonError::into_inner);
        let listed = by_user.get(user).cloned().unwrap_or_default();
        let others = listed.iter().filter(|listed| listed.key != *key).cloned();
        let mut sessions: Vec<_> = others.chain(session.map(Arc::new)).collect();
        if sessions.is_empty() {
            by_user.remove(user);
            return;
        }
        let order = |session: &IndexedSession| session.grant.activated_at();
        sessions.sort_by(|a, b| (order(a), &a.uid).cmp(&(order(b), &b.uid)));
        by_user.insert(user.into(), sessions.into());
    }

    fn shard(&self, user: &str) -> &RwLock<ByUser> {
        // The middle bits, because the tables use those at both ends.
        let hash = self.hasher.hash_one(user) >> 24;
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }
}
