//! Months drawn from seeds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sojourn_sim::month::run;
use sojourn_sim::plan::Plan;

/// How many seeds a plain `cargo test` runs, and how much of the month.
const SEEDS: u64 = 4;
const INSTANCES: usize = 50;
const DAYS: u64 = 4;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn seeds() -> Vec<u64> {
    match number("SOJOURN_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("SOJOURN_SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[test]
fn months_of_people_and_faults_break_no_promise() {
    let seeds = seeds();
    let days = number("SOJOURN_SIM_DAYS").unwrap_or(DAYS);
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(seeds.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&seed) = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                    .ok()
                    .and_then(|i| seeds.get(i))
                {
                    let plan = Plan::draw(seed, INSTANCES, days);
                    let begun = Instant::now();
                    let outcome = run(&plan);
                    println!("seed {seed}: {:.1} s, {outcome}", begun.elapsed().as_secs_f64());
                    if !outcome.violations.is_empty() {
                        failures
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((plan, outcome));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(plan, _)| plan.seed);
    if let Some((plan, outcome)) = failures.first() {
        println!("{plan}");
        for line in &outcome.log {
            println!("{line}");
        }
        let all: Vec<_> = failures.iter().map(|(plan, one)| (plan.seed, one.broken())).collect();
        panic!("replay one with SOJOURN_SIM_SEED={}: {all:?}", plan.seed);
    }
}
