//! Which server a matchmaker is given. All servers that can be given are held in order, so that one is found without
//! looking at the others, and what is given is taken at once: whoever asks next finds another.

mod selector;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeFrom;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::selector::{CounterFilter, Selector, WantedState};
use super::server::{Grant, SdkState, Server, ServerState};
use crate::key::Key;

/// A server, and what can be asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub server: Server,
    pub labels: BTreeMap<String, String>,
    /// Count and capacity, by name.
    pub counters: BTreeMap<String, (i64, i64)>,
    pub collection: Arc<str>,
    pub max_players: u32,
    /// Not one of an old template that is to go.
    pub takes_grants: bool,
}

/// Why a server cannot be given whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    Marked,
    /// It cannot be played on, or nobody knows where it is.
    NotReady,
    /// It is made from an old template, and takes nobody new.
    OldTemplate,
    /// It is somebody's, or somebody is on it.
    Occupied,
}

impl Candidate {
    /// Why it cannot be given whole now, if it cannot.
    pub fn obstacle(&self, now: Timestamp) -> Option<Obstacle> {
        self.lasting_obstacle().or_else(|| (!is_whole(self, now)).then_some(Obstacle::Occupied))
    }

    /// So many seats of it can be given now.
    pub fn free_seats(&self, now: Timestamp) -> u32 {
        free_seats(self, now).unwrap_or(0)
    }

    /// Why it takes nobody, whatever is asked for.
    fn lasting_obstacle(&self) -> Option<Obstacle> {
        match () {
            () if self.server.marked_for_deletion => Some(Obstacle::Marked),
            () if !self.server.is_grantable() => Some(Obstacle::NotReady),
            () if !self.takes_grants => Some(Obstacle::OldTemplate),
            () => None,
        }
    }
}

/// What a matchmaker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocationRequest {
    pub request_id: String,
    pub namespace: String,
    /// Any, if none is named.
    pub collection: Option<String>,
    /// In the order of preference; none: any server.
    pub selectors: Vec<Selector>,
    /// None: a whole server.
    pub seats: Option<u32>,
}

/// What is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub server: Key,
    pub uid: String,
    pub grant: Grant,
    /// The same request was answered before, or is being answered.
    pub repeated: bool,
    /// It is on record already, as far as is known. Otherwise it has to be before anybody is told.
    pub written: bool,
}

/// Why nothing is given, and how near it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Misses {
    /// Servers where somebody asked.
    pub servers: u32,
    pub not_ready: u32,
    pub marked: u32,
    pub old_template: u32,
    /// Ready, and somebody's, or with too few seats.
    pub occupied: u32,
    /// Free, and no selector is about them.
    pub not_selected: u32,
}

impl Misses {
    /// What one server is counted as, but for what depends on the request.
    fn of(candidate: &Candidate) -> Self {
        let one = Self { servers: 1, ..Self::default() };
        match candidate.lasting_obstacle() {
            Some(Obstacle::Marked) => Self { marked: 1, ..one },
            Some(Obstacle::NotReady) => Self { not_ready: 1, ..one },
            Some(Obstacle::OldTemplate) => Self { old_template: 1, ..one },
            Some(Obstacle::Occupied) | None => one,
        }
    }

    const fn plus(self, other: &Self) -> Self {
        Self {
            servers: self.servers + other.servers,
            not_ready: self.not_ready + other.not_ready,
            marked: self.marked + other.marked,
            old_template: self.old_template + other.old_template,
            ..self
        }
    }

    const fn minus(self, other: &Self) -> Self {
        Self {
            servers: self.servers.saturating_sub(other.servers),
            not_ready: self.not_ready.saturating_sub(other.not_ready),
            marked: self.marked.saturating_sub(other.marked),
            old_template: self.old_template.saturating_sub(other.old_template),
            ..self
        }
    }
}

/// Servers of one collection in a namespace.
type Scope = (Arc<str>, Arc<str>);
/// On the same node, where one is, so that others become empty.
type Place = (Option<Arc<str>>, Arc<str>);

