//! Suites side by side: each waits more than it works, for processes, controllers and browsers.
//!
//! A lane is a list of steps, one after the other; lanes run at the same time. Each step is a process of
//! its own whose output goes into a file and is printed when it ends, so that no two are mixed up.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::{Row, StepOutcome};
use crate::process::print_line;

/// What came of a step, and what it printed.
pub(super) struct Finished {
    output: String,
    result: Result<()>,
}

/// Runs the lanes; the rows are in the order of the lanes. After a failure no further step begins.
pub(super) fn run(
    lanes: &[&[&'static str]],
    skipped: &[&str],
    perform: impl Fn(&'static str) -> Finished + Sync,
) -> Vec<Row> {
    let failed = AtomicBool::new(false);
    // One step's output is not torn apart by another's.
    let printing = Mutex::new(());
    let step = |name: &'static str| {
        if skipped.contains(&name) {
            return StepOutcome::Skipped;
        }
        if failed.load(Ordering::Relaxed) {
            return StepOutcome::NotRun;
        }
        let started = Instant::now();
        let Finished { output, result } = perform(name);
        let took = started.elapsed();
        let _alone = printing.lock();
        print_line(&output);
        match result {
            Ok(()) => {
                print_line(&format!("== {name}: passed, {:.1} s ==", took.as_secs_f64()));
                StepOutcome::Passed(took)
            }
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                print_line(&format!("== {name}: FAILED: {error:#} =="));
                StepOutcome::Failed(took)
            }
        }
    };
    let lane = |steps: &[&'static str]| {
        let rows = steps.iter().map(|&name| Row { name, outcome: step(name) });
        rows.collect::<Vec<Row>>()
    };
    std::thread::scope(|scope| {
        let lane = &lane;
        let running: Vec<_> = lanes.iter().map(|steps| scope.spawn(move || lane(steps))).collect();
        running.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect()
    })
}

/// A step in a process of its own, with all its output in a file.
pub(super) fn in_process_of_its_own(root: &Path, assets: &Path, name: &str) -> Finished {
    let log = log_file(root, name);
    print_line(&format!("== {name}: begins, its output follows when it ends =="));
    let result = perform(root, assets, name, &log);
    let output = std::fs::read(&log).unwrap_or_default();
    Finished { output: String::from_utf8_lossy(&output).trim_end().to_owned(), result }
}

fn perform(root: &Path, assets: &Path, name: &str, log: &Path) -> Result<()> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let status = Command::new(program)
        .args(["ci", "--only", name])
        .current_dir(root)
        .env("KUBEBUILDER_ASSETS", assets)
        .stdout(file.try_clone().context("cannot share a file with a process")?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start the step {name}"))?;
    if !status.success() {
        bail!("{status}; its output is above, and in {}", log.display());
    }
    Ok(())
}

fn log_file(root: &Path, name: &str) -> PathBuf {
    root.join("target/ci").join(format!("{name}.log"))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn words(rows: &[Row]) -> Vec<String> {
        let word = |row: &Row| match row.outcome {
            StepOutcome::Passed(_) => "passed",
            StepOutcome::Failed(_) => "failed",
            StepOutcome::Skipped => "skipped",
            StepOutcome::NotRun => "not run",
        };
        rows.iter().map(|row| format!("{} {}", row.name, word(row))).collect()
    }

    fn finished(result: Result<()>) -> Finished {
        Finished { output: String::new(), result }
    }

    #[test]
    fn lanes_run_side_by_side_and_their_steps_in_order() {
        // Neither of the first steps ends before the other has begun.
        let both = Barrier::new(2);
        let order = Mutex::new(Vec::new());
        let rows = run(&[&["a", "b"], &["c", "d"]], &["d"], |name| {
            if ["a", "c"].contains(&name) {
                both.wait();
            }
            order.lock().expect("no panic").push(name);
            finished(Ok(()))
        });
        assert_eq!(words(&rows), ["a passed", "b passed", "c passed", "d skipped"]);
        let order = order.into_inner().expect("no panic");
        let place = |name| order.iter().position(|one| *one == name);
        assert!(place("a") < place("b"), "{order:?}");
    }

    #[test]
    fn after_a_failure_no_step_begins() {
        let rows = run(&[&["a", "b", "c"]], &["b"], |name| {
            finished(if name == "a" { Err(anyhow::anyhow!("broken")) } else { Ok(()) })
        });
        assert_eq!(words(&rows), ["a failed", "b skipped", "c not run"]);
    }
}
