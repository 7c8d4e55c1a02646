//! The simulation of the family toy: toys that are played with, kept and forgotten, and an operator that
//! fails, is killed and is taken over from meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::name::shared;
use sojourn_api::toy::Toy;
use sojourn_core::key::Key;
use sojourn_core::moment::ceil_second;
use sojourn_core::toy::DELIVERY;
use sojourn_operator::clock::VirtualClock;
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::metrics::Metrics;
use sojourn_operator::toy::{LeadingToys, ServedToys, Start};
use tokio::task::JoinSet;

use crate::event_counts::EventCounts;
use crate::event_log::{EventLog, invariants};
use crate::family::{LeastEvents, RunSize, SimulatedFamily};
use crate::fault::Rates;
use crate::kubelet::Kubelet;
use crate::outcome::SimulationOutcome;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, SimulatedApi, watch_settings};
use crate::simulation::{
    Checker, Replica, Simulation, SimulationParts, Surroundings, observe, run_on_virtual_clock,
};

const NAME: &str = "toy";
const NAMESPACE: &str = "nursery";
const TOYS: [&str; 8] = ["ball", "bear", "car", "doll", "drum", "kite", "top", "train"];
/// Nobody asks more often for one toy to be kept, so that every wish is given.
const MAX_WISHES: u32 = 3;
const DAY: Duration = Duration::from_secs(24 * 3600);
const STEP: Duration = Duration::from_secs(120);
/// For so long at the end nothing fails and nobody plays, so that what is due must be done by the end.
const PERIOD_WITHOUT_FAULTS: Duration = Duration::from_secs(5 * 3600);
/// So long after it could have been done something may be done once nothing fails any more.
const MAX_LATENESS: SignedDuration = SignedDuration::from_mins(15);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 40, after: 40, conflict: 40, read: 30, lost: 30 };

/// What is run, whatever number of days is asked for: toys live for an hour or two.
const ONE_DAY: RunSize = RunSize {
    days: 1,
    objects: TOYS.len(),
    kind: "toys",
    one_seed_in: 1,
    least: Some(LeastEvents {
        seeds: 4,
        min_seeds: 4,
        counts: EventCounts {
            uses: 60,
            notices: 190,
            expired: 180,
            kills: 30,
            takeovers: 12,
            ..EventCounts::none()
        },
    }),
};

/// The family toy.
#[derive(Debug)]
pub struct Toys;

impl SimulatedFamily for Toys {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self, _: u64) -> RunSize {
        ONE_DAY
    }

    fn run(&self, seed: u64, _: &RunSize) -> SimulationOutcome {
        run(&Plan::draw(seed))
    }

    fn run_replayable(&self, seed: u64) -> SimulationOutcome {
        run(&Plan::draw(seed))
    }

    fn least_replayed(&self) -> EventCounts {
        EventCounts { expired: 20, takeovers: 1, ..EventCounts::none() }
    }
}

impl SimulationParts for Toys {
    /// There is nothing outside Kubernetes.
    type Drivers = ();
    type Checker = ToyChecker;
    type Running = LeadingToys;

    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<LeadingToys>> {
        let start = Start {
            clock: replica.clock.clone(),
            watching: watch_settings(replica.long_watches),
            limits: Limits::default(),
            metrics: Metrics::default(),
        };
        async move {
            let served = ServedToys::start(&client, start, tasks).await;
            served.lead(client, tasks).await.ok()
        }
        .boxed()
    }

    fn reconciles(running: &LeadingToys) -> u64 {
        running.reconciles.total()
    }
}

invariants! {
    /// What must hold of toys in every run.
    Invariant {
        /// Nothing ends unless its owner was told so long before.
        Warned,
        /// Nothing ends within its lifespan from its creation, or from when somebody last played with it.
        LivesItsLife,
        /// Nothing ends while its owner has asked to keep it.
        Kept,
        /// Once nothing fails any more, what is due is ended within a bound.
        Liveness,
        /// No task of the operator ends by itself, and no observer is cut off.
        NothingBreaks,
    }
}

