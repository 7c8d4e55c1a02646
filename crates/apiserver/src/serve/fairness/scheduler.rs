//! Which request runs next: seats are shared between priority levels, and within a level between users.
//!
//! A level has a nominal number of seats. Half of them are always kept for it; the other half is
//! lent while it has nobody waiting, and taken back as requests end. Within a level every user is a
//! flow with a queue of its own, and flows take turns by start-time fair queueing: a request's turn
//! comes after as many seats as its user was given before, so whoever just arrived waits for one
//! request of every waiting user at most. A wide request whose turn it is holds up those behind it,
//! or it would never find enough seats free.
//!
//! Nothing here knows of clocks or tasks: whoever arrives runs, waits or is refused at once, and
//! whoever leaves is answered with those who run now.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Requests of one user that wait for a seat.
pub(super) const MAX_QUEUED_PER_USER: usize = 64;
/// Requests of one level that wait for a seat.
pub(super) const MAX_QUEUED: usize = 4_096;
/// One in this many seats is nominally for the reserved level.
const RESERVED_SHARE: usize = 5;
/// A request takes at most this part of all seats.
const MAX_WIDTH_SHARE: usize = 8;

/// The levels that have a bounded number of seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    /// What the cluster itself needs: nodes, leases, controllers.
    Reserved,
    /// Everybody else.
    Workload,
}

impl Level {
    pub(super) const ALL: [Self; 2] = [Self::Reserved, Self::Workload];

    const fn index(self) -> usize {
        match self {
            Self::Reserved => 0,
            Self::Workload => 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Reserved => Self::Workload,
            Self::Workload => Self::Reserved,
        }
    }
}

/// Whether a request may be refused when too many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queueing {
    Bounded,
    /// The next piece of an answer that has begun: there is one of them for each answer.
    Unbounded,
}

/// What becomes of a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Runs(u64),
    /// It waits; `evicted` gave up its place to it.
    Waits {
        id: u64,
        evicted: Option<u64>,
    },
    Refused,
}

/// What a level holds, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub(super) nominal: usize,
    pub(super) seats: usize,
    pub(super) executing: usize,
    pub(super) queued: usize,
}

#[derive(Debug)]
pub(super) struct Scheduler {
    seats: usize,
    levels: [LevelState; 2],
    requests: HashMap<u64, Request>,
    next_id: u64,
}

#[derive(Debug)]
struct Request {
    level: Level,
    user: Arc<str>,
    width: usize,
    queueing: Queueing,
    runs: bool,
}

#[derive(Debug, Default)]
struct LevelState {
    nominal: usize,
    in_use: usize,
    executing: usize,
    queued: usize,
    flows: HashMap<Arc<str>, FlowQueue>,
    /// The flows that wait, in the order in which they are served: start tag, then who came first.
    waiting: BTreeMap<(u64, u64), Arc<str>>,
    /// The start tag of the newest request that was given seats.
    virtual_time: u64,
    sequence: u64,
}

#[derive(Debug, Default)]
struct FlowQueue {
    in_use: usize,
    queue: VecDeque<u64>,
    /// The flow's key in `waiting` while it waits.
    position: Option<(u64, u64)>,
    /// Where the next request of the flow starts, unless virtual time has passed that.
    finish: u64,
}

impl Scheduler {
    pub(super) fn new(seats: usize) -> Self {
        // Each level has a seat at least.
        let seats = seats.max(2);
        let reserved = (seats / RESERVED_SHARE).max(1);
        let level = |nominal| LevelState { nominal, ..LevelState::default() };
        let levels = [level(reserved), level(seats - reserved)];
        Self { seats, levels, requests: HashMap::new(), next_id: 0 }
    }

    /// The seats that one request takes at most.
    pub(super) fn max_width(&self) -> usize {
        (self.seats / MAX_WIDTH_SHARE).max(1)
    }

    pub(super) fn occupancy(&self, level: Level) -> Occupancy {
        let state = self.level(level);
        Occupancy {
            nominal: state.nominal,
            seats: state.in_use,
            executing: state.executing,
            queued: state.queued,
        }
    }

    /// A request of `user` that takes `width` seats.
    pub(super) fn arrive(
        &mut self,
        level: Level,
        user: &Arc<str>,
        width: usize,
        queueing: Queueing,
    ) -> Arrival {
        let width = width.clamp(1, self.max_width());
        let id = self.next_id;
        let request = Request { level, user: user.clone(), width, queueing, runs: true };
        if self.level(level).waiting.is_empty() && self.fits(level, user, width) {
            self.next_id += 1;
            let state = self.level_mut(level);
            let flow = state.flows.entry(user.clone()).or_default();
            let start = flow.finish.max(state.virtual_time);
            flow.in_use += width;
            flow.finish = start + as_tag(width);
            state.virtual_time = start;
            state.in_use += width;
            state.executing += 1;
            self.requests.insert(id, request);
            return Arrival::Runs(id);
        }
        let evicted = match queueing {
            Queueing::Unbounded => None,
            Queueing::Bounded => match self.make_room(level, user) {
                Ok(evicted) => evicted,
                Err(Full) => return Arrival::Refused,
            },
        };
        self.next_id += 1;
        self.requests.insert(id, Request { runs: false, ..request });
        let state = self.level_mut(level);
        state.queued += 1;
        state.flows.entry(user.clone()).or_default().queue.push_back(id);
        state.enqueue_flow(user);
        // Those who wait may all have as much as they may have at once, while this one has not.
        let woken = self.run_waiting();
        debug_assert!(woken.iter().all(|woken| *woken == id), "{woken:?} could have run before");
        if woken.is_empty() { Arrival::Waits { id, evicted } } else { Arrival::Runs(id) }
    }

