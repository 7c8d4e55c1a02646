//! Whether a server is well: by its own word, or by the readiness of its Pod.

use jiff::{SignedDuration, Timestamp};

use super::super::server::{PodState, Server, ServerHealth};
use super::{HeardPings, ObservedPod, ServerObserved};
use crate::decision::Wake;
use crate::moment::{saturating_add, times};

/// Who says that a server is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HealthSource {
    /// The server itself.
    #[default]
    Sdk,
    /// The readiness of its Pod.
    Pod,
}

/// How it is known that a server is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    pub source: HealthSource,
    pub period: SignedDuration,
    pub failure_threshold: u32,
    pub initial_delay: SignedDuration,
    pub disabled: bool,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            source: HealthSource::Sdk,
            period: SignedDuration::from_secs(5),
            failure_threshold: 3,
            initial_delay: SignedDuration::from_secs(5),
            disabled: false,
        }
    }
}

pub(super) const PINGS_LOST: &str = "HealthPingsLost";

pub(super) fn judge(
    server: &mut Server,
    policy: &HealthPolicy,
    pod: &ObservedPod,
    seen: &ServerObserved,
    wake: &mut Wake,
    now: Timestamp,
) {
    if pod.deleting {
        // Another Pod follows, of which nothing is known yet.
        server.health = ServerHealth::Creating;
        return;
    }
    match policy.source {
        HealthSource::Pod => {
            let well = pod.ready && pod.state == PodState::Running;
            server.health = if well { ServerHealth::Healthy } else { ServerHealth::Creating };
        }
        HealthSource::Sdk => {
            let heard = seen.pings.as_ref();
            if let Some(deadline) = heard.and_then(|heard| judge_pings(server, policy, heard, now))
            {
                wake.by(deadline);
            }
        }
    }
}

/// Fails a server whose pings are missing too often by now; otherwise, when they will be.
pub fn judge_pings(
    server: &mut Server,
    policy: &HealthPolicy,
    heard: &HeardPings,
    now: Timestamp,
) -> Option<Timestamp> {
    let deadline = ping_deadline(server, policy, heard)?;
    if deadline > now {
        return Some(deadline);
    }
    let message = format!(
        "no health ping for {} times {}",
        policy.failure_threshold,
        crate::term::Term::Span(policy.period)
    );
    server.fail(PINGS_LOST, &message, now);
    None
}

/// Whether a server has to say that it is alive: only who said Ready by Agones' SDK pings.
pub fn are_pings_expected(server: &Server, policy: &HealthPolicy) -> bool {
    let judged = policy.source == HealthSource::Sdk && !policy.disabled;
    let alive = server.health != ServerHealth::Failed;
    judged && alive && server.sdk_state.is_some() && server.ready_at.is_some()
}

/// When the next ping is missing too often. Only time in which a ping would have been heard counts.
fn ping_deadline(server: &Server, policy: &HealthPolicy, heard: &HeardPings) -> Option<Timestamp> {
    let ready_at = server.ready_at.filter(|_| are_pings_expected(server, policy))?;
    let first = saturating_add(ready_at, policy.initial_delay);
    let since = first.max(heard.listening_since).max(heard.last.unwrap_or(first));
    Some(saturating_add(since, times(policy.period, policy.failure_threshold)))
}
