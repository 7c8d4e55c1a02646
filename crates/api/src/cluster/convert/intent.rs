//! What is wanted of a cluster, out of everything that says something about it.

use jiff::Timestamp;
use kube::core::{ObjectMeta, Selector};
use sojourn_core::cluster as domain;
use sojourn_core::cluster::{Intent, PoolMembership, ReadinessGates, Schedule, Timeouts, Wanted};
use sojourn_core::moment::ceil_second;
use sojourn_core::term::Term;

use super::validity::check_spec;
use crate::annotation::{annotation, says_true};
use crate::cluster::config::ClusterConfig;
use crate::cluster::deployment::{
    ClusterDeployment, ClusterPoolRef, GateType, OnDrift, OnTimeout, ReadinessGate, ScheduleSpec,
    TimeoutsSpec, WantedPowerState,
};
use crate::cluster::name::{
    FAKE_CLUSTER, FINALIZER, INFRA_DISABLED, POWERSTATE_PAUSE, POWERSTATE_PAUSED,
    RESUME_SKIPS_CLUSTER_OPERATORS,
};
use crate::grammar;
use crate::name::shared::{KEEP_UNTIL, MANAGER, OBSERVE, PAUSED};
use crate::problem::{Problems, Report};
use crate::window;
use crate::wire_enum::same_variants;

same_variants!(OnTimeout, domain::OnTimeout, Report, Retry, RollBack);
same_variants!(OnDrift, domain::OnDrift, Report, Enforce);

impl From<WantedPowerState> for Wanted {
    fn from(wanted: WantedPowerState) -> Self {
        match wanted {
            WantedPowerState::Unset | WantedPowerState::Running => Self::Running,
            WantedPowerState::Hibernating => Self::Hibernating,
        }
    }
}

impl From<Wanted> for WantedPowerState {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Running => Self::Running,
            Wanted::Hibernating => Self::Hibernating,
        }
    }
}

/// Resolves a cluster. Its platform is what is known of it here; whoever has no actuator for it says so in
/// [`Intent::platform`].
pub fn cluster_intent(
    cluster: &ClusterDeployment,
    config: &ClusterConfig,
) -> Result<Intent, Problems> {
    let problems = check_spec(&cluster.spec);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let (spec, meta) = (&cluster.spec, &cluster.metadata);
    let mut report = Report::default();
    let text = spec.hibernate_after.as_deref();
    let hibernate_after = text.and_then(|text| {
        report.take("spec.hibernateAfter", grammar::go_age(text)).and_then(Term::span)
    });
    let schedules: Option<Vec<_>> =
        spec.schedule.iter().map(|line| schedule(line, &mut report)).collect();
    let timeouts = timeouts(&spec.timeouts, config, &mut report);
    let gates = gates(&spec.readiness_gates, &mut report);
    // Time is counted from it: nobody knows when a cluster without it was installed.
    let created_at = meta.creation_timestamp.as_ref().map(|time| time.0);
    if created_at.is_none() {
        report.note("metadata.creationTimestamp", "must be there");
    }
    let keep_until = annotation(meta, KEEP_UNTIL).and_then(|text| text.parse::<Timestamp>().ok());
    let has_finalizer =
        meta.finalizers.iter().flatten().any(|finalizer| finalizer.as_str() == FINALIZER);
    let paused = says_true(meta, PAUSED)
        || [POWERSTATE_PAUSE, POWERSTATE_PAUSED].iter().any(|name| is_marked(meta, name));
    let parts = schedules.zip(timeouts).zip(gates).zip(created_at);
    let intent = parts.map(|(((schedules, timeouts), gates), created_at)| Intent {
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        created_at,
        deleting: meta.deletion_timestamp.is_some(),
        paused,
        observe: says_true(meta, OBSERVE),
        keep_until: keep_until.map(ceil_second),
        installed: spec.installed,
        wanted: spec.power_state.into(),
        wanted_written_at: written_by_others_at(meta),
        platform: spec.platform.stopped(),
        infra_disabled: is_marked(meta, INFRA_DISABLED),
        fake: is_marked(meta, FAKE_CLUSTER),
        hibernate_after,
        schedules,
        pool: spec.cluster_pool_ref.as_ref().and_then(pool),
        has_kubeconfig: spec.kubeconfig_secret_ref.is_some(),
        gates,
        skips_cluster_operators: says_yes(
            meta.labels.as_ref().and_then(|labels| labels.get(RESUME_SKIPS_CLUSTER_OPERATORS)),
        ),
        timeouts,
        on_timeout: spec.on_timeout.into(),
        on_drift: spec.on_drift.into(),
        has_contacts: !spec.contacts.is_empty(),
        preserve_on_delete: spec.preserve_on_delete,
        has_finalizer,
    });
    report.finish(intent)
}

