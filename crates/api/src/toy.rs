//! The family `toy`: the smallest one. It is in no release; it is there to show, and to test, what adding a
//! family takes.

use std::net::SocketAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::moment::ceil_second;
use sojourn_core::notice::{Delivery, Notice, NoticeId, Outbox};
use sojourn_core::toy as domain;

use crate::annotation::annotation;
use crate::config::value::span;
use crate::config::{ConfigKey, FamilyConfig};
use crate::family::Family;
use crate::grammar::{self, span_rules};
use crate::keep::KeepStatus;
use crate::lenient::lenient_fields;
use crate::name::shared;
use crate::problem::{Problem, Problems, Report};
use crate::role::{READ, WRITE, definitions, role, rule};
use crate::schema;
use crate::time::{read, written};
use crate::wire_enum::same_variants;

pub const GROUP: &str = "toy.sojourn.dev";
/// The resource, as requests name it.
pub const TOYS: &str = "toys";
/// For owners; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-toy-user";

pub(crate) const FAMILY: Family = Family {
    name: "toy",
    api_group: GROUP,
    config: ConfigKey::of::<ToyConfig>(),
    aliases: &[],
    crds: || vec![Toy::crd()],
    roles,
    person_role: Some(USER),
    operator_rules,
};

/// Something that lives for a while.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toy.sojourn.dev",
    version = "v1alpha1",
    kind = "Toy",
    namespaced,
    shortname = "ty",
    status = "ToyStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "sojourn",
    doc = "Something that lives for a while.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.action"}"#,
    printcolumn = r#"{"name":"At","type":"string","jsonPath":".status.next.at"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ToySpec {
    /// How long it lives, from its creation or from when somebody last played with it.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub lifespan: String,
    /// So long before its end its owner is warned.
    #[serde(default = "warn_before")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub warn_before: String,
    /// Where the gateway leads: an address of the operator's own machine, such as 127.0.0.1:8080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub address: Option<String>,
    /// When somebody last played with it: `sojourn play`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub played_at: Option<String>,
}

fn warn_before() -> String {
    "10m".to_owned()
}

/// How a toy is, and what comes next: the memory of its controller, and what people are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct ToyStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What will happen next by itself. It may move until it has been announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    /// The end that its owner is, or is being, warned of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub warned_of: Option<Time>,
    /// The warning, until its owner was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<WarningStatus>,
    /// When its owner was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub warned_at: Option<Time>,
    /// When it ends, as its owner was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(ToyStatus);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    Alive,
    Kept,
    Warned,
    Ending,
}

same_variants!(Phase, domain::Phase, Alive, Kept, Warned, Ending);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    Warn,
    End,
}

same_variants!(Action, domain::Action, Warn, End);

/// A warning that its owner was not told yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WarningStatus {
    pub id: String,
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub recorded_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
}

/// The options of the family, in `toy.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ToyConfig {
    /// No toy may live longer without being played with.
    #[serde(with = "span")]
    pub max_lifespan: SignedDuration,
}

impl Default for ToyConfig {
    fn default() -> Self {
        Self { max_lifespan: SignedDuration::from_hours(24 * 30) }
    }
}

impl FamilyConfig for ToyConfig {
    const KEY: &'static str = "toy.yaml";

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        if self.max_lifespan.is_zero() {
            report.note("maxLifespan", "must be longer than zero: nothing could live");
        }
        report.into_problems()
    }
}

fn roles() -> Vec<ClusterRole> {
    vec![role(
        USER,
        Some("edit"),
        vec![
            rule(GROUP, &[TOYS], &[READ, WRITE].concat()),
            rule(GROUP, &["toys/access"], &["get"]),
        ],
    )]
}

/// What the controller does beside what every controller does.
fn operator_rules() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &[TOYS], &[READ, &["delete"]].concat()),
        rule(GROUP, &["toys/status"], &["update", "patch"]),
        definitions(GROUP, &[TOYS]),
    ]
}

/// What is wrong with a toy by itself, and what the options do not allow.
pub fn check(spec: &ToySpec, config: &ToyConfig) -> Vec<Problem> {
    let mut report = Report::default();
    let lifespan = report.take("spec.lifespan", grammar::span(&spec.lifespan));
    let warn_before = report.take("spec.warnBefore", grammar::span(&spec.warn_before));
    if let (Some(lifespan), Some(warn_before)) = (lifespan, warn_before)
        && warn_before >= lifespan
    {
        report.note("spec.warnBefore", "must be shorter than lifespan");
    }
    if lifespan.is_some_and(|lifespan| lifespan > config.max_lifespan) {
        let max = sojourn_core::term::Term::Span(config.max_lifespan);
        report
            .note("spec.lifespan", format!("must not be longer than maxLifespan, which is {max}"));
    }
    if let Some(text) = &spec.address {
        report.take("spec.address", address(text));
    }
    if let Some(text) = &spec.played_at {
        report.take("spec.playedAt", time(text));
    }
    report.into_problems()
}

/// Where the gateway may lead. The operator connects there, so it is not for owners to choose other machines.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().ok().filter(|at| at.ip().is_loopback());
    address.ok_or_else(|| "must be an address of this machine, such as 127.0.0.1:8080".to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.trim().parse().map_err(|_| "must be a time such as 2026-11-17T09:00:00Z".to_owned())
}

