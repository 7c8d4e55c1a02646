//! The caches of the family's objects with their indexes, and which sessions a watch event wakes.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use hashbrown::DefaultHashBuilder;
use jiff::SignedDuration;
use kube::api::ListParams;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use sojourn_api::access::{
    BreakglassEscalation, BreakglassSession, read_state, read_usage, session,
};
use sojourn_core::access::deciding::Sibling;
use sojourn_core::access::session::SessionState;
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use tokio::sync::watch;

use crate::frame::cache::key_of;
use crate::frame::{Cache, Change, Guarded, Index, Queue, Read, Tasks, WatchSettings};

/// How many sessions are read at a time before a term begins.
const CATCH_UP_PAGE: u32 = 500;
/// How long a status that we did not write may wait for a look.
const FOREIGN_STATUS_DELAY: SignedDuration = SignedDuration::from_mins(5);
/// How long use that was written may wait for one: its deadline moves on, and nothing else follows from it.
const USE_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// After how many seconds the watch of sessions is opened anew at the latest. What somebody does to a session through
/// another replica is known by this watch alone, so a connection that died must not be believed in for long.
pub const SESSION_WATCH_SECONDS: u32 = 30;

/// Label of a session: a hash of its user, by which the sessions of one are listed.
pub(super) const USER_LABEL: &str = "access.sojourn.dev/user";

/// Told of every change of a session: what it is now, if it is there.
type SessionListener = Box<dyn Fn(&Key, Option<&BreakglassSession>) + Send + Sync>;

/// The caches of the family, with what connects them.
pub(crate) struct AccessCaches {
    pub(crate) sessions: Cache<Read<BreakglassSession>>,
    pub(crate) escalations: Cache<Read<BreakglassEscalation>>,
    /// By a hash of cluster, user and group, and by one of the user. Hashes are a fraction of the names; whoever is found
    /// by one is compared.
    of_triple: Index<u64>,
    of_user: Index<u64>,
    hasher: DefaultHashBuilder,
    queue: Arc<Queue>,
    listener: OnceLock<SessionListener>,
    /// Counts the changes of sessions, for whoever waits for one.
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for AccessCaches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessCaches")
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

impl AccessCaches {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        Self {
            sessions: Cache::default(),
            escalations: Cache::default(),
            of_triple: Index::default(),
            of_user: Index::default(),
            hasher: DefaultHashBuilder::default(),
            queue,
            listener: OnceLock::new(),
            changes: watch::Sender::new(0),
        }
    }

    /// Who is told of every change of a session. Set once, before anything is followed.
    pub(crate) fn set_listener(
        &self,
        listener: impl Fn(&Key, Option<&BreakglassSession>) + Send + Sync + 'static,
    ) {
        let _ = self.listener.set(Box::new(listener));
    }

    pub(crate) async fn until_ready(&self) {
        self.sessions.until_ready().await;
        self.escalations.until_ready().await;
    }

    /// Keeps every cache up to date.
    pub(crate) fn follow(
        self: &Arc<Self>,
        client: &Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let (caches, api) = (self.clone(), Api::<Guarded<BreakglassSession>>::all(client.clone()));
        let timeout_seconds = watching.timeout_seconds.min(SESSION_WATCH_SECONDS);
        let selection = WatchSettings { timeout_seconds, ..watching }.everything();
        tasks.spawn("sessions", async move {
            let changed = |change: &Change<'_, _>| caches.session_changed(change);
            caches.sessions.follow(api, selection, read_session, changed).await;
        });
        let (caches, api) =
            (self.clone(), Api::<Guarded<BreakglassEscalation>>::all(client.clone()));
        let selection = watching.everything();
        tasks.spawn("escalations", async move {
            // Nothing follows from an edit for the sessions there are.
            let changed = |_: &Change<'_, Read<BreakglassEscalation>>| {};
            caches.escalations.follow(api, selection, Guarded::read, changed).await;
        });
    }

