//! How late rotations begin when thousands of machines grow too old within a minute.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::json;
use sojourn_api::group::Machine;
use sojourn_drivers::machine::fake::{Fake, Script};
use tokio::sync::oneshot;
use tokio::time::Duration;

use super::fleet::Fleet;
use super::harness::Harness;
use super::plan::Plan;
use crate::number::percentile;
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const SECTION: &str = "lateness of rotations";
/// How long everything may take beyond what the plan asks for.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(300);
/// Seconds that a decision may be late, of 99 in 100.
const GOAL_SECONDS: f64 = 1.0;

/// The first rotation of each machine that was due, by namespace and name: how late it was.
#[derive(Debug, Default)]
struct RotationLateness {
    of_groups: HashMap<String, f64>,
    on_demand: HashMap<String, f64>,
}

impl RotationLateness {
    /// Notes the first that is seen of a machine's rotation.
    fn saw(&mut self, machine: &Machine, term: SignedDuration, now: Timestamp) {
        let rotates = machine.status.as_ref().is_some_and(|status| status.rotation.is_some());
        let Some(created) = machine.creation_timestamp().filter(|_| rotates) else { return };
        let late = now.duration_since(created.0 + term).as_secs_f64();
        let name = format!("{}/{}", machine.namespace().unwrap_or_default(), machine.name_any());
        if machine.spec.on_demand {
            self.on_demand.entry(name).or_insert(late);
        } else {
            // Its replacements grow too old as well.
            let group = machine.spec.group.as_deref().unwrap_or_default();
            let name = format!("{}/{group}", machine.namespace().unwrap_or_default());
            self.of_groups.entry(name).or_insert(late);
        }
    }
}

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let fake = Fake::new(Script::default());
    let harness = Harness::open(home, &fake).await?;
    let fleet = Fleet(harness.people.clone());
    fleet.namespaces(plan.due).await?;

    let (watches, watching) = oneshot::channel();
    let seeing = tokio::spawn({
        let (fleet, due) = (fleet.clone(), plan.due);
        let term = SignedDuration::try_from(plan.term)?;
        async move {
            let mut seen = RotationLateness::default();
            let saw = |machine: Machine, _| {
                seen.saw(&machine, term, Timestamp::now());
                seen.of_groups.len() == due && seen.on_demand.len() == due
            };
            fleet.watch(watches, saw).await.map(|()| seen)
        }
    });
    watching.await.context("the watch did not begin")?;
    let age = format!("{}s", plan.term.as_secs());
    let template = json!({"provider": "fake", "config": {"image": "v1"}});
    let group = json!({
        "size": 1, "drainTimeout": "0s", "template": template, "expiry": {"eligibleAge": age},
    });
    let machine = json!({"onDemand": true, "template": template});
    fleet
        .configure(&format!("expiry: {{ondemandAge: {age}}}\ndefaultDrainTimeout: 0s\ntrial: 0s\n"))
        .await?;
    let both = async {
        tokio::try_join!(
            fleet.groups(plan.due, plan.spread, &group),
            fleet.on_demand(plan.due, plan.spread, &machine),
        )
    };
    both.await?;
    let seen = tokio::time::timeout(plan.term + plan.spread + EXTRA_TIMEOUT, seeing).await;
    let seen = seen.context("not all of them are replaced")???;
    harness.close().await;

    note(report, &format!("{} machines of as many groups", plan.due), &seen.of_groups)?;
    note(report, &format!("{} machines on demand", plan.due), &seen.on_demand)
}

fn note(report: &mut Report, whose: &str, late: &HashMap<String, f64>) -> Result<()> {
    let late: Vec<f64> = late.values().copied().collect();
    ensure!(late.iter().all(|late| *late > 0.0), "one was replaced early");
    for (part, share) in [("p50", 0.5), ("p99", 0.99), ("the latest", 1.0)] {
        let name = format!("{whose}, from their age until they rotate, {part}");
        report.note(SECTION, name, Unit::Seconds, percentile(&late, share));
        if part == "p99" {
            report.goal(Goal::AtMost(GOAL_SECONDS));
        }
    }
    Ok(())
}
