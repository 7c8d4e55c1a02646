//! Whether use is seen at all: a review that goes the whole way, again and again.
//!
//! A request that a session allows is seen only if the API server asks us about it. So every interval the
//! leader has the API server of each cluster review a request that nobody may make, with a nonce that no cache can have the
//! answer to; any replica answers that it has no opinion, and proves by its reason that it was asked. The
//! time between two canaries that came back one after the other is observed on that cluster; all other time is
//! blind, and nobody is idle in it.

mod senders;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::hmac;
use sojourn_core::coverage::Coverage;
use sojourn_rbac::Attributes;
use tokio::time::MissedTickBehavior;

pub(crate) use self::senders::CanarySenders;
use super::authorizer::{AccessAuthorizer, SessionCounts};
use super::cluster::ClusterProblem;
use super::coverage::{ClusterCoverage, SOURCE};
use crate::clock::Clock;
use crate::collector::{Changed, CoverageRegistry};
use crate::installation_key::InstallationKey;
use crate::tracker::period;

/// Whom canaries are about. Nobody signs in with this name, and nothing is bound to it.
pub const USER: &str = "sojourn:canary";
const PATH: &str = "/sojourn-canary/";
/// How long a canary may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// So long after one was lost another is sent, before all sessions are told that nothing is seen.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Time for a canary to come back, on top of the interval.
const ROUND_TRIP: SignedDuration = SignedDuration::from_secs(2);

/// Signs canaries and the answers to them, the same on all replicas.
#[derive(Clone)]
pub struct CanaryKey(hmac::Key);

impl fmt::Debug for CanaryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CanaryKey")
    }
}

impl CanaryKey {
    pub(crate) fn new(key: &InstallationKey) -> Self {
        Self::of(&key.canaries())
    }

    pub(super) fn of(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The key for canaries of a further cluster: one that was sent to another does not come back from it.
    pub(super) fn of_cluster(&self, cluster: &str) -> Self {
        let derived = hmac::sign(&self.0, format!("cluster\n{cluster}").as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// The path that a review asks about: the nonce, and proof that we made it.
    pub(super) fn path(&self, nonce: &str) -> String {
        format!("{PATH}{nonce}.{}", self.sign("canary", nonce))
    }

    /// What a replica answers to a canary of ours; nothing, if somebody else made it. It differs from what
    /// was asked, so that whoever repeats a path does not answer.
    pub(super) fn answer(&self, path: &str) -> Option<String> {
        let (nonce, signature) = path.strip_prefix(PATH)?.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let text = format!("canary\n{nonce}");
        hmac::verify(&self.0, text.as_bytes(), &signature).ok()?;
        Some(self.expected(nonce))
    }

    fn expected(&self, nonce: &str) -> String {
        format!("sojourn: canary {nonce}.{}", self.sign("answer", nonce))
    }

    fn sign(&self, purpose: &str, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, format!("{purpose}\n{nonce}").as_bytes()))
    }
}

/// Whether it is asked about the user of canaries, who never has any rights.
pub(super) fn is_canary(request: &Attributes<'_>) -> bool {
    request.user.name == USER
}

/// Sends canaries to the API server of one cluster, on the leader.
pub(crate) struct Canary {
    setup: CanarySetup,
    sent: AtomicU64,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canary")
            .field("cluster", &self.setup.target.cluster)
            .finish_non_exhaustive()
    }
}

/// Where canaries are sent, and whom that concerns.
pub(crate) struct CanaryTarget {
    /// Its name, unless it is the cluster that we run on.
    pub(crate) cluster: Option<String>,
    /// Creates reviews there, if that is possible just now.
    pub(crate) reviewer: Box<dyn Fn() -> Result<Client, ClusterProblem> + Send + Sync>,
    pub(crate) key: CanaryKey,
    /// Whether there is a session whose use matters.
    pub(super) needed: Box<dyn Fn(&SessionCounts) -> bool + Send + Sync>,
    /// Where decisions read what was observed, of [`SOURCE`].
    pub(crate) coverage_registry: Arc<CoverageRegistry>,
}

/// What a [`Canary`] works with.
pub(crate) struct CanarySetup {
    pub(crate) target: CanaryTarget,
    pub(crate) clock: Arc<dyn Clock>,
    /// Knows which sessions there are.
    pub(crate) authorizer: AccessAuthorizer,
    /// Writes down what was observed on all clusters.
    pub(crate) coverage: Arc<ClusterCoverage>,
    /// `canaryInterval`, as the configuration says it now.
    pub(crate) interval: Arc<dyn Fn() -> SignedDuration + Send + Sync>,
    /// Called when the source turned blind, and when it sees again.
    pub(crate) changed: Changed,
}

/// How far what is observed stays behind the clock while all is well.
fn lag(interval: SignedDuration) -> SignedDuration {
    interval.saturating_add(ROUND_TRIP)
}

