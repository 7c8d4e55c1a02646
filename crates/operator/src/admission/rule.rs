//! The admission rules as pure functions. What is common to all kinds is here, the rest in one
//! module per family.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sojourn_api::config;
use sojourn_api::group::template::MachineTemplate;
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_api::lab::{LabConfig, Template, Tenant};
use sojourn_api::name::shared::{CONFIG_MAP, HOLD, NAMESPACE};
use sojourn_api::name::{GROUP_GROUP, LAB_GROUP};
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::reference::{Reference, judge_references, to_get};
use super::{group, lab, pod};

/// What must be known before a request can be judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub hold: Option<Permission>,
    /// Whether the sender keeps the group that a Machine is said to be of.
    pub manage: Option<Permission>,
    /// What the installation says about groups.
    pub config: bool,
    /// The group that a Machine names.
    pub group: Option<Key>,
    /// A template that its provider must be able to use.
    pub template: Option<MachineTemplate>,
    /// The Template that an Instance is to be made from.
    pub made_from: Option<Key>,
    /// The Tenant that an Instance is lent to.
    pub tenant: Option<String>,
    /// The namespace of which it must be known whose data is not handed in yet.
    pub owing: Option<String>,
    /// The Machine whose Pod is deleted: it matters if its namespace is being deleted.
    pub drained: Option<Key>,
    /// What the request names, and what the sender must therefore be allowed to do.
    pub references: Vec<Reference>,
}

/// Something that the sender may or may not do; without a name, to all objects of the namespace, and
/// without a namespace, to objects that are in none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: String,
    pub name: Option<String>,
}

/// What was found out; an error says why it was not.
pub type Found<T> = Result<T, String>;

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    pub hold: Option<Found<bool>>,
    pub manage: Option<Found<bool>>,
    pub config: Option<Found<GroupConfig>>,
    pub group: Option<Found<Option<InstanceGroup>>>,
    /// What is wrong with the template; paths begin at it.
    pub template: Option<Vec<Problem>>,
    pub made_from: Option<Found<Option<Template>>>,
    pub tenant: Option<Found<Option<Tenant>>>,
    /// The Instances whose data is not handed in yet.
    pub owing: Option<Found<Vec<String>>>,
    /// The Machine, if there is one and its namespace is being deleted.
    pub drained: Option<Found<Option<Machine>>>,
    /// Whether the sender may do what the references need.
    pub permitted: BTreeMap<Permission, Found<bool>>,
}

/// What a request is about, if it is any of our business.
enum RequestKind {
    Configuration,
    Instance,
    InstanceDeletion,
    Claim,
    NamespaceDeletion,
    PodDeletion,
    Template,
    Group,
    Machine,
    Other,
}

fn request_kind(request: &AdmissionRequest<DynamicObject>) -> RequestKind {
    let whole = request.sub_resource.as_ref().is_none_or(String::is_empty);
    let about = (request.resource.group.as_str(), request.resource.resource.as_str());
    match (&request.operation, about) {
        _ if !whole => return RequestKind::Other,
        (Operation::Delete, (LAB_GROUP, lab::INSTANCES)) => return RequestKind::InstanceDeletion,
        (Operation::Delete, ("", lab::NAMESPACES)) => return RequestKind::NamespaceDeletion,
        (Operation::Delete, ("", pod::PODS)) => return RequestKind::PodDeletion,
        (Operation::Delete | Operation::Update, ("", lab::CLAIMS)) => return RequestKind::Claim,
        (Operation::Create | Operation::Update, _) => {}
        (Operation::Delete | Operation::Connect, _) => return RequestKind::Other,
    }
    match about {
        ("", "configmaps")
            if request.namespace.as_deref() == Some(NAMESPACE) && name(request) == CONFIG_MAP =>
        {
            RequestKind::Configuration
        }
        (LAB_GROUP, lab::INSTANCES) => RequestKind::Instance,
        (LAB_GROUP, lab::TEMPLATES) => RequestKind::Template,
        (GROUP_GROUP, group::GROUPS) => RequestKind::Group,
        (GROUP_GROUP, group::MACHINES) => RequestKind::Machine,
        _ => RequestKind::Other,
    }
}

/// What must be found out before [`judge`] can tell.
pub fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    match request_kind(request) {
        RequestKind::Instance => lab::needs(request),
        RequestKind::InstanceDeletion => lab::needs_of_deletion(request),
        RequestKind::Claim => lab::needs_of_claim(request),
        RequestKind::NamespaceDeletion => lab::needs_of_namespace(request),
        RequestKind::PodDeletion => pod::needs(request),
        RequestKind::Group => group::needs_of_group(request),
        RequestKind::Machine => group::needs_of_machine(request),
        RequestKind::Template => lab::needs_of_template(request),
        RequestKind::Configuration => {
            Needs { references: named_secrets(request), ..Needs::default() }
        }
        RequestKind::Other => Needs::default(),
    }
}

