//! Who really is on a server, or was promised a place, as players and matchmakers know it. Nothing here is read from
//! what the operator writes.

use jiff::Timestamp;

/// What a matchmaker was told that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownGrant {
    pub request_id: String,
    pub grant_id: String,
    /// None: the whole server.
    pub seats: Option<u32>,
    pub lease_expires: Timestamp,
    /// Whoever it is for has come, or the first of them.
    pub claimed: bool,
    /// On so many of its seats somebody has come.
    pub arrived: u32,
}

impl KnownGrant {
    fn is_live(&self, now: Timestamp) -> bool {
        self.claimed || now < self.lease_expires
    }

    /// Whether somebody may still come for it.
    pub fn awaits(&self, now: Timestamp) -> bool {
        now < self.lease_expires && self.seats.map_or(!self.claimed, |_| self.awaited() > 0)
    }

    fn awaited(&self) -> u32 {
        self.seats.map_or(0, |seats| seats.saturating_sub(self.arrived))
    }
}

/// Who is on a server.
#[derive(Debug, Clone, Default)]
pub struct Occupancy {
    /// Those whose coming was acknowledged, and who have not begun to leave.
    pub players: u32,
    pub reserved_until: Option<Timestamp>,
    pub grants: Vec<KnownGrant>,
    /// Grants whose people came, were not heard, and gave up: nobody knows what became of these.
    given_up: Vec<String>,
    /// Its process crashed, and no other runs.
    pub failed: bool,
    /// Its process ended by itself.
    pub ended: bool,
}

impl Occupancy {
    pub fn is_occupied(&self, now: Timestamp) -> bool {
        self.players > 0
            || self.reserved_until.is_some_and(|until| now < until)
            || self.grants.iter().any(|grant| grant.is_live(now))
    }

    pub fn live_grant(&self, request_id: &str, now: Timestamp) -> Option<&KnownGrant> {
        self.grants.iter().find(|grant| grant.request_id == request_id && grant.is_live(now))
    }

    /// Why one more grant is one too many.
    pub fn refuses(
        &self,
        seats: Option<u32>,
        max_players: u32,
        now: Timestamp,
    ) -> Option<&'static str> {
        let live = || self.grants.iter().filter(|grant| grant.is_live(now));
        if live().any(|grant| grant.seats.is_none()) {
            return Some("all of it is somebody else's");
        }
        let promised = live().filter(|grant| grant.awaits(now)).map(KnownGrant::awaited);
        let taken = promised.sum::<u32>() + self.players;
        match seats {
            None if taken > 0 => Some("somebody is on it"),
            Some(seats) if taken + seats > max_players => Some("it has fewer seats"),
            None | Some(_) => None,
        }
    }

    /// So many came. Those who were promised places first count as those who came first, and whoever was given all of
    /// it has come with anybody.
    pub fn came(&mut self, players: u32, now: Timestamp) {
        self.settle(now);
        self.players += players;
        let mut came = players;
        let mut waiting: Vec<&mut KnownGrant> =
            self.grants.iter_mut().filter(|grant| grant.awaits(now)).collect();
        waiting.sort_by(|a, b| (a.lease_expires, &a.grant_id).cmp(&(b.lease_expires, &b.grant_id)));
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

    /// Whoever has not come by the end of a lease has lost their seats.
    fn settle(&mut self, now: Timestamp) {
        self.grants.retain(|grant| grant.is_live(now));
        for grant in self.grants.iter_mut().filter(|grant| grant.lease_expires <= now) {
            grant.seats = grant.seats.map(|_| grant.arrived);
        }
    }

    /// Whoever came was not heard, and gives up. It may have been taken in all the same, so nobody knows what is still
    /// promised here.
    pub fn gave_up(&mut self) {
        let (claimed, others) =
            std::mem::take(&mut self.grants).into_iter().partition(|one| one.claimed);
        self.grants = claimed;
        for grant in &mut self.grants {
            grant.seats = grant.seats.map(|_| grant.arrived);
        }
        let others: Vec<KnownGrant> = others;
        self.given_up.extend(others.into_iter().map(|grant| grant.grant_id));
    }

    /// Whether whoever asked was told of this grant before.
    pub fn knows(&self, grant_id: &str) -> bool {
        let mut known = self.grants.iter().map(|grant| &grant.grant_id).chain(&self.given_up);
        known.any(|known| known == grant_id)
    }

    /// So many are left; with the last one what was claimed is over.
    pub fn left(&mut self, players: u32) {
        self.players = players;
        if players == 0 {
            self.grants.retain(|grant| !grant.claimed);
        }
    }

    /// The process is gone, and everybody with it. Who was promised a place may still come.
    pub fn process_ended(&mut self) {
        for grant in self.grants.iter_mut().filter(|grant| grant.arrived > 0) {
            grant.claimed = grant.awaited() == 0;
            grant.seats = grant.seats.map(|seats| seats.saturating_sub(grant.arrived));
            grant.arrived = 0;
        }
        self.left(0);
        self.reserved_until = None;
    }
}
