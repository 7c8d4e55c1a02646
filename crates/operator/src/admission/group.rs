//! InstanceGroups and Machines: what a schema cannot tell, because it is about the installation, about
//! another object, or about who asks.

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use sojourn_api::group::convert::{check_group, group_intent, machine_intent, on_demand_intent};
use sojourn_api::group::template::MachineTemplate;
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_api::name::group::{
    DO_NOT_DISRUPT, DRAIN, GROUP_FINALIZER, MACHINE_FINALIZER, POD_PROVIDER, ROTATE,
};
use sojourn_api::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};
use sojourn_api::name::{GROUP_GROUP, VERSION};
use sojourn_api::problem::Problem;
use sojourn_core::group::feasible::shortfall;
use sojourn_core::key::Key;

use super::hook::Hook;
use super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::pod;
use super::provider::Providers;
use super::reference::{Reference, review_references, to_create_pods, to_get};
use super::rule::{
    Rules, about, bad_times, changed, changed_marks, hold_permission, invalid, name, part, path_of,
    refuse, removes_finalizer, review_held, sender, typed, unasked, unknown,
};
use super::webhook::expression;

const GROUPS: &str = "instancegroups";
const MACHINES: &str = "machines";

/// Annotations of both kinds that take them out of their owner's hands.
const HOLD_ANNOTATIONS: [&str; 2] = [PAUSED, OBSERVE];
const GROUP_TIME_ANNOTATIONS: [&str; 1] = [ROTATE];
const MACHINE_TIME_ANNOTATIONS: [&str; 2] = [KEEP_UNTIL, DRAIN];
const OWNER_KIND: &str = "InstanceGroup";

/// What must be known before a request can be judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub(super) hold: Option<Permission>,
    /// Whether the sender keeps the group that a Machine is said to be of.
    pub(super) manage: Option<Permission>,
    /// What the installation says about groups.
    pub(super) config: bool,
    /// The group that a Machine names.
    pub(super) group: Option<Key>,
    /// A template that its provider must be able to use.
    pub(super) template: Option<MachineTemplate>,
    /// What the request names, and what the sender must therefore be allowed to do.
    pub(super) references: Vec<Reference>,
}

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answers {
    pub(super) hold: Option<LookupResult<bool>>,
    pub(super) manage: Option<LookupResult<bool>>,
    pub(super) config: Option<LookupResult<GroupConfig>>,
    pub(super) group: Option<LookupResult<Option<InstanceGroup>>>,
    /// What is wrong with the template; paths begin at it.
    pub(super) template: Option<Vec<Problem>>,
    /// Whether the sender may do what the references need.
    pub(super) permitted: Permissions,
}

#[derive(Debug)]
pub(super) struct GroupRules {
    pub(super) providers: Providers,
}

impl Rules for GroupRules {
    fn hooks(&self) -> Vec<Hook> {
        vec![
            Hook::writes((GROUP_GROUP, VERSION, GROUPS), group_is_judged()),
            Hook::writes((GROUP_GROUP, VERSION, MACHINES), machine_is_judged()),
            pod::hook(),
        ]
    }

    fn judge<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>> {
        if pod::is_deletion(request) {
            return Some(Box::pin(pod::review_with(request, lookup)));
        }
        RequestKind::of(request)?;
        Some(Box::pin(async move { judge(request, &self.find_out(request, lookup).await) }))
    }
}

impl GroupRules {
    async fn find_out(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        lookup: Lookup<'_>,
    ) -> Answers {
        let needs = needs(request);
        let references = needs.references.into_iter().map(|reference| reference.permission);
        let (hold, manage, config, group, permitted) = tokio::join!(
            maybe(needs.hold.map(|permission| lookup.permitted(permission))),
            maybe(needs.manage.map(|permission| lookup.permitted(permission))),
            maybe(needs.config.then(|| lookup.config())),
            maybe(needs.group.map(|key| lookup.namespaced(key))),
            lookup.all_permitted(references),
        );
        let template = needs.template.map(|template| self.providers.check(&template));
        Answers { hold, manage, config, group, template, permitted }
    }
}

/// What a request is about, if it is about a kind of the family.
#[derive(Debug, Clone, Copy)]
enum RequestKind {
    Group,
    Machine,
}