/// What the request names through what it names itself, once that was read.
pub fn further(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> Vec<Reference> {
    match request_kind(request) {
        RequestKind::Instance => lab::named_by_template(request, answers),
        RequestKind::Configuration
        | RequestKind::InstanceDeletion
        | RequestKind::Claim
        | RequestKind::NamespaceDeletion
        | RequestKind::PodDeletion
        | RequestKind::Template
        | RequestKind::Group
        | RequestKind::Machine
        | RequestKind::Other => Vec::new(),
    }
}

/// Whether the request may go on.
pub fn judge(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    match request_kind(request) {
        RequestKind::Configuration => judge_configuration(request, answers),
        RequestKind::Instance => lab::judge_instance(request, answers),
        RequestKind::InstanceDeletion => lab::judge_deletion(request, answers),
        RequestKind::Claim => lab::judge_claim(request, answers),
        RequestKind::NamespaceDeletion => lab::judge_namespace(request, answers),
        RequestKind::PodDeletion => pod::judge(request, answers),
        RequestKind::Template => lab::judge_template(request, answers),
        RequestKind::Group => group::judge_group(request, answers),
        RequestKind::Machine => group::judge_machine(request, answers),
        RequestKind::Other => AdmissionResponse::from(request),
    }
}

/// The permission to change what only those who may `hold` can change.
pub(super) fn to_hold(
    request: &AdmissionRequest<DynamicObject>,
    (group, resource): (&'static str, &'static str),
) -> Permission {
    let name = Some(name(request)).filter(|name| !name.is_empty()).map(str::to_owned);
    let namespace = request.namespace.clone().unwrap_or_default();
    Permission { verb: HOLD, group, resource, subresource: None, namespace, name }
}

/// Judges the paths that only those who may `hold` can change, if the request changes any.
pub(super) fn judge_held(
    request: &AdmissionRequest<DynamicObject>,
    held: &[String],
    answer: Option<&Found<bool>>,
) -> AdmissionResponse {
    if held.is_empty() {
        return AdmissionResponse::from(request);
    }
    let resource = &request.resource.resource;
    match answer {
        Some(Ok(true)) => AdmissionResponse::from(request),
        Some(Ok(false)) => {
            let user = sender(request);
            let message = format!("{user} needs the verb `{HOLD}` on {resource} to change this");
            refuse(request, 403, "Forbidden", &causes(held, &message))
        }
        Some(Err(why)) => {
            let what = format!("whether `{HOLD}` on {resource} is granted");
            unknown(request, held, &what, why)
        }
        None => unasked(request, held),
    }
}

/// Refuses what could not be found out.
pub(super) fn unknown(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
    what: &str,
    why: &str,
) -> AdmissionResponse {
    let message = format!("cannot find out {what}: {why}");
    refuse(request, 503, "ServiceUnavailable", &causes(paths, &message))
}

/// Refuses what nobody tried to find out.
pub(super) fn unasked(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
) -> AdmissionResponse {
    let message = "nobody asked what must be known to judge this";
    refuse(request, 500, "InternalError", &causes(paths, message))
}

pub(super) fn sender(request: &AdmissionRequest<DynamicObject>) -> &str {
    request.user_info.username.as_deref().unwrap_or("whoever sent this")
}

/// The paths of those annotations that the request changes.
pub(super) fn changed_marks(
    request: &AdmissionRequest<DynamicObject>,
    names: &[&str],
) -> impl Iterator<Item = String> {
    names.iter().filter(|name| changed(request, name)).map(|name| path_of(name))
}

/// What is wrong with those annotations that the request changes and that must be times.
pub(super) fn bad_times(request: &AdmissionRequest<DynamicObject>, names: &[&str]) -> Vec<Problem> {
    let changed = names.iter().filter(|name| changed(request, name));
    changed.filter_map(|name| bad_time(name, value(request.object.as_ref(), name))).collect()
}

/// Whether the request takes a finalizer away that was there.
pub(super) fn releases(request: &AdmissionRequest<DynamicObject>, finalizer: &str) -> bool {
    releases_from(&request.old_object, &request.object, finalizer)
}

/// Whether the first has a finalizer that the second has not.
pub(super) fn releases_from(
    old: &Option<DynamicObject>,
    new: &Option<DynamicObject>,
    finalizer: &str,
) -> bool {
    let (Some(new), Some(old)) = (new, old) else { return false };
    let keeps = |object: &DynamicObject| {
        let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|one| one == finalizer)
    };
    keeps(old) && !keeps(new)
}

/// A part of the object, as it becomes and as it was.
pub(super) fn part(
    request: &AdmissionRequest<DynamicObject>,
    pointer: &str,
) -> (Option<Value>, Option<Value>) {
    let of = |object: &Option<DynamicObject>| {
        object.as_ref().and_then(|object| object.data.pointer(pointer)).cloned()
    };
    (of(&request.object), of(&request.old_object))
}

