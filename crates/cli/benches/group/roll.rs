//! A roll: every machine of a large group is replaced.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::group::ROTATE;
use sojourn_drivers::machine::fake::{Fake, Script};
use tokio::sync::oneshot;
use tokio::time::Duration;

use super::fleet::Fleet;
use super::harness::Harness;
use super::plan::Plan;
use crate::command::print_line;
use crate::number::count;
use crate::process::own_processor;
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const SECTION: &str = "a roll of one group";
/// How many times the ideal it may take.
const GOAL_RATIO: f64 = 1.2;
const ROLL_TIMEOUT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Times of creation are whole seconds; a roll is of what was created before it.
const A_SECOND: Duration = Duration::from_millis(1_100);

/// As the fleet calls its first one.
const GROUP: &str = "group-0";

/// Waits until so many machines of the group are ready.
async fn until_ready(groups: &Api<InstanceGroup>, wanted: usize) -> Result<()> {
    let started = Instant::now();
    loop {
        let status = groups.get(GROUP).await?.status.unwrap_or_default();
        let ready = status.replicas.unwrap_or_default().ready;
        if usize::try_from(ready)? == wanted {
            return Ok(());
        }
        ensure!(started.elapsed() < ROLL_TIMEOUT, "of {wanted} machines {ready} are ready");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// What was seen of a roll.
#[derive(Debug, Default)]
struct RollObservation {
    there: usize,
    most: usize,
    gone: usize,
}

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let fake = Fake::new(Script { boot: plan.boot, ..Script::default() });
    let harness = Harness::open(home, &fake).await?;
    let fleet = Fleet(harness.people.clone());
    fleet.namespaces(1).await?;
    // The group's own budget is what holds the roll back, not a trial nor the bound of all groups.
    fleet.configure(&format!("trial: 0s\nmaxRotations: {}\n", plan.rolled)).await?;
    let spec = json!({
        "size": plan.rolled, "surge": plan.budget, "drainTimeout": "0s",
        "budgets": [{"max": plan.budget}],
        "template": {"provider": "fake", "config": {"image": "v1"}},
        "expiry": {"eligibleAge": "20d"},
    });
    let started = Instant::now();
    fleet.groups(1, Duration::ZERO, &spec).await?;
    let groups: Api<InstanceGroup> = Api::namespaced(harness.people.clone(), "team-0");
    until_ready(&groups, plan.rolled).await?;
    harness.until_armed(1).await?;
    let name = format!("{} machines made and at rest", plan.rolled);
    report.note(SECTION, name, Unit::Seconds, started.elapsed().as_secs_f64());
    tokio::time::sleep(A_SECOND).await;

    print_line("rolling");
    let (watches, watching) = oneshot::channel();
    let seeing = tokio::spawn({
        let (fleet, rolled) = (fleet.clone(), plan.rolled);
        async move {
            let mut seen = RollObservation { there: rolled, most: rolled, gone: 0 };
            let saw = |machine: Machine, gone: bool| {
                if gone {
                    seen.gone += 1;
                    seen.there -= 1;
                } else if machine.status.is_none() && machine.metadata.generation == Some(1) {
                    seen.there += 1;
                    seen.most = seen.most.max(seen.there);
                }
                seen.gone == rolled
            };
            fleet.watch(watches, saw).await.map(|()| (seen, Instant::now()))
        }
    });
    watching.await.context("the watch did not begin")?;
    let used = || own_processor().context("cannot tell what this process uses");
    let (started, before) = (Instant::now(), used()?);
    let of_groups = || harness.family.reconciles[0].total();
    let looks = of_groups();
    let version = harness.engine.version();
    let asked = json!({"metadata": {"annotations": {ROTATE: format!("{:.0}", Timestamp::now())}}});
    groups.patch(GROUP, &PatchParams::default(), &Patch::Merge(&asked)).await?;
    let seen = tokio::time::timeout(ROLL_TIMEOUT, seeing).await;
    let (seen, ended) = seen.context("the roll does not end")???;
    let (took, used) = (ended.duration_since(started), used()?.saturating_sub(before));
    let (looks, writes) = (of_groups() - looks, harness.engine.version() - version);
    harness.until_armed(1).await?;
    let counted = fleet.counted(|_| true).await?;
    ensure!(counted[0] == plan.rolled, "after the roll there are {} machines", counted[0]);
    ensure!(
        seen.most <= plan.rolled + plan.budget,
        "there were {} machines at the same time",
        seen.most
    );
    harness.close().await;

    let ideal = plan.boot.as_secs_f64() * count(plan.rolled.div_ceil(plan.budget));
    let how = format!("{} machines, {} at a time", plan.rolled, plan.budget);
    report.note(SECTION, format!("{how}, the ideal"), Unit::Seconds, ideal);
    report.note(SECTION, format!("{how}, as seen"), Unit::Seconds, took.as_secs_f64());
    report.goal(Goal::AtMost(GOAL_RATIO * ideal));
    report.note(SECTION, "times the ideal", Unit::Number, took.as_secs_f64() / ideal);
    report.goal(Goal::AtMost(GOAL_RATIO));
    let each = used.as_secs_f64() * 1e6 / count(plan.rolled);
    report.note(SECTION, "processor time per machine", Unit::Microseconds, each);
    let each = count(usize::try_from(writes)?) / count(plan.rolled);
    report.note(SECTION, "writes per machine", Unit::Number, each);
    report.note(SECTION, "looks at the group", Unit::Number, count(usize::try_from(looks)?));
    Ok(())
}