/// What people did with one toy, and what its owner was told.
#[derive(Debug)]
struct Life {
    uid: String,
    lifespan: SignedDuration,
    warn_before: SignedDuration,
    used_at: Timestamp,
    kept_until: Option<Timestamp>,
    wishes: u32,
    /// When its owner was told of the end that lies ahead.
    told_at: Option<Timestamp>,
}

/// Records what people and the API say of toys, and nothing that is in a status.
#[derive(Debug)]
pub struct ToyChecker {
    log: EventLog,
    alive: BTreeMap<String, Life>,
    uses: u64,
    notices: u64,
    ends: u64,
}

impl Checker for ToyChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.log.violated(Invariant::NothingBreaks.name(), &Key::new("", ""), message.to_owned());
    }
}

impl ToyChecker {
    fn new(clock: Arc<VirtualClock>) -> Self {
        let (alive, log) = (BTreeMap::new(), EventLog::new(clock));
        Self { log, alive, uses: 0, notices: 0, ends: 0 }
    }

    fn violated(&mut self, invariant: Invariant, name: &str, message: String) {
        self.log.violated(invariant.name(), &Key::new(NAMESPACE, name), message);
    }

    fn saw_toy(&mut self, toy: Toy) {
        let Toy { metadata, spec, .. } = toy;
        let (name, uid) = (metadata.name.unwrap_or_default(), metadata.uid.unwrap_or_default());
        let span = |text: &str| {
            let term = text.parse::<sojourn_core::term::Term>().ok();
            term.and_then(sojourn_core::term::Term::span).unwrap_or_default()
        };
        if self.alive.get(&name).is_none_or(|life| life.uid != uid) {
            self.log.note(format!("{name} is made, to live for {}", spec.lifespan));
            let created = metadata.creation_timestamp;
            let used_at = created.map(|time| time.0).unwrap_or_default();
            let life = Life {
                uid,
                lifespan: span(&spec.lifespan),
                warn_before: span(&spec.warn_before),
                used_at,
                kept_until: None,
                wishes: 0,
                told_at: None,
            };
            self.alive.insert(name.clone(), life);
        }
        let Some(life) = self.alive.get_mut(&name) else { return };
        let played_at = spec.played_at.as_deref().and_then(|text| text.parse().ok());
        if let Some(played_at) = played_at.filter(|at| *at > life.used_at) {
            (life.used_at, life.told_at) = (played_at, None);
            self.uses += 1;
            self.log.note(format!("somebody plays with {name}"));
        }
        let wish = metadata.annotations.as_ref().and_then(|all| all.get(shared::KEEP_UNTIL));
        let wish = wish.and_then(|text| text.parse().ok());
        if wish.is_some() && life.kept_until != wish {
            life.kept_until = wish;
            life.wishes += 1;
            self.log.note(format!("{name} is to be kept until {wish:?}"));
        }
    }

    fn saw_event(&mut self, event: Event) {
        let about = event.involved_object;
        let name = about.name.unwrap_or_default();
        let now = self.log.now();
        let Some(life) = self.alive.get_mut(&name) else { return };
        let warns = event.reason.as_deref() == Some("EndsSoon");
        if warns && about.uid.as_deref() == Some(&life.uid) {
            life.told_at = Some(now);
            self.notices += 1;
            self.log.note(format!("{name}: {}", event.message.unwrap_or_default()));
        }
    }

    fn saw_event_deleted(&mut self, _: &Event) {}

    fn saw_toy_deleted(&mut self, toy: &Toy) {
        let (name, now) = (toy.name_any(), self.log.now());
        self.log.note(format!("{name} has ended"));
        self.ends += 1;
        let Some(life) = self.alive.remove(&name) else { return };
        match life.told_at {
            None => self.violated(Invariant::Warned, &name, "nobody was told".to_owned()),
            Some(at) if now.duration_since(at) < life.warn_before => {
                let message = format!("its owner was told at {at}, {} before", life.warn_before);
                self.violated(Invariant::Warned, &name, message);
            }
            Some(_) => {}
        }
        if now.duration_since(life.used_at) < life.lifespan {
            let message = format!("it was used at {}, and lives {}", life.used_at, life.lifespan);
            self.violated(Invariant::LivesItsLife, &name, message);
        }
        if let Some(until) = life.kept_until.filter(|until| now < *until) {
            self.violated(Invariant::Kept, &name, format!("it was to be kept until {until}"));
        }
    }

