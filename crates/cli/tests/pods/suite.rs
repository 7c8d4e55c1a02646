//! Runs the cases, several at a time, and tells what failed.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::case::{Case, Side};
use crate::place::Place;
use crate::run::Run;

/// Cases mostly wait; more at once make everything slower than the slowest of them.
const AT_ONCE: usize = 24;

/// How many cases failed.
pub(crate) async fn run(side: Side, place: &Place) -> usize {
    let started = Instant::now();
    let wanted = std::env::var("SOJOURN_PODS_CASES").unwrap_or_default();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    let mut left_out = 0;
    for case in Case::all() {
        let name = case["name"].as_str().unwrap_or_default().to_owned();
        assert!(name.len() <= 50, "{name}: its namespace would have too long a name");
        let read = Case::read(case, &[("NAMESPACE", &name), ("NODE", &place.node)]);
        if !name.contains(&wanted) {
            continue;
        }
        if !read.runs_on(side) || (read.needs_kubectl() && place.kubectl.is_none()) {
            left_out += 1;
            continue;
        }
        let (turns, place) = (turns.clone(), place.clone());
        running.spawn(async move {
            let _turn = turns.acquire_owned().await.expect("it is never closed");
            let started = Instant::now();
            let outcome = Run::case(&place, &read).await;
            (read, outcome, started.elapsed())
        });
    }
    let (mut passed, mut failed) = (0, 0);
    while let Some(ended) = running.join_next().await {
        let (case, outcome, took) = ended.unwrap_or_else(|e| panic!("{e}"));
        let seconds = took.as_secs_f32();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("ok      {:5.1} s  {}", seconds, case.name);
            }
            Err(problem) => {
                failed += 1;
                println!("FAILED  {:5.1} s  {}: {}\n{problem}", seconds, case.name, case.about);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f32();
    println!("{side:?}: {passed} passed, {failed} failed, {left_out} left out, in {seconds:.1} s");
    failed
}
