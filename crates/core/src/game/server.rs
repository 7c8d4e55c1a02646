//! What a server is, as far as decisions about it and its collection read it.

use jiff::Timestamp;

/// How a server is, as it says itself or as its Pod shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ServerHealth {
    #[default]
    Creating,
    Healthy,
    Failed,
}

/// How its Pod is. One without a phase is Pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PodState {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// What it does, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ServerState {
    #[default]
    Idle,
    Assigned,
    Running,
    PostMatch,
}

/// What Agones' SDK said last, where a server speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SdkState {
    Ready,
    Reserved,
    Allocated,
    Shutdown,
}

/// So many seats of a server, or all of it, that somebody was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub id: String,
    /// Of the request that asked for it: asked again, it is the same grant.
    pub request_id: String,
    /// None: the whole server.
    pub seats: Option<u32>,
    /// Until then somebody has to claim it.
    pub lease_expires: Timestamp,
    pub claimed: bool,
}

impl Grant {
    /// Whether it keeps others away.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.claimed || now < self.lease_expires
    }
}

/// A server, as it is on record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Server {
    pub name: String,
    pub uid: String,
    pub health: ServerHealth,
    pub pod_state: PodState,
    pub state: ServerState,
    pub sdk_state: Option<SdkState>,
    pub node: Option<String>,
    /// None until it was reported.
    pub active_players: Option<u32>,
    pub marked_for_deletion: bool,
    pub reserved_until: Option<Timestamp>,
    pub grants: Vec<Grant>,
    /// Of the template that it was made from.
    pub revision: String,
    /// The Pod that all of this speaks of.
    pub pod_uid: Option<String>,
    /// Where players come to.
    pub address: Option<String>,
    /// When it first said Ready in this life.
    pub ready_at: Option<Timestamp>,
    /// How often it began again after a failure.
    pub restarts: u32,
    pub failure: Option<ServerFailure>,
    /// When it goes although somebody is on it.
    pub drain_deadline: Option<Timestamp>,
}

/// Why a server failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
}

impl Server {
    /// Names this life of it: what failed is counted once for each.
    pub fn life(&self) -> String {
        format!("{}/{}", self.uid, self.restarts)
    }

    /// Whether somebody can be sent there.
    pub fn is_available(&self) -> bool {
        self.health == ServerHealth::Healthy
            && self.pod_state == PodState::Running
            && !self.marked_for_deletion
    }

    /// Whether nobody is on it, and nobody was promised a place.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        let reserved = self.reserved_until.is_some_and(|until| now < until)
            || matches!(self.sdk_state, Some(SdkState::Reserved | SdkState::Allocated));
        !reserved
            && self.active_players.unwrap_or(0) == 0
            && !self.grants.iter().any(|grant| grant.is_live(now))
    }

    /// So many more may come, if it has room for `max_players`.
    pub fn free_seats(&self, max_players: u32, now: Timestamp) -> u32 {
        let unclaimed = self.grants.iter().filter(|grant| !grant.claimed && grant.is_live(now));
        let promised = unclaimed.map(|grant| grant.seats.unwrap_or(max_players));
        let taken = promised.fold(self.active_players.unwrap_or(0), u32::saturating_add);
        let whole = self.grants.iter().any(|grant| grant.seats.is_none() && grant.is_live(now));
        if whole { 0 } else { max_players.saturating_sub(taken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
    }

    fn grant(seats: Option<u32>, expires: i64, claimed: bool) -> Grant {
        Grant {
            id: "g".to_owned(),
            request_id: "r".to_owned(),
            seats,
            lease_expires: at(expires),
            claimed,
        }
    }

    #[test]
    fn a_server_is_empty_when_nobody_is_there_and_nobody_was_promised_a_place() {
        let empty = Server::default();
        assert!(empty.is_empty(at(0)));
        let with = |change: fn(&mut Server)| {
            let mut server = Server::default();
            change(&mut server);
            server
        };
        for (server, from) in [
            (with(|server| server.active_players = Some(1)), None),
            (with(|server| server.sdk_state = Some(SdkState::Allocated)), None),
            (with(|server| server.sdk_state = Some(SdkState::Reserved)), None),
            (with(|server| server.reserved_until = Some(at(60))), Some(60)),
            (with(|server| server.grants = vec![grant(None, 60, false)]), Some(60)),
            (with(|server| server.grants = vec![grant(Some(2), 60, true)]), None),
        ] {
            assert!(!server.is_empty(at(0)), "{server:?}");
            assert_eq!(server.is_empty(at(60)), from == Some(60), "{server:?}");
        }
    }

    #[test]
    fn seats_that_were_granted_are_taken_until_their_players_come_or_their_lease_ends() {
        let mut server = Server { active_players: Some(3), ..Server::default() };
        assert_eq!(server.free_seats(10, at(0)), 7);
        server.grants = vec![grant(Some(4), 60, false)];
        assert_eq!((server.free_seats(10, at(0)), server.free_seats(10, at(60))), (3, 7));
        server.grants = vec![grant(Some(4), 60, true)];
        assert_eq!(server.free_seats(10, at(0)), 7, "its players are among those who are there");
        server.grants = vec![grant(None, 60, true)];
        assert_eq!(server.free_seats(10, at(90)), 0, "all of it is somebody's");
    }
}
