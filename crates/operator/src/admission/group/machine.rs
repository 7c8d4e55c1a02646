//! Machines: who makes them, who orders something of them, and how long they are renewed.

use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use sojourn_api::group::Machine;
use sojourn_api::group::convert::{machine_intent, on_demand_intent};
use sojourn_api::name::GROUP_GROUP;
use sojourn_api::name::group::{DO_NOT_DISRUPT, DRAIN, MACHINE_FINALIZER};
use sojourn_api::name::shared::KEEP_UNTIL;
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::super::lookup::Permission;
use super::super::reference::{Reference, review_references, to_get};
use super::super::refusal::{invalid, refuse, review_held, unasked, unknown};
use super::super::request::{
    bad_times, changed, changed_marks, name, part, path_of, sender, typed,
};
use super::super::webhook::expression;
use super::marks::{HOLD_ANNOTATIONS, held_paths, hold};
use super::provider::Providers;
use super::template_rule::{Answers, Needs, TemplateRule, pod_reference};
use super::{GROUPS, MACHINES};

const TIME_ANNOTATIONS: [&str; 2] = [KEEP_UNTIL, DRAIN];
const OWNER_KIND: &str = "InstanceGroup";

pub(in crate::admission) fn rule(providers: Providers) -> TemplateRule {
    TemplateRule { resource: MACHINES, is_reviewed, needs, review, providers }
}

fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let held_paths = held_paths(request, MACHINE_FINALIZER);
    let mut needs = Needs { hold: hold(request, &held_paths, MACHINES), ..Needs::default() };
    let Ok(machine) = typed::<Machine>(request.object.as_ref()) else { return needs };
    let namespace = request.namespace.clone().unwrap_or_default();
    if request.operation == Operation::Create {
        needs.template = machine.spec.template.clone();
        needs.references.extend(pod_reference(request, needs.template.as_ref()));
        if let Some(group) = machine.spec.group.as_ref().filter(|_| machine.spec.on_demand) {
            needs.references.push(to_get("spec.group", GROUPS, &namespace, group));
        }
        needs.manage = owner(&machine).map(|name| Permission {
            verb: "update",
            group: GROUPS.0,
            resource: GROUPS.1,
            subresource: Some("status"),
            namespace: namespace.clone(),
            name: Some(name),
        });
    }
    if request.operation == Operation::Update {
        needs.references.extend(order_references(request));
    }
    if renews(request) {
        needs.config = true;
        needs.group = machine.spec.group.map(|name| Key::new(namespace, name));
    }
    needs
}

/// What is more than to answer a drain: whoever only answers has `patch` and nothing else, and all else needs
/// `update`. An owner that is not there, for one, has the garbage collector delete the Machine, and labels say
/// whose it is.
fn order_references(request: &AdmissionRequest<DynamicObject>) -> impl Iterator<Item = Reference> {
    const ORDER_ANNOTATIONS: [&str; 3] = [DRAIN, KEEP_UNTIL, DO_NOT_DISRUPT];
    let (new, old) = part(request, "/spec/renewedUntil");
    let renewed = (new != old).then(|| "spec.renewedUntil".to_owned());
    let permission = Permission {
        verb: "update",
        group: MACHINES.0,
        resource: MACHINES.1,
        subresource: None,
        namespace: request.namespace.clone().unwrap_or_default(),
        name: Some(name(request).to_owned()),
    };
    let orders: Vec<String> = changed_marks(request, &ORDER_ANNOTATIONS).chain(renewed).collect();
    let rest = changed_metadata(request).filter(|path| {
        // Each order is told by its own path.
        !(orders.iter().any(|order| order.starts_with(path)))
    });
    let paths: Vec<String> = rest.map(str::to_owned).chain(orders.iter().cloned()).collect();
    paths.into_iter().map(move |path| Reference { path, permission: permission.clone() })
}

/// The parts of the metadata that people write and that a request changes, but for finalizers, which the garbage
/// collector writes, too, and `held_paths` guards.
fn changed_metadata(
    request: &AdmissionRequest<DynamicObject>,
) -> impl Iterator<Item = &'static str> {
    let of = |object: &Option<DynamicObject>| {
        let metadata = object.as_ref().map(|object| object.metadata.clone()).unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let mut annotations = metadata.annotations.unwrap_or_default();
        // Who may write these is asked anyway.
        annotations.retain(|name, _| !HOLD_ANNOTATIONS.contains(&name.as_str()));
        (metadata.labels.unwrap_or_default(), annotations, owners)
    };
    let (new, old) = (of(&request.object), of(&request.old_object));
    let parts = [
        ("metadata.labels", new.0 != old.0),
        ("metadata.annotations", new.1 != old.1),
        ("metadata.ownerReferences", new.2 != old.2),
    ];
    parts.into_iter().filter_map(|(path, is_changed)| is_changed.then_some(path))
}

