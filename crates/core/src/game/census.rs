//! What a collection says of its members: how many can be played on, and how the worst of them is.

use super::server::{PodState, Server, ServerHealth};

/// How a collection is: as its worst member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectionHealth {
    /// It has no members, and is to have none.
    Idle,
    Healthy,
    /// Members are missing, or not there yet.
    Creating,
    Failed,
    /// Too many failed. Nothing is made or taken away until somebody says so.
    NeedsIntervention,
}

/// What a collection's status says of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    pub available: u32,
    pub health: CollectionHealth,
    /// None without members.
    pub pod_state: Option<PodState>,
}

/// Counts the members of a collection that is to have so many.
pub fn census<'a>(
    members: impl IntoIterator<Item = &'a Server>,
    replicas: u32,
    needs_intervention: bool,
) -> Census {
    let (mut count, mut available) = (0_u32, 0_u32);
    let (mut worst, mut pods) = (ServerHealth::Healthy, None);
    for member in members {
        count += 1;
        available += u32::from(member.is_available());
        if severity(member.health) > severity(worst) {
            worst = member.health;
        }
        if pods.is_none_or(|known| precedence(member.pod_state) > precedence(known)) {
            pods = Some(member.pod_state);
        }
    }
    let health = match worst {
        _ if needs_intervention => CollectionHealth::NeedsIntervention,
        ServerHealth::Failed => CollectionHealth::Failed,
        ServerHealth::Creating => CollectionHealth::Creating,
        ServerHealth::Healthy if count < replicas => CollectionHealth::Creating,
        ServerHealth::Healthy if count == 0 => CollectionHealth::Idle,
        ServerHealth::Healthy => CollectionHealth::Healthy,
    };
    Census { available, health, pod_state: pods }
}

const fn severity(health: ServerHealth) -> u8 {
    match health {
        ServerHealth::Healthy => 0,
        ServerHealth::Creating => 1,
        ServerHealth::Failed => 2,
    }
}

/// Of two the higher one is told.
const fn precedence(state: PodState) -> u8 {
    match state {
        PodState::Running => 0,
        PodState::Succeeded => 1,
        PodState::Pending => 2,
        PodState::Unknown => 3,
        PodState::Failed => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(health: ServerHealth, pod_state: PodState) -> Server {
        Server { health, pod_state, ..Server::default() }
    }

    // case: game S24, S25, S26, S27
    #[test]
    fn a_collection_is_as_its_worst_member_in_whatever_order_they_come() {
        let healthy = member(ServerHealth::Healthy, PodState::Running);
        let creating = member(ServerHealth::Creating, PodState::Pending);
        let failed = member(ServerHealth::Failed, PodState::Failed);
        let of = |members: &[&Server], replicas| census(members.iter().copied(), replicas, false);
        for members in [[&creating, &failed], [&failed, &creating]] {
            let counted = of(&members, 2);
            assert_eq!(counted.health, CollectionHealth::Failed);
            assert_eq!(counted.pod_state, Some(PodState::Failed));
        }
        let counted = of(&[&healthy, &creating], 2);
        assert_eq!((counted.health, counted.available), (CollectionHealth::Creating, 1));
        assert_eq!(counted.pod_state, Some(PodState::Pending), "one without a phase");
        assert_eq!(of(&[&healthy], 1).health, CollectionHealth::Healthy);
        assert_eq!(of(&[&healthy], 2).health, CollectionHealth::Creating, "one is missing");
        let none = of(&[], 0);
        assert_eq!((none.health, none.pod_state), (CollectionHealth::Idle, None));
        assert_eq!(of(&[], 3).health, CollectionHealth::Creating);
        let tripped = census([&healthy], 1, true);
        assert_eq!(tripped.health, CollectionHealth::NeedsIntervention);
        assert_eq!(tripped.available, 1, "that goes on being counted");
    }
}