/// A server in the index.
#[derive(Debug)]
struct Held {
    candidate: Candidate,
    /// With so many free seats it is in the order, although it may have others by now: leases end with time alone.
    seats: Option<u32>,
}

/// All servers of all collections.
#[derive(Debug, Default)]
pub struct AllocationIndex {
    candidates: HashMap<Key, Held>,
    /// Servers that can be given whole.
    whole: BTreeMap<Scope, BTreeSet<Place>>,
    /// Servers with seats, those with the fewest first.
    seats: BTreeMap<Scope, BTreeSet<(u32, Place)>>,
    /// How many there are, and how many take nobody, whatever is asked for.
    counts: BTreeMap<Scope, Misses>,
    /// What was granted, by namespace and request.
    by_request: HashMap<(String, String), (Key, String)>,
    /// Grants that are being written down, or of which nobody knows whether they were. A server as it was before has
    /// none of them.
    unwritten: HashMap<Key, Vec<Grant>>,
    /// When the first of these has lapsed.
    next_lapse: Option<Timestamp>,
}

impl AllocationIndex {
    /// A server is now so, or it is gone. What is being written down about it is kept, as long as it is the same one.
    pub fn upsert(&mut self, key: &Key, candidate: Option<Candidate>, now: Timestamp) {
        let before = self.remove(key);
        for grant in before.iter().flat_map(|before| &before.server.grants) {
            self.forget_request(key, grant);
        }
        let is_same = |one: &Candidate| {
            before.as_ref().is_none_or(|before| before.server.uid == one.server.uid)
        };
        let Some(mut candidate) = candidate else {
            self.unwritten.remove(key);
            return;
        };
        if !is_same(&candidate) {
            self.unwritten.remove(key);
        }
        let stored = &mut candidate.server.grants;
        if let Some(unwritten) = self.unwritten.get_mut(key) {
            // What is on record is written, whatever was answered about that.
            unwritten.retain(|grant| {
                grant.is_live(now) && stored.iter().all(|known| known.id != grant.id)
            });
            stored.extend(unwritten.iter().cloned());
            if unwritten.is_empty() {
                self.unwritten.remove(key);
            }
        }
        for grant in &*stored {
            let request = (key.namespace.to_string(), grant.request_id.clone());
            self.by_request.insert(request, (key.clone(), grant.id.clone()));
        }
        self.insert(key, candidate, now);
    }

    /// Gives a server, or seats of one, and takes it off the list. Asked again with the same id, it is the same.
    pub fn allocate(
        &mut self,
        request: &AllocationRequest,
        grant_id: &str,
        lease_expires: Timestamp,
        now: Timestamp,
    ) -> Result<Allocation, Misses> {
        self.lapse(now);
        if let Some(allocation) = self.repeated(request, now) {
            return Ok(allocation);
        }
        let any = [Selector::default()];
        let selectors = if request.selectors.is_empty() { &any[..] } else { &request.selectors };
        let found = selectors.iter().find_map(|selector| self.find(request, selector, now));
        let Some(key) = found else { return Err(self.misses(request)) };
        let grant = Grant {
            id: grant_id.to_owned(),
            request_id: request.request_id.clone(),
            seats: request.seats,
            lease_expires,
            claimed: false,
            arrived: 0,
        };
        let mut candidate = self.remove(&key).expect("what was found is there");
        candidate.server.grants.push(grant.clone());
        self.unwritten.entry(key.clone()).or_default().push(grant.clone());
        self.next_lapse = Some(self.next_lapse.map_or(lease_expires, |at| at.min(lease_expires)));
        let uid = candidate.server.uid.clone();
        let by_request = (request.namespace.clone(), request.request_id.clone());
        self.by_request.insert(by_request, (key.clone(), grant.id.clone()));
        self.insert(&key, candidate, now);
        Ok(Allocation { server: key, uid, grant, repeated: false, written: false })
    }

