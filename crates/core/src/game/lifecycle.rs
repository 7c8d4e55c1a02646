//! What becomes of one server: a Pod is made for it, it is well or has failed, and one that is marked goes when it is
//! empty.

mod health;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

pub use self::health::{HealthPolicy, HealthSource, are_pings_expected, judge_pings};
use super::server::{PodState, SdkState, Server, ServerFailure, ServerHealth, ServerState};
use crate::decision::{Decision, Wake};
use crate::known::Known;
use crate::moment::saturating_add;
use crate::spread::backoff;

/// So long after ports were refused, or none were free, it is tried again: they come free with Pods and programs that
/// concern nobody else.
pub const PORT_RETRY: SignedDuration = SignedDuration::from_secs(30);
/// So often a server is given other ports at once. Then it is not the ports.
const MAX_PORT_CHANGES: u32 = 3;

/// What is wanted of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIntent {
    /// It takes nobody new, and goes when it is empty.
    pub mark: Option<Mark>,
    /// It failed, and stays until then for somebody to look at.
    pub quarantined_until: Option<Timestamp>,
    /// How often it is to have begun again after a failure.
    pub restarts: u32,
    pub health: HealthPolicy,
    /// Somebody runs it by hand at this address: it has no Pod.
    pub dev_address: Option<String>,
    /// Whether it has all the ports that it asks for.
    pub has_ports: bool,
    /// Whether it asks for some of them by number.
    pub names_ports: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// That a server is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Then it goes although somebody is on it.
    pub drain_by: Option<Timestamp>,
}

/// What was seen of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerObserved {
    pub pod: Known<ObservedPod>,
    /// Why the API would not take its Pod.
    pub refused: Option<String>,
    /// Nothing, if nobody hears its pings, or somebody else who says when they are missing.
    pub pings: Option<HeardPings>,
    /// How often it was given other ports because somebody else had them.
    pub port_changes: u32,
}

/// What was heard of the pings of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeardPings {
    /// The last one of this life.
    pub last: Option<Timestamp>,
    /// Since when they have been heard without a break.
    pub listening_since: Timestamp,
}

/// A Pod, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedPod {
    pub uid: String,
    pub state: PodState,
    /// Its readiness.
    pub ready: bool,
    pub node: Option<String>,
    /// Where players reach its node.
    pub address: Option<String>,
    pub deleting: bool,
    pub created_at: Option<Timestamp>,
    /// It failed because a port of its node is somebody else's.
    pub port_taken: bool,
    /// Its server was granted other ports since it was made.
    pub has_other_ports: bool,
    /// Why it failed.
    pub failure: Option<(String, String)>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEffect {
    CreatePod,
    DeletePod {
        uid: String,
    },
    /// Others are granted instead of those that were not asked for by number, if any are free.
    ReplacePorts,
    Delete(DeleteReason),
}

/// Why a server is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteReason {
    /// It was marked, and nobody is on it.
    Drained,
    /// It was marked, and its players had time enough.
    DrainDeadline,
    /// It ended by itself, without an error, or asked to be shut down.
    Finished,
    /// It failed, and nobody looks at it any more.
    QuarantineOver,
}

/// Why something is done, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerReason {
    Steady,
    Deleting,
    Starting,
    WaitsForPorts,
    /// The Pod is made again with the same ports then, unless others come free.
    PortTaken {
        message: String,
        again_at: Timestamp,
    },
    PodUnknown,
    Failed {
        reason: String,
    },
    RestartsAt(Timestamp),
    Drains {
        until: Option<Timestamp>,
    },
    Goes(DeleteReason),
    Quarantined {
        until: Timestamp,
    },
}

pub type ServerDecision = Decision<Server, ServerEffect, ServerReason>;

/// What becomes of a server now.
pub fn decide(
    mut server: Server,
    intent: &ServerIntent,
    seen: &ServerObserved,
    now: Timestamp,
) -> ServerDecision {
    server.marked_for_deletion = intent.mark.is_some();
    server.drain_deadline = intent.mark.and_then(|mark| mark.drain_by);
    let mut wake = server.expire(now).map_or(Wake::OnChange, Wake::At);
    let (effects, reason) = if intent.deleting {
        (Vec::new(), ServerReason::Deleting)
    } else if let Some(address) = &intent.dev_address {
        run_by_hand(&mut server, address, now);
        drain(&server, &mut wake, now).unwrap_or((Vec::new(), ServerReason::Steady))
    } else {
        follow_pod(&mut server, intent, seen, &mut wake, now)
    };
    Decision { next: server, effects, wake, why: vec![reason] }
}

