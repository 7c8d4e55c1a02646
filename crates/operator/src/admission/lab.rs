//! Instances and Templates: marks that only some people may set, what binds an exam, and what is named.

use futures::future::BoxFuture;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use serde_json::Value;
use sojourn_api::lab::convert::{alerts, needs_submission};
use sojourn_api::lab::{Instance, Template, Tenant};
use sojourn_api::name::lab::{
    CLAIM_FINALIZER, CUSTOM_ALERTS, FINALIZER, INSTANCE, LEND, NOTICE_WAIVE, REOPEN,
    SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE, TO_REOPEN,
};
use sojourn_api::name::shared::{HOLD, KEEP_UNTIL, NAMESPACE, OBSERVE, PAUSED};
use sojourn_api::name::{LAB_GROUP, VERSION};
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::hook::Hook;
use super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::reference::{Reference, review_references, to_get, to_read};
use super::rule::{
    Rules, about, bad_times, causes, changed, changed_marks, hold_permission, invalid, name, part,
    path_of, refuse, removes_finalizer, removes_finalizer_from, review_held, sender, typed,
    unasked, unknown, value,
};
use super::webhook::expression;

const INSTANCES: &str = "instances";
const TEMPLATES: &str = "templates";
const TENANTS: &str = "tenants";
const CLAIMS: &str = "persistentvolumeclaims";
const NAMESPACES: &str = "namespaces";

/// Finalizers by which an Instance's parts are deleted, or lose their owner, before it is gone.
const CHILDREN_FIRST_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Annotations of an Instance that take it out of its owner's hands.
const HOLD_ANNOTATIONS: [&str; 4] = [PAUSED, OBSERVE, SUBMISSION_WAIVE, NOTICE_WAIVE];
/// Annotations of an Instance that are times.
const TIME_ANNOTATIONS: [&str; 6] =
    [KEEP_UNTIL, REOPEN, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE, NOTICE_WAIVE];

/// Parts of an Instance's spec that bind its owner once they are there.
const BINDING_FIELDS: [&str; 2] = ["statusCheck", "submission"];

const PRETTY_NAME: &str = "prettyName";
/// Parts of an Instance's spec that name something, or that the Tenant reads in mails.
const NAMING_FIELDS: [&str; 4] = ["template", "tenant", "submission", PRETTY_NAME];

/// What must be known before a request can be judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub(super) hold: Option<Permission>,
    /// The Template that an Instance is to be made from.
    pub(super) made_from: Option<Key>,
    /// The Tenant that an Instance is lent to.
    pub(super) tenant: Option<String>,
    /// The namespace of which it must be known whose data is not handed in yet.
    pub(super) owing: Option<String>,
    /// What the request names, and what the sender must therefore be allowed to do.
    pub(super) references: Vec<Reference>,
}

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answers {
    pub(super) hold: Option<LookupResult<bool>>,
    pub(super) made_from: Option<LookupResult<Option<Template>>>,
    pub(super) tenant: Option<LookupResult<Option<Tenant>>>,
    /// The Instances whose data is not handed in yet.
    pub(super) owing: Option<LookupResult<Vec<String>>>,
    /// Whether the sender may do what the references need.
    pub(super) permitted: Permissions,
}

#[derive(Debug)]
pub(super) struct LabRules;

impl Rules for LabRules {
    fn hooks(&self) -> Vec<Hook> {
        let instances = (LAB_GROUP, VERSION, INSTANCES);
        vec![
            Hook::writes(instances, instance_is_judged()),
            Hook::writes((LAB_GROUP, VERSION, TEMPLATES), template_is_judged()),
            Hook {
                name: "deletion",
                operations: &["DELETE"],
                ..Hook::writes(instances, deletion_is_judged())
            },
            Hook {
                name: "claims",
                operations: &["DELETE", "UPDATE"],
                ..Hook::writes(("", "v1", CLAIMS), claim_is_judged())
            },
            Hook {
                operations: &["DELETE"],
                scope: "Cluster",
                // Every namespace of the cluster is asked about. What is owed stays safe without us, as its
                // finalizers hold it; that no namespace could be deleted would be worse.
                ignores_failures: true,
                ..Hook::writes(("", "v1", NAMESPACES), namespace_is_judged())
            },
        ]
    }

    fn judge<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>> {
        RequestKind::of(request)?;
        Some(Box::pin(async move { judge(request, &find_out(request, lookup).await) }))
    }
}

/// What a request is about, if it is any of the family's business.
#[derive(Debug, Clone, Copy)]
enum RequestKind {
    Instance,
    InstanceDeletion,
    Claim,
    NamespaceDeletion,
    Template,
}

