//! The judgement itself: values in, values out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};
use serde_json::Value;
use sojourn_api::config;
use sojourn_api::lab::convert::alerts;
use sojourn_api::name::LAB_GROUP;
use sojourn_api::name::lab::{
    CUSTOM_ALERTS, FINALIZER, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE,
};
use sojourn_api::name::shared::{CONFIG_MAP, HOLD, KEEP_UNTIL, NAMESPACE, OBSERVE, PAUSED};
use sojourn_api::problem::Problem;

/// Annotations of an Instance that take it out of its owner's hands.
pub(super) const HELD: [&str; 3] = [PAUSED, OBSERVE, SUBMISSION_WAIVE];
/// Annotations of an Instance that are times.
pub(super) const TIMES: [&str; 4] =
    [KEEP_UNTIL, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE];

/// Parts of an Instance's spec that bind its owner once they are there.
pub(super) const BINDING: [&str; 2] = ["statusCheck", "submission"];

/// What must be known before a request can be judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub hold: Option<Permission>,
}

/// On which Instance a permission is needed; without a name, on all of the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub namespace: String,
    pub name: Option<String>,
}

/// What was found out; an error says why it was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    pub hold: Option<Result<bool, String>>,
}

/// What a request is about, if it is any of our business.
enum Subject {
    Configuration,
    Instance,
    Template,
    Other,
}

fn subject(request: &AdmissionRequest<DynamicObject>) -> Subject {
    let written = matches!(request.operation, Operation::Create | Operation::Update);
    let whole = request.sub_resource.as_ref().is_none_or(String::is_empty);
    if !written || !whole {
        return Subject::Other;
    }
    match (request.resource.group.as_str(), request.resource.resource.as_str()) {
        ("", "configmaps")
            if request.namespace.as_deref() == Some(NAMESPACE) && name(request) == CONFIG_MAP =>
        {
            Subject::Configuration
        }
        (LAB_GROUP, "instances") => Subject::Instance,
        (LAB_GROUP, "templates") => Subject::Template,
        _ => Subject::Other,
    }
}

/// Which permissions must be asked for before [`judge`] can tell.
pub fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let Subject::Instance = subject(request) else { return Needs::default() };
    if held(request).is_empty() {
        return Needs::default();
    }
    let name = Some(name(request)).filter(|name| !name.is_empty()).map(str::to_owned);
    let namespace = request.namespace.clone().unwrap_or_default();
    Needs { hold: Some(Permission { namespace, name }) }
}

/// Whether the request may go on.
pub fn judge(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    match subject(request) {
        Subject::Configuration => judge_configuration(request),
        Subject::Instance => judge_instance(request, answers),
        Subject::Template => judge_template(request),
        Subject::Other => AdmissionResponse::from(request),
    }
}

fn judge_configuration(request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
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
        return AdmissionResponse::from(request);
    }
    invalid(request, &problems)
}

fn judge_instance(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let problems: Vec<_> = TIMES
        .iter()
        .filter(|annotation| changed(request, annotation))
        .filter_map(|annotation| bad_time(annotation, value(request.object.as_ref(), annotation)))
        .collect();
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    let held = held(request);
    if held.is_empty() {
        return AdmissionResponse::from(request);
    }
    match &answers.hold {
        Some(Ok(true)) => AdmissionResponse::from(request),
        Some(Ok(false)) => {
            let user = request.user_info.username.as_deref().unwrap_or("whoever sent this");
            let message = format!("{user} needs the verb `{HOLD}` on instances to change this");
            refuse(request, 403, "Forbidden", &causes(&held, &message))
        }
        Some(Err(why)) => {
            let message =
                format!("cannot find out whether `{HOLD}` on instances is granted: {why}");
            refuse(request, 503, "ServiceUnavailable", &causes(&held, &message))
        }
        None => {
            let message = format!("nobody asked whether `{HOLD}` on instances is granted");
            refuse(request, 500, "InternalError", &causes(&held, &message))
        }
    }
}

/// The paths that a request changes and that only those who may `hold` can change.
fn held(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let annotations = HELD.into_iter().filter(|name| changed(request, name)).map(path_of);
    let released = gives_up(request).then(|| "metadata.finalizers".to_owned());
    let bound = BINDING.into_iter().filter(|part| loosens(request, part));
    annotations.chain(released).chain(bound.map(|part| format!("spec.{part}"))).collect()
}

/// Whether the request takes away what keeps an Instance until its data is handed in.
fn gives_up(request: &AdmissionRequest<DynamicObject>) -> bool {
    let (Some(new), Some(old)) = (&request.object, &request.old_object) else { return false };
    let keeps = |object: &DynamicObject| {
        let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    };
    let submits = old.data.pointer("/spec/submission").is_some_and(Value::is_object);
    submits && keeps(old) && !keeps(new)
}

/// Whether the request changes what an exam was begun with.
fn loosens(request: &AdmissionRequest<DynamicObject>, part: &str) -> bool {
    let of = |object: &Option<DynamicObject>| {
        object.as_ref().and_then(|object| object.data.pointer(&format!("/spec/{part}"))).cloned()
    };
    let old = of(&request.old_object);
    old.is_some() && old != of(&request.object)
}

fn causes(paths: &[String], message: &str) -> Vec<Problem> {
    paths.iter().map(|path| Problem::new(path, message)).collect()
}

fn judge_template(request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let mut response = AdmissionResponse::from(request);
    let text = value(request.object.as_ref(), CUSTOM_ALERTS);
    if let Err(why) = alerts(text)
        && !text.is_empty()
        && changed(request, CUSTOM_ALERTS)
    {
        response.warnings = Some(vec![format!("{}: {why}", path_of(CUSTOM_ALERTS))]);
    }
    response
}

/// As much of a text as fits into a line.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 64;
    text.chars().take(LONGEST).collect()
}

fn bad_time(annotation: &str, text: &str) -> Option<Problem> {
    if text.is_empty() || text.trim().parse::<Timestamp>().is_ok() {
        return None;
    }
    let shown = shortened(text);
    let message = format!("{shown:?} is not a time such as 2026-11-17T09:00:00Z");
    Some(Problem::new(path_of(annotation), message))
}

fn path_of(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// The name that the object has or, if it is new and unnamed, none.
fn name(request: &AdmissionRequest<DynamicObject>) -> &str {
    if !request.name.is_empty() {
        return &request.name;
    }
    let object = request.object.as_ref();
    object.and_then(|object| object.metadata.name.as_deref()).unwrap_or_default()
}

/// An annotation's value; empty and missing are the same.
fn value<'a>(object: Option<&'a DynamicObject>, annotation: &str) -> &'a str {
    let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
    annotations.and_then(|all| all.get(annotation)).map(String::as_str).unwrap_or_default()
}

fn changed(request: &AdmissionRequest<DynamicObject>, annotation: &str) -> bool {
    let new = value(request.object.as_ref(), annotation);
    new != value(request.old_object.as_ref(), annotation)
}

fn invalid(request: &AdmissionRequest<DynamicObject>, problems: &[Problem]) -> AdmissionResponse {
    refuse(request, 422, "Invalid", problems)
}

fn refuse(
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
