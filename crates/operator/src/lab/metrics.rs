//! Gauges of Instances by phase, stage and condition, for Prometheus. Labels have few values, never names.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde::Serialize;
use serde_json::Value;

use super::caches::LabCaches;
use crate::metrics::{ConditionCounts, Metrics, StateCounts};

/// Counts for as long as the caches are followed.
pub(super) fn register(metrics: &Metrics, caches: &Arc<LabCaches>) {
    let caches = Arc::downgrade(caches);
    metrics.count_states("instances", move || count(&caches));
}

fn count(caches: &Weak<LabCaches>) -> Vec<StateCounts> {
    let Some(caches) = caches.upgrade() else { return Vec::new() };
    let mut conditions = ConditionCounts::default();
    let mut counts: [BTreeMap<String, i64>; 4] = Default::default();
    let [phases, stages, submissions, notices] = &mut counts;
    caches.instances.for_each(|read| {
        let status = match read {
            Ok(instance) => instance.status.clone().unwrap_or_default(),
            Err(_) => return add(phases, "Unreadable".to_owned()),
        };
        add(phases, word(&status.phase.unwrap_or_default()));
        let lifecycle = status.lifecycle.as_ref();
        add(stages, word(&lifecycle.and_then(|lifecycle| lifecycle.stage).unwrap_or_default()));
        conditions.add(&status.conditions);
        status.submission.iter().filter_map(|one| one.state).for_each(|state| {
            add(submissions, word(&state));
        });
        status.notices.iter().filter_map(|one| one.state).for_each(|state| {
            add(notices, word(&state));
        });
    });
    let [phases, stages, submissions, notices] = counts;
    vec![
        StateCounts::by("lab_instances", "Instances, by phase", "phase", phases),
        StateCounts::by(
            "lab_instance_stages",
            "Instances, by stage of the ladder",
            "stage",
            stages,
        ),
        StateCounts::conditions(
            "lab_instance_conditions",
            "Conditions of Instances, by type and status",
            conditions,
        ),
        StateCounts::by(
            "lab_submissions",
            "Environments that are handed in, by state",
            "state",
            submissions,
        ),
        StateCounts::by("lab_notices", "Notices that are on record, by state", "state", notices),
    ]
}

fn add(counts: &mut BTreeMap<String, i64>, label: String) {
    *counts.entry(label).or_default() += 1;
}

/// A value as the API writes it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(_) | Err(_) => "Unknown".to_owned(),
    }
}