    /// Reads every session as it is now. A watch may be behind without anybody noticing, and whoever led
    /// before has written into the objects what must not be done again.
    pub(crate) async fn catch_up(&self, client: &Client) -> Result<(), kube::Error> {
        let api: Api<Guarded<BreakglassSession>> = Api::all(client.clone());
        let mut params = ListParams::default().limit(CATCH_UP_PAGE);
        loop {
            let page = api.list(&params).await?;
            for session in page.items {
                self.admit(session);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Reads one session as it is now.
    pub(crate) async fn refresh(&self, client: &Client, key: &Key) -> Result<(), kube::Error> {
        let api: Api<Guarded<BreakglassSession>> = Api::namespaced(client.clone(), &key.namespace);
        match api.get_opt(&key.name).await? {
            Some(session) => self.admit(session),
            None => self.sessions.evict(key, |change| self.session_changed(change)),
        }
        Ok(())
    }

    /// Caches a session that was read beside the watch.
    fn admit(&self, session: Guarded<BreakglassSession>) {
        let (key, version) = (key_of(&session), session.meta().resource_version.clone());
        let read = read_session(session);
        self.sessions.admit(&key, version.as_deref(), read, |change| self.note(change));
    }

    /// Caches the object that a write of our own returned. It needs no look because of it.
    pub(crate) fn record_write(&self, key: &Key, session: BreakglassSession) {
        let version = session.resource_version();
        let stored = without_unused_metadata(session);
        self.sessions.put(key, version.as_deref(), Ok(stored), |change| self.note(change));
    }

    /// Caches what a report of use made of a session. Its deadline moves on, which is decided soon.
    pub(crate) fn record_use(&self, key: &Key, session: BreakglassSession) {
        let version = session.resource_version();
        let stored = without_unused_metadata(session);
        self.sessions
            .put(key, version.as_deref(), Ok(stored), |change| self.session_changed(change));
    }

    /// Caches what somebody's act made of a session, or created, and wakes it: what follows from that was not
    /// decided yet.
    pub(crate) fn record_act(&self, key: &Key, session: BreakglassSession) {
        let version = session.resource_version();
        let stored = without_unused_metadata(session);
        self.sessions.admit(key, version.as_deref(), Ok(stored), |change| self.note(change));
        self.queue.wake(key);
    }

    /// Forgets a session that the API says is gone.
    pub(crate) fn evict(&self, key: &Key) {
        self.sessions.evict(key, |change| self.note(change));
    }

    /// Keeps the indexes, and tells whoever listens.
    fn note(&self, change: &Change<'_, Read<BreakglassSession>>) {
        let (before, now) = (readable(change.before), readable(change.now));
        let triple = |session: &BreakglassSession| self.hasher.hash_one(triple(session));
        self.of_triple.update(change.key, before.map(triple), now.map(triple));
        let user = |session: &BreakglassSession| self.hasher.hash_one(session.spec.user.as_str());
        self.of_user.update(change.key, before.map(user), now.map(user));
        if let Some(listener) = self.listener.get() {
            listener(change.key, now);
        }
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// What somebody did is looked at now, what was used soon, and what another operator decided in its time: two
    /// that saw differently would otherwise write against each other without end.
    fn session_changed(&self, change: &Change<'_, Read<BreakglassSession>>) {
        self.note(change);
        let (Some(before), Some(now)) = (readable(change.before), readable(change.now)) else {
            self.queue.wake(change.key);
            if let Some(gone) = readable(change.before).filter(|_| change.now.is_none()) {
                self.wake_siblings(change.key, gone);
            }
            return;
        };
        if acted(before) != acted(now) {
            self.queue.wake(change.key);
            self.wake_siblings(change.key, now);
        } else if read_usage_of(before) != read_usage_of(now) {
            let first = read_usage_of(before).last_use().is_none();
            let delay = if first { SignedDuration::ZERO } else { USE_DELAY };
            self.queue.wake_within(change.key, delay);
        } else {
            self.queue.wake_within(change.key, FOREIGN_STATUS_DELAY);
        }
    }

    fn wake_siblings(&self, key: &Key, session: &BreakglassSession) {
        for sibling in self.of_triple.of(&self.hasher.hash_one(triple(session))) {
            if sibling != *key {
                self.queue.wake(&sibling);
            }
        }
    }

    pub(crate) fn wake_all(&self) {
        let mut keys = self.sessions.keys();
        keys.sort_unstable();
        keys.iter().for_each(|key| self.queue.wake(key));
    }

    /// The session, if it is there and can be read.
    pub(crate) fn get(&self, key: &Key) -> Option<BreakglassSession> {
        self.sessions.get(key).and_then(|read| read.as_ref().as_ref().ok().cloned())
    }

    /// The uid of the session of that name.
    pub(crate) fn uid(&self, key: &Key) -> Option<String> {
        let read = self.sessions.get(key)?;
        read.as_ref().as_ref().ok()?.uid()
    }

    /// The sessions of a user, each with its key.
    pub(crate) fn of_user(&self, user: &str) -> Vec<(Key, BreakglassSession)> {
        let keys = self.of_user.of(&self.hasher.hash_one(user)).into_iter();
        let found = keys.filter_map(|key| self.get(&key).map(|session| (key, session)));
        found.filter(|(_, session)| session.spec.user == user).collect()
    }

    /// The other sessions of the same cluster, user and group.
    pub(crate) fn siblings(&self, key: &Key, session: &BreakglassSession) -> Vec<Sibling> {
        let keys = self.of_triple.of(&self.hasher.hash_one(triple(session))).into_iter();
        let found = keys.filter(|one| one != key).filter_map(|key| self.get(&key));
        let siblings = found.filter(|other| triple(other) == triple(session));
        siblings.map(|sibling| sibling_of(&sibling)).collect()
    }

    /// The escalation that a session was made from, as it is now.
    pub(crate) fn escalation(
        &self,
        key: &Key,
        session: &BreakglassSession,
    ) -> Option<BreakglassEscalation> {
        let name = session.spec.escalation_ref.name.as_str();
        let read = self.escalations.get(&Key::new(key.namespace.clone(), name))?;
        read.as_ref().as_ref().ok().cloned()
    }

    /// Counts the changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

fn sibling_of(sibling: &BreakglassSession) -> Sibling {
    let state = read_state_of(sibling);
    let created = sibling.creation_timestamp().map(|time| time.0);
    Sibling {
        uid: sibling.uid().unwrap_or_default(),
        created_at: created.unwrap_or_default(),
        approved_at: state.approved_at,
        expires_at: state.expires_at,
        state: state.state,
    }
}

/// What a session remembers.
pub(crate) fn read_state_of(session: &BreakglassSession) -> SessionState {
    read_state(session.status.as_ref())
}

/// How a session was used.
pub(crate) fn read_usage_of(session: &BreakglassSession) -> Usage {
    read_usage(session.status.as_ref())
}

/// What people, and whoever wrote the object, did to a session.
fn acted(of: &BreakglassSession) -> impl PartialEq + use<> {
    let state = read_state_of(of);
    let meta = &of.metadata;
    (
        (meta.uid.clone(), meta.deletion_timestamp.clone(), session(of).ok()),
        (state.state, state.approvals, state.extensions, state.idle_restarted_at, state.expires_at),
    )
}

/// The cluster, user and group of a session.
const fn triple(session: &BreakglassSession) -> (&str, &str, &str) {
    let spec = &session.spec;
    (spec.cluster.as_str(), spec.user.as_str(), spec.granted_group.as_str())
}

const fn readable(read: Option<&Read<BreakglassSession>>) -> Option<&BreakglassSession> {
    match read {
        Some(Ok(session)) => Some(session),
        Some(Err(_)) | None => None,
    }
}

fn read_session(guarded: Guarded<BreakglassSession>) -> Read<BreakglassSession> {
    guarded.read().map(without_unused_metadata)
}

/// A session without what nobody here reads, in as little memory as it needs.
///
/// Of its labels it is only asked whether the one of its user is right ([`lacks_user_label`]); a map of that one label
/// takes more than everything that was asked for.
fn without_unused_metadata(mut session: BreakglassSession) -> BreakglassSession {
    session.metadata.managed_fields = None;
    // Somebody who changes it must not hide a session from the limits of its user.
    let labelled = session.labels().get(USER_LABEL) == Some(&user_label(&session.spec.user));
    session.metadata.labels = (!labelled).then(BTreeMap::new);
    if let Some(status) = &mut session.status {
        status.approvals.shrink_to_fit();
        status.notices.shrink_to_fit();
        status.conditions.shrink_to_fit();
    }
    session
}

/// The value of that label: a short stand-in for a name that no label could hold. Two names may share it.
pub(super) fn user_label(user: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, user.as_bytes());
    hex::encode(digest.as_ref().get(..16).unwrap_or_default())
}

/// Whether a session of these caches is not found by the label of its user.
pub(super) const fn lacks_user_label(cached: &BreakglassSession) -> bool {
    cached.metadata.labels.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_whose_label_is_missing_or_another_users_is_known_to_lack_it() {
        let labelled = |labels: serde_json::Value| {
            let object = json!({
                "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
                "metadata": {"name": "one", "namespace": "ops", "labels": labels},
                "spec": {
                    "cluster": "prod", "user": "ada", "grantedGroup": "admins",
                    "escalationRef": {"name": "e"},
                },
            });
            without_unused_metadata(serde_json::from_value(object).expect("a session"))
        };
        let right = labelled(json!({"app": "x", USER_LABEL: user_label("ada")}));
        assert!(!lacks_user_label(&right));
        assert_eq!(right.metadata.labels, None, "which is all that is asked of them");
        for wrong in [json!(null), json!({}), json!({USER_LABEL: user_label("grace")})] {
            assert!(lacks_user_label(&labelled(wrong.clone())), "{wrong}");
        }
    }
}