type Step = (Vec<ServerEffect>, ServerReason);

fn follow_pod(
    server: &mut Server,
    intent: &ServerIntent,
    seen: &ServerObserved,
    wake: &mut Wake,
    now: Timestamp,
) -> Step {
    let pod = match &seen.pod {
        Known::Unknown => return (Vec::new(), ServerReason::PodUnknown),
        Known::Absent => None,
        Known::Is(pod) => Some(pod),
    };
    match pod {
        Some(pod) => {
            let had_failed = server.health == ServerHealth::Failed;
            if server.take_in_pod(pod, now) && had_failed {
                // It began again, and that was not written down: its next failure is another one.
                server.restarts = server.restarts.max(intent.restarts);
            }
        }
        // Whoever was on it is gone with its process, also if no other follows.
        None if server.pod_uid.is_some() && server.health != ServerHealth::Failed => {
            server.begin_life();
        }
        None => {}
    }
    if let Some(until) = intent.quarantined_until {
        if until <= now {
            return go(DeleteReason::QuarantineOver);
        }
        wake.by(until);
        return (Vec::new(), ServerReason::Quarantined { until });
    }
    if let Some(pod) = pod.filter(|pod| pod.port_taken && intent.mark.is_none()) {
        return change_ports(intent, pod, seen, wake, now);
    }
    let finished = pod.is_some_and(|pod| pod.state == PodState::Succeeded && !pod.deleting)
        || server.sdk_state == Some(SdkState::Shutdown);
    if finished {
        return go(DeleteReason::Finished);
    }
    if server.health != ServerHealth::Failed
        && let Some(pod) = pod
    {
        health::judge(server, &intent.health, pod, seen, wake, now);
    }
    // What begins again does so on the same ports, which its old Pod has for as long as it is there.
    if server.health == ServerHealth::Failed && intent.mark.is_none() {
        return failed(server, intent, pod, wake, now);
    }
    if let Some(step) = drain(server, wake, now) {
        return step;
    }
    match pod {
        Some(_) if server.is_available() => (Vec::new(), ServerReason::Steady),
        Some(_) => (Vec::new(), ServerReason::Starting),
        None => start(server, intent, seen, now),
    }
}

/// A Pod that was refused for its ports is made again with others. The same ports are tried again after a while, for
/// whoever has them may go; so are others that were refused, too.
fn change_ports(
    intent: &ServerIntent,
    pod: &ObservedPod,
    seen: &ServerObserved,
    wake: &mut Wake,
    now: Timestamp,
) -> Step {
    if pod.deleting {
        return (Vec::new(), ServerReason::Starting);
    }
    let delete = ServerEffect::DeletePod { uid: pod.uid.clone() };
    if pod.has_other_ports {
        return (vec![delete], ServerReason::Starting);
    }
    let again_at = saturating_add(pod.created_at.unwrap_or(now), PORT_RETRY);
    let message = pod.failure.as_ref().map(|(_, message)| message.clone()).unwrap_or_default();
    let reason = ServerReason::PortTaken { message, again_at };
    if again_at <= now {
        return (vec![ServerEffect::ReplacePorts, delete], reason);
    }
    wake.by(again_at);
    let at_once = !intent.names_ports && seen.port_changes < MAX_PORT_CHANGES;
    (at_once.then_some(ServerEffect::ReplacePorts).into_iter().collect(), reason)
}

/// A marked server goes when nobody is on it, or when its players had time enough.
fn drain(server: &Server, wake: &mut Wake, now: Timestamp) -> Option<Step> {
    if !server.marked_for_deletion {
        return None;
    }
    if server.is_empty(now) || server.health == ServerHealth::Failed {
        return Some(go(DeleteReason::Drained));
    }
    let until = server.drain_deadline;
    if until.is_some_and(|until| until <= now) {
        return Some(go(DeleteReason::DrainDeadline));
    }
    until.into_iter().for_each(|until| wake.by(until));
    Some((Vec::new(), ServerReason::Drains { until }))
}

