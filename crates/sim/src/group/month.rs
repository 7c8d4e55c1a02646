//! Days of groups, drawn from a seed: machines get old, templates and sizes change, drains are
//! answered or not, and everything fails at times.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sojourn_api::group::status::Phase;

use super::{Controllers, GroupLimits, GroupSimulation, Setting};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::process::Process;
use crate::rng::Rng;

const GROUPS: [&str; 2] = ["red", "green"];
/// So many machines a group has at most, and at least.
const MAX_MACHINES: u64 = 4;
const MIN_MACHINES: u64 = 2;
const ELIGIBLE_AGE: SignedDuration = SignedDuration::from_hours(4);
const DRAIN_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);
/// So long after it was due something may be done once nothing fails any more: a group takes its
/// machines one after the other.
const MAX_LATENESS: SignedDuration = SignedDuration::from_hours(3);
/// For so long nothing fails in the end, and nobody changes anything: what is due must be done.
const CALM_PERIOD: Duration = Duration::from_secs(8 * 3600);
const STEP: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// One thing that somebody does, or that happens.
#[derive(Debug, Clone, Copy)]
enum Act {
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

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthOutcome {
    pub violations: Vec<String>,
    pub log: Vec<String>,
    pub counts: EventCounts,
    /// How often the engine was written to.
    pub writes: u64,
}

/// Runs the days of a seed on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(seed: u64, days: u32) -> MonthOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    runtime.block_on(async {
        let rng = Rng::new(seed).split("groups");
        let busy = DAY * days - CALM_PERIOD;
        let acts = draw(rng.split("acts"), busy);
        let mut month = Month::begin(seed, &rng).await;
        let mut passed = Duration::ZERO;
        let mut acts = acts.into_iter().peekable();
        while passed < busy {
            while let Some((_, act)) = acts.next_if(|(at, _)| *at <= passed) {
                month.act(act).await;
            }
            month.step().await;
            passed += STEP;
        }
        month.calm_down();
        while passed < DAY * days {
            month.step().await;
            passed += STEP;
        }
        month.end()
    })
}

/// What happens when, in order of time.
fn draw(mut rng: Rng, busy: Duration) -> Vec<(Duration, Act)> {
    let mut acts = Vec::new();
    let group = |rng: &mut Rng| usize::try_from(rng.below(2)).unwrap_or(0);
    let hours = busy.as_secs() / 3600;
    for index in 0..usize::try_from(hours).unwrap_or(0) {
        let act = match rng.below(10) {
            0 => Act::Resize(group(&mut rng), rng.between(MIN_MACHINES, MAX_MACHINES)),
            1 => Act::Renew(group(&mut rng), index),
            2 => Act::Fail(small(&mut rng)),
            3 => Act::Lose(small(&mut rng)),
            4 => Act::CutWatches,
            5 => Act::Kill(Duration::from_secs(*rng.pick(&[1, 60, 3000]))),
            6 | 7 => Act::KillAfter(rng.between(1, 60), Duration::from_secs(rng.below(900))),
            8 => Act::TakeOver(Duration::from_secs(*rng.pick(&[0, 2, 17]))),
            _ => continue,
        };
        acts.push((Duration::from_secs(rng.below(busy.as_secs())), act));
    }
    acts.sort_by_key(|(at, _)| *at);
    acts
}

fn small(rng: &mut Rng) -> u32 {
    u32::try_from(rng.between(1, 6)).unwrap_or(1)
}

struct Month {
    simulation: GroupSimulation,
    /// Those that another took over from. They are not started again.
    retired: Vec<Process<Controllers>>,
    answers: Rng,
}

impl Month {
    async fn begin(seed: u64, rng: &Rng) -> Self {
        let mut rates = rng.split("rates");
        let mut up_to = |max: u64| rates.below(max + 1);
        let rates = Rates {
            before: up_to(40),
            after: up_to(40),
            conflict: up_to(40),
            read: up_to(30),
            lost: up_to(30),
        };
        let simulation = GroupSimulation::new(Setting { seed, rates, ..Setting::default() }).await;
        for group in GROUPS {
            let spec = json!({
                "expiry": {"eligibleAge": format!("{}s", ELIGIBLE_AGE.as_secs())},
                "drainTimeout": format!("{}s", DRAIN_TIMEOUT.as_secs()),
            });
            simulation.make_group(group, 3, spec).await;
            let max_machines = usize::try_from(MAX_MACHINES + 1).unwrap_or(usize::MAX);
            simulation.observer.require(group, GroupLimits { max_machines, min_ready: 1 });
        }
        Self { simulation, retired: Vec::new(), answers: rng.split("answers") }
    }