impl RequestKind {
    fn of(request: &AdmissionRequest<DynamicObject>) -> Option<Self> {
        Some(match (&request.operation, about(request)?) {
            (Operation::Delete, (LAB_GROUP, INSTANCES)) => Self::InstanceDeletion,
            (Operation::Delete, ("", NAMESPACES)) => Self::NamespaceDeletion,
            (Operation::Delete | Operation::Update, ("", CLAIMS)) => Self::Claim,
            (Operation::Create | Operation::Update, (LAB_GROUP, INSTANCES)) => Self::Instance,
            (Operation::Create | Operation::Update, (LAB_GROUP, TEMPLATES)) => Self::Template,
            _ => return None,
        })
    }
}

/// What must be found out before [`judge`] can tell.
pub(super) fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    match RequestKind::of(request) {
        Some(RequestKind::Instance) => needs_of_instance(request),
        Some(RequestKind::InstanceDeletion) => needs_of_deletion(request),
        Some(RequestKind::Claim) => needs_of_claim(request),
        Some(RequestKind::NamespaceDeletion) => needs_of_namespace(request),
        Some(RequestKind::Template) => needs_of_template(request),
        None => Needs::default(),
    }
}

async fn find_out(request: &AdmissionRequest<DynamicObject>, lookup: Lookup<'_>) -> Answers {
    let needs = needs(request);
    let owing = |namespace| async move {
        let all: Vec<Instance> = lookup.all_in(namespace).await?;
        let owing = all.iter().filter(|instance| needs_submission(instance));
        Ok(owing.map(ResourceExt::name_any).collect())
    };
    let (hold, made_from, tenant, owing) = tokio::join!(
        maybe(needs.hold.map(|permission| lookup.permitted(permission))),
        maybe(needs.made_from.map(|key| lookup.namespaced(key))),
        maybe(needs.tenant.map(|name| lookup.cluster_wide(name))),
        maybe(needs.owing.map(owing)),
    );
    let mut answers = Answers { hold, made_from, tenant, owing, ..Answers::default() };
    // An Instance names something through its Template as well, which is known now.
    let references = [needs.references, named_by_template(request, &answers)].concat();
    let permissions = references.into_iter().map(|reference| reference.permission);
    answers.permitted = lookup.all_permitted(permissions).await;
    answers
}

/// Whether the request may go on.
pub(super) fn judge(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    match RequestKind::of(request) {
        Some(RequestKind::Instance) => review_instance(request, answers),
        Some(RequestKind::InstanceDeletion) => review_deletion(request, answers),
        Some(RequestKind::Claim) => review_claim(request, answers),
        Some(RequestKind::NamespaceDeletion) => review_namespace(request, answers),
        Some(RequestKind::Template) => review_template(request, answers),
        None => AdmissionResponse::from(request),
    }
}

/// What must be known of an Instance's change.
fn needs_of_instance(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let hold =
        (!hold_paths(request).is_empty()).then(|| hold_permission(request, (LAB_GROUP, INSTANCES)));
    let tenant_paths = tenant_visible_paths(request);
    let made_from = made_from(request);
    let mut references = Vec::new();
    if let Some(key) = &made_from {
        let template = (LAB_GROUP, TEMPLATES);
        references.push(to_get("spec.template", template, &key.namespace, &key.name));
    }
    references.extend(submission_secret(request));
    references.extend(to_reopen(request));
    references.extend(tenant_paths.first().map(|path| to_lend(path, &tenant(request))));
    let tenant = (!tenant_paths.is_empty()).then(|| tenant(request));
    Needs { hold, made_from, tenant, references, ..Needs::default() }
}

/// The Template of an Instance that was not made from it before.
fn made_from(request: &AdmissionRequest<DynamicObject>) -> Option<Key> {
    let (new, old) = part(request, "/spec/template");
    let template = new.filter(|new| Some(new) != old.as_ref())?;
    let text = |field: &str| template.get(field).and_then(Value::as_str).map(str::to_owned);
    let namespace = text("namespace").or_else(|| request.namespace.clone());
    Some(Key::new(namespace.unwrap_or_default(), text("name").unwrap_or_default()))
}

/// The Secret that opens the door to where data is handed in. Whoever changes anything about that says
/// whom it is shown to.
fn submission_secret(request: &AdmissionRequest<DynamicObject>) -> Option<Reference> {
    let (new, old) = part(request, "/spec/submission");
    let submission = new.filter(|new| Some(new) != old.as_ref())?;
    let name = submission.pointer("/secretRef/name").and_then(Value::as_str)?;
    let namespace = request.namespace.as_deref().unwrap_or_default();
    Some(to_get("spec.submission.secretRef.name", ("", "secrets"), namespace, name))
}

