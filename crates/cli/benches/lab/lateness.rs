//! How late actions are when thousands of them are due within a minute.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use sojourn_api::lab::instance::Instance;

use super::fleet::{Fleet, deadline};
use super::plan::Plan;
use crate::number::{count, percentile};
use crate::report::{Goal, Report, Unit};
use crate::up::{Controllers, Home, Up};

const SECTION: &str = "lateness of deletions";
/// Nobody is warned, so that each deadline is the deletion's.
const OPTIONS: &str = "enableInactivityNotifications: false\nmargin: 1s\n";
/// How long everything may take beyond what the plan asks for.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(300);
/// Seconds that an action may be late, of 99 in 100.
const GOAL_SECONDS: f64 = 1.0;

/// What was seen of one instance, and when.
#[derive(Debug, Default)]
struct InstanceObservation {
    due: Option<Timestamp>,
    marked: Option<Timestamp>,
    gone: Option<Timestamp>,
}

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let up = Up::start(home, Controllers::On).await?;
    let kept = format!("{}s", plan.term.as_secs());
    let fleet = Fleet::prepare(up.client().await?, plan.due, &kept).await?;
    fleet.configure(OPTIONS).await?;
    let api = fleet.instances();
    let listed = api.list(&ListParams::default().limit(1)).await?;
    let version = listed.metadata.resource_version.context("lists have a version")?;
    let watching = tokio::spawn(until_gone(api, version, plan.due));
    fleet.create(plan.spread).await?;
    let before = up.processor()?;
    let seen = tokio::time::timeout(plan.term + plan.spread + EXTRA_TIMEOUT, watching).await;
    let seen = seen.context("they do not go")???;
    let used = up.processor()?.saturating_sub(before).as_secs_f64();
    up.stop().await?;

    let due = || seen.values().filter_map(|seen| seen.due);
    let span = due().min().zip(due().max()).map(|(first, last)| last.duration_since(first));
    let name = format!("{} instances, due within", plan.due);
    report.note(SECTION, name, Unit::Seconds, span.map(|span| span.as_secs_f64()));
    note(report, "deleted", &seen, |seen| seen.marked)?;
    note(report, "gone", &seen, |seen| seen.gone)?;
    let each = used * 1e6 / count(plan.due);
    report.note(SECTION, "processor time of the server per instance", Unit::Microseconds, each);
    Ok(())
}

fn note(
    report: &mut Report,
    what: &str,
    seen: &HashMap<String, InstanceObservation>,
    of: fn(&InstanceObservation) -> Option<Timestamp>,
) -> Result<()> {
    let late = |seen: &InstanceObservation| Some(of(seen)?.duration_since(seen.due?).as_secs_f64());
    let late: Vec<f64> = seen.values().filter_map(late).collect();
    ensure!(late.len() == seen.len(), "of {} {} were seen to be {what}", seen.len(), late.len());
    ensure!(late.iter().all(|late| *late >= 0.0), "one was {what} early");
    for (part, share) in [("p50", 0.5), ("p99", 0.99), ("the latest", 1.0)] {
        let name = format!("from its deadline until it is {what}, {part}");
        report.note(SECTION, name, Unit::Seconds, percentile(&late, share));
        if part == "p99" {
            report.goal(Goal::AtMost(GOAL_SECONDS));
        }
    }
    Ok(())
}

/// Watches instances until so many are gone.
async fn until_gone(
    api: Api<Instance>,
    mut version: String,
    count: usize,
) -> Result<HashMap<String, InstanceObservation>> {
    let mut all: HashMap<String, InstanceObservation> = HashMap::new();
    let mut gone = 0;
    while gone < count {
        let mut events = pin!(api.watch(&WatchParams::default(), &version).await?);
        while gone < count
            && let Some(event) = events.try_next().await?
        {
            let now = Timestamp::now();
            let (instance, is_gone) = match event {
                WatchEvent::Added(instance) | WatchEvent::Modified(instance) => (instance, false),
                WatchEvent::Deleted(instance) => (instance, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => bail!("the watch ended: {error:?}"),
            };
            version = instance.resource_version().unwrap_or(version);
            let seen = all.entry(instance.name_any()).or_default();
            seen.due = seen.due.or_else(|| deadline(&instance));
            if is_gone || instance.metadata.deletion_timestamp.is_some() {
                seen.marked.get_or_insert(now);
            }
            if is_gone {
                seen.gone = Some(now);
                gone += 1;
            }
        }
    }
    Ok(all)
}
