//! Days of clusters, drawn from a seed: people put them to sleep and wake them, also midway, timers and schedules do,
//! others move their machines, and everything fails at times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sojourn_drivers::notify::fake::Effect;

use super::fleet::Move;
use super::invariants::Invariant;
use super::provider::ProviderRates;
use super::simulation::{ClusterSimulation, Setting, machine};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::outcome::SimulationOutcome;
use crate::rng::Rng;
use crate::simulation::run_on_virtual_clock;

/// The clusters, each with how many machines it has.
pub(super) const CLUSTERS: [(&str, usize); 6] =
    [(HANDS, 3), (TIMER, 4), (OFFICE, 3), (TOLD, 2), (STUBBORN, 3), (PODS, 2)];
/// Only people toggle it.
const HANDS: &str = "hands";
/// It hibernates when it has run for a while.
const TIMER: &str = "timer";
/// It sleeps at night, and its contacts are told.
const OFFICE: &str = "office";
/// It hibernates when it has run for a while, and its contacts are told.
const TOLD: &str = "told";
/// What takes too long is taken back.
const STUBBORN: &str = "stubborn";
/// Its machines are Pods.
const PODS: &str = "pods";

const HIBERNATE_AFTER: SignedDuration = SignedDuration::from_hours(5);
/// So long after it was due something may be done once nothing fails any more: contacts are told before, and a
/// provider that failed long is asked rarely.
const MAX_LATENESS: SignedDuration = SignedDuration::from_mins(90);
/// For so long at the end nothing fails, and people do nothing.
const PERIOD_WITHOUT_FAULTS: Duration = Duration::from_secs(8 * 3600);
/// For so long everything has time to come to rest, and Events to be forgotten.
const SETTLING: Duration = Duration::from_secs(2 * 3600);
/// For so long nothing is written then.
const REST: Duration = Duration::from_secs(3 * 3600);
/// So long a restart is watched.
const AFTER_RESTART: Duration = Duration::from_secs(30 * 60);
const STEP: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Notices wait for somebody who accepts them.
const CONFIG: &str = "onUndeliverable: Hold";
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 30, after: 30, conflict: 40, read: 20, lost: 20 };
/// The same of the provider's.
const MAX_PROVIDER_RATES: ProviderRates =
    ProviderRates { fails: 120, lost: 80, forgotten: 80, late: 80, slow: 150, untold: 300 };

/// One thing that somebody does, or that happens. Numbers stand for clusters and machines.
#[derive(Debug, Clone, Copy)]
enum PlannedEvent {
    Hibernate(usize),
    Resume(usize),
    /// It is toggled so often, after so long each time.
    ChangeMind(usize, u64, Duration),
    Pause(usize),
    Unpause(usize),
    Keep(usize, Duration),
    /// Another timer, of so many hours; none, if that is zero.
    Timer(usize, u64),
    /// What is known of it is lost.
    Forget(usize),
    /// It is deleted, and made again after so long.
    Replace(usize, Duration),
    /// Somebody else moves a machine.
    Meddle(usize, usize, Move),
    /// So many notices are not accepted.
    RefuseMail(u64),
    /// The provider does not answer from now on, or does again.
    Outage(bool),
    /// The API cannot be reached from now on, or can again.
    ApiReachable(bool),
    CutWatches,
    /// The operator is killed, and stays down for so long.
    Kill(Duration),
    KillAfter(u64, Duration),
    /// It is killed for good, and another replica acts after so long.
    TakeOver(Duration),
}

/// Some days.
#[derive(Debug, Clone)]
pub struct MonthPlan {
    pub seed: u64,
    pub days: u32,
    pub rates: Rates,
    pub provider: ProviderRates,
    /// In order of time, since the beginning.
    events: Vec<(Duration, PlannedEvent)>,
}

impl MonthPlan {
    pub fn draw(seed: u64, days: u64) -> Self {
        let rng = plan_rng(seed);
        let days = u32::try_from(days).unwrap_or(u32::MAX);
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        let provider = ProviderRates::draw(&mut rng.split("provider"), MAX_PROVIDER_RATES);
        let events = draw(rng.split("acts"), busy(days));
        Self { seed, days, rates, provider, events }
    }
}

impl fmt::Display for MonthPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, days, rates, provider, events } = self;
        let count = CLUSTERS.len();
        writeln!(f, "seed {seed}: {days} days of {count} clusters, {rates:?}, {provider:?}")?;
        for (at, event) in events {
            writeln!(f, "  {at:?} {event:?}")?;
        }
        Ok(())
    }
}

/// What a plan is drawn from.
fn plan_rng(seed: u64) -> Rng {
    Rng::new(seed).split("clusters")
}

/// The time in which anything may happen.
fn busy(days: u32) -> Duration {
    DAY * days - PERIOD_WITHOUT_FAULTS
}

/// Runs a plan on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: &MonthPlan) -> SimulationOutcome {
    run_on_virtual_clock(async {
        let mut month = Month::begin(plan).await;
        let mut passed = Duration::ZERO;
        let mut events = plan.events.iter().peekable();
        while passed < busy(plan.days) {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= passed) {
                month.apply(*event).await;
            }
            month.simulation.pass(STEP).await;
            passed += STEP;
        }
        month.stop_faults().await;
        month.simulation.pass(PERIOD_WITHOUT_FAULTS).await;
        month.end(plan).await
    })
}

