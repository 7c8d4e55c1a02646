//! Many sessions of the family access for a long time. `SOJOURN_SIM_PEOPLE` and `SOJOURN_SIM_HOURS` say how many, and
//! for how long.

use std::sync::Mutex;

use sojourn_sim::access::long::{LongOutcome, LongPlan, run};

use crate::months::number;
use crate::runner::{Run, assert_invariants, print, run_all};

/// How much a plain `cargo test` runs.
const PEOPLE: u64 = 24;
const HOURS: u64 = 40;
/// So many are simulated together, and the others beside them: what replicas write to say that they are there costs
/// most of the time, and is the same for few and for many.
const MAX_PEOPLE: u64 = 500;

#[test]
fn hours_of_sparse_use_violate_no_invariant() {
    let people = number("SOJOURN_SIM_PEOPLE").unwrap_or(PEOPLE);
    let hours = number("SOJOURN_SIM_HOURS").unwrap_or(HOURS);
    let shares = people.div_ceil(MAX_PEOPLE);
    let share = usize::try_from(people.div_ceil(shares)).expect("few people");
    let long: &Mutex<Vec<LongOutcome>> = &Mutex::default();
    let runs: Vec<Run<'_>> = (1..=shares)
        .map(|seed| Run {
            family: "access",
            seed,
            simulate: Box::new(move || {
                let ran = run(LongPlan { seed, people: share, hours }, |passed, looks| {
                    print(&format!("seed {seed}: {passed} of {hours} hours, {looks} looks"));
                });
                let outcome = ran.outcome.clone();
                long.lock().unwrap().push(ran);
                outcome
            }),
        })
        .collect();
    let outcomes = run_all(&runs);
    let long = long.lock().unwrap();
    let sum = |of: fn(&LongOutcome) -> f64| long.iter().map(of).sum::<f64>();
    let (sessions, blind) = (sum(|one| one.session_hours), sum(|one| one.blind_hours));
    let outages: u64 = long.iter().map(|one| one.api_outages).sum();
    let uses: u64 = outcomes.iter().map(|outcome| outcome.counts.uses).sum();
    let idle: u64 = outcomes.iter().map(|outcome| outcome.counts.idle_stops).sum();
    let violated: usize = outcomes.iter().map(|outcome| outcome.violations.len()).sum();
    print(&format!(
        "access: {sessions:.0} hours of sessions, {uses} uses, {idle} ended unused, {blind:.0} \
         blind hours, {outages} outages of the API, {violated} invariants violated"
    ));
    assert_invariants(&runs, &outcomes);
    // Sessions are requested and approved, and some time is lost between two.
    let least = (people * hours) as f64 * 0.8;
    assert!(sessions >= least, "{sessions:.0} hours of sessions are too few");
    assert!(idle > 0 && outages > 0 && uses > 0, "too little happened");
}
