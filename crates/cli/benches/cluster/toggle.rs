//! Clusters that are all toggled at once, at providers that take their time.

use std::time::Duration;

use anyhow::{Result, ensure};
use sojourn_api::cluster::deployment::WantedPowerState;
use sojourn_drivers::actuator::fake::Script;

use super::fleet::Purpose;
use super::harness::{Harness, Setting, Time, used};
use super::plan::Plan;
use crate::number::{count, percentile};
use crate::report::{Goal, Report, Unit};
use crate::up::Home;
use crate::virtual_time::in_virtual_time as run_in_virtual_time;

const BY_THE_CLOCK: &str = "clusters toggled at once";
const IN_VIRTUAL_TIME: &str = "clusters toggled at once, in virtual time";
/// How many times the ideal it may take.
const GOAL_RATIO: f64 = 1.2;

const WAYS: [(WantedPowerState, &str); 2] =
    [(WantedPowerState::Hibernating, "hibernate"), (WantedPowerState::Running, "resume")];

/// What came of one way.
#[derive(Debug)]
struct Toggled {
    way: &'static str,
    took: Duration,
    /// Seconds of each cluster.
    each: Vec<f64>,
    /// Of all clusters together.
    used: Duration,
    lists: usize,
    calls: usize,
    looks: u64,
    writes: u64,
}

fn setting(plan: &Plan, time: Time, transition: Duration) -> Setting {
    Setting {
        time,
        clusters: plan.toggled,
        machines: plan.machines,
        purpose: Purpose::Toggle,
        script: Script {
            latency: plan.call,
            stop: transition,
            start: transition,
            ..Script::default()
        },
    }
}

pub(crate) async fn by_the_clock(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let ideal = plan.call + plan.transition;
    for toggled in both_ways(home, setting(plan, Time::Real, plan.transition)).await? {
        let Toggled { way, took, each, used, lists, calls, looks, writes } = toggled;
        let clusters = count(plan.toggled);
        let who = format!("{} clusters {way}", plan.toggled);
        let mut seconds = |name: String, figure: Option<f64>| {
            report.note(BY_THE_CLOCK, name, Unit::Seconds, figure);
        };
        seconds(format!("{who}, the ideal"), Some(ideal.as_secs_f64()));
        seconds(format!("{who}, one of them, p50"), percentile(&each, 0.5));
        seconds(format!("{who}, one of them, p99"), percentile(&each, 0.99));
        note_ratio(report, BY_THE_CLOCK, &who, took, ideal);
        let mut note = |name: &str, figure: f64| {
            report.note(BY_THE_CLOCK, format!("{who}, {name}"), Unit::Number, figure / clusters);
        };
        note("lists of machines per cluster", count(lists));
        note("looks per cluster", count(usize::try_from(looks)?));
        note("writes per cluster, with Events", count(usize::try_from(writes)?));
        note("calls of machines per cluster", count(calls));
        report.goal(Goal::AtMost(count(plan.machines)));
        let each = used.as_secs_f64() * 1e6 / clusters;
        let name = format!("{who}, processor time per cluster");
        report.note(BY_THE_CLOCK, name, Unit::Microseconds, each);
    }
    Ok(())
}

/// The same where computing takes no time: what is left is what somebody waited for.
pub(crate) async fn in_virtual_time(
    home: &Home,
    plan: &Plan,
    transition: Duration,
    report: &mut Report,
) -> Result<()> {
    Harness::prepare(home).await?;
    let (home, setting) = (home.clone(), setting(plan, Time::Virtual, transition));
    let both = move || async move { both_ways(&home, setting).await };
    for toggled in run_in_virtual_time(both).await? {
        let seconds = transition.as_secs();
        let who = format!("{} clusters {}, {seconds} s each", plan.toggled, toggled.way);
        note_ratio(report, IN_VIRTUAL_TIME, &who, toggled.took, plan.call + transition);
    }
    Ok(())
}

fn note_ratio(
    report: &mut Report,
    section: &'static str,
    who: &str,
    took: Duration,
    ideal: Duration,
) {
    let (took, ideal) = (took.as_secs_f64(), ideal.as_secs_f64());
    report.note(section, format!("{who}, until the last"), Unit::Seconds, took);
    report.goal(Goal::AtMost(GOAL_RATIO * ideal));
    report.note(section, format!("{who}, times the ideal"), Unit::Number, took / ideal);
    report.goal(Goal::AtMost(GOAL_RATIO));
}

async fn both_ways(home: &Home, setting: Setting) -> Result<Vec<Toggled>> {
    let machines = setting.clusters * setting.machines;
    let harness = Harness::open(home, setting).await?;
    harness.fleet.make().await?;
    harness.until_idle().await?;
    harness.provider.record();
    let mut all = Vec::new();
    for (to, way) in WAYS {
        let state =
            || (harness.family.looks(), harness.engine.version(), harness.provider_requests());
        let (before, used_before) = (state(), used()?);
        let toggles = harness.fleet.toggle(to).await?;
        harness.until_idle().await?;
        let (after, used) = (state(), used()? - used_before);
        let [lists, calls] = [0, 1].map(|index| after.2[index] - before.2[index]);
        ensure!(calls >= machines, "{machines} machines were called {calls} times");
        all.push(Toggled {
            way,
            took: toggles.took()?,
            each: toggles.each(),
            used,
            lists,
            calls,
            looks: after.0 - before.0,
            writes: after.1 - before.1,
        });
    }
    harness.fleet.check().await?;
    harness.close().await;
    Ok(all)
}