impl RequestKind {
    fn of(request: &AdmissionRequest<DynamicObject>) -> Option<Self> {
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return None;
        }
        match about(request)? {
            (GROUP_GROUP, GROUPS) => Some(Self::Group),
            (GROUP_GROUP, MACHINES) => Some(Self::Machine),
            _ => None,
        }
    }
}

/// What must be found out before [`judge`] can tell.
pub(super) fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    match RequestKind::of(request) {
        Some(RequestKind::Group) => needs_of_group(request),
        Some(RequestKind::Machine) => needs_of_machine(request),
        None => Needs::default(),
    }
}

/// Whether the request may go on.
pub(super) fn judge(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    match RequestKind::of(request) {
        Some(RequestKind::Group) => review_group(request, answers),
        Some(RequestKind::Machine) => review_machine(request, answers),
        None => AdmissionResponse::from(request),
    }
}

fn needs_of_group(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let held_paths = held_paths(request, GROUP_FINALIZER);
    let mut needs = Needs { hold: hold(request, &held_paths, GROUPS), ..Needs::default() };
    let (new, old) = part(request, "/spec");
    needs.config = new != old;
    let (new, old) = part(request, "/spec/template");
    if new != old {
        needs.template = new.and_then(|template| serde_json::from_value(template).ok());
    }
    needs.references.extend(pod_reference(request, needs.template.as_ref()));
    needs
}

/// A Pod that is written out in a template is made with our rights, and may name whatever a Pod may.
fn pod_reference(
    request: &AdmissionRequest<DynamicObject>,
    template: Option<&MachineTemplate>,
) -> Option<Reference> {
    template.filter(|template| template.provider == POD_PROVIDER)?;
    Some(to_create_pods("spec.template", request.namespace.as_deref().unwrap_or_default()))
}