pub(super) fn causes(paths: &[String], message: &str) -> Vec<Problem> {
    paths.iter().map(|path| Problem::new(path, message)).collect()
}

/// The object as what it is; one that cannot be read is told with the reason.
pub(super) fn typed<T: DeserializeOwned>(object: Option<&DynamicObject>) -> Result<T, Problem> {
    let value = serde_json::to_value(object).unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|error| Problem::new("spec", format!("cannot be read: {error}")))
}

/// The Secrets of our namespace that the configuration names and did not name before.
fn named_secrets(request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
    let secrets = |object: Option<&DynamicObject>| {
        let data = object.and_then(|object| object.data.get("data")).cloned().unwrap_or_default();
        let data: BTreeMap<String, String> = serde_json::from_value(data).unwrap_or_default();
        // One that cannot be read is refused, and names nothing.
        let lab: LabConfig = config::parse(&data).unwrap_or_default();
        [("webhookURL", lab.webhook_url), ("slackURL", lab.slack_url)]
    };
    let before = secrets(request.old_object.as_ref());
    let named = secrets(request.object.as_ref()).into_iter().zip(before);
    let named = named.filter(|((_, now), (_, before))| now != before);
    let path = |option| format!("data[lab.yaml].{option}.name");
    named
        .filter_map(|((option, secret), _)| {
            Some(to_get(path(option), ("", "secrets"), NAMESPACE, &secret?.name))
        })
        .collect()
}

fn judge_configuration(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let part = |object: Option<&DynamicObject>, part: &str| {
        object.and_then(|object| object.data.get(part)).cloned().unwrap_or(Value::Null)
    };
    let (new, old) = (request.object.as_ref(), request.old_object.as_ref());
    let same = |name: &str| part(new, name) == part(old, name);
    // One that is bad already can still get a label.
    if old.is_some() && same("data") && same("binaryData") {
        return AdmissionResponse::from(request);
    }
    let data: BTreeMap<String, String> =
        serde_json::from_value(part(new, "data")).unwrap_or_default();
    let mut problems = config::check(&data);
    if let Value::Object(binary) = part(new, "binaryData") {
        problems.extend(binary.keys().map(|key| {
            Problem::new(format!("binaryData[{key}]"), "is no text; configuration goes into data")
        }));
    }
    if problems.is_empty() {
        return judge_references(request, &named_secrets(request), answers)
            .unwrap_or_else(|| AdmissionResponse::from(request));
    }
    invalid(request, &problems)
}

/// As much of a text as fits into a line.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 64;
    text.chars().take(MAX_CHARS).collect()
}

fn bad_time(annotation: &str, text: &str) -> Option<Problem> {
    if text.is_empty() || text.trim().parse::<Timestamp>().is_ok() {
        return None;
    }
    let shown = shortened(text);
    let message = format!("{shown:?} is not a time such as 2026-11-17T09:00:00Z");
    Some(Problem::new(path_of(annotation), message))
}

pub(super) fn path_of(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// The name that the object has or, if it is new and unnamed, none.
pub(super) fn name(request: &AdmissionRequest<DynamicObject>) -> &str {
    if !request.name.is_empty() {
        return &request.name;
    }
    let object = request.object.as_ref();
    object.and_then(|object| object.metadata.name.as_deref()).unwrap_or_default()
}

/// An annotation's value; empty and missing are the same.
pub(super) fn value<'a>(object: Option<&'a DynamicObject>, annotation: &str) -> &'a str {
    let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
    annotations.and_then(|all| all.get(annotation)).map(String::as_str).unwrap_or_default()
}

pub(super) fn changed(request: &AdmissionRequest<DynamicObject>, annotation: &str) -> bool {
    let new = value(request.object.as_ref(), annotation);
    new != value(request.old_object.as_ref(), annotation)
}

pub(super) fn invalid(
    request: &AdmissionRequest<DynamicObject>,
    problems: &[Problem],
) -> AdmissionResponse {
    refuse(request, 422, "Invalid", problems)
}

pub(super) fn refuse(
    request: &AdmissionRequest<DynamicObject>,
    code: u16,
    reason: &str,
    problems: &[Problem],
) -> AdmissionResponse {
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let cause = |problem: &Problem| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: problem.message.clone(),
        field: problem.path.clone(),
    };
    let mut response = AdmissionResponse::from(request);
    response.allowed = false;
    response.result = Status {
        status: Some(StatusSummary::Failure),
        code,
        reason: reason.to_owned(),
        message,
        metadata: None,
        details: Some(StatusDetails {
            name: name(request).to_owned(),
            group: request.kind.group.clone(),
            kind: request.kind.kind.clone(),
            uid: String::new(),
            causes: problems.iter().map(cause).collect(),
            retry_after_seconds: 0,
        }),
    };
    response
}