/// What is wanted of a toy. The options limit what is written, not what is there.
pub fn intent(toy: &Toy) -> Result<domain::Intent, Problems> {
    let mut report = Report::default();
    let (spec, meta) = (&toy.spec, &toy.metadata);
    let lifespan = report.take("spec.lifespan", grammar::span(&spec.lifespan));
    let warn_before = report.take("spec.warnBefore", grammar::span(&spec.warn_before));
    let created_at = meta.creation_timestamp.as_ref().map(|time| time.0);
    let created_at = report.take("metadata.creationTimestamp", created_at.ok_or("is missing"));
    let keep_until = annotation(meta, shared::KEEP_UNTIL).and_then(|text| time(text).ok());
    let intent = lifespan.zip(warn_before).zip(created_at).map(|((lifespan, warn_before), at)| {
        domain::Intent {
            uid: meta.uid.clone().unwrap_or_default(),
            created_at: at,
            played_at: spec.played_at.as_deref().and_then(|text| time(text).ok()).map(ceil_second),
            lifespan,
            warn_before,
            keep_until,
            deleting: meta.deletion_timestamp.is_some(),
        }
    });
    report.finish(intent)
}

/// Writes the parts of a status that are the state; the others stay as they are.
pub fn write_state(state: &domain::ToyState, status: &mut ToyStatus) {
    let domain::ToyState { keep, warned_of, outbox, warned_at, deadline, upcoming, phase } = state;
    status.phase = Some((*phase).into());
    status.next = upcoming.as_ref().map(|upcoming| NextStatus {
        action: Some(upcoming.action.into()),
        at: written(Some(upcoming.at)),
        why: upcoming.why.to_string(),
    });
    status.warned_of = written(*warned_of);
    status.warning = outbox.notices.first().map(write_warning);
    status.warned_at = written(*warned_at);
    status.deadline = written(*deadline);
    status.keep = KeepStatus::of(keep);
}

/// The state that a status holds. What makes no sense is as if it had not been written.
pub fn read_state(status: Option<&ToyStatus>) -> domain::ToyState {
    let Some(status) = status else { return domain::ToyState::default() };
    domain::ToyState {
        keep: status.keep.as_ref().map(KeepStatus::read).unwrap_or_default(),
        warned_of: read(status.warned_of.as_ref()),
        outbox: Outbox { notices: status.warning.iter().filter_map(read_warning).collect() },
        warned_at: read(status.warned_at.as_ref()),
        deadline: read(status.deadline.as_ref()),
        upcoming: None,
        phase: status.phase.map(Into::into).unwrap_or_default(),
    }
}

fn write_warning(notice: &Notice<domain::Warning>) -> WarningStatus {
    WarningStatus {
        id: notice.id.to_string(),
        attempts: notice.attempts,
        recorded_at: written(Some(notice.recorded_at)),
        retry_at: written(notice.next_attempt(None)),
        deadline: written(notice.deadline),
    }
}

fn read_warning(wire: &WarningStatus) -> Option<Notice<domain::Warning>> {
    let recorded_at = read(wire.recorded_at.as_ref())?;
    let next = read(wire.retry_at.as_ref()).unwrap_or(recorded_at);
    (!wire.id.is_empty()).then(|| Notice {
        id: NoticeId::stored(wire.id.clone()),
        kind: domain::Warning,
        alert: Some((1, 1)),
        deadline: read(wire.deadline.as_ref()),
        recorded_at,
        attempts: wire.attempts,
        delivery: Delivery::Waiting { next },
        error: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sojourn_core::keep::Keep;

    use super::*;

    fn toy() -> Toy {
        let object = json!({
            "apiVersion": "toy.sojourn.dev/v1alpha1", "kind": "Toy",
            "metadata": {"name": "bear", "uid": "u", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {"lifespan": "1h"},
        });
        serde_json::from_value(object).expect("a toy")
    }

    #[test]
    fn a_state_is_read_back_as_it_was_written() {
        let toy = toy();
        let intent = intent(&toy).expect("it is good");
        assert_eq!(intent.warn_before, SignedDuration::from_mins(10));
        let late = intent.created_at + SignedDuration::from_hours(7);
        let mut state = domain::decide(domain::ToyState::default(), &intent, late).next;
        state.keep = Keep { used: 1, until: Some(intent.created_at), asked: Some(late) };
        for _ in 0..2 {
            let mut status = ToyStatus::default();
            write_state(&state, &mut status);
            let expected = domain::ToyState { upcoming: None, ..state.clone() };
            assert_eq!(read_state(Some(&status)), expected);
            domain::told(&mut state, &intent, late);
        }
        assert_eq!(read_state(None), domain::ToyState::default());
    }

    // case: toy 5
    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let config = ToyConfig { max_lifespan: SignedDuration::from_mins(30) };
        let mut spec = toy().spec;
        spec.warn_before = "1h".to_owned();
        spec.address = Some("192.0.2.1:80".to_owned());
        spec.played_at = Some("now".to_owned());
        let paths: Vec<_> = check(&spec, &config).into_iter().map(|one| one.path).collect();
        let expected = ["spec.warnBefore", "spec.lifespan", "spec.address", "spec.playedAt"];
        assert_eq!(paths, expected);
        assert_eq!(check(&toy().spec, &ToyConfig::default()), []);
        assert_eq!(ToyConfig { max_lifespan: SignedDuration::ZERO }.check().len(), 1);
    }
}
