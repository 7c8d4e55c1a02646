//! Decides which requests sessions allow: on every replica, from memory alone.
//!
//! A session allows a request if it is its user's, on the cluster that asks, and has not ended, and if that
//! cluster's own roles and bindings, and no other's, allow its group what is asked for. What the request says about groups
//! is never looked at.

mod counting;
#[cfg(any(test, fuzzing))]
pub(super) mod fixture;
mod index;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use sojourn_api::access::config::Attribution;
use sojourn_core::access::session::{Session, SessionState};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_rbac::Attributes;
use tokio::sync::watch;

pub(super) use self::index::SessionCounts;
use self::index::{IndexedSession, SessionIndex};
pub use self::metrics::DecisionMetrics;
use super::canary::{self, CanaryKey};
use super::cluster::{ClusterProblem, Clusters};
use super::policy::PolicyCache;

/// How long a request waits until its use is on record, where the session is about to end.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the configuration says about decisions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthorizerOptions {
    /// The cluster that we run on.
    pub cluster: String,
    /// Further names of it.
    pub aliases: BTreeSet<String>,
    /// The key of a user's `extra` that names who vouched for them.
    pub issuer: Option<String>,
    /// Bindings name a group with one of these before it, or as it is.
    pub group_prefixes: Vec<String>,
    pub attribution: Attribution,
    /// Requests for what the API serves, and for its health, are use.
    pub discovery_counts: bool,
    /// Requests of users for what they themselves may do are use.
    pub self_reviews_count: bool,
}

impl AuthorizerOptions {
    /// Whether it is the cluster that we run on.
    fn is_own(&self, cluster: &str) -> bool {
        cluster == self.cluster || self.aliases.contains(cluster)
    }
}

/// Called with the key and the uid of a session, and when it was used.
pub type UseCallback = Arc<dyn Fn(&Key, &str, Timestamp) + Send + Sync>;
/// Called with the key of a session.
pub type StoreCallback = Arc<dyn Fn(Key) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the authorizer tells others. None of it may block.
#[derive(Clone)]
pub struct Hooks {
    /// A session was used.
    pub on_use: UseCallback,
    /// Writes the use of a session that waits to be written.
    pub store_now: StoreCallback,
    /// Whether all sessions have been listed once.
    pub sessions_listed: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// What is answered. Nothing is ever denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Allowed {
        /// Names the sessions and their uids; API servers put it into their audit log.
        reason: String,
        /// Sessions that would have ended soon: what [`AccessAuthorizer::stored`] should store before the
        /// answer is given.
        near_deadline: Vec<Key>,
    },
    NoOpinion {
        /// May be empty.
        reason: String,
    },
}

impl Answer {
    fn no_opinion(reason: impl Into<String>) -> Self {
        Self::NoOpinion { reason: reason.into() }
    }
}

/// Why somebody wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Request,
    SelfReview,
}

/// Decides locally, on every replica. Clones share everything.
#[derive(Clone)]
pub struct AccessAuthorizer(Arc<Inner>);

struct Inner {
    clusters: Clusters,
    index: SessionIndex,
    options: RwLock<Arc<AuthorizerOptions>>,
    canary_key: CanaryKey,
    hooks: Hooks,
    metrics: DecisionMetrics,
}

impl fmt::Debug for AccessAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessAuthorizer").field("options", &self.options()).finish_non_exhaustive()
    }
}

impl AccessAuthorizer {
    pub fn new(
        clusters: Clusters,
        canary_key: CanaryKey,
        options: AuthorizerOptions,
        hooks: Hooks,
        metrics: DecisionMetrics,
    ) -> Self {
        let index = SessionIndex::new(&options.group_prefixes);
        let options = RwLock::new(Arc::new(options));
        Self(Arc::new(Inner { clusters, index, options, canary_key, hooks, metrics }))
    }

    /// Whether `request` is allowed to its user on `cluster`, which is what the caller's credential names;
    /// if it is, that is a use. Never fails, and never waits for anything remote.
    pub fn authorize(&self, cluster: &str, request: &Attributes<'_>, now: Timestamp) -> Answer {
        self.decide(cluster, request, Purpose::Request, now)
    }

    /// The same where users only ask what they may do, which is a use only if the configuration says so.
    pub fn self_review(&self, cluster: &str, request: &Attributes<'_>, now: Timestamp) -> Answer {
        self.decide(cluster, request, Purpose::SelfReview, now)
    }