/// What happens when, in order of time.
fn draw(mut rng: Rng, busy: Duration) -> Vec<(Duration, PlannedEvent)> {
    let mut events = Vec::new();
    let number = |rng: &mut Rng, below: usize| {
        usize::try_from(rng.below(below.max(1) as u64)).unwrap_or_default()
    };
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    for _ in 0..busy.as_secs() / 3600 * 2 {
        let at = Duration::from_secs(rng.below(busy.as_secs()));
        let cluster = number(&mut rng, CLUSTERS.len());
        let event = match rng.below(32) {
            0..=4 => PlannedEvent::Hibernate(cluster),
            5..=9 => PlannedEvent::Resume(cluster),
            10..=13 => {
                let gap = Duration::from_secs(*rng.pick(&[0, 1, 7, 30, 100, 400]));
                PlannedEvent::ChangeMind(cluster, rng.between(2, 4), gap)
            }
            14 => {
                let until = at + minutes(rng.between(10, 400));
                events.push((until, PlannedEvent::Unpause(cluster)));
                PlannedEvent::Pause(cluster)
            }
            15 => PlannedEvent::Keep(cluster, minutes(rng.between(30, 600))),
            16 => PlannedEvent::Timer(cluster, rng.below(6)),
            17 => PlannedEvent::Forget(cluster),
            18 => PlannedEvent::Replace(cluster, minutes(rng.between(10, 60))),
            19..=21 => {
                let way = *rng.pick(&[Move::Stop, Move::Start]);
                PlannedEvent::Meddle(cluster, number(&mut rng, CLUSTERS[cluster].1), way)
            }
            22 => PlannedEvent::RefuseMail(rng.between(1, 5)),
            23 => {
                events.push((at + minutes(rng.between(2, 60)), PlannedEvent::Outage(false)));
                PlannedEvent::Outage(true)
            }
            24 => {
                let until = at + minutes(rng.between(2, 40));
                events.push((until, PlannedEvent::ApiReachable(true)));
                PlannedEvent::ApiReachable(false)
            }
            25 => PlannedEvent::CutWatches,
            26 => PlannedEvent::Kill(Duration::from_secs(*rng.pick(&[1, 60, 3000]))),
            27..=30 => {
                let writes = rng.between(1, 12);
                PlannedEvent::KillAfter(writes, Duration::from_secs(rng.below(600)))
            }
            _ => PlannedEvent::TakeOver(Duration::from_secs(*rng.pick(&[0, 2, 17]))),
        };
        events.push((at, event));
    }
    events.retain(|(at, _)| *at < busy);
    events.sort_by_key(|(at, _)| *at);
    events
}

fn hours(span: SignedDuration) -> String {
    format!("{}h", span.as_hours())
}

/// What is asked of a cluster when it is made.
fn spec_of(name: &str) -> Value {
    let contacts = json!([format!("{name}@example.org")]);
    match name {
        TIMER => json!({"hibernateAfter": hours(HIBERNATE_AFTER)}),
        TOLD => json!({"hibernateAfter": hours(HIBERNATE_AFTER), "contacts": contacts}),
        OFFICE => json!({
            "schedule": [{"hibernate": "0 20 * * *", "resume": "30 6 * * *", "timeZone": "UTC"}],
            "contacts": contacts,
        }),
        STUBBORN => json!({
            "onTimeout": "RollBack", "timeouts": {"stop": "10m", "resume": "15m"},
        }),
        PODS => json!({"platform": {"pod": {}}}),
        _ => json!({"onTimeout": "Retry"}),
    }
}

struct Month {
    simulation: ClusterSimulation,
}

impl Month {
    async fn begin(plan: &MonthPlan) -> Self {
        let MonthPlan { seed, rates, provider, .. } = *plan;
        let config = CONFIG.to_owned();
        let simulation = ClusterSimulation::new(Setting { seed, rates, provider, config }).await;
        for (name, machines) in CLUSTERS {
            if name == PODS {
                simulation.add_pods(name, machines).await;
            } else {
                simulation.add_machines(name, machines);
            }
            simulation.make_cluster(name, spec_of(name)).await;
        }
        Self { simulation }
    }