/// The paths whose change speaks to the Tenant, in mails that are ours.
fn tenant_visible_paths(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let changes = |path: &str| {
        let (new, old) = part(request, &format!("/spec/{path}"));
        let text = |value: Option<Value>| value.unwrap_or_else(|| Value::from(""));
        text(new) != text(old)
    };
    let paths = [("tenant/name", "spec.tenant.name"), ("prettyName", "spec.prettyName")];
    let changed = paths.into_iter().filter(|(path, _)| changes(path));
    changed.map(|(_, field)| field.to_owned()).collect()
}

fn tenant(request: &AdmissionRequest<DynamicObject>) -> String {
    let (tenant, _) = part(request, "/spec/tenant/name");
    tenant.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn to_lend(path: &str, tenant: &str) -> Reference {
    let permission = Permission {
        verb: LEND,
        group: LAB_GROUP,
        resource: TENANTS,
        subresource: None,
        namespace: String::new(),
        name: Some(tenant.to_owned()),
    };
    Reference { path: path.to_owned(), permission }
}

/// What an Instance's programs are given because its Template says so.
fn named_by_template(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Vec<Reference> {
    let Some(Ok(Some(template))) = &answers.made_from else { return Vec::new() };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    to_read("spec.template", &template.spec.referents(), namespace)
}

fn review_instance(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let problems = bad_times(request, &TIME_ANNOTATIONS);
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    review_tenant(request, answers)
        .or_else(|| review_reopening(request, answers))
        .or_else(|| review_named(request, answers))
        .unwrap_or_else(|| review_held(request, &hold_paths(request), answers.hold.as_ref()))
}

/// Whoever lends something to somebody, or names it, is that very person or may `lend` to them.
fn review_tenant(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Option<AdmissionResponse> {
    let paths = tenant_visible_paths(request);
    let tenant = tenant(request);
    let permission = to_lend(paths.first()?, &tenant).permission;
    let (Some(person), Some(may)) = (&answers.tenant, answers.permitted.get(&permission)) else {
        return Some(unasked(request, &paths));
    };
    let user = sender(request);
    let own = |found: &Tenant| {
        request.user_info.username.as_deref().is_some_and(|name| found.spec.is_user(name))
    };
    match (person, may) {
        (_, Ok(true)) => None,
        (Ok(Some(person)), _) if own(person) => None,
        (_, Err(why)) => {
            let what = format!("whether the sender has {permission}");
            Some(unknown(request, &paths, &what, why))
        }
        (Err(why), Ok(false)) => {
            let what = format!("whether the Tenant {tenant} is the sender");
            Some(unknown(request, &paths, &what, why))
        }
        (Ok(_), Ok(false)) => {
            let message = format!(
                "{user} is not the `spec.user` of the Tenant {tenant}, who is told about it by mail, and needs {permission} to set this"
            );
            Some(refuse(request, 403, "Forbidden", &causes(&paths, &message)))
        }
    }
}

/// What an Instance names, and what its Template names for it.
fn review_named(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Option<AdmissionResponse> {
    let Needs { made_from, mut references, .. } = needs_of_instance(request);
    references.retain(|reference| ![LEND, TO_REOPEN].contains(&reference.permission.verb));
    // What a Template says is told to those who may read it.
    let refused = review_references(request, &references, &answers.permitted);
    if refused.is_some() {
        return refused;
    }
    let key = made_from?;
    let paths = ["spec.template".to_owned()];
    let template = match &answers.made_from {
        Some(Ok(template)) => template.as_ref()?,
        Some(Err(why)) => {
            let what = format!("what the Template {key} names");
            return Some(unknown(request, &paths, &what, why));
        }
        None => return Some(unasked(request, &paths)),
    };
    let elsewhere = request.namespace.as_deref() != Some(&*key.namespace);
    if elsewhere && !template.spec.referents().is_empty() {
        let message = format!(
            "must be the Instance's own: the Template {key} names Secrets or ConfigMaps, and those are read for Instances of its own namespace only; copy it to here"
        );
        return Some(invalid(request, &[Problem::new("spec.template.namespace", message)]));
    }
    review_references(request, &named_by_template(request, answers), &answers.permitted)
}

/// The paths that a request changes and that only those who may `hold` can change.
fn hold_paths(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let frees = removes_owed_finalizer(request) || deletes_children_first(request);
    let released = frees.then(|| "metadata.finalizers".to_owned());
    let bound = BINDING_FIELDS.into_iter().filter(|part| loosens(request, part));
    let bound = bound.map(|part| format!("spec.{part}"));
    changed_marks(request, &HOLD_ANNOTATIONS).chain(released).chain(bound).collect()
}

/// Whether the request takes away what keeps an Instance until its data is handed in.
fn removes_owed_finalizer(request: &AdmissionRequest<DynamicObject>) -> bool {
    let (_, submission) = part(request, "/spec/submission");
    submission.as_ref().is_some_and(Value::is_object) && removes_finalizer(request, FINALIZER)
}

/// Whether the request has the parts of an Instance deleted before it, although its data is owed.
fn deletes_children_first(request: &AdmissionRequest<DynamicObject>) -> bool {
    let gains =
        |finalizer: &&str| removes_finalizer_from(&request.object, &request.old_object, finalizer);
    CHILDREN_FIRST_FINALIZERS.iter().any(gains) && is_owing(request.old_object.as_ref())
}

/// Whether the data of an Instance still has to be handed in. One that cannot be read may owe.
fn is_owing(instance: Option<&DynamicObject>) -> bool {
    typed::<Instance>(instance).map_or(true, |instance| needs_submission(&instance))
}

/// Who takes an end back that is on record must be allowed to; taking the mark away takes nothing back.
fn to_reopen(request: &AdmissionRequest<DynamicObject>) -> Option<Reference> {
    let named = !value(request.object.as_ref(), REOPEN).is_empty();
    let permission =
        Permission { verb: TO_REOPEN, ..hold_permission(request, (LAB_GROUP, INSTANCES)) };
    (named && changed(request, REOPEN)).then(|| Reference { path: path_of(REOPEN), permission })
}

fn review_reopening(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Option<AdmissionResponse> {
    let Reference { path, permission } = to_reopen(request)?;
    let paths = [path];
    let user = sender(request);
    match answers.permitted.get(&permission) {
        Some(Ok(true)) => None,
        Some(Ok(false)) => {
            let message = format!("{user} needs {permission}: it has ended");
            Some(refuse(request, 403, "Forbidden", &causes(&paths, &message)))
        }
        Some(Err(why)) => {
            let what = format!("whether the sender has {permission}");
            Some(unknown(request, &paths, &what, why))
        }
        None => Some(unasked(request, &paths)),
    }
}

/// An Instance is deleted with its parts first, or without them, although its data is owed: then there
/// is nothing left to be handed in, or nobody can tell whose it is.
fn children_first_deletion(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let option = |name: &str| request.options.as_ref().and_then(|options| options.0.get(name));
    let policy = option("propagationPolicy").and_then(Value::as_str);
    let orphans = option("orphanDependents").and_then(Value::as_bool) == Some(true);
    let children_first = orphans || matches!(policy, Some("Foreground" | "Orphan"));
    let owed = children_first && is_owing(request.old_object.as_ref());
    owed.then(|| "propagationPolicy".to_owned()).into_iter().collect()
}

fn needs_of_deletion(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let owed = !children_first_deletion(request).is_empty();
    let hold = owed.then(|| hold_permission(request, (LAB_GROUP, INSTANCES)));
    Needs { hold, ..Needs::default() }
}

fn review_deletion(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    review_owed(request, &children_first_deletion(request), answers.hold.as_ref(), || {
        "its data is not handed in yet; delete it in the background, which waits for that"
            .to_owned()
    })
}

/// A claim whose data is owed is deleted, or freed for that.
fn removes_claim_finalizer(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let old = request.old_object.as_ref();
    let finalizers = old.and_then(|old| old.metadata.finalizers.as_deref()).unwrap_or_default();
    let deleted = request.operation == Operation::Delete
        && finalizers.iter().any(|one| one == CLAIM_FINALIZER);
    let freed = deleted || removes_finalizer(request, CLAIM_FINALIZER);
    freed.then(|| "metadata.finalizers".to_owned()).into_iter().collect()
}

/// Who may hold the Instance that a claim is of.
fn to_hold_instance_of(request: &AdmissionRequest<DynamicObject>) -> Permission {
    let labels = request.old_object.as_ref().and_then(|old| old.metadata.labels.as_ref());
    let name = labels.and_then(|labels| labels.get(INSTANCE)).cloned();
    Permission { name, ..hold_permission(request, (LAB_GROUP, INSTANCES)) }
}

fn needs_of_claim(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let owed = !removes_claim_finalizer(request).is_empty();
    Needs { hold: owed.then(|| to_hold_instance_of(request)), ..Needs::default() }
}

fn review_claim(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    review_owed(request, &removes_claim_finalizer(request), answers.hold.as_ref(), || {
        "its data is not handed in yet".to_owned()
    })
}

/// In a namespace that is being deleted no Job starts, so nothing is handed in there any more.
fn needs_of_namespace(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let permission = Permission {
        namespace: name(request).to_owned(),
        name: None,
        ..hold_permission(request, (LAB_GROUP, INSTANCES))
    };
    Needs { hold: Some(permission), owing: Some(name(request).to_owned()), ..Needs::default() }
}

fn review_namespace(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let paths = ["metadata.name".to_owned()];
    let owing = match &answers.owing {
        Some(Ok(owing)) => owing,
        Some(Err(why)) => {
            let what = "whether anything in it is to be handed in";
            return unknown(request, &paths, what, why);
        }
        None => return unasked(request, &paths),
    };
    let paths = if owing.is_empty() { &[][..] } else { &paths[..] };
    review_owed(request, paths, answers.hold.as_ref(), || {
        let (shown, more) = owing.split_at(owing.len().min(MAX_SHOWN_INSTANCES));
        let more =
            if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let shown = shown.join(", ");
        format!(
            "the data of these Instances is not handed in yet: {shown}{more}; delete them first"
        )
    })
}

/// So many names are shown in a refusal.
const MAX_SHOWN_INSTANCES: usize = 8;

/// What takes owed data away needs `hold`.
fn review_owed(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
    hold: Option<&LookupResult<bool>>,
    why: impl FnOnce() -> String,
) -> AdmissionResponse {
    match hold {
        Some(Ok(false)) if !paths.is_empty() => {
            let user = sender(request);
            let message =
                format!("{user} needs the verb `{HOLD}` on {INSTANCES} to do this: {}", why());
            refuse(request, 403, "Forbidden", &causes(paths, &message))
        }
        _ => review_held(request, paths, hold),
    }
}

/// Whether the request changes what an exam was begun with.
fn loosens(request: &AdmissionRequest<DynamicObject>, name: &str) -> bool {
    let (new, old) = part(request, &format!("/spec/{name}"));
    old.is_some() && old != new
}

/// What a Template's change needs: whoever writes a program decides what becomes of what it is given.
fn needs_of_template(request: &AdmissionRequest<DynamicObject>) -> Needs {
    Needs { references: given(request), ..Needs::default() }
}

fn given(request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
    let Ok(template) = typed::<Template>(request.object.as_ref()) else { return Vec::new() };
    let old = typed::<Template>(request.old_object.as_ref()).ok();
    let referents = template.spec.referents_since(old.as_ref().map(|old| &old.spec));
    let namespace = request.namespace.as_deref().unwrap_or_default();
    to_read("spec.environmentList", &referents, namespace)
}

fn review_template(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    if let Err(problem) = typed::<Template>(request.object.as_ref()) {
        return invalid(request, &[problem]);
    }
    if let Some(refused) = review_references(request, &given(request), &answers.permitted) {
        return refused;
    }
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

/// An expression: something of an Instance that we judge is not as it was.
fn instance_is_judged() -> String {
    let mut all = expression::any_changes(HOLD_ANNOTATIONS.into_iter().chain(TIME_ANNOTATIONS));
    all.push(expression::removes_finalizer(FINALIZER));
    all.extend(CHILDREN_FIRST_FINALIZERS.map(expression::gains));
    all.extend(BINDING_FIELDS.map(expression::loosens));
    all.extend(NAMING_FIELDS.map(expression::sets));
    all.push(expression::loosens(PRETTY_NAME));
    all.join(" || ")
}

/// An expression: an Instance is deleted in a way that leaves nothing to be handed in.
fn deletion_is_judged() -> String {
    "has(oldObject.spec.submission) && (has(request.options.propagationPolicy) \
     && request.options.propagationPolicy in ['Foreground', 'Orphan'] \
     || has(request.options.orphanDependents) && request.options.orphanDependents)"
        .to_owned()
}

/// An expression: a claim whose data is owed is deleted, or freed for that.
fn claim_is_judged() -> String {
    expression::loses(CLAIM_FINALIZER)
}

/// An expression: it is not our own namespace, in which nothing is lent.
fn namespace_is_judged() -> String {
    format!("request.name != '{NAMESPACE}'")
}

/// An expression: something of a Template that we judge is not as it was.
fn template_is_judged() -> String {
    let mut all = expression::any_changes([CUSTOM_ALERTS]);
    all.push(expression::sets("environmentList"));
    all.join(" || ")
}