/// Whether an annotation that other systems have, too, says yes, in any of their words.
fn is_marked(meta: &ObjectMeta, name: &str) -> bool {
    says_yes(meta.annotations.as_ref().and_then(|annotations| annotations.get(name)))
}

fn says_yes(text: Option<&String>) -> bool {
    text.is_some_and(|text| ["1", "t", "T", "TRUE", "true", "True"].contains(&text.as_str()))
}

/// When somebody else than us last wrote the power state, if somebody else owns it. An edit of another field by the
/// same writer counts, too: nobody keeps more than that.
fn written_by_others_at(meta: &ObjectMeta) -> Option<Timestamp> {
    let entries = meta.managed_fields.iter().flatten();
    let theirs = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let owns = fields.is_some_and(|fields| fields["f:spec"].get("f:powerState").is_some());
        owns && entry.manager.as_deref() != Some(MANAGER)
    });
    theirs.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

fn schedule(line: &ScheduleSpec, report: &mut Report) -> Option<Schedule> {
    let mut cron = |text: &Option<String>| match text {
        None => Some(None),
        Some(text) => report.take("spec.schedule", window::cron(text)).map(Some),
    };
    let (hibernate, resume) = (cron(&line.hibernate)?, cron(&line.resume)?);
    let zone = report.take("spec.schedule", window::zone(&line.time_zone))?;
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let text = format!("{} / {} / {}", word(&line.hibernate), word(&line.resume), line.time_zone);
    Some(Schedule { text, hibernate, resume, zone })
}

/// Nobody has claimed a cluster of a pool before it says both who did and when.
fn pool(wire: &ClusterPoolRef) -> Option<PoolMembership> {
    if wire.pool_name.is_empty() {
        return None;
    }
    let at = wire.claimed_timestamp.as_ref().filter(|_| !wire.claim_name.is_empty());
    let claimed_at = at.and_then(|at| at.parse::<Timestamp>().ok()).map(ceil_second);
    Some(PoolMembership { claimed_at })
}

fn timeouts(spec: &TimeoutsSpec, config: &ClusterConfig, report: &mut Report) -> Option<Timeouts> {
    let mut term = |path: &str, text: &Option<String>, default: Term| match text {
        None => Some(default),
        Some(text) => report.take(path, grammar::age(text)),
    };
    let defaults = Timeouts::from(config.timeouts);
    let stop = term("spec.timeouts.stop", &spec.stop, defaults.stop);
    let resume = term("spec.timeouts.resume", &spec.resume, defaults.resume);
    Some(Timeouts { stop: stop?, resume: resume? })
}

fn gates(wire: &[ReadinessGate], report: &mut Report) -> Option<ReadinessGates> {
    let has = |gate| wire.iter().any(|one| one.gate == gate);
    let mut workloads = Vec::new();
    for gate in wire.iter().filter(|one| one.gate == GateType::Workloads) {
        let selector = Selector::try_from(gate.selector.clone().unwrap_or_default());
        let text = report.take("spec.readinessGates", selector)?.to_string();
        if !workloads.contains(&text) {
            workloads.push(text);
        }
    }
    Some(ReadinessGates {
        nodes: has(GateType::Nodes),
        cluster_operators: has(GateType::ClusterOperators),
        workloads,
    })
}
