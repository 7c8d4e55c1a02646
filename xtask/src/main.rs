//! Developer tasks, as `cargo xtask TASK`.

#![expect(clippy::disallowed_methods, reason = "the environment says what the machine has")]

mod bench;
mod browser;
mod cases;
mod ci;
mod conformance;
mod families;
mod fuzz;
mod game_clients;
mod kube_env;
mod packages;
mod process;
mod sim;
mod test;
mod test_programs;
mod tidy;
mod timing;
mod toy;
mod upstream;
mod worst_body;

use std::process::ExitCode;

use anyhow::Result;

use crate::process::print_line;

const USAGE: &str = "\
usage: cargo xtask TASK

  test                     build and run every test that needs no control plane
  ci [--skip STEP[,STEP] | --only STEP[,STEP]]
                           everything that must hold before a change goes in
  tidy                     the rules of the house: crate edges, file sizes, names, leftovers
  cases FAMILY             which test covers which acceptance case of the family
  lab [FILTER]             the lab end to end: real mail, metrics and uploads beside the binary
  group [FILTER]           groups of machines end to end, on both engines
  access [FILTER]          emergency permissions end to end, on both engines
  game [FILTER]            game servers end to end, also with Agones' own clients; `ci` does not run it
  cluster [FILTER]         clusters that sleep and wake, end to end; `ci` does not run it
  toy                      what adding a family costs: counts it on the smallest one, and tests that
  browser [FILTER]         the pages that people see, in a real Chromium
  sim [SEEDS [DAYS]]       months of people and faults on a virtual clock: 200 seeds, 30 days
  sim-access [PEOPLE [HOURS]]
                           sessions with sparse use, outages and kills: 1,000 people, 1,000 hours
  fuzz [SECONDS]           bodies that a fuzzer makes up, posted to the authorization webhook
  worst-body [FILTER]      the worst 3 MiB body of every kind: under a second, under 200 MB
  kube-env                 builds a real Kubernetes control plane, once; prints where it is
  upstream [FOCUS]         Kubernetes' own conformance specs, unchanged, on `sojourn up`
  conformance [FILTER]     the embedded API server and a real one give the recorded answers
  conformance record [FILTER]
                           records the answers of the real one anew
  bench engine [--quick] [--alone]
                           measures the embedded API server beside a real one (or alone)
  bench node [--quick]     measures Pods: start, end, and what they cost while idle
  bench lab [--quick]      measures the lab family: decisions, lateness, 100,000 instances
  bench group [--quick]    measures the group family: lateness, a roll, 100,000 machines
  bench access [--quick]   measures the access family: reviews over HTTPS, 10,000 sessions
  bench game [--quick]     measures the game family: matchmakers, 10,000 servers
  bench cluster [--quick]  measures the cluster family: toggled at once, 10,000 at rest
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("", [].as_slice()),
    };
    match perform(task, rest) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            print_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
        None => {
            print_line(USAGE);
            ExitCode::from(2)
        }
    }
}

/// Nothing if there is no such task.
fn perform(task: &str, rest: &[String]) -> Option<Result<()>> {
    let root = match process::workspace_root() {
        Ok(root) => root,
        Err(error) => return Some(Err(error)),
    };
    Some(match (task, rest) {
        ("test", []) => test::all(&root),
        ("ci", rest) => ci::run(&root, rest),
        ("tidy", []) => tidy::run(&root),
        ("cases", [family]) => cases::run(&root, family),
        ("lab", rest) => test_programs::test_lab(&root, rest),
        ("group", rest) => {
            kube_env::ensure().and_then(|assets| test_programs::test_group(&root, &assets, rest))
        }
        ("access", rest) => {
            kube_env::ensure().and_then(|assets| test_programs::test_access(&root, &assets, rest))
        }
        ("game", rest) => {
            kube_env::ensure().and_then(|assets| test_programs::test_game(&root, &assets, rest))
        }
        ("cluster", rest) => {
            kube_env::ensure().and_then(|assets| test_programs::test_cluster(&root, &assets, rest))
        }
        ("toy", []) => kube_env::ensure().and_then(|assets| toy::run(&root, &assets)),
        ("browser", rest) => browser::test(&root, rest),
        ("sim", rest) => sim::run(&root, rest),
        ("sim-access", rest) => sim::sessions(&root, rest),
        ("fuzz", rest) => fuzz::run(&root, rest),
        ("worst-body", filter) => worst_body::run(&root, filter),
        ("kube-env", []) => kube_env::run(),
        ("upstream", focus) => upstream::run(&root, focus),
        ("bench", [name, rest @ ..]) if bench::is_known(name) => bench::measure(&root, name, rest),
        ("conformance", rest) => {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            match rest.as_slice() {
                [] => conformance::check(&root, None),
                ["record"] => conformance::record(&root, None),
                ["record", filter] => conformance::record(&root, Some(filter)),
                [filter] => conformance::check(&root, Some(filter)),
                _ => return None,
            }
        }
        _ => return None,
    })
}
