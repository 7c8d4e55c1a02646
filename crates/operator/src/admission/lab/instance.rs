//! Instances: marks that only some people may set, what binds an exam, and what is named.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;
use sojourn_api::lab::{Template, Tenant};
use sojourn_api::name::VERSION;
use sojourn_api::name::lab::{
    FINALIZER, LEND, NOTICE_WAIVE, REOPEN, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE,
    TO_REOPEN,
};
use sojourn_api::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::super::reference::{Reference, review_references, to_get};
use super::super::refusal::{
    causes, hold_permission, invalid, refuse, review_held, unasked, unknown,
};
use super::super::request::{
    bad_times, changed, changed_marks, gains_finalizer, part, path_of, removes_finalizer, sender,
    value,
};
use super::super::rule::Rule;
use super::super::webhook::expression;
use super::owed::is_owing;
use super::template::to_read_referents;
use super::tenant::{self, named_tenant, review_lending, to_lend};
use super::{INSTANCES, TEMPLATES};

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

/// What must be known before the change of an Instance can be reviewed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub(in crate::admission) hold: Option<Permission>,
    /// The Template that an Instance is to be made from.
    pub(in crate::admission) made_from: Option<Key>,
    /// The Tenant that an Instance is lent to.
    pub(in crate::admission) tenant: Option<String>,
    /// What the request names, and what the sender must therefore be allowed to do.
    pub(in crate::admission) references: Vec<Reference>,
}

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Answers {
    pub(in crate::admission) hold: Option<LookupResult<bool>>,
    pub(in crate::admission) made_from: Option<LookupResult<Option<Template>>>,
    pub(in crate::admission) tenant: Option<LookupResult<Option<Tenant>>>,
    /// Whether the sender may do what the references need.
    pub(in crate::admission) permitted: Permissions,
}

#[derive(Debug)]
pub(in crate::admission) struct InstanceRule;

impl Rule for InstanceRule {
    type Needs = Needs;
    type Answers = Answers;

    fn hook(&self) -> Hook {
        let (group, resource) = INSTANCES;
        Hook::writes((group, VERSION, resource), is_reviewed())
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Needs {
        needs(request)
    }

    async fn look_up(&self, needs: Needs, lookup: Lookup<'_>) -> Answers {
        let (hold, made_from, tenant) = tokio::join!(
            maybe(needs.hold.map(|permission| lookup.permitted(permission))),
            maybe(needs.made_from.map(|key| lookup.namespaced(key))),
            maybe(needs.tenant.map(|name| lookup.cluster_wide(name))),
        );
        let mut answers = Answers { hold, made_from, tenant, ..Answers::default() };
        // An Instance names something through its Template as well, which is known now.
        let by_template = named_by_template(lookup.request(), &answers);
        answers.permitted =
            lookup.references_permitted([needs.references, by_template].concat()).await;
        answers
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &Answers,
    ) -> AdmissionResponse {
        let problems = bad_times(request, &TIME_ANNOTATIONS);
        if !problems.is_empty() {
            return invalid(request, &problems);
        }
        review_lending(request, answers.tenant.as_ref(), &answers.permitted)
            .or_else(|| review_reopening(request, answers))
            .or_else(|| review_named(request, answers))
            .unwrap_or_else(|| review_held(request, &hold_paths(request), answers.hold.as_ref()))
    }
}

fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let hold = (!hold_paths(request).is_empty()).then(|| hold_permission(request, INSTANCES));
    let tenant_paths = tenant::visible_paths(request);
    let made_from = made_from(request);
    let mut references = Vec::new();
    if let Some(key) = &made_from {
        references.push(to_get("spec.template", TEMPLATES, &key.namespace, &key.name));
    }
    references.extend(submission_secret(request));
    references.extend(to_reopen(request));
    references.extend(tenant_paths.first().map(|path| to_lend(path, &named_tenant(request))));
    let tenant = (!tenant_paths.is_empty()).then(|| named_tenant(request));
    Needs { hold, made_from, tenant, references }
}

/// The Template of an Instance that was not made from it before.
fn made_from(request: &AdmissionRequest<DynamicObject>) -> Option<Key> {
    let (new, old) = part(request, "/spec/template");
    let template = new.filter(|new| Some(new) != old.as_ref())?;
    let text = |field: &str| template.get(field).and_then(Value::as_str).map(str::to_owned);
    let namespace = text("namespace").or_else(|| request.namespace.clone());
    Some(Key::new(namespace.unwrap_or_default(), text("name").unwrap_or_default()))
}

/// The Secret with the credentials of where data is handed in. Whoever changes anything about that says
/// whom it is shown to.
fn submission_secret(request: &AdmissionRequest<DynamicObject>) -> Option<Reference> {
    let (new, old) = part(request, "/spec/submission");
    let submission = new.filter(|new| Some(new) != old.as_ref())?;
    let name = submission.pointer("/secretRef/name").and_then(Value::as_str)?;
    let namespace = request.namespace.as_deref().unwrap_or_default();
    Some(to_get("spec.submission.secretRef.name", ("", "secrets"), namespace, name))
}

/// What an Instance's programs are given because its Template says so.
fn named_by_template(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Vec<Reference> {
    let Some(Ok(Some(template))) = &answers.made_from else { return Vec::new() };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    to_read_referents("spec.template", &template.spec.referents(), namespace)
}

/// What an Instance names, and what its Template names for it.
fn review_named(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> Option<AdmissionResponse> {
    let Needs { made_from, mut references, .. } = needs(request);
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
    let gains = |finalizer: &&str| gains_finalizer(request, finalizer);
    CHILDREN_FIRST_FINALIZERS.iter().any(gains) && is_owing(request.old_object.as_ref())
}

/// Whether the request changes what an exam was begun with.
fn loosens(request: &AdmissionRequest<DynamicObject>, name: &str) -> bool {
    let (new, old) = part(request, &format!("/spec/{name}"));
    old.is_some() && old != new
}

/// Who takes an end back that is on record must be allowed to; taking the mark away takes nothing back.
fn to_reopen(request: &AdmissionRequest<DynamicObject>) -> Option<Reference> {
    let named = !value(request.object.as_ref(), REOPEN).is_empty();
    let permission = Permission { verb: TO_REOPEN, ..hold_permission(request, INSTANCES) };
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

/// An expression: something of an Instance that we review is not as it was.
fn is_reviewed() -> String {
    let mut all = expression::any_changes(HOLD_ANNOTATIONS.into_iter().chain(TIME_ANNOTATIONS));
    all.push(expression::removes_finalizer(FINALIZER));
    all.extend(CHILDREN_FIRST_FINALIZERS.map(expression::gains));
    all.extend(BINDING_FIELDS.map(expression::loosens));
    all.extend(NAMING_FIELDS.map(expression::sets));
    all.push(expression::loosens(PRETTY_NAME));
    all.join(" || ")
}
