//! Days drawn from seeds.

use std::time::Instant;

use sojourn_sim::event_counts::EventCounts;
use sojourn_sim::group::month::{MonthOutcome, run};

/// How many seeds a plain `cargo test` runs of everything; of groups it is one in four.
const SEEDS: u64 = 4;
const ONE_IN: usize = 4;
const DAYS: u32 = 1;
/// In so many seeds this must happen at least. In fewer than that there may be none of something.
const COUNTED: u64 = 5;
const LEAST: EventCounts =
    EventCounts { drains: 75, rotations: 75, kills: 8, takeovers: 3, ..EventCounts::none() };

#[expect(clippy::print_stdout, reason = "a long run tells how far it is")]
fn say(line: &str) {
    println!("{line}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn seeds() -> Vec<u64> {
    match number("SOJOURN_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("SOJOURN_SIM_SEEDS").unwrap_or(SEEDS)).step_by(ONE_IN).collect(),
    }
}

/// Runs the days of every seed, on all processors.
fn run_all(seeds: &[u64]) -> Vec<(u64, MonthOutcome)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let run_some = |seeds: &[u64]| -> Vec<(u64, MonthOutcome)> {
        let run_one = |&seed: &u64| {
            let outcome = run(seed, DAYS);
            say(&format!("groups, seed {seed}: {} writes: {}", outcome.writes, outcome.counts));
            (seed, outcome)
        };
        seeds.iter().map(run_one).collect()
    };
    std::thread::scope(|scope| {
        let parts = seeds.chunks(seeds.len().div_ceil(threads).max(1));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || run_some(part))).collect();
        running.into_iter().flat_map(|part| part.join().expect("no panic inside")).collect()
    })
}

#[test]
fn months_of_groups_and_faults_break_no_promise() {
    let begun = Instant::now();
    let outcomes = run_all(&seeds());
    let mut counts = EventCounts::none();
    outcomes.iter().for_each(|(_, outcome)| counts += outcome.counts);
    let writes: u64 = outcomes.iter().map(|(_, outcome)| outcome.writes).sum();
    let count = outcomes.len() as u64;
    let took = begun.elapsed().as_secs_f64();
    say(&format!(
        "{count} seeds of {DAYS} day of groups in {took:.0} s: {writes} writes, {counts}"
    ));
    for (seed, MonthOutcome { violations, log, .. }) in &outcomes {
        let words = || format!("{}\n{violations:#?}", log.join("\n"));
        assert!(violations.is_empty(), "replay it with SOJOURN_SIM_SEED={seed}: {}", words());
    }
    let least = LEAST.share(if count < COUNTED { 0 } else { count }, COUNTED);
    let short = counts.short_of(&least);
    assert!(short.is_empty(), "too little happened in {count} seeds: {short:#?}");
}

#[test]
fn a_seed_replays() {
    let (one, two) = (run(3, DAYS), run(3, DAYS));
    let parts = one.log.iter().zip(&two.log).find(|(one, two)| one != two);
    assert_eq!(parts, None);
    assert_eq!((one.counts, one.writes), (two.counts, two.writes));
    assert!(one.counts.drains > 0 && one.counts.takeovers > 0, "{}", one.counts);
}