    async fn apply(&mut self, event: PlannedEvent) {
        self.simulation.checker.lock().note(format!("{event:?}"));
        let provider = self.simulation.drivers.provider.clone();
        let simulation = &mut self.simulation;
        match event {
            PlannedEvent::RefuseMail(count) => {
                let refused = Effect::FailBefore("no".to_owned());
                let turns = (0..count).map(|_| refused.clone().into());
                simulation.drivers.mail.next_turns(turns);
            }
            PlannedEvent::Outage(outage) => provider.set_outage(outage),
            PlannedEvent::ApiReachable(reachable) => simulation.faults.set_reachable(reachable),
            PlannedEvent::CutWatches => simulation.faults.cut_watches(),
            PlannedEvent::Kill(down) => simulation.kill(down),
            PlannedEvent::KillAfter(writes, down) => simulation.kill_after(writes, down),
            PlannedEvent::TakeOver(after) => simulation.take_over(after).await,
            PlannedEvent::Hibernate(number)
            | PlannedEvent::Resume(number)
            | PlannedEvent::ChangeMind(number, ..)
            | PlannedEvent::Pause(number)
            | PlannedEvent::Unpause(number)
            | PlannedEvent::Keep(number, _)
            | PlannedEvent::Timer(number, _)
            | PlannedEvent::Forget(number)
            | PlannedEvent::Replace(number, _)
            | PlannedEvent::Meddle(number, ..) => self.happen(CLUSTERS[number].0, event).await,
        }
    }

    /// What happens to one cluster.
    async fn happen(&self, name: &str, event: PlannedEvent) {
        let simulation = &self.simulation;
        let has_contacts = name == OFFICE || name == TOLD;
        let timed = name == TIMER || name == TOLD;
        match event {
            PlannedEvent::Hibernate(_) => simulation.want(name, "Hibernating").await,
            PlannedEvent::Resume(_) => simulation.want(name, "Running").await,
            PlannedEvent::ChangeMind(_, times, gap) => {
                for time in 0..times {
                    let to = if time % 2 == 0 { "Hibernating" } else { "Running" };
                    simulation.want(name, to).await;
                    simulation.pass(gap).await;
                }
            }
            PlannedEvent::Pause(_) => simulation.pause(name, true).await,
            PlannedEvent::Unpause(_) => simulation.pause(name, false).await,
            PlannedEvent::Keep(_, span) => simulation.keep(name, Some(span)).await,
            PlannedEvent::Timer(_, hours) if timed => {
                let after = (hours > 0).then(|| format!("{hours}h"));
                simulation.change(name, json!({"spec": {"hibernateAfter": after}})).await;
            }
            // Who was told would be lost with it.
            PlannedEvent::Forget(_) if !has_contacts => simulation.forget(name).await,
            PlannedEvent::Replace(_, after) => {
                simulation.delete(name).await;
                simulation.pass(after).await;
                simulation.make_cluster(name, spec_of(name)).await;
            }
            PlannedEvent::Meddle(_, number, way) if name != PODS => {
                simulation.drivers.provider.meddle(name, &machine(number), way);
            }
            _ => {}
        }
    }

    /// From now on nothing fails, nobody holds anything up, and timers are as they were at first.
    async fn stop_faults(&self) {
        let simulation = &self.simulation;
        simulation.stop_faults();
        simulation.faults.set_reachable(true);
        simulation.drivers.provider.stop_faults();
        simulation.drivers.mail.accept_all();
        for (name, _) in CLUSTERS {
            simulation.pause(name, false).await;
            simulation.keep(name, None).await;
            let timer = spec_of(name)["hibernateAfter"].clone();
            simulation.change(name, json!({"spec": {"hibernateAfter": timer}})).await;
        }
    }

    async fn end(self, plan: &MonthPlan) -> SimulationOutcome {
        let simulation = &self.simulation;
        simulation.checker.lock().check_timers(HIBERNATE_AFTER, MAX_LATENESS);
        let machines = BTreeMap::from(CLUSTERS);
        // Nothing comes by itself any more.
        for (name, _) in CLUSTERS {
            let nothing = json!({"spec": {"hibernateAfter": null, "schedule": null}});
            simulation.change(name, nothing).await;
        }
        simulation.pass(SETTLING).await;
        simulation.checker.lock().check_end(&machines);
        for (name, _) in CLUSTERS {
            simulation.want(name, "Running").await;
        }
        simulation.pass(SETTLING).await;
        let (before, calls) = {
            let mut checker = simulation.checker.lock();
            checker.check_end(&machines);
            (checker.versions(), checker.calls)
        };
        let written = simulation.engine.version();
        simulation.pass(REST).await;
        {
            let mut checker = simulation.checker.lock();
            checker.check_same_versions(&before, "time");
            let more = simulation.engine.version() - written;
            if more > 0 || checker.calls > calls {
                let calls = checker.calls - calls;
                let message = format!("{more} writes and {calls} calls, with nothing to do");
                checker.violated(Invariant::Rest, "", message);
            }
        }
        let starts = simulation.starts();
        simulation.operator.kill();
        simulation.pass(AFTER_RESTART).await;
        let takeovers = simulation.takeovers() as u64;
        let counts = {
            let mut checker = simulation.checker.lock();
            checker.check_same_versions(&before, "a restart");
            for (path, last) in simulation.faults.hot_objects() {
                let message = format!("{path} is written all the time: {last}");
                checker.violated(Invariant::NothingBreaks, "", message);
            }
            EventCounts {
                hibernations: checker.hibernations,
                resumes: checker.resumes,
                notices: simulation.drivers.mail.accepted().len() as u64,
                kills: starts.saturating_sub(1 + takeovers),
                takeovers,
                ..EventCounts::default()
            }
        };
        simulation.outcome(plan, counts)
    }
}
