//! Hours of games, drawn from a seed: players come and leave, matchmakers repeat themselves, servers crash and end,
//! collections are scaled and renewed, and everything fails at times.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sojourn_api::game::status::CollectionHealth;

use super::invariants::{Invariant, collection_of};
use super::matchmaker::{Answer, Wish};
use super::occupancy::{KnownGrant, Occupancy};
use super::simulation::{GameSimulation, Setting};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::outcome::SimulationOutcome;
use crate::rng::Rng;
use crate::simulation::run_on_virtual_clock;

pub(super) const COLLECTIONS: [&str; 3] = ["arena", "duel", "royale"];
/// Its servers speak Agones' SDK, and are given whole.
const AGONES: &str = "royale";
const MAX_SERVERS: u64 = 6;
const BUSY: Duration = Duration::from_secs(75 * 60);
/// For so long at the end nothing fails, and nobody does anything but leave.
const QUIET: Duration = Duration::from_secs(40 * 60);
const STEP: Duration = Duration::from_secs(20);
/// So long a restart is watched.
const AFTER_RESTART: Duration = Duration::from_secs(120);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 30, after: 30, conflict: 40, read: 20, lost: 20 };

/// One thing that somebody does, or that happens. Numbers stand for servers.
#[derive(Debug, Clone, Copy)]
enum PlannedEvent {
    Scale(usize, u32),
    /// A template that is newer than the others.
    Renew(usize, usize),
    Crash(usize),
    /// A process ends without an error.
    Exit(usize),
    ShutDown(usize),
    Reserve(usize, u64),
    DeletePod(usize),
    DeleteServer(usize),
    Mark(usize),
    CutWatches,
    /// The operator is killed, and stays down for so long.
    Kill(Duration),
    KillAfter(u64, Duration),
    /// It is killed for good, and another replica acts after so long.
    TakeOver(Duration),
}

/// Some hours.
#[derive(Debug, Clone)]
pub struct DayPlan {
    pub seed: u64,
    pub rates: Rates,
    /// Matchmakers ask one after the other, and for whole servers only: which of two grants of one second is claimed
    /// first is decided by their ids, which are not drawn from the seed.
    pub orderly: bool,
    /// In order of time, since the beginning.
    events: Vec<(Duration, PlannedEvent)>,
}

impl DayPlan {
    pub fn draw(seed: u64) -> Self {
        let rng = plan_rng(seed);
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        Self { seed, rates, orderly: false, events: draw(rng.split("acts")) }
    }

    /// The same without anything whose order within one instant is not drawn from the seed.
    pub fn replayable(seed: u64) -> Self {
        Self { orderly: true, ..Self::draw(seed) }
    }
}

impl fmt::Display for DayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rates, events, .. } = self;
        writeln!(f, "seed {seed}: {} collections, {rates:?}", COLLECTIONS.len())?;
        for (at, event) in events {
            writeln!(f, "  {at:?} {event:?}")?;
        }
        Ok(())
    }
}

fn plan_rng(seed: u64) -> Rng {
    Rng::new(seed).split("games")
}

/// What happens when, in order of time.
fn draw(mut rng: Rng) -> Vec<(Duration, PlannedEvent)> {
    let number = |rng: &mut Rng, below: u64| usize::try_from(rng.below(below)).unwrap_or(0);
    let mut events = Vec::new();
    for index in 0..50 {
        let event = match rng.below(19) {
            0..=2 => {
                let replicas = u32::try_from(rng.below(MAX_SERVERS + 1)).unwrap_or(0);
                PlannedEvent::Scale(number(&mut rng, 3), replicas)
            }
            3 => PlannedEvent::Renew(number(&mut rng, 3), index),
            4..=6 => PlannedEvent::Crash(number(&mut rng, 100)),
            7 => PlannedEvent::Exit(number(&mut rng, 100)),
            8 => PlannedEvent::ShutDown(number(&mut rng, 100)),
            9 => PlannedEvent::Reserve(number(&mut rng, 100), rng.between(20, 600)),
            10 => PlannedEvent::DeletePod(number(&mut rng, 100)),
            11 => PlannedEvent::DeleteServer(number(&mut rng, 100)),
            12 => PlannedEvent::Mark(number(&mut rng, 100)),
            13 => PlannedEvent::CutWatches,
            14 => PlannedEvent::Kill(Duration::from_secs(*rng.pick(&[1, 30, 400]))),
            15..=17 => {
                let writes = rng.between(1, 40);
                PlannedEvent::KillAfter(writes, Duration::from_secs(rng.below(120)))
            }
            _ => PlannedEvent::TakeOver(Duration::from_secs(*rng.pick(&[0, 2, 17]))),
        };
        events.push((Duration::from_secs(rng.below(BUSY.as_secs())), event));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

/// Runs a plan on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: &DayPlan) -> SimulationOutcome {
    run_on_virtual_clock(async {
        let mut day = Day::begin(plan).await;
        let mut passed = Duration::ZERO;
        let mut events = plan.events.iter().peekable();
        while passed < BUSY {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= passed) {
                day.apply(*event).await;
            }
            day.step(true).await;
            passed += STEP;
        }
        day.simulation.stop_faults();
        while passed < BUSY + QUIET {
            day.step(false).await;
            passed += STEP;
        }
        day.end(plan).await
    })
}

