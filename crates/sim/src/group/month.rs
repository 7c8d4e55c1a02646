//! Days of groups, drawn from a seed: machines get old, templates and sizes change, drains are
//! answered or not, and everything fails at times.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sojourn_api::group::status::Phase;

use super::invariants::{GroupLimits, Invariant};
use super::simulation::{GroupSimulation, Setting};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::outcome::SimulationOutcome;
use crate::rng::Rng;
use crate::simulation::run_on_virtual_clock;

pub(super) const GROUPS: [&str; 2] = ["red", "green"];
/// So many machines a group has at most, and at least.
const MAX_MACHINES: u64 = 4;
const MIN_MACHINES: u64 = 2;
const ELIGIBLE_AGE: SignedDuration = SignedDuration::from_hours(4);
const DRAIN_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);
/// So long after it was due something may be done once nothing fails any more: a group takes its
/// machines one after the other.
const MAX_LATENESS: SignedDuration = SignedDuration::from_hours(3);
/// For so long at the end nothing fails and nobody changes anything, so that what is due must be done by
/// the end.
const PERIOD_WITHOUT_FAULTS: Duration = Duration::from_secs(8 * 3600);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 40, after: 40, conflict: 40, read: 30, lost: 30 };
const STEP: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// One thing that somebody does, or that happens.
#[derive(Debug, Clone, Copy)]
enum PlannedEvent {
    Resize(usize, u64),
    /// A template that is newer than the others.
    Renew(usize, usize),
    /// So many requests to the provider fail.
    Fail(u32),
    /// So many take effect, and their answers are lost.
    Lose(u32),
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
    /// In order of time, since the beginning.
    events: Vec<(Duration, PlannedEvent)>,
}

impl MonthPlan {
    pub fn draw(seed: u64, days: u64) -> Self {
        let rng = plan_rng(seed);
        let days = u32::try_from(days).unwrap_or(u32::MAX);
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        let events = draw(rng.split("acts"), busy(days));
        Self { seed, days, rates, events }
    }
}

impl fmt::Display for MonthPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, days, rates, events } = self;
        writeln!(f, "seed {seed}: {days} days of {} groups, {rates:?}", GROUPS.len())?;
        for (at, event) in events {
            writeln!(f, "  {at:?} {event:?}")?;
        }
        Ok(())
    }
}

/// What a plan and the answers to drains are drawn from.
fn plan_rng(seed: u64) -> Rng {
    Rng::new(seed).split("groups")
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
            month.step().await;
            passed += STEP;
        }
        month.stop_faults();
        while passed < DAY * plan.days {
            month.step().await;
            passed += STEP;
        }
        month.end(plan)
    })
}

