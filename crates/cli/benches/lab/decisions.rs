//! `core::lab::decide` on one processor, for instances about which there is nothing to do.

use std::hint::black_box;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::ActivityReport;
use sojourn_core::coverage::Coverage;
use sojourn_core::lab::decide;
use sojourn_core::lab::intent::{
    ExpirationPolicy, InactivityPolicy, Intent, SubmissionPolicy, TerminationPolicy,
};
use sojourn_core::lab::observed::{Observed, Pods};
use sojourn_core::lab::source;
use sojourn_core::lab::state::InstanceState;
use sojourn_core::notice::OnUndeliverable;
use sojourn_core::term::Term;

use super::plan::Plan;
use super::valgrind;
use crate::allocator::thread_allocations;
use crate::number::count;
use crate::processor::thread_time;
use crate::report::{Goal, Report, Unit};

const SECTION: &str = "decisions, on one processor";
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// After so many decisions at one moment, nothing may change any more.
const MAX_DECISIONS: usize = 10;
/// What [`Plan`] asks for, at least.
const PER_SECOND: f64 = 2e6;

/// The word on the command line of the process that valgrind counts in.
pub(crate) const WORD: &str = "decide";

pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    for (name, rest) in
        [("running, used an hour ago", Rest::used()?), ("stopped", Rest::stopped()?)]
    {
        let before = thread_time();
        rest.decide(plan.decisions);
        let took = thread_time().saturating_sub(before).as_secs_f64();
        report.note(SECTION, name, Unit::PerSecond, count(plan.decisions) / took);
        report.goal(Goal::AtLeast(PER_SECOND));
    }
    let instructions = valgrind::instructions_per_decision(plan.counted);
    report.note(SECTION, "instructions, running", Unit::Number, instructions);
    let allocations = Rest::used()?.allocations_per_decision(plan.counted)?;
    report.note(SECTION, "allocations, running", Unit::Number, allocations);
    Ok(())
}

/// What the process does that valgrind counts in.
pub(crate) fn repeat(decisions: usize) -> Result<()> {
    Rest::used()?.decide(decisions);
    Ok(())
}

/// An instance at rest, with what is seen of it.
struct Rest {
    state: InstanceState,
    intent: Intent,
    coverage: Vec<Coverage>,
    pods: Pods,
    now: Timestamp,
}

impl Rest {
    /// Two weeks unused would stop it.
    fn used() -> Result<Self> {
        Self::settled(true, Pods::AllReady)
    }

    /// Ten days from now it is deleted.
    fn stopped() -> Result<Self> {
        Self::settled(false, Pods::Gone)
    }

    fn settled(running: bool, pods: Pods) -> Result<Self> {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
        let now = start + DAY;
        let mut seen = Coverage::starting(start - DAY);
        seen.mark_observed(start - DAY, now);
        let coverage = vec![seen; 3];
        let (state, intent) = (InstanceState::default(), intent(start, running));
        let mut rest = Self { state, intent, coverage, pods, now };
        let used = ActivityReport {
            last: now - SignedDuration::from_hours(1),
            source: source::NGINX,
            count: 1,
        };
        let mut activity = running.then_some(used);
        for _ in 0..MAX_DECISIONS {
            let coverage: Vec<&Coverage> = rest.coverage.iter().collect();
            let seen = Observed {
                activity: activity.take(),
                coverage: &coverage,
                pods,
                ..Observed::default()
            };
            let decision = decide(rest.state.clone(), &seen, &rest.intent, now);
            let same = decision.next == rest.state && decision.effects.is_empty();
            rest.state = decision.next;
            if same {
                ensure!(decision.wake.at().is_some_and(|at| at > now), "it has no deadline");
                return Ok(rest);
            }
        }
        anyhow::bail!("an instance does not come to rest: {:?}", rest.state)
    }

    /// As a controller does it: on a copy of what is on record.
    fn decide(&self, times: usize) {
        let coverage: Vec<&Coverage> = self.coverage.iter().collect();
        let seen = Observed { coverage: &coverage, pods: self.pods, ..Observed::default() };
        for _ in 0..times {
            let state = black_box(&self.state).clone();
            black_box(decide(
                state,
                black_box(&seen),
                black_box(&self.intent),
                black_box(self.now),
            ));
        }
    }

    /// Without those for what all of them share.
    fn allocations_per_decision(&self, decisions: usize) -> Result<f64> {
        let [none, all] = [0, decisions].map(|decisions| {
            let before = thread_allocations();
            self.decide(decisions);
            thread_allocations() - before
        });
        Ok(count(usize::try_from(all - none)?) / count(decisions))
    }
}

fn intent(created_at: Timestamp, running: bool) -> Intent {
    let margin = SignedDuration::from_mins(1);
    Intent {
        uid: "6f2c1f0e-0b7c-4c7e-9d53-2f1d6a0c8e11".to_owned(),
        created_at,
        deleting: false,
        running,
        paused: false,
        observe: false,
        reopen: None,
        keep_until: None,
        persistent: true,
        inactivity: InactivityPolicy {
            enabled: true,
            opted_out: false,
            notify: true,
            stop_after: Term::Span(DAY * 14),
            delete_after_stopped: Term::Span(DAY * 10),
            max_alerts: 3,
            interval: DAY,
            margin,
            tick: SignedDuration::from_secs(30),
        },
        expiration: ExpirationPolicy {
            enabled: true,
            notify: true,
            delete_after: Term::Span(DAY * 180),
            interval: DAY,
            margin,
        },
        termination: TerminationPolicy { enabled: true, check: None },
        submission: SubmissionPolicy {
            enabled: true,
            wanted: None,
            requested: None,
            retried: None,
            waived: None,
        },
        on_undeliverable: OnUndeliverable::Hold,
        notices_waived: None,
        delivery: SignedDuration::from_secs(3),
    }
}
