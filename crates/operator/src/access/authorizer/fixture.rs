//! An authorizer with a policy and sessions, and what it told others.

#![cfg_attr(fuzzing, allow(dead_code, reason = "the fuzzer needs less of it than the tests"))]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sojourn_core::access::session::{Session, SessionState, State, Terms};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_core::term::Term;
use sojourn_rbac::{Attributes, Binding, ClusterRole, Policy, User};

use super::{AccessAuthorizer, Answer, AuthorizerOptions, DecisionMetrics, Hooks};
use crate::access::canary::CanaryKey;
use crate::access::cluster::Clusters;
use crate::access::policy::PolicyCache;
use crate::metrics::Metrics;

pub(in crate::access) const CLUSTER: &str = "prod";
pub(in crate::access) const ISSUER_KEY: &str = "example.com/issuer";

/// When everything in these tests happens.
pub(in crate::access) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
    start + SignedDuration::from_secs(seconds)
}

/// What the authorizer told.
#[derive(Debug, Default)]
pub(in crate::access) struct Told {
    uses: Mutex<Vec<(String, String, Timestamp)>>,
    stored: Mutex<Vec<Key>>,
}

impl Told {
    /// The names of the sessions that were used, with their uids and when.
    pub(in crate::access) fn take_uses(&self) -> Vec<(String, String, Timestamp)> {
        std::mem::take(&mut self.uses.lock().expect("unpoisoned"))
    }

    pub(in crate::access) fn take_stored(&self) -> Vec<Key> {
        std::mem::take(&mut self.stored.lock().expect("unpoisoned"))
    }
}

pub(in crate::access) struct Fixture {
    pub(in crate::access) authorizer: AccessAuthorizer,
    pub(in crate::access) told: Arc<Told>,
    /// What is counted, as a scrape gets it.
    pub(in crate::access) metrics: Metrics,
}

pub(in crate::access) fn options() -> AuthorizerOptions {
    AuthorizerOptions {
        aliases: ["home".to_owned()].into(),
        cluster: CLUSTER.to_owned(),
        issuer: Some(ISSUER_KEY.to_owned()),
        ..AuthorizerOptions::default()
    }
}

pub(in crate::access) fn canary_key() -> CanaryKey {
    CanaryKey::of(&[7; 32])
}

impl Fixture {
    /// With a role `pods` that lets Pods be listed, and `/metrics` be read, bound to these groups.
    pub(in crate::access) fn new(options: AuthorizerOptions, groups: &[&str]) -> Self {
        Self::on(PolicyCache::of(policy(groups)), options)
    }

    pub(in crate::access) fn on(policy: PolicyCache, options: AuthorizerOptions) -> Self {
        Self::among(Clusters::new(policy), options)
    }

    pub(in crate::access) fn among(clusters: Clusters, options: AuthorizerOptions) -> Self {
        let told = Arc::new(Told::default());
        let (uses, stored) = (told.clone(), told.clone());
        let hooks = Hooks {
            on_use: Arc::new(move |key, uid, at| {
                let mut uses = uses.uses.lock().expect("unpoisoned");
                uses.push((key.name.to_string(), uid.to_owned(), at));
            }),
            store_now: Arc::new(move |key| {
                stored.stored.lock().expect("unpoisoned").push(key);
                std::future::ready(()).boxed()
            }),
            sessions_listed: Arc::new(|| true),
        };
        let metrics = Metrics::default();
        let decisions = DecisionMetrics::new(&metrics);
        Self {
            authorizer: AccessAuthorizer::new(clusters, canary_key(), options, hooks, decisions),
            told,
            metrics,
        }
    }

    pub(in crate::access) fn put(&self, session: &TestSession) {
        let TestSession { key, session, state, usage } = session;
        self.authorizer.upsert(key, Some((session, state, usage)));
    }

    /// Whether `user` may list Pods, at that second.
    pub(in crate::access) fn list_pods(&self, user: &str, seconds: i64) -> Answer {
        self.list_pods_of(&user_named(user), seconds)
    }

    pub(in crate::access) fn list_pods_of(&self, user: &User, seconds: i64) -> Answer {
        let request = Attributes::on_resource(user, "list", "", "pods");
        self.authorizer.authorize(CLUSTER, &request, at(seconds))
    }
}

pub(in crate::access) fn policy(groups: &[&str]) -> Policy {
    let mut policy = Policy::default();
    let role = json!({
        "metadata": {"name": "pods"},
        "rules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/api", "/api/*"]},
            {
                "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews"],
            },
        ],
    });
    policy.upsert_cluster_role(ClusterRole::from_value(&role).expect("a role"));
    let subjects: Vec<_> =
        groups.iter().map(|group| json!({"kind": "Group", "name": group})).collect();
    let binding = json!({
        "metadata": {"name": "pods"},
        "roleRef": {"kind": "ClusterRole", "name": "pods"},
        "subjects": subjects,
    });
    policy.upsert_binding(Binding::from_value(&binding).expect("a binding"));
    policy
}

pub(in crate::access) fn user_named(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

pub(in crate::access) fn allowed(answer: &Answer) -> bool {
    matches!(answer, Answer::Allowed { .. })
}

pub(in crate::access) fn reason(answer: &Answer) -> &str {
    match answer {
        Answer::Allowed { reason, .. } | Answer::NoOpinion { reason } => reason,
    }
}

pub(in crate::access) fn issuers(issuers: &[&str]) -> BTreeMap<String, Vec<String>> {
    let issuers = issuers.iter().map(|&issuer| issuer.to_owned()).collect();
    BTreeMap::from([(ISSUER_KEY.to_owned(), issuers)])
}

/// A session that a test changes as it likes.
#[derive(Debug, Clone)]
pub(in crate::access) struct TestSession {
    pub(in crate::access) key: Key,
    pub(in crate::access) session: Session,
    pub(in crate::access) state: SessionState,
    pub(in crate::access) usage: Usage,
}

impl TestSession {
    /// Of alice, for the group `ops`: approved at second 0, valid for an hour, idle after ten minutes.
    pub(in crate::access) fn approved(name: &str) -> Self {
        let terms = Terms {
            max_valid_for: SignedDuration::from_hours(1),
            approval_timeout: SignedDuration::from_hours(1),
            idle_timeout: Term::Span(SignedDuration::from_mins(10)),
            first_use_timeout: None,
            warn_before: SignedDuration::from_mins(2),
            extension: None,
            retain_for: SignedDuration::from_hours(720),
        };
        let session = Session {
            uid: format!("uid-{name}"),
            created_at: at(-60),
            cluster: CLUSTER.to_owned(),
            user: "alice".to_owned(),
            email: None,
            granted_group: "ops".to_owned(),
            issuer: None,
            reason: None,
            scheduled_start: None,
            terms,
            deleting: false,
        };
        let state = SessionState {
            state: Some(State::Approved),
            approved_at: Some(at(0)),
            activated_at: Some(at(0)),
            expires_at: Some(at(3600)),
            idle_deadline: Some(at(600)),
            ..SessionState::default()
        };
        Self { key: Key::new("team", name), session, state, usage: Usage::default() }
    }
}
