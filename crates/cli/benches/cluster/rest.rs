//! Clusters that nobody toggles: what they cost, and what is asked of whom on their behalf.

use anyhow::{Result, ensure};
use sojourn_drivers::actuator::fake::Script;
use std::time::{Duration, Instant};

use super::fleet::Purpose;
use super::harness::{Harness, Setting, Time, resident, used};
use super::plan::Plan;
use super::requests::Verb;
use crate::command::print_line;
use crate::number::count;
use crate::report::{Goal, Report, Unit};
use crate::up::Home;
use crate::virtual_time::in_virtual_time;

const MADE: &str = "clusters, half of them asleep";
const REST: &str = "clusters at rest, in virtual time";
const MEGABYTE: f64 = 1e6;
const HOUR: f64 = 3600.0;
/// By then nobody looks for certificates any more, and the Events of the beginning have gone.
const UNTIL_REST: Duration = Duration::from_secs(70 * 60);
/// How often machines are listed, and APIs of clusters that run are probed, in an hour, by default.
const LISTS_GOAL: f64 = 6.0;
const PROBES_GOAL: f64 = 0.5;
/// The share of a processor that counts as nothing, in percent.
const NOTHING: f64 = 1.0;

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let (home, plan, mut own) = (home.clone(), plan.clone(), std::mem::take(report));
    let measuring = move || async move {
        virtually(&home, &plan, &mut own).await?;
        Ok(own)
    };
    *report = in_virtual_time(measuring).await?;
    Ok(())
}

async fn virtually(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let setting = Setting {
        time: Time::Virtual,
        clusters: plan.resting,
        machines: plan.machines,
        purpose: Purpose::Rest,
        script: Script { latency: plan.call, ..Script::default() },
    };
    let harness = Harness::open(home, setting).await?;
    let empty = resident()?;
    note_memory(report, "resident, none", empty);
    let (started, before) = (Instant::now(), used()?);
    harness.fleet.make().await?;
    harness.until_idle().await?;
    let each = (used()? - before).as_secs_f64() * 1e6 / count(plan.resting);
    let name = format!("{} clusters, from the first create until all have settled", plan.resting);
    report.note(MADE, name, Unit::Seconds, started.elapsed().as_secs_f64());
    report.note(MADE, "processor time of it, per cluster", Unit::Microseconds, each);
    let all = resident()?;
    note_memory(report, &format!("resident, {} clusters", plan.resting), all);
    let each = (all - empty) / count(plan.resting);
    let name = "resident per cluster, with its two Secrets and its Events";
    report.note(MADE, name, Unit::Bytes, each);

    tokio::time::sleep(UNTIL_REST).await;
    print_line(&format!("{} virtual seconds", plan.rest.as_secs()));
    at_rest(&harness, plan, report).await?;
    harness.fleet.check().await?;
    harness.close().await;
    Ok(())
}

async fn at_rest(harness: &Harness, plan: &Plan, report: &mut Report) -> Result<()> {
    let verbs = [Verb::Get, Verb::List, Verb::Watch, Verb::Write];
    let state = || {
        let [probes, others] = harness.targets.requests();
        let [gets, lists, watches, writes] = verbs.map(|verb| harness.requests.of(verb));
        [
            gets,
            lists,
            watches,
            writes,
            probes,
            others,
            harness.family.looks(),
            harness.engine.version(),
        ]
    };
    harness.provider.record();
    let (before, used_before) = (state(), used()?);
    tokio::time::sleep(plan.rest).await;
    let (after, used) = (state(), used()? - used_before);
    let [listed, called] = harness.provider_requests();
    let mut meanwhile = [0.0; 8];
    for ((figure, after), before) in meanwhile.iter_mut().zip(after).zip(before) {
        *figure = count(usize::try_from(after - before)?);
    }
    let [gets, lists, watches, writes, probes, others, looks, written] = meanwhile;
    ensure!(written == 0.0, "while clusters rested, the API was written {written} times");

    let (seconds, hours) = (plan.rest.as_secs_f64(), plan.rest.as_secs_f64() / HOUR);
    let mut note = |name: &str, figure: f64, goal: Option<Goal>| {
        report.note(REST, name, Unit::Number, figure);
        if let Some(goal) = goal {
            report.goal(goal);
        }
    };
    let none = Some(Goal::AtMost(0.0));
    note(&format!("writes to our API, {} clusters, {seconds} s", plan.resting), writes, none);
    note("reads of one object (a Secret, for each list and each probe)", gets, None);
    note("lists of objects", lists, None);
    note("watches opened anew", watches, None);
    note("lists of machines at providers", count(listed), None);
    let each = count(listed) / count(plan.resting) / hours;
    note("which is, per cluster and hour", each, Some(Goal::AtMost(LISTS_GOAL)));
    note("calls of machines", count(called), none);
    note("probes of APIs of clusters that run", probes, None);
    let each = probes / count(harness.fleet.running()) / hours;
    note("which is, per cluster and hour", each, Some(Goal::AtMost(PROBES_GOAL)));
    note("any other request to a cluster", others, none);
    note("looks per list and probe", looks / (count(listed) + probes), None);
    let share = 100.0 * used.as_secs_f64() / seconds;
    report.note(REST, "of one processor, had it been real time", Unit::Percent, share);
    report.goal(Goal::AtMost(NOTHING));
    Ok(())
}

fn note_memory(report: &mut Report, name: &str, bytes: f64) {
    report.note(MADE, name, Unit::Megabytes, bytes / MEGABYTE);
}
