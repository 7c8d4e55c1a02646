//! The index of the allocator alone: who is given which server, without an API.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use jiff::{SignedDuration, Timestamp};
use sojourn_api::game::name::{COLLECTION_NAME, REVISION};
use sojourn_api::name::shared;
use sojourn_core::game::allocation::{
    Allocation, AllocationIndex, AllocationRequest, Candidate, Selector,
};
use sojourn_core::game::server::{PodState, Server, ServerHealth, ServerState};
use sojourn_core::key::Key;

use super::fleet::{COLLECTION, NAMESPACE};
use super::plan::Plan;
use crate::number::{count, percentile};
use crate::report::{Goal, Report, Unit};

const SECTION: &str = "picks in memory";
/// Picks per second, and the milliseconds of a slow one.
const RATE_GOAL: f64 = 20_000.0;
const LATENCY_GOAL_MS: f64 = 5.0;
const NODES: usize = 10;
const SEATS: u32 = 10;
/// One server of so many has the label that is selected.
const LABELLED: usize = 10;
const MAP: &str = "map";
/// A search among all labels takes longer, so there are so many times fewer.
const FEWER_LABELLED: usize = 20;
const LEASE: SignedDuration = SignedDuration::from_secs(60);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Whole,
    TwoSeats,
    Labelled,
}

pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let servers = plan.resting;
    for (wish, name, picks, taken) in [
        (Wish::Whole, format!("a server of {servers}"), plan.picks, servers / 2),
        (Wish::TwoSeats, format!("2 seats of {servers} servers with 10"), plan.picks, servers),
        (
            Wish::Labelled,
            format!("a server of {servers} by a label of every tenth"),
            plan.picks / FEWER_LABELLED,
            servers / LABELLED / 2,
        ),
    ] {
        let took = Picks::new(servers).run(wish, picks, taken)?;
        let seconds = took.iter().sum::<f64>() / 1e3;
        report.note(SECTION, name.clone(), Unit::PerSecond, count(picks) / seconds);
        if wish != Wish::Labelled {
            report.goal(Goal::AtLeast(RATE_GOAL));
        }
        report.note(SECTION, format!("{name}, p99"), Unit::Milliseconds, percentile(&took, 0.99));
        report.goal(Goal::AtMost(LATENCY_GOAL_MS));
        let longest = percentile(&took, 1.0);
        report.note(SECTION, format!("{name}, the longest"), Unit::Milliseconds, longest);
    }
    Ok(())
}

/// An index, with the servers as they are on record.
struct Picks {
    index: AllocationIndex,
    records: HashMap<Key, Candidate>,
    now: Timestamp,
}

impl Picks {
    /// Nobody is on any of them.
    fn new(servers: usize) -> Self {
        let records = (0..servers).map(candidate).map(|one| (key(&one.server.name), one));
        let (mut index, records): (_, HashMap<Key, Candidate>) =
            (AllocationIndex::default(), records.collect());
        let now = Timestamp::now();
        for (key, candidate) in &records {
            index.upsert(key, Some(candidate.clone()), now);
        }
        Self { index, records, now }
    }

    /// Picks so often, each when so many are somebody's; milliseconds of each pick.
    fn run(&mut self, wish: Wish, picks: usize, taken: usize) -> Result<Vec<f64>> {
        let (mut given, mut took) = (VecDeque::new(), Vec::with_capacity(picks));
        for turn in 0..picks + taken {
            let request = request(wish, turn);
            let grant_id = format!("grant-{turn}");
            let started = Instant::now();
            let allocation = self.pick(&request, &grant_id)?;
            if turn >= taken {
                took.push(started.elapsed().as_secs_f64() * 1e3);
            }
            given.push_back(allocation);
            if given.len() > taken
                && let Some(oldest) = given.pop_front()
            {
                self.end(&oldest)?;
            }
        }
        Ok(took)
    }

    /// All that the allocator does with its index for one request: it takes a server off the list, the cache tells it of
    /// the server as it was written, and it confirms that.
    fn pick(&mut self, request: &AllocationRequest, grant_id: &str) -> Result<Allocation> {
        let allocated = self.index.allocate(request, grant_id, self.now + LEASE, self.now);
        let allocation = allocated.map_err(|misses| anyhow!("nothing is free: {misses:?}"))?;
        self.write(&allocation.server, |server| {
            server.grants.push(allocation.grant.clone());
            if request.seats.is_none() {
                server.state = ServerState::Assigned;
            }
        })?;
        self.index.confirm(&allocation.server, &allocation.grant.id);
        Ok(allocation)
    }

    /// The match is over.
    fn end(&mut self, allocation: &Allocation) -> Result<()> {
        self.write(&allocation.server, |server| {
            server.grants.retain(|grant| grant.id != allocation.grant.id);
            server.state = ServerState::Idle;
        })
    }

    fn write(&mut self, key: &Key, change: impl FnOnce(&mut Server)) -> Result<()> {
        let record = self.records.get_mut(key).context("a server that nobody made was given")?;
        change(&mut record.server);
        self.index.upsert(key, Some(record.clone()), self.now);
        Ok(())
    }
}

fn request(wish: Wish, turn: usize) -> AllocationRequest {
    let selector = || Selector { labels: [(MAP.to_owned(), map(0))].into(), ..Selector::default() };
    AllocationRequest {
        request_id: format!("match-{turn}"),
        namespace: NAMESPACE.to_owned(),
        collection: Some(COLLECTION.to_owned()),
        selectors: (wish == Wish::Labelled).then(selector).into_iter().collect(),
        seats: (wish == Wish::TwoSeats).then_some(2),
    }
}

fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}

fn map(number: usize) -> String {
    format!("map-{}", number % LABELLED)
}

/// A server as the operator reads one that can be played on.
fn candidate(number: usize) -> Candidate {
    let labels = [
        (COLLECTION_NAME, COLLECTION.to_owned()),
        (REVISION, "0123456789abcdef".to_owned()),
        (shared::MANAGED_BY, shared::MANAGER.to_owned()),
        (MAP, map(number)),
    ];
    // Of every Node some servers have each map.
    let node = number / LABELLED % NODES;
    Candidate {
        server: Server {
            name: format!("{COLLECTION}-{number:08x}"),
            uid: format!("6f2c1f0e-0b7c-4c7e-9d53-{number:012x}"),
            health: ServerHealth::Healthy,
            pod_state: PodState::Running,
            node: Some(format!("node-{node}")),
            revision: "0123456789abcdef".to_owned(),
            pod_uid: Some(format!("7a3d2e1f-0b7c-4c7e-9d53-{number:012x}")),
            address: Some(format!("203.0.113.{node}")),
            ..Server::default()
        },
        labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
        counters: BTreeMap::new(),
        collection: COLLECTION.into(),
        max_players: SEATS,
        takes_grants: true,
    }
}