    /// What nobody has written down by the end of its lease is nobody's: whoever asked went away, or never heard
    /// whether it was.
    fn lapse(&mut self, now: Timestamp) {
        if self.next_lapse.is_none_or(|at| now < at) {
            return;
        }
        let all = || {
            self.unwritten.iter().flat_map(|(key, grants)| grants.iter().map(move |one| (key, one)))
        };
        let lapsed: Vec<(Key, String)> = all()
            .filter(|(_, grant)| !grant.is_live(now))
            .map(|(key, grant)| (key.clone(), grant.id.clone()))
            .collect();
        self.next_lapse = all()
            .filter(|(_, grant)| grant.is_live(now))
            .map(|(_, grant)| grant.lease_expires)
            .min();
        for (key, grant_id) in lapsed {
            self.cancel(&key, &grant_id, now);
        }
    }

    fn is_unwritten(&self, key: &Key, grant_id: &str) -> bool {
        let of_server = self.unwritten.get(key).into_iter().flatten();
        of_server.into_iter().any(|grant| grant.id == grant_id)
    }

    /// A grant is written down: the server has it from now on.
    pub fn confirm(&mut self, key: &Key, grant_id: &str) {
        if let Some(unwritten) = self.unwritten.get_mut(key) {
            unwritten.retain(|grant| grant.id != grant_id);
            if unwritten.is_empty() {
                self.unwritten.remove(key);
            }
        }
    }

    /// A grant was not written down: nobody was told of it. One that is on record stays.
    pub fn cancel(&mut self, key: &Key, grant_id: &str, now: Timestamp) {
        if !self.is_unwritten(key, grant_id) {
            return;
        }
        self.confirm(key, grant_id);
        let Some(mut candidate) = self.remove(key) else { return };
        let grants = &mut candidate.server.grants;
        if let Some(index) = grants.iter().position(|grant| grant.id == grant_id) {
            let cancelled = grants.remove(index);
            self.forget_request(key, &cancelled);
        }
        self.insert(key, candidate, now);
    }

    fn forget_request(&mut self, key: &Key, grant: &Grant) {
        let request = (key.namespace.to_string(), grant.request_id.clone());
        let is_its = |known: &(Key, String)| known.0 == *key && known.1 == grant.id;
        if self.by_request.get(&request).is_some_and(is_its) {
            self.by_request.remove(&request);
        }
    }

    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    fn repeated(&self, request: &AllocationRequest, now: Timestamp) -> Option<Allocation> {
        let known = (request.namespace.clone(), request.request_id.clone());
        let (key, grant_id) = self.by_request.get(&known)?;
        let server = &self.candidates.get(key)?.candidate.server;
        let grant = server.grants.iter().find(|one| one.id == *grant_id && one.is_live(now))?;
        let (server, uid) = (key.clone(), server.uid.clone());
        let written = !self.is_unwritten(key, grant_id);
        Some(Allocation { server, uid, grant: grant.clone(), repeated: true, written })
    }