fn review(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    let problems = bad_times(request, &TIME_ANNOTATIONS);
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    let machine = match typed::<Machine>(request.object.as_ref()) {
        Ok(machine) => machine,
        Err(problem) => return invalid(request, &[problem]),
    };
    let refused = review_creation(request, answers, &machine)
        .or_else(|| review_template(request, answers))
        .or_else(|| {
            let references = needs(request).references;
            review_references(request, &references, &answers.permitted)
        })
        .or_else(|| review_renewal(request, answers, &machine));
    if let Some(refused) = refused {
        return refused;
    }
    let held_paths = held_paths(request, MACHINE_FINALIZER);
    let mut response = review_held(request, &held_paths, answers.hold.as_ref());
    response.warnings = ignored(request, &machine);
    response
}

/// A Machine of a group is made by whoever keeps the group, and by nobody else.
fn review_creation(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
    machine: &Machine,
) -> Option<AdmissionResponse> {
    if request.operation != Operation::Create || machine.spec.on_demand {
        return None;
    }
    let path = ["spec.onDemand".to_owned()];
    let Some(group) = owner(machine) else {
        let message = "must be true: the Machines of a group are made by the group; change its size, or ask for one on demand";
        return Some(invalid(request, &[Problem::new(&path[0], message)]));
    };
    match &answers.manage {
        Some(Ok(true)) => None,
        Some(Ok(false)) => {
            let user = sender(request);
            let message = format!(
                "must be true: {user} does not keep the InstanceGroup {group}, which makes its Machines itself; change its size, or ask for one on demand"
            );
            Some(refuse(request, 403, "Forbidden", &[Problem::new(&path[0], message)]))
        }
        Some(Err(why)) => {
            let what = format!("whether the sender keeps the InstanceGroup {group}");
            Some(unknown(request, &path, &what, why))
        }
        None => Some(unasked(request, &path)),
    }
}

/// The group that a Machine is owned by and says that it is of.
fn owner(machine: &Machine) -> Option<String> {
    let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.controller == Some(true) && owner.kind == OWNER_KIND && group == Some(GROUP_GROUP)
    })?;
    (machine.spec.group.as_ref() == Some(&owner.name)).then(|| owner.name.clone())
}

fn review_template(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Option<AdmissionResponse> {
    needs(request).template?;
    let Some(found) = &answers.template else {
        return Some(unasked(request, &["spec.template".to_owned()]));
    };
    let problems: Vec<_> =
        found.iter().map(|problem| problem.clone().beneath("spec.template")).collect();
    (!problems.is_empty()).then(|| invalid(request, &problems))
}

/// Whether the request asks for a Machine to stay for longer.
fn renews(request: &AdmissionRequest<DynamicObject>) -> bool {
    let (new, old) = part(request, "/spec/renewedUntil");
    new.is_some() && new != old
}

fn review_renewal(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
    machine: &Machine,
) -> Option<AdmissionResponse> {
    if !renews(request) {
        return None;
    }
    let path = "spec.renewedUntil";
    let paths = [path.to_owned()];
    let config = match &answers.config {
        Some(Ok(config)) => config,
        Some(Err(why)) => {
            return Some(unknown(request, &paths, "how long it can be renewed", why));
        }
        None => return Some(unasked(request, &paths)),
    };
    let group = match &answers.group {
        Some(Ok(group)) => group.as_ref(),
        Some(Err(why)) => {
            return Some(unknown(request, &paths, "how long its group lets it be renewed", why));
        }
        None if machine.spec.group.is_none() => None,
        None => return Some(unasked(request, &paths)),
    };
    // What else is wrong with it is told by its schema.
    let wanted = on_demand_intent(machine, group, config).ok()?.intent;
    let most = wanted.max_age.span()?;
    let last = wanted.machine.created_at.checked_add(most).unwrap_or(Timestamp::MAX);
    let until = wanted.renewed_until?;
    (until > last).then(|| {
        let message = format!(
            "must not be later than {last:.0}, when {} is {} old: ondemandMaxAge",
            name(request),
            wanted.max_age
        );
        invalid(request, &[Problem::new(path, message)])
    })
}

/// Marks that were just written and mean nothing.
fn ignored(request: &AdmissionRequest<DynamicObject>, machine: &Machine) -> Option<Vec<String>> {
    if !changed(request, DO_NOT_DISRUPT) {
        return None;
    }
    let ignored = machine_intent(machine).ok()?.ignored;
    let path = path_of(DO_NOT_DISRUPT);
    let ours = ignored.into_iter().find(|problem| problem.path == path)?;
    Some(vec![ours.to_string()])
}

/// An expression: something of a Machine that we review is not as it was.
fn is_reviewed() -> String {
    let all = [
        "oldObject == null".to_owned(),
        expression::differs("metadata.annotations"),
        expression::differs("metadata.labels"),
        expression::differs("metadata.ownerReferences"),
        expression::differs("spec.renewedUntil"),
        expression::removes_finalizer(MACHINE_FINALIZER),
    ];
    all.join(" || ")
}
