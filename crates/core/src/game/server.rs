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
    /// On how many of its seats somebody is, or was. Of a whole server nobody counts them.
    pub arrived: u32,
}

impl Grant {
    /// Whether it keeps others away.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.claimed || now < self.lease_expires
    }

    /// Seats whose people are still to come.
    pub fn awaited(&self) -> u32 {
        self.seats.map_or(0, |seats| seats.saturating_sub(self.arrived))
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

    /// Whether it can be given at all: whoever is given it is told where it is.
    pub fn is_grantable(&self) -> bool {
        self.is_available() && self.has_address()
    }

    pub fn has_address(&self) -> bool {
        self.address.as_deref().is_some_and(|address| !address.is_empty())
    }

    /// Whether nobody is on it, and nobody was promised a place.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        let reserved = self.reserved_until.is_some_and(|until| now < until)
            || matches!(self.sdk_state, Some(SdkState::Reserved | SdkState::Allocated));
        !reserved
            && self.active_players.unwrap_or(0) == 0
            && !self.grants.iter().any(|grant| grant.is_live(now))
    }

    /// So many seats can be given, if it has room for `max_players`: none of one that keeps itself for somebody, or
    /// comes to its end.
    pub fn grantable_seats(&self, max_players: u32, now: Timestamp) -> u32 {
        let reserved = self.reserved_until.is_some_and(|until| now < until);
        let refuses = reserved
            || matches!(self.sdk_state, Some(SdkState::Reserved | SdkState::Shutdown))
            || self.state == ServerState::PostMatch;
        if refuses { 0 } else { self.free_seats(max_players, now) }
    }

    /// So many more may come, if it has room for `max_players`.
    pub fn free_seats(&self, max_players: u32, now: Timestamp) -> u32 {
        if self.grants.iter().any(|grant| grant.seats.is_none() && grant.is_live(now)) {
            return 0;
        }
        let promised = self.grants.iter().map(|grant| self.promised(grant, now));
        let taken = promised.fold(self.active_players.unwrap_or(0), u32::saturating_add);
        max_players.saturating_sub(taken)
    }

    /// Seats of a grant that are nobody else's although nobody is on them. Who has not come by the end of the lease
    /// loses them, unless the server counts nobody at all: then what it claimed by its word is all taken.
    fn promised(&self, grant: &Grant, now: Timestamp) -> u32 {
        let by_word = grant.claimed && !self.counts_players();
        if by_word || now < grant.lease_expires { grant.awaited() } else { 0 }
    }

    pub(super) fn counts_players(&self) -> bool {
        self.active_players.unwrap_or(0) > 0
    }

    /// When the next of its grants is over or becomes smaller, unless somebody comes.
    pub fn next_return(&self) -> Option<Timestamp> {
        let counts = self.counts_players();
        let returns = |grant: &&Grant| !grant.claimed || (counts && grant.awaited() > 0);
        self.grants.iter().filter(returns).map(|grant| grant.lease_expires).min()
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
            arrived: 0,
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
        server.grants = vec![Grant { arrived: 3, ..grant(Some(4), 60, true) }];
        assert_eq!(server.free_seats(10, at(0)), 6, "one of them is still to come");
        assert_eq!(server.free_seats(10, at(60)), 7, "and comes too late");
        server.grants = vec![Grant { arrived: 4, ..grant(Some(4), 60, true) }];
        assert_eq!(server.free_seats(10, at(0)), 7, "its players are those who are there");
        let silent = Server { grants: vec![grant(Some(4), 60, true)], ..Server::default() };
        assert_eq!(silent.free_seats(10, at(90)), 6, "it counts nobody, and said that they came");
        server.grants = vec![grant(None, 60, true)];
        assert_eq!(server.free_seats(10, at(90)), 0, "all of it is somebody's");
    }
}