    /// What was due before faults stopped, and before somebody could be warned of it, is done.
    fn check_end(&mut self, faults_ended: Timestamp) {
        let now = self.log.now();
        let late = |life: &Life| {
            let end = life.used_at + life.lifespan;
            let warned_from = (end - life.warn_before).max(faults_ended);
            let due = warned_from.max(life.kept_until.unwrap_or(Timestamp::MIN)) + life.warn_before;
            now > due + DELIVERY + MAX_LATENESS
        };
        let names: Vec<String> = self
            .alive
            .iter()
            .filter(|(_, life)| late(life))
            .map(|(name, life)| format!("{name}: {life:?}"))
            .collect();
        for name in names {
            self.violated(Invariant::Liveness, &name, "it should have ended".to_owned());
        }
    }
}

/// One thing that somebody does, or that happens.
#[derive(Debug, Clone, Copy)]
enum PlannedEvent {
    Play(usize),
    /// Somebody asks to keep a toy for so many minutes.
    Keep(usize, u64),
    CutWatches,
    Kill(Duration),
    KillAfter(u64, Duration),
    TakeOver(Duration),
}

/// A day, drawn from a seed.
#[derive(Debug)]
struct Plan {
    seed: u64,
    rates: Rates,
    events: Vec<(Duration, PlannedEvent)>,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let rng = Rng::new(seed).split("toys");
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        let (mut rng, busy) = (rng.split("acts"), DAY - PERIOD_WITHOUT_FAULTS);
        let mut events = Vec::new();
        for _ in 0..90 {
            let toy = usize::try_from(rng.below(TOYS.len() as u64)).unwrap_or(0);
            let event = match rng.below(12) {
                0..=4 => PlannedEvent::Play(toy),
                5 | 6 => PlannedEvent::Keep(toy, rng.between(5, 180)),
                7 => PlannedEvent::CutWatches,
                8 => PlannedEvent::Kill(Duration::from_secs(*rng.pick(&[1, 60, 3000]))),
                9 | 10 => {
                    let down = Duration::from_secs(rng.below(900));
                    PlannedEvent::KillAfter(rng.between(1, 30), down)
                }
                _ => PlannedEvent::TakeOver(Duration::from_secs(*rng.pick(&[0, 2, 17]))),
            };
            events.push((Duration::from_secs(rng.below(busy.as_secs())), event));
        }
        events.sort_by_key(|(at, _)| *at);
        Self { seed, rates, events }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rates, events } = self;
        writeln!(f, "seed {seed}: a day of {} toys, {rates:?}", TOYS.len())?;
        events.iter().try_for_each(|(at, event)| writeln!(f, "  {at:?} {event:?}"))
    }
}

/// Runs a plan on a clock of its own.
fn run(plan: &Plan) -> SimulationOutcome {
    run_on_virtual_clock(async {
        let mut day = Nursery::open(plan).await;
        let mut events = plan.events.iter().peekable();
        let mut passed = Duration::ZERO;
        while passed < DAY - PERIOD_WITHOUT_FAULTS {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= passed) {
                day.apply(*event).await;
            }
            day.make_missing().await;
            day.simulation.pass(STEP).await;
            passed += STEP;
        }
        day.simulation.stop_faults();
        let faults_ended = day.simulation.now();
        day.simulation.pass(PERIOD_WITHOUT_FAULTS).await;
        day.end(plan, faults_ended)
    })
}

struct Nursery {
    simulation: Simulation<Toys>,
    spans: Rng,
}

