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
    /// Takes in what a server says of itself. A rise in players claims the oldest seats first, one for each who came; a
    /// server that says that it is in use claims all of them; one that says that it is free has nobody's grant any more.
    pub fn takes_in(&mut self, report: ServerReport, now: Timestamp) {
        // Who comes does not claim what is over.
        self.expire(now);
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
                    ServerState::Running => self.claim_all(),
                    ServerState::Idle if before != ServerState::Idle => self.end_claimed(),
                    ServerState::Idle | ServerState::Assigned | ServerState::PostMatch => {}
                }
            }
            ServerReport::Sdk(state) => {
                self.sdk_state = Some(state);
                match state {
                    SdkState::Allocated => {
                        self.reserved_until = None;
                        self.claim_all();
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

    /// Returns what nobody claimed in time and the seats of those who did not come with the others, and ends a reservation whose time is over. Answers when to look again.
    pub fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let whole = |server: &Self| server.grants.iter().any(|grant| grant.seats.is_none());
        let had_whole = whole(self);
        self.grants.retain(|grant| grant.is_live(now));
        self.settle_seats(now);
        if had_whole && !whole(self) && self.state == ServerState::Assigned {
            self.state = ServerState::Idle;
        }
        if self.reserved_until.is_some_and(|until| until <= now) {
            self.reserved_until = None;
            if self.sdk_state == Some(SdkState::Reserved) {
                self.sdk_state = Some(SdkState::Ready);
            }
        }
        self.next_return().into_iter().chain(self.reserved_until).min()
    }

    /// A claimed grant has the seats of those who came by the end of its lease. Where nobody is counted nobody knows
    /// who came, and it keeps all of them.
    fn settle_seats(&mut self, now: Timestamp) {
        if !self.counts_players() {
            return;
        }
        for grant in self.grants.iter_mut().filter(|grant| grant.lease_expires <= now) {
            grant.seats = grant.seats.map(|_| grant.arrived);
        }
        self.grants.retain(|grant| grant.seats != Some(0));
    }

    /// So many more are there than before: those who were promised seats first came first.
    fn claim_seats(&mut self, mut came: u32) {
        let mut waiting: Vec<&mut Grant> =
            self.grants.iter_mut().filter(|grant| !grant.claimed || grant.awaited() > 0).collect();
        waiting.sort_by(|a, b| (a.lease_expires, &a.id).cmp(&(b.lease_expires, &b.id)));
        for grant in waiting {
            if came == 0 {
                break;
            }
            grant.claimed = true;
            if grant.seats.is_none() {
                break;
            }
            let here = grant.awaited().min(came);
            grant.arrived += here;
            came -= here;
        }
    }

    fn claim_all(&mut self) {
        for grant in &mut self.grants {
            grant.claimed = true;
        }
    }

    /// The process is gone, and whoever had come with it. Who was promised a place and has not come may still come.
    pub(super) fn lose_players(&mut self) {
        let may_come = |grant: &Grant| !grant.claimed || (grant.arrived > 0 && grant.awaited() > 0);
        self.grants.retain(may_come);
        for grant in &mut self.grants {
            grant.seats = grant.seats.map(|seats| seats.saturating_sub(grant.arrived));
            (grant.claimed, grant.arrived) = (false, 0);
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
            arrived: 0,
        });
        Server { grants: grants.collect(), ..Server::default() }
    }

    fn claimed(server: &Server) -> Vec<&str> {
        let grants = server.grants.iter().filter(|grant| grant.claimed);
        grants.map(|grant| grant.id.as_str()).collect()
    }

    fn players(server: &mut Server, players: u32, now: i64) {
        server.takes_in(ServerReport::Players(players), at(now));
    }

    #[test]
    fn those_who_come_claim_the_oldest_seats_first() {
        let mut server = granted(&[("late", Some(2), 90), ("early", Some(3), 60)]);
        players(&mut server, 3, 0);
        assert_eq!(claimed(&server), ["early"]);
        players(&mut server, 2, 0);
        assert_eq!(claimed(&server), ["early"], "somebody left");
        players(&mut server, 3, 0);
        assert_eq!(claimed(&server), ["late", "early"]);
        players(&mut server, 0, 0);
        assert_eq!(server.grants, [], "all have left");
    }

    #[test]
    fn the_seats_of_a_party_are_kept_for_all_of_it_until_its_lease_ends() {
        let mut server = granted(&[("party", Some(4), 60), ("next", Some(2), 90)]);
        players(&mut server, 1, 10);
        assert_eq!(claimed(&server), ["party"]);
        assert_eq!(server.free_seats(10, at(10)), 4, "three are on their way, and two others");
        assert_eq!(server.expire(at(10)), Some(at(60)));
        players(&mut server, 2, 20);
        assert_eq!(server.free_seats(10, at(20)), 4, "one of them has come");
        let mut complete = server.clone();
        players(&mut complete, 5, 30);
        assert_eq!(claimed(&complete), ["party", "next"], "and then all, and one more");
        assert_eq!(server.expire(at(60)), Some(at(90)));
        assert_eq!(server.grants[0].seats, Some(2), "two came");
        assert_eq!(server.free_seats(10, at(60)), 6);
        assert_eq!(complete.expire(at(60)), Some(at(90)));
        assert_eq!(complete.expire(at(90)), None);
        assert_eq!(complete.free_seats(10, at(90)), 5);
        players(&mut server, 3, 95);
        assert_eq!(claimed(&server), ["party"], "whoever comes late claims nothing");
    }

    #[test]
    fn a_server_that_says_that_it_is_in_use_claims_seats_too() {
        for word in
            [ServerReport::Sdk(SdkState::Allocated), ServerReport::State(ServerState::Running)]
        {
            let mut silent = granted(&[("seats", Some(3), 60)]);
            silent.takes_in(word, at(10));
            assert_eq!(claimed(&silent), ["seats"]);
            assert_eq!(silent.expire(at(60)), None, "it counts nobody, so all of them came");
            assert_eq!(silent.free_seats(10, at(90)), 7);
            silent.takes_in(ServerReport::Sdk(SdkState::Ready), at(100));
            assert_eq!((silent.grants.len(), silent.free_seats(10, at(100))), (0, 10));
            let mut counting = granted(&[("seats", Some(3), 60)]);
            counting.active_players = Some(2);
            counting.takes_in(word, at(10));
            assert_eq!(claimed(&counting), ["seats"]);
            assert_eq!(counting.expire(at(10)), Some(at(60)));
            assert_eq!(counting.expire(at(60)), None);
            assert_eq!(counting.grants, [], "nobody came, as it counts");
        }
    }

    #[test]
    fn when_a_process_ends_those_of_a_party_who_have_not_come_may_still_come() {
        let mut server = granted(&[("party", Some(4), 60), ("there", Some(1), 50)]);
        players(&mut server, 2, 10);
        server.lose_players();
        assert_eq!((server.grants.len(), claimed(&server)), (1, vec![]));
        assert_eq!((server.grants[0].id.as_str(), server.grants[0].seats), ("party", Some(3)));
    }

    #[test]
    fn what_nobody_claims_returns_and_what_somebody_does_stays() {
        let mut server = granted(&[("whole", None, 60)]);
        server.state = ServerState::Assigned;
        assert_eq!(server.expire(at(59)), Some(at(60)));
        let mut used = server.clone();
        assert_eq!(server.expire(at(60)), None);
        assert_eq!((server.state, server.grants.len()), (ServerState::Idle, 0));
        used.takes_in(ServerReport::State(ServerState::Running), at(59));
        assert_eq!(used.expire(at(3_600)), None);
        assert_eq!(claimed(&used), ["whole"]);
        used.takes_in(ServerReport::State(ServerState::PostMatch), at(3_600));
        used.takes_in(ServerReport::State(ServerState::Idle), at(3_600));
        assert!(used.is_empty(at(3_600)));
    }

    #[test]
    fn a_server_that_was_given_whole_is_free_again_when_its_players_have_left() {
        for over in [ServerReport::Players(0), ServerReport::Sdk(SdkState::Ready)] {
            let mut server = granted(&[("whole", None, 60)]);
            server.state = ServerState::Assigned;
            server.takes_in(ServerReport::Players(2), at(10));
            assert_eq!((claimed(&server), server.state), (vec!["whole"], ServerState::Assigned));
            server.takes_in(over, at(600));
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
        allocated.takes_in(ServerReport::Sdk(SdkState::Allocated), at(4));
        assert_eq!(allocated.expire(at(60)), None);
        assert_eq!(allocated.sdk_state, Some(SdkState::Allocated));
        assert!(!allocated.is_empty(at(60)));
    }
}