fn spec_of(collection: &str) -> Value {
    match collection {
        AGONES => json!({
            "health": {"source": "SDK", "period": "1m"}, "ports": [], "portsToExpose": [7777],
            "dgsFailBehavior": "Delete", "dgsFailureWindow": "15m",
        }),
        "duel" => json!({
            "health": {"source": "SDK", "disabled": true}, "dgsFailBehavior": "Restart",
            "dgsFailureWindow": "15m", "updateStrategy": "OnEmpty", "maxPlayersPerServer": 2,
            "podAutoScalerDetails": {
                "enabled": true, "minimumReplicas": 1, "maximumReplicas": 6,
                "terms": [{"readyBuffer": 2}],
            },
        }),
        _ => json!({
            "drainTimeout": "10m", "dgsMaxFailures": 3, "dgsFailureWindow": "15m",
            "quarantine": {"ttl": "15m", "max": 2},
        }),
    }
}

struct Day {
    simulation: GameSimulation,
    orderly: bool,
    people: Rng,
    /// What was asked for lately.
    asked: Vec<Wish>,
    /// Who was given something and comes, from a time on.
    expected: Vec<(Timestamp, Wish, Answer)>,
    /// Whoever got no answer asks again.
    again: Vec<Wish>,
    /// Servers whose last word nobody acknowledged.
    unsettled: BTreeSet<String>,
    /// The processes, by uid of their Pods, that said that they are ready.
    ready: BTreeSet<String>,
    uses: u64,
}

impl Day {
    async fn begin(plan: &DayPlan) -> Self {
        let DayPlan { seed, rates, orderly, .. } = *plan;
        let ports = 20_000..=20_063;
        let setting = Setting { seed, rates, ports, ..Setting::default() };
        let simulation = GameSimulation::new(setting).await;
        for collection in COLLECTIONS {
            simulation.make_collection(collection, 3, spec_of(collection)).await;
        }
        Self {
            simulation,
            orderly,
            people: plan_rng(seed).split("people"),
            asked: Vec::new(),
            expected: Vec::new(),
            again: Vec::new(),
            unsettled: BTreeSet::new(),
            ready: BTreeSet::new(),
            uses: 0,
        }
    }

    /// The server that a number stands for.
    fn server(&self, number: usize) -> Option<String> {
        let checker = self.simulation.checker.lock();
        let count = checker.servers.len();
        let index = number.checked_rem(count)?;
        checker.servers.keys().nth(index).cloned()
    }

    async fn apply(&mut self, event: PlannedEvent) {
        self.simulation.checker.lock().note(format!("{event:?}"));
        let simulation = &mut self.simulation;
        match event {
            PlannedEvent::Scale(number, replicas) => {
                return simulation.scale(COLLECTIONS[number], replicas).await;
            }
            PlannedEvent::Renew(number, version) => {
                return simulation.renew(COLLECTIONS[number], &format!("v{version}")).await;
            }
            PlannedEvent::CutWatches => return simulation.faults.cut_watches(),
            PlannedEvent::Kill(down) => return simulation.kill(down),
            PlannedEvent::KillAfter(writes, down) => return simulation.kill_after(writes, down),
            PlannedEvent::TakeOver(after) => return simulation.take_over(after).await,
            PlannedEvent::Crash(_)
            | PlannedEvent::Exit(_)
            | PlannedEvent::ShutDown(_)
            | PlannedEvent::Reserve(..)
            | PlannedEvent::DeletePod(_)
            | PlannedEvent::DeleteServer(_)
            | PlannedEvent::Mark(_) => {}
        }
        self.happen(event).await;
    }

