//! Which Pods are left alone.

use super::observed::Pod;

/// The taint that a cordoned Node carries.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";

/// Why a Pod is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Its DaemonSet would make another one on the same Node.
    DaemonSet,
    /// What runs from a file cannot be evicted.
    Mirror,
    /// It does no work any more.
    Finished,
    /// It may come to a cordoned Node, so it would be back at once.
    Tolerates,
}

/// A taint that a Pod puts up with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Toleration {
    /// Every taint, if it is empty.
    pub key: String,
    /// Whatever the taint's value is.
    pub exists: bool,
    pub value: String,
    /// Every effect, if it is empty.
    pub effect: String,
    /// For a while, and not for good.
    pub limited: bool,
}

pub(super) fn skip_reason(pod: &Pod) -> Option<SkipReason> {
    if pod.mirror {
        Some(SkipReason::Mirror)
    } else if pod.of_daemon_set {
        Some(SkipReason::DaemonSet)
    } else if pod.finished {
        Some(SkipReason::Finished)
    } else if pod.tolerations.iter().any(tolerates) {
        Some(SkipReason::Tolerates)
    } else {
        None
    }
}

fn tolerates(toleration: &Toleration) -> bool {
    let key = match toleration.key.as_str() {
        "" => toleration.exists,
        key => key == UNSCHEDULABLE,
    };
    let value = toleration.exists || toleration.value.is_empty();
    let effect = matches!(toleration.effect.as_str(), "" | NO_SCHEDULE);
    key && value && effect && !toleration.limited
}