fn needs_of_machine(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let held_paths = held_paths(request, MACHINE_FINALIZER);
    let mut needs = Needs { hold: hold(request, &held_paths, MACHINES), ..Needs::default() };
    let Ok(machine) = typed::<Machine>(request.object.as_ref()) else { return needs };
    let namespace = request.namespace.clone().unwrap_or_default();
    if request.operation == Operation::Create {
        needs.template = machine.spec.template.clone();
        needs.references.extend(pod_reference(request, needs.template.as_ref()));
        if let Some(group) = machine.spec.group.as_ref().filter(|_| machine.spec.on_demand) {
            let groups = (GROUP_GROUP, GROUPS);
            needs.references.push(to_get("spec.group", groups, &namespace, group));
        }
        needs.manage = owner(&machine).map(|name| Permission {
            verb: "update",
            group: GROUP_GROUP,
            resource: GROUPS,
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

/// What orders something of a Machine, rather than answering its drain: whoever only answers has
/// `patch` and nothing else, and an order needs `update`.
fn order_references(request: &AdmissionRequest<DynamicObject>) -> impl Iterator<Item = Reference> {
    const ORDER_ANNOTATIONS: [&str; 3] = [DRAIN, KEEP_UNTIL, DO_NOT_DISRUPT];
    let (new, old) = part(request, "/spec/renewedUntil");
    let renewed = (new != old).then(|| "spec.renewedUntil".to_owned());
    let permission = Permission {
        verb: "update",
        group: GROUP_GROUP,
        resource: MACHINES,
        subresource: None,
        namespace: request.namespace.clone().unwrap_or_default(),
        name: Some(name(request).to_owned()),
    };
    let paths: Vec<String> = changed_marks(request, &ORDER_ANNOTATIONS).chain(renewed).collect();
    paths.into_iter().map(move |path| Reference { path, permission: permission.clone() })
}

fn hold(
    request: &AdmissionRequest<DynamicObject>,
    held_paths: &[String],
    resource: &'static str,
) -> Option<Permission> {
    (!held_paths.is_empty()).then(|| hold_permission(request, (GROUP_GROUP, resource)))
}

/// The paths that a request changes and that only those who may `hold` can change. A finalizer
/// stands for a drain and for what is left at a provider.
fn held_paths(request: &AdmissionRequest<DynamicObject>, finalizer: &str) -> Vec<String> {
    let released = removes_finalizer(request, finalizer).then(|| "metadata.finalizers".to_owned());
    changed_marks(request, &HOLD_ANNOTATIONS).chain(released).collect()
}

fn review_group(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    let mut problems = bad_times(request, &GROUP_TIME_ANNOTATIONS);
    let mut warnings = Vec::new();
    let needs = needs_of_group(request);
    if needs.config {
        let group = match typed::<InstanceGroup>(request.object.as_ref()) {
            Ok(group) => group,
            Err(problem) => return invalid(request, &[problem]),
        };
        let old = typed::<InstanceGroup>(request.old_object.as_ref()).ok();
        problems.extend(new_problems(&group, old.as_ref(), check_group));
        match &answers.config {
            Some(Ok(config)) => {
                problems.extend(new_problems(&group, old.as_ref(), |group| ages(group, config)));
                warnings.extend(shortfall_warning(&group, config));
            }
            Some(Err(why)) => {
                let said = "its ages were not compared with those of the installation";
                warnings.push(format!("the configuration cannot be read, so {said}: {why}"));
            }
            None => return unasked(request, &["spec".to_owned()]),
        }
    }
    if needs.template.is_some() {
        let Some(found) = &answers.template else {
            return unasked(request, &["spec.template".to_owned()]);
        };
        problems.extend(found.iter().map(|problem| problem.clone().beneath("spec.template")));
        problems.dedup();
    }
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    if let Some(refused) = review_references(request, &needs.references, &answers.permitted) {
        return refused;
    }
    let held_paths = held_paths(request, GROUP_FINALIZER);
    let mut response = review_held(request, &held_paths, answers.hold.as_ref());
    response.warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
    response
}

/// What is wrong with the object and was not wrong with it before: one that is bad already can
/// still be changed elsewhere. Names are the schema's business.
fn new_problems<T>(new: &T, old: Option<&T>, check: impl Fn(&T) -> Vec<Problem>) -> Vec<Problem> {
    let before = old.map(&check).unwrap_or_default();
    let mut problems = check(new);
    problems.retain(|problem| !before.contains(problem) && problem.path != "metadata.name");
    problems
}

/// What is wrong with the ages that would be in force.
fn ages(group: &InstanceGroup, config: &GroupConfig) -> Vec<Problem> {
    let wanted = group_intent(group, config).ok();
    let words = wanted.and_then(|wanted| wanted.ages);
    words.map(|words| Problem::new("spec.expiry", words)).into_iter().collect()
}

/// What a group would not manage before its machines are forced, in words.
fn shortfall_warning(group: &InstanceGroup, config: &GroupConfig) -> Option<String> {
    let intent = group_intent(group, config).ok()?.intent;
    // Windows come back, so any time tells as much as another; this one is always the same.
    let created_at = group.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let short = shortfall(&intent, created_at.unwrap_or(Timestamp::UNIX_EPOCH))?;
    Some(format!("spec.expiry.forcedAge: {short}"))
}

fn review_machine(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let problems = bad_times(request, &MACHINE_TIME_ANNOTATIONS);
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
            let references = needs_of_machine(request).references;
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
    needs_of_machine(request).template?;
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

/// An expression: something of an InstanceGroup that we judge is not as it was.
fn group_is_judged() -> String {
    let mut all =
        expression::any_changes(HOLD_ANNOTATIONS.into_iter().chain(GROUP_TIME_ANNOTATIONS));
    all.push("oldObject == null || object.spec != oldObject.spec".to_owned());
    all.push(expression::removes_finalizer(GROUP_FINALIZER));
    all.join(" || ")
}

/// An expression: something of a Machine that we judge is not as it was.
fn machine_is_judged() -> String {
    let marks =
        HOLD_ANNOTATIONS.into_iter().chain(MACHINE_TIME_ANNOTATIONS).chain([DO_NOT_DISRUPT]);
    let mut all = expression::any_changes(marks);
    all.push("oldObject == null".to_owned());
    all.push(expression::sets("renewedUntil"));
    all.push(expression::removes_finalizer(MACHINE_FINALIZER));
    all.join(" || ")
}