impl Nursery {
    async fn open(plan: &Plan) -> Self {
        let rng = Rng::new(plan.seed);
        let settings = ApiSettings {
            rng: &rng,
            rates: plan.rates,
            long_watches: true,
            providers: sojourn_operator::admission::Providers::default(),
        };
        let api = SimulatedApi::open(settings).await;
        let SimulatedApi { clock, client, .. } = &api;
        let checker = SharedRecord::new(ToyChecker::new(clock.clone()));
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        let mut observers = JoinSet::new();
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            ToyChecker::saw_toy,
            ToyChecker::saw_toy_deleted,
        ));
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            ToyChecker::saw_event,
            ToyChecker::saw_event_deleted,
        ));
        for name in [shared::NAMESPACE, NAMESPACE] {
            simulated_api::make_namespace(client, name).await;
        }
        simulated_api::configure(client, NAME, "maxLifespan: 2h").await;
        let surroundings = Surroundings { kubelet, drivers: (), checker, observers };
        let simulation = Simulation::assemble(api, surroundings);
        Self { simulation, spans: rng.split("spans") }
    }

    fn toys(&self) -> Api<Toy> {
        Api::namespaced(self.simulation.client.clone(), NAMESPACE)
    }

    /// Makes every toy that is not there, of the same name as the one that has ended.
    async fn make_missing(&mut self) {
        for name in TOYS {
            if self.simulation.checker.lock().alive.contains_key(name) {
                continue;
            }
            let (lifespan, warn_before) = (self.spans.between(20, 120), self.spans.between(2, 15));
            let object = json!({
                "apiVersion": "toy.sojourn.dev/v1alpha1", "kind": "Toy",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "lifespan": format!("{lifespan}m"), "warnBefore": format!("{warn_before}m"),
                },
            });
            let toy = serde_json::from_value(object).expect("a toy");
            self.toys().create(&PostParams::default(), &toy).await.expect("people's requests work");
        }
    }

    /// Changes a toy as people do; it may have ended meanwhile.
    async fn change(&self, toy: usize, change: Value) {
        let params = PatchParams::default();
        if let Err(error) = self.toys().patch(TOYS[toy], &params, &Patch::Merge(&change)).await {
            let gone = matches!(&error, kube::Error::Api(status) if status.is_not_found());
            assert!(gone, "people's requests work: {error}");
        }
    }

    async fn apply(&mut self, event: PlannedEvent) {
        let now = ceil_second(self.simulation.now());
        match event {
            PlannedEvent::Play(toy) => {
                self.change(toy, json!({"spec": {"playedAt": format!("{now:.0}")}})).await;
            }
            PlannedEvent::Keep(toy, minutes) => {
                let wishes = {
                    let checker = self.simulation.checker.lock();
                    checker.alive.get(TOYS[toy]).map_or(MAX_WISHES, |life| life.wishes)
                };
                if wishes < MAX_WISHES {
                    let until = now + Duration::from_secs(minutes * 60);
                    let wish = json!({shared::KEEP_UNTIL: format!("{until:.0}")});
                    self.change(toy, json!({"metadata": {"annotations": wish}})).await;
                }
            }
            PlannedEvent::CutWatches => self.simulation.faults.cut_watches(),
            PlannedEvent::Kill(down) => self.simulation.kill(down),
            PlannedEvent::KillAfter(writes, down) => self.simulation.kill_after(writes, down),
            PlannedEvent::TakeOver(after) => self.simulation.take_over(after).await,
        }
    }

    fn end(self, plan: &Plan, faults_ended: Timestamp) -> SimulationOutcome {
        let simulation = &self.simulation;
        let takeovers = simulation.takeovers() as u64;
        let counts = {
            let mut checker = simulation.checker.lock();
            checker.check_end(faults_ended);
            EventCounts {
                uses: checker.uses,
                notices: checker.notices,
                expired: checker.ends,
                kills: simulation.starts().saturating_sub(1 + takeovers),
                takeovers,
                ..EventCounts::default()
            }
        };
        simulation.outcome(plan, counts)
    }
}
