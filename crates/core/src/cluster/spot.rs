//! Spot machines: a hibernation ends them, so a resume has the cluster make others.
//!
//! Only machines that are known to be gone, or that the cluster itself gave up, are replaced: a healthy one is
//! never touched, whatever happened to conditions and clocks meanwhile.

use jiff::Timestamp;

use super::effect::Replacement;

/// A Machine object of the cluster itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetMachine {
    pub name: String,
    pub uid: String,
    /// What the provider knows it by, if it has one yet.
    pub instance: Option<String>,
    pub interruptible: bool,
    pub deleting: bool,
    pub phase: MachinePhase,
    /// When the cluster last wrote its status.
    pub updated_at: Option<Timestamp>,
    pub node_name: Option<String>,
    pub addresses: Vec<String>,
}

/// What the cluster says of a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachinePhase {
    /// It says nothing.
    Unset,
    Failed,
    /// Any other: it is provisioned, or runs.
    Live,
}

/// Which Machines are to be made anew in an operation that began at `since`, when the provider has none of `lost`
/// any more.
pub fn replacements(
    machines: &[TargetMachine],
    lost: &[&str],
    since: Timestamp,
) -> Vec<Replacement> {
    let due = machines.iter().filter(|machine| {
        // Until one is being deleted, it is asked for again: the last time may have failed.
        machine.interruptible && !machine.deleting && is_dead(machine, lost, since)
    });
    due.map(|machine| Replacement { name: machine.name.clone(), uid: machine.uid.clone() })
        .collect()
}

fn is_dead(machine: &TargetMachine, lost: &[&str], since: Timestamp) -> bool {
    let is_lost = machine.instance.as_deref().is_some_and(|instance| lost.contains(&instance));
    let seen_since = machine.updated_at.is_some_and(|at| at > since);
    match machine.phase {
        MachinePhase::Failed => true,
        MachinePhase::Unset => is_lost,
        // The cluster has looked since, and says that it lives.
        MachinePhase::Live => is_lost && !seen_since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn spot(instance: &str) -> TargetMachine {
        TargetMachine {
            name: format!("machine-{instance}"),
            uid: format!("uid-{instance}"),
            instance: Some(instance.to_owned()),
            interruptible: true,
            deleting: false,
            phase: MachinePhase::Live,
            updated_at: Some(since() - jiff::SignedDuration::from_hours(1)),
            node_name: None,
            addresses: Vec::new(),
        }
    }

    fn replaced(machine: TargetMachine, lost: &[&str]) -> bool {
        !replacements(&[machine], lost, since()).is_empty()
    }

    // case: cluster W11, W12, W13, W14
    #[test]
    fn what_we_ended_is_replaced_unless_the_cluster_saw_it_alive_since() {
        let after = Some(since() + jiff::SignedDuration::from_secs(1));
        assert!(replaced(spot("i-1"), &["i-1"]));
        assert!(replaced(TargetMachine { updated_at: None, ..spot("i-1") }, &["i-1"]));
        assert!(!replaced(TargetMachine { updated_at: after, ..spot("i-1") }, &["i-1"]));
        let failed =
            TargetMachine { updated_at: after, phase: MachinePhase::Failed, ..spot("i-1") };
        assert!(replaced(failed.clone(), &["i-1"]));
        assert!(!replaced(TargetMachine { interruptible: false, ..failed }, &["i-1"]));
    }

    // case: cluster X09
    #[test]
    fn a_healthy_machine_is_never_replaced() {
        assert!(!replaced(spot("i-1"), &[]));
        assert!(!replaced(spot("i-1"), &["i-2"]));
        assert!(!replaced(TargetMachine { instance: None, ..spot("i-1") }, &["i-1"]));
    }

    #[test]
    fn what_is_being_deleted_is_replaced_already() {
        assert!(!replaced(TargetMachine { deleting: true, ..spot("i-1") }, &["i-1"]));
    }
}
