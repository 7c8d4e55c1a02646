//! How grants end: claimed by those who come, returned when nobody does, and over when the server is free again.

use jiff::Timestamp;

use super::server::{Grant, SdkState, Server, ServerState};

/// What a server said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerReport {
    Players(u32),
    State(ServerState),
    Sdk(SdkState),
}

impl Server {
    /// Takes in what a server says of itself. A rise in players claims the oldest seats first; one that says that it is
    /// free has nobody's grant any more.
    pub fn takes_in(&mut self, report: ServerReport) {
        match report {
            ServerReport::Players(players) => {
                let before = self.active_players.replace(players).unwrap_or(0);
                if players == 0 && before > 0 {
                    self.end_claimed();
                } else {
                    self.claim_seats(players.saturating_sub(before));
                }
            }
            ServerReport::State(state) => {
                let before = std::mem::replace(&mut self.state, state);
                match state {
                    ServerState::Running => self.claim_whole(),
                    ServerState::Idle if before != ServerState::Idle => self.end_claimed(),
                    ServerState::Idle | ServerState::Assigned | ServerState::PostMatch => {}
                }
            }
            ServerReport::Sdk(state) => {
                self.sdk_state = Some(state);
                match state {
                    SdkState::Allocated => {
                        self.reserved_until = None;
                        self.claim_whole();
                    }
                    SdkState::Ready => {
                        self.reserved_until = None;
                        self.end_claimed();
                    }
                    SdkState::Reserved | SdkState::Shutdown => {}
                }
            }
        }
    }

    /// Returns what nobody claimed in time, and ends a reservation whose time is over. Answers when to look again.
    pub fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let whole = |server: &Self| server.grants.iter().any(|grant| grant.seats.is_none());
        let had_whole = whole(self);
        self.grants.retain(|grant| grant.is_live(now));
        if had_whole && !whole(self) && self.state == ServerState::Assigned {
            self.state = ServerState::Idle;
        }
        if self.reserved_until.is_some_and(|until| until <= now) {
            self.reserved_until = None;
            if self.sdk_state == Some(SdkState::Reserved) {
                self.sdk_state = Some(SdkState::Ready);
            }
        }
        let leases = self.grants.iter().filter(|grant| !grant.claimed);
        leases.map(|grant| grant.lease_expires).chain(self.reserved_until).min()
    }

    /// So many more are there than before: those who were promised seats first came first.
    fn claim_seats(&mut self, mut came: u32) {
        if came == 0 {
            return;
        }
        let mut waiting: Vec<&mut Grant> =
            self.grants.iter_mut().filter(|grant| !grant.claimed).collect();
        waiting.sort_by(|a, b| (a.lease_expires, &a.id).cmp(&(b.lease_expires, &b.id)));
        for grant in waiting {
            if came == 0 {
                break;
            }
            grant.claimed = true;
            came = came.saturating_sub(grant.seats.unwrap_or(came));
        }
    }

    fn claim_whole(&mut self) {
        for grant in self.grants.iter_mut().filter(|grant| grant.seats.is_none()) {
            grant.claimed = true;
        }
    }

    /// What was claimed is over. Who was given all of it made it Assigned; a server that says nothing of its state is
    /// nobody's then.
    fn end_claimed(&mut self) {
        let ends = |grant: &Grant| grant.claimed && grant.seats.is_none();
        if self.state == ServerState::Assigned && self.grants.iter().any(ends) {
            self.state = ServerState::Idle;
        }
        self.grants.retain(|grant| !grant.claimed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
    }

    fn granted(grants: &[(&str, Option<u32>, i64)]) -> Server {
        let grants = grants.iter().map(|(id, seats, expires)| Grant {
            id: (*id).to_owned(),
            request_id: (*id).to_owned(),
            seats: *seats,
            lease_expires: at(*expires),
            claimed: false,
        });
        Server { grants: grants.collect(), ..Server::default() }
    }

    fn claimed(server: &Server) -> Vec<&str> {
        let grants = server.grants.iter().filter(|grant| grant.claimed);
        grants.map(|grant| grant.id.as_str()).collect()
    }

    #[test]
    fn those_who_come_claim_the_oldest_seats_first() {
        let mut server = granted(&[("late", Some(2), 90), ("early", Some(3), 60)]);
        server.takes_in(ServerReport::Players(3));
        assert_eq!(claimed(&server), ["early"]);
        server.takes_in(ServerReport::Players(2));
        assert_eq!(claimed(&server), ["early"], "somebody left");
        server.takes_in(ServerReport::Players(3));
        assert_eq!(claimed(&server), ["late", "early"]);
        server.takes_in(ServerReport::Players(0));
        assert_eq!(server.grants, [], "all have left");
    }

    #[test]
    fn what_nobody_claims_returns_and_what_somebody_does_stays() {
        let mut server = granted(&[("whole", None, 60)]);
        server.state = ServerState::Assigned;
        assert_eq!(server.expire(at(59)), Some(at(60)));
        let mut used = server.clone();
        assert_eq!(server.expire(at(60)), None);
        assert_eq!((server.state, server.grants.len()), (ServerState::Idle, 0));
        used.takes_in(ServerReport::State(ServerState::Running));
        assert_eq!(used.expire(at(3_600)), None);
        assert_eq!(claimed(&used), ["whole"]);
        used.takes_in(ServerReport::State(ServerState::PostMatch));
        used.takes_in(ServerReport::State(ServerState::Idle));
        assert!(used.is_empty(at(3_600)));
    }

    #[test]
    fn a_server_that_was_given_whole_is_free_again_when_its_players_have_left() {
        for over in [ServerReport::Players(0), ServerReport::Sdk(SdkState::Ready)] {
            let mut server = granted(&[("whole", None, 60)]);
            server.state = ServerState::Assigned;
            server.takes_in(ServerReport::Players(2));
            assert_eq!((claimed(&server), server.state), (vec!["whole"], ServerState::Assigned));
            server.takes_in(over);
            assert_eq!((server.grants.len(), server.state), (0, ServerState::Idle));
        }
    }

    // case: game A18
    #[test]
    fn a_reservation_ends_by_itself_and_an_allocation_cancels_that() {
        let mut server = Server {
            sdk_state: Some(SdkState::Reserved),
            reserved_until: Some(at(5)),
            ..Server::default()
        };
        assert_eq!(server.expire(at(4)), Some(at(5)));
        let mut allocated = server.clone();
        assert_eq!(server.expire(at(5)), None);
        assert_eq!(server.sdk_state, Some(SdkState::Ready));
        allocated.takes_in(ServerReport::Sdk(SdkState::Allocated));
        assert_eq!(allocated.expire(at(60)), None);
        assert_eq!(allocated.sdk_state, Some(SdkState::Allocated));
        assert!(!allocated.is_empty(at(60)));
    }
}