    /// A request ends, or does not want to wait any longer. Returns those who run now.
    pub(super) fn leave(&mut self, id: u64) -> Vec<u64> {
        let Some(request) = self.requests.remove(&id) else { return Vec::new() };
        let state = self.level_mut(request.level);
        if request.runs {
            state.in_use -= request.width;
            state.executing -= 1;
            if let Some(flow) = state.flows.get_mut(&request.user) {
                flow.in_use -= request.width;
            }
        } else {
            state.queued -= 1;
            if let Some(flow) = state.flows.get_mut(&request.user) {
                flow.queue.retain(|waiting| *waiting != id);
                if flow.queue.is_empty()
                    && let Some(position) = flow.position.take()
                {
                    state.waiting.remove(&position);
                }
            }
        }
        state.remove_idle(&request.user);
        self.run_waiting()
    }

    const fn level(&self, level: Level) -> &LevelState {
        &self.levels[level.index()]
    }

    const fn level_mut(&mut self, level: Level) -> &mut LevelState {
        &mut self.levels[level.index()]
    }

    /// Finds a place in the queue: the user's own may not be full, and when the level's is, the
    /// user with the longest gives one up.
    fn make_room(&mut self, level: Level, user: &Arc<str>) -> Result<Option<u64>, Full> {
        let state = self.level(level);
        let own = state.flows.get(user).map_or(0, |flow| flow.queue.len());
        if own >= MAX_QUEUED_PER_USER {
            return Err(Full);
        }
        if state.queued < MAX_QUEUED {
            return Ok(None);
        }
        let flows = state.waiting.values().filter_map(|user| state.flows.get(user));
        let longest = flows.max_by_key(|flow| flow.queue.len()).ok_or(Full)?;
        if longest.queue.len() <= own + 1 {
            return Err(Full);
        }
        let bounded = |id: &&u64| self.requests[id].queueing == Queueing::Bounded;
        // Never the one that is served next: those behind it would have to be looked at.
        let evicted = *longest.queue.iter().skip(1).rev().find(bounded).ok_or(Full)?;
        self.leave(evicted);
        Ok(Some(evicted))
    }

    /// Whether a request of `user` finds its seats free, within what its user may have.
    fn fits(&self, level: Level, user: &Arc<str>, width: usize) -> bool {
        self.has_free(level, width) && self.within_share(level, user, width)
    }

    fn has_free(&self, level: Level, width: usize) -> bool {
        let other = self.level(level.other());
        let claim = if other.waiting.is_empty() { other.never_lent() } else { other.nominal };
        let in_use: usize = self.levels.iter().map(|level| level.in_use).sum();
        self.seats >= in_use + width + claim.saturating_sub(other.in_use)
    }

    /// One user has at most half of what their level can get.
    fn within_share(&self, level: Level, user: &Arc<str>, width: usize) -> bool {
        let obtainable = self.seats - self.level(level.other()).never_lent();
        let in_use = self.level(level).flows.get(user).map_or(0, |flow| flow.in_use);
        in_use == 0 || in_use + width <= obtainable / 2
    }

    /// Gives free seats to the requests that are next.
    fn run_waiting(&mut self) -> Vec<u64> {
        let mut run = Vec::new();
        loop {
            let before = run.len();
            for level in Level::ALL {
                if let Some(id) = self.run_next(level) {
                    run.push(id);
                }
            }
            if run.len() == before {
                return run;
            }
        }
    }

    fn run_next(&mut self, level: Level) -> Option<u64> {
        let state = self.level(level);
        let heads = state.waiting.values().filter_map(|user| {
            let id = *state.flows.get(user)?.queue.front()?;
            Some((user, id, self.requests[&id].width))
        });
        let mut next = heads.filter(|(user, _, width)| self.within_share(level, user, *width));
        let (user, id, width) = next.next()?;
        if !self.has_free(level, width) {
            return None;
        }
        let user = user.clone();
        let state = self.level_mut(level);
        state.queued -= 1;
        state.executing += 1;
        state.in_use += width;
        if let Some(flow) = state.flows.get_mut(&user) {
            flow.queue.pop_front();
            flow.in_use += width;
            if let Some(position) = flow.position.take() {
                state.waiting.remove(&position);
                state.virtual_time = state.virtual_time.max(position.0);
                flow.finish = position.0 + as_tag(width);
            }
        }
        state.enqueue_flow(&user);
        if let Some(request) = self.requests.get_mut(&id) {
            request.runs = true;
        }
        Some(id)
    }
}

impl LevelState {
    /// The seats that are never lent.
    const fn never_lent(&self) -> usize {
        self.nominal.div_ceil(2)
    }

    /// Adds a flow with queued requests to `waiting`, if it is not there yet.
    fn enqueue_flow(&mut self, user: &Arc<str>) {
        let Some(flow) = self.flows.get_mut(user) else { return };
        if flow.queue.is_empty() || flow.position.is_some() {
            return;
        }
        let position = (flow.finish.max(self.virtual_time), self.sequence);
        self.sequence += 1;
        flow.position = Some(position);
        self.waiting.insert(position, user.clone());
    }

    fn remove_idle(&mut self, user: &Arc<str>) {
        if self.flows.get(user).is_some_and(|flow| flow.in_use == 0 && flow.queue.is_empty()) {
            self.flows.remove(user);
        }
    }
}

/// Too many wait.
struct Full;

fn as_tag(width: usize) -> u64 {
    u64::try_from(width).unwrap_or(u64::MAX)
}
