//! Runs the cases, several at a time, and tells what failed.

use std::pin::pin;
use std::time::Instant;

use futures::stream::{self, StreamExt};

use crate::case::{Case, Side};
use crate::case_cluster::CaseCluster;
use crate::run::Run;

/// Cases mostly wait; more at once make everything slower than the slowest of them.
const MAX_CONCURRENT_CASES: usize = 24;
/// What the name of a namespace may have.
const MAX_NAME_BYTES: usize = 63;

/// How many cases failed.
pub(crate) async fn run(side: Side, case_cluster: &CaseCluster) -> usize {
    let started = Instant::now();
    let wanted = std::env::var("SOJOURN_PODS_CASES").unwrap_or_default();
    let mut cases = Vec::new();
    let mut left_out = 0;
    for case in Case::all() {
        let name = case["name"].as_str().unwrap_or_default().to_owned();
        assert!(name.len() <= MAX_NAME_BYTES, "{name}: that is too long for a namespace's name");
        if !name.contains(&wanted) {
            continue;
        }
        let case = Case::read(case, &[("NAMESPACE", &name), ("NODE", &case_cluster.node)]);
        if case.runs_on(side) && (case_cluster.kubectl.is_some() || !case.needs_kubectl()) {
            cases.push(case);
        } else {
            left_out += 1;
        }
    }
    let running = cases.iter().map(async |case| {
        let started = Instant::now();
        let outcome = Run::case(case_cluster, case).await;
        (case, outcome, started.elapsed())
    });
    let mut running = pin!(stream::iter(running).buffer_unordered(MAX_CONCURRENT_CASES));
    let (mut passed, mut failed) = (0, 0);
    while let Some((case, outcome, took)) = running.next().await {
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