    fn find(
        &self,
        request: &AllocationRequest,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<Key> {
        let namespace: Arc<str> = request.namespace.as_str().into();
        let matches = |place: &Place| {
            let key = Key { namespace: namespace.clone(), name: place.1.clone() };
            let candidate = &self.candidates.get(&key)?.candidate;
            selector.matches(candidate, now).then_some(key)
        };
        match request.seats {
            None => {
                let mut places = scopes(&self.whole, &namespace, request.collection.as_deref());
                places.find_map(|places| places.iter().find_map(matches))
            }
            Some(seats) => {
                // The fullest that has room is filled before another one is opened.
                let scopes = scopes(&self.seats, &namespace, request.collection.as_deref());
                let best = scopes.filter_map(|places| {
                    places.range(at_least(seats)).find_map(|(free, place)| {
                        matches(place).map(|key| (*free, place.clone(), key))
                    })
                });
                best.min_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1))).map(|(_, _, key)| key)
            }
        }
    }

    /// What is known of a server that could be given.
    pub fn candidate(&self, key: &Key) -> Option<&Candidate> {
        Some(&self.candidates.get(key)?.candidate)
    }

    /// Why nothing, or no more, is given to such a request. From what is counted: whoever asks in vain asks often.
    pub fn misses(&self, request: &AllocationRequest) -> Misses {
        let namespace: Arc<str> = request.namespace.as_str().into();
        let collection = request.collection.as_deref();
        let counted = scopes(&self.counts, &namespace, collection);
        let mut misses = counted.fold(Misses::default(), Misses::plus);
        let free: usize = match request.seats {
            None => scopes(&self.whole, &namespace, collection).map(BTreeSet::len).sum(),
            Some(seats) => scopes(&self.seats, &namespace, collection)
                .map(|places| places.range(at_least(seats)).count())
                .sum(),
        };
        let Misses { servers, not_ready, marked, old_template, .. } = misses;
        misses.not_selected = u32::try_from(free).unwrap_or(u32::MAX);
        let others = not_ready + marked + old_template + misses.not_selected;
        misses.occupied = servers.saturating_sub(others);
        misses
    }

    fn insert(&mut self, key: &Key, candidate: Candidate, now: Timestamp) {
        let (scope, place) = position(key, &candidate);
        let counts = self.counts.entry(scope.clone()).or_default();
        *counts = counts.plus(&Misses::of(&candidate));
        if is_whole(&candidate, now) {
            self.whole.entry(scope.clone()).or_default().insert(place.clone());
        }
        let seats = free_seats(&candidate, now);
        if let Some(free) = seats {
            self.seats.entry(scope).or_default().insert((free, place));
        }
        self.candidates.insert(key.clone(), Held { candidate, seats });
    }

    fn remove(&mut self, key: &Key) -> Option<Candidate> {
        let Held { candidate, seats } = self.candidates.remove(key)?;
        let (scope, place) = position(key, &candidate);
        if let Some(counts) = self.counts.get_mut(&scope) {
            *counts = counts.minus(&Misses::of(&candidate));
            if counts.servers == 0 {
                self.counts.remove(&scope);
            }
        }
        take_out(&mut self.whole, &scope, &place);
        if let Some(free) = seats {
            take_out(&mut self.seats, &scope, &(free, place));
        }
        Some(candidate)
    }
}

/// Whether it can be given whole: nobody is on it, and nobody was promised a place.
fn is_whole(candidate: &Candidate, now: Timestamp) -> bool {
    let server = &candidate.server;
    let idle = server.state == ServerState::Idle
        && matches!(server.sdk_state, None | Some(SdkState::Ready));
    candidate.takes_grants && server.is_grantable() && idle && server.is_empty(now)
}

/// How many seats can be given; none at all if it takes nobody.
fn free_seats(candidate: &Candidate, now: Timestamp) -> Option<u32> {
    let server = &candidate.server;
    if !candidate.takes_grants || !server.is_grantable() {
        return None;
    }
    Some(server.grantable_seats(candidate.max_players, now)).filter(|free| *free > 0)
}

fn position(key: &Key, candidate: &Candidate) -> (Scope, Place) {
    let node = candidate.server.node.as_deref().map(Arc::from);
    ((key.namespace.clone(), candidate.collection.clone()), (node, key.name.clone()))
}

/// Places with so many seats, or more.
fn at_least(seats: u32) -> RangeFrom<(u32, Place)> {
    (seats, (None, Arc::from("")))..
}

/// What is held of one collection, or of all in a namespace.
fn scopes<'a, V>(
    of: &'a BTreeMap<Scope, V>,
    namespace: &Arc<str>,
    collection: Option<&str>,
) -> Box<dyn Iterator<Item = &'a V> + 'a> {
    match collection {
        Some(name) => Box::new(of.get(&(namespace.clone(), Arc::from(name))).into_iter()),
        None => {
            let from = (namespace.clone(), Arc::from(""));
            let namespace = namespace.clone();
            let within = of.range(from..).take_while(move |((one, _), _)| *one == namespace);
            Box::new(within.map(|(_, held)| held))
        }
    }
}

/// Takes something of a collection out, and forgets a collection of which nothing is held.
fn take_out<T: Ord>(of: &mut BTreeMap<Scope, BTreeSet<T>>, scope: &Scope, what: &T) {
    let Some(held) = of.get_mut(scope) else { return };
    held.remove(what);
    if held.is_empty() {
        of.remove(scope);
    }
}