    async fn act(&mut self, act: Act) {
        let simulation = &mut self.simulation;
        match act {
            Act::Resize(group, size) => {
                simulation.change_group(GROUPS[group], json!({"spec": {"size": size}})).await;
            }
            Act::Renew(group, version) => {
                let config = json!({"image": format!("v{version}")});
                let change = json!({"spec": {"template": {"config": config}}});
                simulation.change_group(GROUPS[group], change).await;
            }
            Act::Fail(orders) => simulation.fake.script(|script| script.failures = orders),
            Act::Lose(orders) => simulation.fake.script(|script| script.lost_answers = orders),
            Act::CutWatches => simulation.faults.cut_watches(),
            Act::Kill(down) => {
                simulation.set_down_for(down);
                simulation.operator.kill();
            }
            Act::KillAfter(writes, down) => {
                simulation.set_down_for(down);
                simulation.faults.kill_after(writes);
            }
            Act::TakeOver(after) => {
                simulation.operator.want(false);
                simulation.pass(after).await;
                let next = simulation.second_operator();
                self.retired.push(std::mem::replace(&mut simulation.operator, next));
            }
        }
    }

    /// Lets some time pass, and answers drains: some are done, some are refused, some get no answer.
    async fn step(&self) {
        self.simulation.pass(STEP).await;
        let open: Vec<(String, String)> = {
            let observations = self.simulation.observer.observations();
            let drains = observations.machines.iter().filter_map(|(name, machine)| {
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

    fn calm_down(&self) {
        self.simulation.faults.switch(false);
        self.simulation.faults.kill_after(0);
        self.simulation.set_down_for(Duration::from_secs(1));
        self.simulation.fake.script(|script| (script.failures, script.lost_answers) = (0, 0));
    }

    fn end(self) -> MonthOutcome {
        self.check_end();
        let Self { simulation, retired, .. } = self;
        let starts: u64 = retired.iter().chain([&simulation.operator]).map(Process::starts).sum();
        let observations = simulation.observer.observations();
        let takeovers = retired.len() as u64;
        let counts = EventCounts {
            drains: observations.drains.len() as u64,
            rotations: observations.deleted.len() as u64,
            kills: starts.saturating_sub(1 + takeovers),
            takeovers,
            ..EventCounts::default()
        };
        let (violations, log) = (observations.violations.clone(), observations.log.clone());
        MonthOutcome { violations, log, counts, writes: simulation.engine.version() }
    }

    /// What was due in the calm is done.
    fn check_end(&self) {
        let now = self.simulation.now();
        let mut late = Vec::new();
        {
            let observations = self.simulation.observer.observations();
            for (name, machine) in &observations.machines {
                let created = machine.metadata.creation_timestamp.as_ref();
                let age = created.map(|at| now.duration_since(at.0)).unwrap_or_default();
                if age > ELIGIBLE_AGE + MAX_LATENESS {
                    late.push(format!("{name} is {age:#} old"));
                }
                let drain = machine.status.as_ref().and_then(|status| status.drain.as_ref());
                let deadline = drain.and_then(|drain| drain.deadline.as_ref());
                if let Some(deadline) =
                    deadline.filter(|at| now.duration_since(at.0) > MAX_LATENESS)
                {
                    late.push(format!("{name} was to be drained by {}", deadline.0));
                }
            }
            for group in GROUPS {
                let wanted = observations.groups.get(group).map_or(0, |group| group.spec.size);
                // One may be on its way out, with its replacement ready.
                let ready = observations.in_phase(group, Phase::Ready).len();
                if ready + 1 < usize::try_from(wanted).unwrap_or(0) {
                    late.push(format!("{group} has {ready} ready, of {wanted}"));
                }
            }
        }
        late.iter().for_each(|words| self.simulation.observer.violation(words));
    }
}