/// What one term has seen so far.
#[derive(Debug, Default)]
struct Progress {
    /// When the last canary was sent, if it came back.
    seen_at: Option<Timestamp>,
    told_blind: Option<bool>,
}

/// Why a canary did not come back.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the cluster's API server cannot be asked: {0}")]
    Cluster(#[from] ClusterProblem),
    #[error("the API server cannot review a request")]
    Review(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("the API server answered without asking the authorizer")]
    NotAsked,
}

impl Lost {
    /// Whether the next one may well come back at once. One that hangs has taken most of an interval.
    const fn is_brief(&self) -> bool {
        match self {
            Self::Review(_) | Self::NotAsked => true,
            Self::Cluster(_) | Self::Timeout => false,
        }
    }
}

impl Canary {
    pub(crate) fn new(setup: CanarySetup) -> Self {
        Self { setup, sent: AtomicU64::new(0) }
    }

    /// Sends canaries for ever, while there are sessions that are not over.
    pub(crate) async fn run(&self) {
        let needed = &self.setup.target.needed;
        let mut unfinished = self.setup.authorizer.unfinished_sessions();
        let mut progress = Progress::default();
        loop {
            // The authorizer, which has the sender, is ours, so this ends only when there is a session.
            let _ = unfinished.wait_for(|sessions| needed(sessions)).await;
            self.send_while(&mut progress, || needed(&unfinished.borrow())).await;
        }
    }

    /// Until it is not needed any more, or the interval is another.
    async fn send_while(&self, progress: &mut Progress, needed: impl Fn() -> bool) {
        let interval = (self.setup.interval)();
        let mut ticks = tokio::time::interval(period(interval));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while needed() && (self.setup.interval)() == interval {
            ticks.tick().await;
            self.tick(progress).await;
        }
    }

    fn lag(&self) -> SignedDuration {
        lag((self.setup.interval)())
    }

    async fn tick(&self, progress: &mut Progress) {
        let CanarySetup { target, clock, coverage: records, changed, .. } = &self.setup;
        let mut sent_at = clock.now();
        let mut outcome = self.send(sent_at).await;
        // While nothing is seen anyway, the next one is soon enough.
        if progress.seen_at.is_some() && outcome.as_ref().is_err_and(Lost::is_brief) {
            tokio::time::sleep(RETRY_DELAY).await;
            sent_at = clock.now();
            outcome = self.send(sent_at).await;
        }
        let now = clock.now();
        let known = target.coverage_registry.read().find(SOURCE).cloned();
        let mut coverage = known.unwrap_or_else(|| Coverage::starting(sent_at)).lagging(self.lag());
        let trouble = match outcome {
            Ok(()) => {
                match progress.seen_at {
                    // A process that was stopped in between saw nothing.
                    Some(before)
                        if sent_at.duration_since(before) <= self.lag().saturating_mul(2) =>
                    {
                        coverage.mark_observed(before, sent_at);
                    }
                    Some(_) | None => coverage.mark_blind(coverage.until(), sent_at),
                }
                progress.seen_at = Some(sent_at);
                None
            }
            Err(lost) => {
                coverage.mark_blind(coverage.until(), now);
                progress.seen_at = None;
                let error = &lost as &dyn std::error::Error;
                let cluster = target.cluster.as_deref();
                tracing::warn!(cluster, error, "use of sessions is not seen");
                Some(Arc::from(lost.to_string()))
            }
        };
        let blind = coverage.blind_since(now).is_some();
        target.coverage_registry.put(SOURCE, coverage, trouble);
        let flipped = progress.told_blind.replace(blind) != Some(blind);
        if flipped {
            changed(SOURCE);
        }
        let stored = if flipped { records.store().await } else { records.store_if_due().await };
        if let Err(error) = stored {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot write down which time was observed");
        }
    }

    /// Sends one canary and waits until it comes back.
    async fn send(&self, now: Timestamp) -> Result<(), Lost> {
        // Nobody needs to guess it, because nobody else can sign it; it must only be another one each time.
        let count = self.sent.fetch_add(1, Ordering::Relaxed);
        let nonce = format!("{:x}-{count:x}", now.as_nanosecond());
        let CanaryTarget { reviewer, key, .. } = &self.setup.target;
        let review = review(key.path(&nonce));
        let reviews: Api<SubjectAccessReview> = Api::all(reviewer()?);
        let params = PostParams::default();
        let answered = tokio::time::timeout(TIMEOUT, reviews.create(&params, &review)).await;
        let status = answered.map_err(|_| Lost::Timeout)??.status;
        let reason = status.and_then(|status| status.reason).unwrap_or_default();
        let expected = key.expected(&nonce);
        // The reasons of all authorizers that were asked stand in lines below each other.
        if reason.lines().any(|line| line == expected) { Ok(()) } else { Err(Lost::NotAsked) }
    }
}

fn review(path: String) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(USER.to_owned()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
