//! The months of every family: no invariant is violated, and enough happens in them.

use std::time::Instant;

use sojourn_sim::event_counts::EventCounts;
use sojourn_sim::family::{DEFAULT_DAYS, RunSize, SimulatedFamily};
use sojourn_sim::outcome::SimulationOutcome;

use crate::runner::{Run, assert_invariants, families, print, run_all};

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn seeds(size: &RunSize) -> Vec<u64> {
    match number("SOJOURN_SIM_SEED") {
        Some(seed) => vec![seed],
        None => size.seeds(number("SOJOURN_SIM_SEEDS").unwrap_or_else(|| size.plain_seeds())),
    }
}

#[test]
fn months_of_people_and_faults_violate_no_invariant() {
    let days = number("SOJOURN_SIM_DAYS").unwrap_or(DEFAULT_DAYS);
    let families: Vec<_> =
        families().into_iter().map(|family| (family, family.size(days))).collect();
    let runs: Vec<Run<'_>> =
        families.iter().flat_map(|(family, size)| runs(*family, size)).collect();
    let begun = Instant::now();
    let outcomes = run_all(&runs);
    let took = begun.elapsed().as_secs_f64();
    let mut short = Vec::new();
    for (family, size) in &families {
        let both = runs.iter().zip(&outcomes).filter(|(run, _)| run.family == family.name());
        let those: Vec<&SimulationOutcome> = both.map(|(_, outcome)| outcome).collect();
        let (words, counts) = sum(size, &those);
        print(&format!("{}: {words}", family.name()));
        let missing = counts.short_of(&size.least_in(those.len() as u64));
        short.extend(missing.into_iter().map(|words| format!("{}: {words}", family.name())));
    }
    print(&format!("{} runs in {took:.0} s", outcomes.len()));
    assert_invariants(&runs, &outcomes);
    assert!(short.is_empty(), "too little happened in {} runs: {short:#?}", outcomes.len());
}

fn runs<'a>(
    family: &'static dyn SimulatedFamily,
    size: &'a RunSize,
) -> impl Iterator<Item = Run<'a>> {
    seeds(size).into_iter().map(move |seed| Run {
        family: family.name(),
        seed,
        simulate: Box::new(move || family.run(seed, size)),
    })
}

/// What happened in all runs of a family, in words and counted.
fn sum(size: &RunSize, outcomes: &[&SimulationOutcome]) -> (String, EventCounts) {
    let RunSize { days, objects, kind, .. } = size;
    let writes: u64 = outcomes.iter().map(|outcome| outcome.writes).sum();
    let violated: usize = outcomes.iter().map(|outcome| outcome.violations.len()).sum();
    let mut counts = EventCounts::none();
    outcomes.iter().for_each(|outcome| counts += outcome.counts);
    let words = format!(
        "{} seeds of {days} days of {objects} {kind}: {writes} writes, {counts}, {violated} \
         invariants violated",
        outcomes.len(),
    );
    (words, counts)
}