fn go(why: DeleteReason) -> Step {
    (vec![ServerEffect::Delete(why)], ServerReason::Goes(why))
}

/// A failed server stays as it is until its collection wants it to begin again.
fn failed(
    server: &mut Server,
    intent: &ServerIntent,
    pod: Option<&ObservedPod>,
    wake: &mut Wake,
    now: Timestamp,
) -> Step {
    let Some(failure) = server.failure.clone().filter(|_| intent.restarts > server.restarts) else {
        let reason = server.failure.as_ref().map(|failure| failure.reason.clone());
        return (Vec::new(), ServerReason::Failed { reason: reason.unwrap_or_default() });
    };
    if let Some(pod) = pod {
        let effects =
            (!pod.deleting).then(|| ServerEffect::DeletePod { uid: pod.uid.clone() }).into_iter();
        return (effects.collect(), ServerReason::Failed { reason: failure.reason });
    }
    let restarts_at = saturating_add(failure.at, restart_delay(&server.uid, intent.restarts));
    if now < restarts_at {
        wake.by(restarts_at);
        return (Vec::new(), ServerReason::RestartsAt(restarts_at));
    }
    server.restarts = intent.restarts;
    server.begin_life();
    (vec![ServerEffect::CreatePod], ServerReason::Starting)
}

fn restart_delay(uid: &str, restarts: u32) -> SignedDuration {
    backoff(uid, restarts)
}

/// A Pod that is missing is made (again): the same server, with the same ports, and nobody on it.
fn start(
    server: &mut Server,
    intent: &ServerIntent,
    seen: &ServerObserved,
    now: Timestamp,
) -> Step {
    if let Some(message) = &seen.refused {
        server.fail("PodRefused", message, now);
        return (Vec::new(), ServerReason::Failed { reason: "PodRefused".to_owned() });
    }
    if !intent.has_ports {
        return (Vec::new(), ServerReason::WaitsForPorts);
    }
    (vec![ServerEffect::CreatePod], ServerReason::Starting)
}

fn run_by_hand(server: &mut Server, address: &str, now: Timestamp) {
    server.health = ServerHealth::Healthy;
    server.pod_state = PodState::Running;
    server.address = Some(address.to_owned());
    server.ready_at.get_or_insert(now);
    server.sdk_state.get_or_insert(SdkState::Ready);
}

impl Server {
    /// It failed; the first reason is the one that is told.
    pub fn fail(&mut self, reason: &str, message: &str, now: Timestamp) {
        if self.health != ServerHealth::Failed {
            self.health = ServerHealth::Failed;
            self.failure = Some(ServerFailure {
                reason: reason.to_owned(),
                message: message.to_owned(),
                at: now,
            });
        }
    }

    /// The process in this Pod speaks: what one before it said is over. Answers whether there was one.
    pub fn speaks_from(&mut self, pod_uid: &str) -> bool {
        let another = self.pod_uid.as_deref().is_some_and(|known| known != pod_uid);
        if another {
            self.begin_life();
        }
        self.pod_uid = Some(pod_uid.to_owned());
        another
    }

    /// Another process begins, and knows nothing of what the one before said. Who was promised a place and has not come
    /// may still come: address and ports are the same.
    fn begin_life(&mut self) {
        self.health = ServerHealth::Creating;
        self.pod_state = PodState::Pending;
        self.state = ServerState::Idle;
        self.sdk_state = None;
        self.ready_at = None;
        self.active_players = None;
        self.reserved_until = None;
        self.failure = None;
        self.pod_uid = None;
        self.lose_players();
    }

    /// Answers whether it is another than before.
    fn take_in_pod(&mut self, pod: &ObservedPod, now: Timestamp) -> bool {
        let another = self.speaks_from(&pod.uid);
        self.pod_state = pod.state;
        if pod.node.is_some() {
            self.node.clone_from(&pod.node);
        }
        // An address that cannot be told now is the one that it was.
        if pod.address.is_some() {
            self.address.clone_from(&pod.address);
        }
        // How a process ends whose Pod is being deleted says nothing about it: it was told to.
        if pod.state == PodState::Failed && !pod.port_taken && !pod.deleting {
            let (reason, message) = pod.failure.clone().unwrap_or_default();
            let reason = if reason.is_empty() { "PodFailed".to_owned() } else { reason };
            self.fail(&reason, &message, now);
        }
        another
    }
}