/// What happens when, in order of time.
fn draw(mut rng: Rng, busy: Duration) -> Vec<(Duration, PlannedEvent)> {
    let mut events = Vec::new();
    let group = |rng: &mut Rng| usize::try_from(rng.below(2)).unwrap_or(0);
    let hours = busy.as_secs() / 3600;
    for index in 0..usize::try_from(hours).unwrap_or(0) {
        let event = match rng.below(10) {
            0 => PlannedEvent::Resize(group(&mut rng), rng.between(MIN_MACHINES, MAX_MACHINES)),
            1 => PlannedEvent::Renew(group(&mut rng), index),
            2 => PlannedEvent::Fail(small(&mut rng)),
            3 => PlannedEvent::Lose(small(&mut rng)),
            4 => PlannedEvent::CutWatches,
            5 => PlannedEvent::Kill(Duration::from_secs(*rng.pick(&[1, 60, 3000]))),
            6 | 7 => {
                let writes = rng.between(1, 60);
                PlannedEvent::KillAfter(writes, Duration::from_secs(rng.below(900)))
            }
            8 => PlannedEvent::TakeOver(Duration::from_secs(*rng.pick(&[0, 2, 17]))),
            _ => continue,
        };
        events.push((Duration::from_secs(rng.below(busy.as_secs())), event));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

fn small(rng: &mut Rng) -> u32 {
    u32::try_from(rng.between(1, 6)).unwrap_or(1)
}

struct Month {
    simulation: GroupSimulation,
    answers: Rng,
}

impl Month {
    async fn begin(plan: &MonthPlan) -> Self {
        let MonthPlan { seed, rates, .. } = *plan;
        let simulation = GroupSimulation::new(Setting { seed, rates, ..Setting::default() }).await;
        for group in GROUPS {
            let spec = json!({
                "expiry": {"eligibleAge": format!("{}s", ELIGIBLE_AGE.as_secs())},
                "drainTimeout": format!("{}s", DRAIN_TIMEOUT.as_secs()),
            });
            simulation.make_group(group, 3, spec).await;
            let max_machines = usize::try_from(MAX_MACHINES + 1).unwrap_or(usize::MAX);
            simulation.checker.lock().require(group, GroupLimits { max_machines, min_ready: 1 });
        }
        Self { simulation, answers: plan_rng(plan.seed).split("answers") }
    }

    async fn apply(&mut self, event: PlannedEvent) {
        let simulation = &mut self.simulation;
        match event {
            PlannedEvent::Resize(group, size) => {
                simulation.change_group(GROUPS[group], json!({"spec": {"size": size}})).await;
            }
            PlannedEvent::Renew(group, version) => {
                let config = json!({"image": format!("v{version}")});
                let change = json!({"spec": {"template": {"config": config}}});
                simulation.change_group(GROUPS[group], change).await;
            }
            PlannedEvent::Fail(orders) => {
                simulation.drivers.provider.script(|script| script.failures = orders);
            }
            PlannedEvent::Lose(orders) => {
                simulation.drivers.provider.script(|script| script.lost_answers = orders);
            }
            PlannedEvent::CutWatches => simulation.faults.cut_watches(),
            PlannedEvent::Kill(down) => simulation.kill(down),
            PlannedEvent::KillAfter(writes, down) => simulation.kill_after(writes, down),
            PlannedEvent::TakeOver(after) => simulation.take_over(after).await,
        }
    }

    /// Lets some time pass, and answers drains: some are done, some are refused, some get no answer.
    async fn step(&self) {
        self.simulation.pass(STEP).await;
        let open: Vec<(String, String)> = {
            let checker = self.simulation.checker.lock();
            let drains = checker.machines.iter().filter_map(|(name, machine)| {
                let drain = machine.status.as_ref()?.drain.as_ref()?;
                drain.outcome.is_none().then(|| (name.clone(), drain.id.clone()))
            });
            drains.collect()
        };
        for (name, id) in open {
            let now = self.simulation.now();
            let outcome = match self.answers.split(&format!("{name} {now}")).below(6) {
                0 | 1 => "Done",
                2 => "Refused",
                _ => continue,
            };
            // It may have ended meanwhile.
            drop(self.simulation.reply(&name, &id, outcome).await);
        }
    }

    fn stop_faults(&self) {
        self.simulation.stop_faults();
        let provider = &self.simulation.drivers.provider;
        provider.script(|script| (script.failures, script.lost_answers) = (0, 0));
    }

    fn end(self, plan: &MonthPlan) -> SimulationOutcome {
        self.check_end();
        let simulation = &self.simulation;
        let takeovers = simulation.takeovers() as u64;
        let counts = {
            let checker = simulation.checker.lock();
            EventCounts {
                drains: checker.drains.len() as u64,
                rotations: checker.deleted.len() as u64,
                kills: simulation.starts().saturating_sub(1 + takeovers),
                takeovers,
                ..EventCounts::default()
            }
        };
        simulation.outcome(plan, counts)
    }

    /// What was due before faults stopped is done.
    fn check_end(&self) {
        let now = self.simulation.now();
        let mut checker = self.simulation.checker.lock();
        let mut late = Vec::new();
        for (name, machine) in &checker.machines {
            let created = machine.metadata.creation_timestamp.as_ref();
            let age = created.map(|at| now.duration_since(at.0)).unwrap_or_default();
            if age > ELIGIBLE_AGE + MAX_LATENESS {
                late.push((name.clone(), format!("it is {age:#} old")));
            }
            let drain = machine.status.as_ref().and_then(|status| status.drain.as_ref());
            let deadline = drain.and_then(|drain| drain.deadline.as_ref());
            if let Some(deadline) = deadline.filter(|at| now.duration_since(at.0) > MAX_LATENESS) {
                late.push((name.clone(), format!("it was to be drained by {}", deadline.0)));
            }
        }
        for group in GROUPS {
            let wanted = checker.groups.get(group).map_or(0, |group| group.spec.size);
            // One machine may be leaving, with its replacement ready.
            let ready = checker.in_phase(group, Phase::Ready).len();
            if ready + 1 < usize::try_from(wanted).unwrap_or(0) {
                late.push((group.to_owned(), format!("it has {ready} ready, of {wanted}")));
            }
        }
        for (name, message) in late {
            checker.violated(Invariant::Liveness, &name, message);
        }
    }
}