    /// What happens to one server.
    async fn happen(&mut self, event: PlannedEvent) {
        let (PlannedEvent::Crash(number)
        | PlannedEvent::Exit(number)
        | PlannedEvent::ShutDown(number)
        | PlannedEvent::Reserve(number, _)
        | PlannedEvent::DeletePod(number)
        | PlannedEvent::DeleteServer(number)
        | PlannedEvent::Mark(number)) = event
        else {
            return;
        };
        let Some(name) = self.server(number) else { return };
        let simulation = &self.simulation;
        let runs = simulation.checker.lock().running_pod(&name).is_some();
        match event {
            PlannedEvent::Crash(_) => drop(simulation.crash(&name).await),
            PlannedEvent::Exit(_) => drop(simulation.exit(&name).await),
            PlannedEvent::ShutDown(_) if runs => {
                let said = simulation.shut_down(&name).await;
                self.unsettled.extend((!said).then_some(name));
            }
            PlannedEvent::Reserve(_, seconds) if runs && self.is_agones(&name) => {
                let span = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(60));
                let free =
                    !simulation.checker.lock().occupancy(&name).is_occupied(simulation.now());
                if free && !simulation.reserve(&name, span).await {
                    self.unsettled.insert(name);
                }
            }
            PlannedEvent::DeletePod(_) => simulation.delete_pod(&name).await,
            PlannedEvent::DeleteServer(_) => simulation.delete_server(&name).await,
            PlannedEvent::Mark(_) => simulation.mark(&name).await,
            _ => {}
        }
    }

    fn is_agones(&self, name: &str) -> bool {
        let checker = self.simulation.checker.lock();
        checker.servers.get(name).and_then(collection_of) == Some(AGONES)
    }

    /// Lets some time pass, in which servers talk, players come and leave, and matchmakers ask.
    async fn step(&mut self, busy: bool) {
        self.simulation.pass(STEP).await;
        let mut rng = self.people.split(&format!("{}", self.simulation.now()));
        self.talk().await;
        self.settle().await;
        self.leave(&mut rng, busy).await;
        self.arrive().await;
        if busy {
            self.ask(&mut rng).await;
        }
        self.look(&mut rng, busy).await;
    }

    /// New processes say that they are ready, and those that do so ping.
    async fn talk(&mut self) {
        let running: Vec<(String, String)> = {
            let checker = self.simulation.checker.lock();
            let speaks = |name: &&String| {
                let server = checker.servers.get(*name);
                server.and_then(collection_of).is_some_and(|one| one != "arena")
            };
            let names = checker.servers.keys().filter(speaks);
            names
                .filter_map(|name| {
                    Some((name.clone(), checker.running_pod(name)?.uid().unwrap_or_default()))
                })
                .collect()
        };
        for (name, pod) in running {
            let ended = self.simulation.checker.lock().occupancy(&name).ended;
            if ended {
                continue;
            }
            if !self.ready.contains(&pod) {
                if self.simulation.ready(&name).await {
                    self.ready.insert(pod);
                }
            } else if self.is_agones(&name) {
                self.simulation.ping(&name).await;
            }
        }
    }

    /// Says again what nobody acknowledged.
    async fn settle(&mut self) {
        for name in std::mem::take(&mut self.unsettled) {
            let there = self.simulation.checker.lock().occupancy(&name);
            if self.simulation.checker.lock().running_pod(&name).is_none() {
                continue;
            }
            let said = match self.is_agones(&name) {
                _ if there.ended => self.simulation.shut_down(&name).await,
                true if there.players > 0 => true,
                true => self.simulation.ready(&name).await,
                false => self.simulation.leave(&name, there.players).await,
            };
            if !said {
                self.unsettled.insert(name);
            }
        }
    }

    /// Some matches end; at the end all do.
    async fn leave(&mut self, rng: &mut Rng, busy: bool) {
        let names: Vec<(String, u32)> = {
            let checker = self.simulation.checker.lock();
            let names = checker.servers.keys().cloned();
            names.map(|name| (name.clone(), checker.occupancy(&name).players)).collect()
        };
        for (name, players) in names {
            if players == 0 || (busy && !rng.permille(100)) {
                continue;
            }
            if self.simulation.checker.lock().running_pod(&name).is_none() {
                continue;
            }
            let said = if self.is_agones(&name) {
                self.simulation.ready(&name).await
            } else {
                let left = if busy && rng.permille(300) { players - 1 } else { 0 };
                self.simulation.leave(&name, left).await
            };
            if !said {
                self.unsettled.insert(name);
            }
        }
    }

    /// Those who were given something come, unless it is too late.
    async fn arrive(&mut self) {
        let now = self.simulation.now();
        for (at, wish, answer) in std::mem::take(&mut self.expected) {
            if now < at {
                self.expected.push((at, wish, answer));
                continue;
            }
            let name = &answer.server;
            let (runs, there) = {
                let checker = self.simulation.checker.lock();
                (checker.running_pod(name).is_some(), checker.occupancy(name))
            };
            let waits = |one: &KnownGrant| one.grant_id == answer.grant_id && one.awaits(now);
            if !runs || there.ended || !there.grants.iter().any(waits) {
                continue;
            }
            let came = if self.is_agones(name) {
                self.simulation.allocated(name).await
            } else {
                let players = if wish.seats.is_some() { 1 } else { 2 };
                self.simulation.come(name, players).await
            };
            if came {
                self.uses += 1;
                // The others of a party come later.
                let there = self.simulation.checker.lock().occupancy(name);
                if wish.seats.is_some() && there.grants.iter().any(waits) {
                    let at = now.saturating_add(SignedDuration::from_secs(20)).unwrap_or(now);
                    self.expected.push((at, wish, answer));
                }
            } else {
                self.simulation.checker.lock().with_occupancy(name, Occupancy::gave_up);
                self.unsettled.insert(name.clone());
            }
        }
    }

    /// Several ask at the same time, and some ask again.
    async fn ask(&mut self, rng: &mut Rng) {
        let mut wishes = std::mem::take(&mut self.again);
        for index in 0..rng.below(3) {
            if !self.asked.is_empty() && rng.permille(250) {
                wishes.push(rng.pick(&self.asked).clone());
                continue;
            }
            let collection = *rng.pick(&COLLECTIONS);
            let request_id = format!("{}-{index}", self.simulation.now());
            let whole = rng.permille(300) || collection == AGONES || self.orderly;
            let seats = u32::try_from(rng.between(1, 2)).unwrap_or(1);
            let mut wish = if whole {
                Wish::whole(&request_id, collection)
            } else {
                Wish::seats(&request_id, collection, seats)
            };
            wish.wait_seconds = *rng.pick(&[0, 0, 5]);
            wishes.push(wish);
        }
        let at_once = if self.orderly { 1 } else { wishes.len().max(1) };
        let asked = wishes.iter().map(|wish| self.simulation.allocate(wish));
        let answers: Vec<_> = futures::stream::iter(asked).buffered(at_once).collect().await;
        for (wish, answer) in wishes.into_iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    if rng.permille(800) {
                        let delay = SignedDuration::from_secs(*rng.pick(&[0, 20, 40]));
                        let at = self.simulation.now().saturating_add(delay);
                        self.expected.push((at.unwrap_or_default(), wish.clone(), answer));
                    }
                }
                Err(Some((status, _))) if status == 429 => {}
                Err(_) => self.again.push(wish.clone()),
            }
            self.asked.retain(|known| known.request_id != wish.request_id);
            self.asked.push(wish);
        }
        let old = self.asked.len().saturating_sub(6);
        self.asked.drain(..old);
    }

    /// Somebody looks where somebody has to.
    async fn look(&self, rng: &mut Rng, busy: bool) {
        for collection in COLLECTIONS {
            let stopped = self.simulation.checker.lock().status(collection).health
                == Some(CollectionHealth::NeedsIntervention);
            if stopped && (!busy || rng.permille(50)) {
                let word = self.simulation.now().to_string();
                self.simulation.acknowledge(collection, &word).await;
            }
        }
    }

    async fn end(self, plan: &DayPlan) -> SimulationOutcome {
        let simulation = &self.simulation;
        let (starts, before) = {
            let mut checker = simulation.checker.lock();
            checker.check_rest();
            (simulation.starts(), checker.versions())
        };
        simulation.operator.kill();
        simulation.pass(AFTER_RESTART).await;
        let takeovers = simulation.takeovers() as u64;
        let counts = {
            let mut checker = simulation.checker.lock();
            checker.check_same_versions(&before);
            for (path, last) in simulation.faults.hot_objects() {
                let message = format!("{path} is written all the time: {last}");
                checker.violated(Invariant::NothingBreaks, "", message);
            }
            EventCounts {
                uses: self.uses,
                grants: checker.grants,
                failures: checker.crashes,
                drains: checker.marks,
                kills: starts.saturating_sub(1 + takeovers),
                takeovers,
                ..EventCounts::default()
            }
        };
        simulation.outcome(plan, counts)
    }
}
