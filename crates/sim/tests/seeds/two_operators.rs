//! Two operators at once, as in a failover in which the old one has not noticed.

use sojourn_sim::lab;
use sojourn_sim::lab::plan::MonthPlan;

use crate::runner::{Run, assert_invariants, run_all};

/// Of lab a notice may come twice then, as the same one. Of groups that is a scenario of its own.
#[test]
fn two_operators_at_once_violate_no_invariant() {
    let run = |seed| Run {
        family: "lab",
        seed,
        simulate: Box::new(move || {
            lab::month::run(&MonthPlan { two_operators: true, ..lab::replayable(seed) })
        }),
    };
    let runs = [1, 2].map(run);
    let outcomes = run_all(&runs);
    assert!(outcomes.iter().all(|outcome| outcome.counts.notices > 10));
    assert_invariants(&runs, &outcomes);
}
