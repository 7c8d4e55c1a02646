//! The runs of a Pod's containers: what the shim says, and what could not be started.

use std::time::Duration;

use jiff::Timestamp;

use crate::lifecycle::{Exit, Run, RunState};
use crate::shim::protocol::{End, Record};

/// Runs that are kept of each container: the present one and the one before.
const KEPT_RUNS: usize = 2;
/// What a process that was killed with its shim counts as: 128 + SIGKILL.
const KILLED: i32 = 137;

#[derive(Debug, Default)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    pub(super) fn all(&self) -> &[Run] {
        &self.0
    }

    /// The present run of a container, if it runs.
    pub(super) fn running(&self, container: &str) -> Option<u32> {
        self.running_all().find(|(name, _)| *name == container).map(|(_, attempt)| attempt)
    }

    pub(super) fn running_all(&self) -> impl Iterator<Item = (&str, u32)> {
        let running = self.0.iter().filter(|run| matches!(run.state, RunState::Running { .. }));
        running.map(|run| (run.container.as_str(), run.attempt))
    }

    /// How long the present run of a container has been going on.
    pub(super) fn age(&self, container: &str, now: Timestamp) -> Duration {
        let started = self.0.iter().rev().find_map(|run| match run.state {
            RunState::Running { started_at } if run.container == container => Some(started_at),
            _ => None,
        });
        let age = started.map(|started| now.duration_since(started)).unwrap_or_default();
        Duration::try_from(age).unwrap_or_default()
    }

    /// Takes in what a shim says of a run.
    pub(super) fn record(&mut self, record: &Record) {
        let state = match &record.end {
            None => RunState::Running { started_at: record.started_at },
            Some(end) => RunState::Ended(exit(record.started_at, end)),
        };
        self.put(Run { container: record.container.clone(), attempt: record.attempt, state });
    }

    pub(super) fn failed(
        &mut self,
        container: &str,
        attempt: u32,
        at: Timestamp,
        reason: &'static str,
        message: String,
    ) {
        let state = RunState::Failed { at, reason, message };
        self.put(Run { container: container.to_owned(), attempt, state });
    }

    /// The shim is gone, and whatever ran in it: nobody saw how it ended.
    pub(super) fn mark_lost(&mut self, now: Timestamp) {
        for run in &mut self.0 {
            if let RunState::Running { started_at } = run.state {
                run.state = RunState::Ended(Exit {
                    started_at,
                    finished_at: now,
                    exit_code: KILLED,
                    signal: None,
                    oom_killed: false,
                    unseen: true,
                    message: String::new(),
                });
            }
        }
    }

    /// Puts a run in its place; of each container only the newest are kept.
    fn put(&mut self, run: Run) {
        let same = |r: &Run| r.container == run.container && r.attempt == run.attempt;
        if let Some(known) = self.0.iter_mut().find(|r| same(r)) {
            // An end is final, whichever way and however late it is told again.
            let over = matches!(known.state, RunState::Ended(_));
            if !over || matches!(run.state, RunState::Ended(_)) {
                *known = run;
            }
            return;
        }
        let container = run.container.clone();
        self.0.push(run);
        self.0.sort_by_key(|run| run.attempt);
        let of_it = self.0.iter().filter(|r| r.container == container).count();
        let mut surplus = of_it.saturating_sub(KEPT_RUNS);
        self.0.retain(|r| {
            let drop = surplus > 0 && r.container == container;
            surplus -= usize::from(drop);
            !drop
        });
    }
}

fn exit(started_at: Timestamp, end: &End) -> Exit {
    Exit {
        started_at,
        finished_at: end.finished_at,
        exit_code: end.exit_code,
        signal: end.signal,
        oom_killed: end.oom_killed,
        unseen: false,
        message: end.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn record(container: &str, attempt: u32, end: Option<i32>) -> Record {
        Record {
            container: container.to_owned(),
            attempt,
            pid: 7,
            started_at: at(10),
            end: end.map(|exit_code| End {
                finished_at: at(20),
                exit_code,
                signal: None,
                oom_killed: false,
                message: String::new(),
            }),
        }
    }

    fn attempts(runs: &Runs, container: &str) -> Vec<u32> {
        runs.all().iter().filter(|r| r.container == container).map(|r| r.attempt).collect()
    }

    #[test]
    fn the_newest_two_runs_of_each_container_are_kept() {
        let mut runs = Runs::default();
        for attempt in 0..4 {
            runs.record(&record("a", attempt, Some(1)));
        }
        runs.record(&record("b", 0, None));
        assert_eq!(attempts(&runs, "a"), [2, 3]);
        assert_eq!(attempts(&runs, "b"), [0]);
        assert_eq!((runs.running("a"), runs.running("b")), (None, Some(0)));
    }

    #[test]
    fn an_end_stays_an_end() {
        let mut runs = Runs::default();
        runs.record(&record("a", 0, Some(3)));
        runs.record(&record("a", 0, None));
        assert_eq!(runs.running("a"), None);
    }

    #[test]
    fn what_was_lost_with_the_shim_counts_as_killed() {
        let mut runs = Runs::default();
        runs.record(&record("a", 0, None));
        runs.mark_lost(at(30));
        let RunState::Ended(exit) = &runs.all()[0].state else { panic!("it runs on") };
        assert_eq!((exit.exit_code, exit.unseen, exit.finished_at), (137, true, at(30)));
    }
}