    /// Waits until the use of these sessions is on record, at most a second. What could not be written
    /// stays buffered.
    pub fn stored(&self, near_deadline: Vec<Key>) -> BoxFuture<'static, ()> {
        let store_now = self.0.hooks.store_now.clone();
        async move {
            let all = join_all(near_deadline.into_iter().map(|key| store_now(key)));
            // Whoever waits longer than that is answered.
            let _ = tokio::time::timeout(STORE_TIMEOUT, all).await;
        }
        .boxed()
    }

    /// The session is now so, or it is gone.
    pub fn upsert(&self, key: &Key, session: Option<(&Session, &SessionState, &Usage)>) {
        self.0.index.upsert(key, session);
    }

    /// Takes in another configuration.
    pub fn set_options(&self, options: AuthorizerOptions) {
        self.0.index.set_group_prefixes(&options.group_prefixes);
        *self.0.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
    }

    /// How many sessions are not over, now and from each change on.
    pub(super) fn unfinished_sessions(&self) -> watch::Receiver<SessionCounts> {
        self.0.index.unfinished()
    }

    pub(super) fn metrics(&self) -> &DecisionMetrics {
        &self.0.metrics
    }

    /// What the configuration says now.
    pub fn options(&self) -> Arc<AuthorizerOptions> {
        self.0.options.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn decide(
        &self,
        cluster: &str,
        request: &Attributes<'_>,
        purpose: Purpose,
        now: Timestamp,
    ) -> Answer {
        let answer = if canary::is_canary(request) {
            self.answer_canary(cluster, request)
        } else {
            self.answer(cluster, request, purpose, now)
        };
        self.0.metrics.count(&answer);
        answer
    }

    /// The roles and bindings of a cluster.
    fn policy(
        &self,
        cluster: &str,
        options: &AuthorizerOptions,
    ) -> Result<PolicyCache, ClusterProblem> {
        if options.is_own(cluster) {
            return Ok(self.0.clusters.own().clone());
        }
        self.0.clusters.policy(cluster)
    }

    /// It comes back only from a replica that would see use, and only to the cluster that it was sent to.
    fn answer_canary(&self, cluster: &str, request: &Attributes<'_>) -> Answer {
        let options = self.options();
        let synced = self.policy(cluster, &options).is_ok_and(|policy| policy.is_synced());
        let sees = synced && (self.0.hooks.sessions_listed)();
        let key = if options.is_own(cluster) {
            self.0.canary_key.clone()
        } else {
            self.0.canary_key.of_cluster(cluster)
        };
        let answer = sees.then(|| key.answer(request.path)).flatten();
        Answer::no_opinion(answer.unwrap_or_default())
    }

    fn answer(
        &self,
        cluster: &str,
        request: &Attributes<'_>,
        purpose: Purpose,
        now: Timestamp,
    ) -> Answer {
        let sessions = self.0.index.of(&request.user.name);
        if sessions.is_empty() {
            return Answer::no_opinion("");
        }
        let options = self.options();
        let policy = match self.policy(cluster, &options) {
            Ok(policy) => policy,
            Err(ClusterProblem::NotConfigured) => return Answer::no_opinion(""),
            Err(problem) => {
                let reason = format!("sojourn: nothing is known of cluster {cluster}: {problem}");
                return Answer::no_opinion(reason);
            }
        };
        let Some(policy) = policy.read() else {
            return Answer::no_opinion("sojourn: roles and bindings have not been listed yet");
        };
        let issuer = issuer_of(request, &options);
        let mut own = sessions.iter().filter(|session| session.is_of(cluster, issuer));
        let grants = |session: &&Arc<IndexedSession>| {
            session.is_granted_at(now) && session.allows(&policy, request)
        };
        let granting: Vec<&Arc<IndexedSession>> = match options.attribution {
            Attribution::All => own.filter(grants).collect(),
            Attribution::First => own.find(grants).into_iter().collect(),
        };
        drop(policy);
        if granting.is_empty() {
            let own = sessions.iter().filter(|session| session.is_of(cluster, issuer));
            return Answer::no_opinion(refusal(own, now));
        }
        let counts = match purpose {
            Purpose::Request => counting::is_use(request, &options),
            Purpose::SelfReview => options.self_reviews_count,
        };
        let near_deadline = if counts { self.record(&granting, now) } else { Vec::new() };
        Answer::Allowed { reason: grant(&granting), near_deadline }
    }

    /// Says which of them would have ended soon, as far as is on record.
    fn record(&self, granting: &[&Arc<IndexedSession>], now: Timestamp) -> Vec<Key> {
        let mut near_deadline = Vec::new();
        for session in granting {
            session.record(now);
            (self.0.hooks.on_use)(&session.key, &session.uid, now);
            if session.is_near_deadline(now) {
                near_deadline.push(session.key.clone());
            }
        }
        near_deadline
    }
}

/// Who vouched for the user, if that is known and is one.
fn issuer_of<'a>(request: &Attributes<'a>, options: &AuthorizerOptions) -> Option<&'a str> {
    match request.user.extra.get(options.issuer.as_ref()?)?.as_slice() {
        [issuer] => Some(issuer),
        _ => None,
    }
}

fn grant(granting: &[&Arc<IndexedSession>]) -> String {
    let mut reason = String::from("sojourn: allowed by ");
    for (index, session) in granting.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = write!(reason, "{separator}{}", NamedSession(session));
    }
    reason
}

/// Why none of a user's own sessions allows a request.
fn refusal<'a>(own: impl Iterator<Item = &'a Arc<IndexedSession>>, now: Timestamp) -> String {
    let mut reason = String::new();
    for session in own {
        let why = if session.is_granted_at(now) { "does not allow this" } else { "has ended" };
        let separator = if reason.is_empty() { "sojourn: " } else { ", " };
        let _ = write!(reason, "{separator}{} {why}", NamedSession(session));
    }
    reason
}

/// A session as reasons name it.
struct NamedSession<'a>(&'a IndexedSession);

impl fmt::Display for NamedSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BreakglassSession {} (uid {})", self.0.key, self.0.uid)
    }
}
