//! Months drawn from seeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sojourn_sim::event_counts::EventCounts;
use sojourn_sim::month::{MonthOutcome, run};
use sojourn_sim::plan::{MonthPlan, Pace, PlannedEvent};

/// How many seeds a plain `cargo test` runs.
const SEEDS: u64 = 4;

/// A size that is simulated, and the least that must happen in so many seeds of it: about half of what
/// does, so that other draws reach it, and a kind of event that does not come any more does not.
struct Load {
    days: u64,
    instances: usize,
    seeds: u64,
    least: EventCounts,
}

/// What `cargo test` and CI run: everything is short, and most days have faults.
const SHORT: Load = Load {
    days: 4,
    instances: 12,
    seeds: 20,
    least: EventCounts {
        uses: 2000,
        notices: 700,
        refused_notices: 30,
        idle_stops: 90,
        wakes: 25,
        idle_deletes: 120,
        expired: 65,
        terminated: 15,
        submitted: 35,
        sent_again: 4,
        kills: 60,
        takeovers: 10,
        blind_hours: 75,
        ..EventCounts::none()
    },
};

/// What `cargo xtask sim` runs.
const MONTH: Load = Load {
    days: 30,
    instances: 50,
    seeds: 200,
    least: EventCounts {
        uses: 100_000,
        notices: 40_000,
        refused_notices: 1000,
        idle_stops: 5000,
        wakes: 1200,
        idle_deletes: 6000,
        expired: 3000,
        terminated: 600,
        submitted: 2000,
        sent_again: 150,
        kills: 400,
        takeovers: 100,
        blind_hours: 5000,
        ..EventCounts::none()
    },
};

/// Fewer seeds than this may well have little of something.
const MIN_SEEDS: usize = 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn seeds() -> Vec<u64> {
    match number("SOJOURN_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("SOJOURN_SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[expect(clippy::print_stdout, reason = "a long run tells how far it is")]
fn say(line: &str) {
    println!("{line}");
}

/// Runs every plan, on all processors.
fn run_all(plans: &[MonthPlan]) -> Vec<(MonthPlan, MonthOutcome)> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let outcome = run(plan);
                    let took = begun.elapsed().as_secs_f64();
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.push((plan.clone(), outcome.clone()));
                    let (done, all) = (outcomes.len(), plans.len());
                    say(&format!("{done} of {all}: seed {} in {took:.1} s: {outcome}", plan.seed));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(plan, _)| plan.seed);
    outcomes
}

/// Tells of the first month in which a promise was broken, and which others there are.
fn nothing_is_broken(outcomes: &[(MonthPlan, MonthOutcome)]) {
    let broken: Vec<_> =
        outcomes.iter().filter(|(_, outcome)| !outcome.violations.is_empty()).collect();
    let Some((plan, outcome)) = broken.first() else { return };
    say(&format!("{plan}\n{}", outcome.log.join("\n")));
    let all: Vec<_> = broken.iter().map(|(plan, outcome)| (plan.seed, outcome.broken())).collect();
    panic!("replay one with SOJOURN_SIM_SEED={}: {all:?}", plan.seed);
}

/// What must happen in so many seeds; of another size than is usual nothing is known.
fn least(days: u64, seeds: usize) -> EventCounts {
    let load = [&SHORT, &MONTH].into_iter().find(|load| load.days == days);
    match load.filter(|_| seeds >= MIN_SEEDS) {
        Some(load) => load.least.share(seeds as u64, load.seeds),
        None => EventCounts::none(),
    }
}

#[test]
fn months_of_people_and_faults_break_no_promise() {
    let days = number("SOJOURN_SIM_DAYS").unwrap_or(SHORT.days);
    let instances = if days == SHORT.days { SHORT.instances } else { MONTH.instances };
    let plans: Vec<MonthPlan> =
        seeds().into_iter().map(|seed| MonthPlan::draw(seed, instances, days)).collect();
    let begun = Instant::now();
    let outcomes = run_all(&plans);
    let writes: u64 = outcomes.iter().map(|(_, outcome)| outcome.writes).sum();
    let broken = outcomes.iter().map(|(_, outcome)| outcome.violations.len()).sum::<usize>();
    let mut counts = EventCounts::none();
    outcomes.iter().for_each(|(_, outcome)| counts += outcome.counts);
    say(&format!(
        "{} seeds of {days} days of {instances} instances in {:.0} s: {writes} writes, {counts}, {broken} \
         promises broken",
        outcomes.len(),
        begun.elapsed().as_secs_f64(),
    ));
    nothing_is_broken(&outcomes);
    let short = counts.short_of(&least(days, outcomes.len()));
    assert!(short.is_empty(), "too little happened in {} seeds: {short:#?}", outcomes.len());
}

/// At the usual pace: where everything comes six times as fast, more happens in one instant, and which
/// of two tasks is first within it is not drawn from the seed.
#[test]
fn a_seed_replays_to_the_last_write() {
    let plan = usual(7);
    let both = run_all(&[plan.clone(), plan]);
    let [(_, one), (_, two)] = &both[..] else { panic!("two runs") };
    assert!(one.writes > 500 && one.counts.notices > 10, "too little happened: {one}");
    assert_eq!(one.fingerprint, two.fingerprint, "{}", difference(one, two));
    assert_eq!((&one.log, one.counts, one.writes), (&two.log, two.counts, two.writes));
    let other = run(&usual(8));
    assert_ne!(one.fingerprint, other.fingerprint);
}

/// Days at the usual pace, in which nobody takes over.
fn usual(seed: u64) -> MonthPlan {
    let mut plan = MonthPlan::draw_at(Pace::USUAL, seed, 12, 6);
    plan.acts.retain(|(_, act)| !matches!(act, PlannedEvent::TakeOver(_)));
    plan
}

/// Where two runs part, in the words of the log.
fn difference(one: &MonthOutcome, two: &MonthOutcome) -> String {
    let parts = one.log.iter().zip(&two.log).find(|(one, two)| one != two);
    parts.map_or_else(|| "the logs are the same".to_owned(), |(one, two)| format!("{one}\n{two}"))
}

/// As in a failover in which the old one has not noticed: a notice may come twice, as the same one.
#[test]
fn two_operators_at_once_break_no_promise() {
    let two_operators = |seed| MonthPlan { two_operators: true, ..usual(seed) };
    let outcomes = run_all(&[1, 2].map(two_operators));
    assert!(outcomes.iter().all(|(_, outcome)| outcome.counts.notices > 10));
    nothing_is_broken(&outcomes);
}
