//! Runs many simulations on all processors, tells how far it is, and reports what was violated.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sojourn_sim::family::{FAMILIES, SimulatedFamily};
use sojourn_sim::outcome::SimulationOutcome;

/// The families that are run: the one that somebody asks for, or all.
pub(crate) fn families() -> Vec<&'static dyn SimulatedFamily> {
    let asked = std::env::var("SOJOURN_SIM_FAMILY").ok();
    let is_asked =
        |family: &&dyn SimulatedFamily| asked.as_ref().is_none_or(|name| family.name() == name);
    let families: Vec<_> = FAMILIES.iter().copied().filter(is_asked).collect();
    assert!(!families.is_empty(), "there is no family {asked:?}");
    families
}

/// One simulation that is run.
pub(crate) struct Run<'a> {
    pub(crate) family: &'static str,
    pub(crate) seed: u64,
    pub(crate) simulate: Box<dyn Fn() -> SimulationOutcome + Send + Sync + 'a>,
}

#[expect(clippy::print_stdout, reason = "a long run tells how far it is")]
pub(crate) fn print(line: &str) {
    println!("{line}");
}

/// Runs all of them, on all processors; the outcomes are in the order of the runs.
pub(crate) fn run_all(runs: &[Run<'_>]) -> Vec<SimulationOutcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(Run { family, seed, simulate }) = runs.get(index) else { break };
                    let begun = Instant::now();
                    let outcome = simulate();
                    let took = begun.elapsed().as_secs_f64();
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    let (done, all) = (outcomes.len() + 1, runs.len());
                    print(&format!(
                        "{done} of {all}: {family}, seed {seed} in {took:.1} s: {outcome}"
                    ));
                    outcomes.push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Prints the first run in which an invariant was violated, and names the others.
pub(crate) fn assert_invariants(runs: &[Run<'_>], outcomes: &[SimulationOutcome]) {
    let both = runs.iter().zip(outcomes);
    let violated: Vec<_> = both.filter(|(_, outcome)| !outcome.violations.is_empty()).collect();
    let Some((first, outcome)) = violated.first() else { return };
    print(&format!("{}: {}\n{}", first.family, outcome.plan, outcome.log.join("\n")));
    let all: Vec<_> =
        violated.iter().map(|(run, outcome)| (run.family, run.seed, outcome.violated())).collect();
    panic!("replay one with SOJOURN_SIM_SEED={}: {all:?}", first.seed);
}
