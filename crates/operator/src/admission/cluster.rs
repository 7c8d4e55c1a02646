//! What is refused of clusters, where a schema cannot tell: what cannot be changed, who names Secrets and Pods, what
//! no program takes, and who asks.
//!
//! A power state is written by whoever may write the cluster: what its machines are was asked about when it was
//! written, once.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::convert::{check_change, check_cluster, named_secrets};
use sojourn_api::cluster::name::{DEPLOYMENTS, FINALIZER, GROUP};
use sojourn_api::name::VERSION;
use sojourn_api::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};
use sojourn_api::problem::Problem;

use super::Setup;
use super::hook::Hook;
use super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::reference::{Reference, review_references, to_create_pods, to_delete_pods, to_get};
use super::refusal::{hold_permission, invalid, review_held};
use super::request::{changed_marks, removes_finalizer, typed};
use super::rule::{RegisteredRule, Rule};
use super::webhook::expression;
use crate::cluster::actuators::Actuators;
use crate::cluster::platform_of;

/// Annotations that take a cluster out of its owner's hands. Those that pause its power state alone are its owner's.
const HOLD_ANNOTATIONS: [&str; 2] = [PAUSED, OBSERVE];
const POD_PATH: &str = "spec.platform.pod";
const EXEC_PATH: &str = "spec.platform.exec";

pub(super) fn rules(setup: &Setup) -> Vec<RegisteredRule> {
    vec![RegisteredRule::new(ClusterRule { actuators: setup.actuators.clone() })]
}

#[derive(Debug, Default)]
pub(in crate::admission) struct ClusterRule {
    pub(in crate::admission) actuators: Actuators,
}

/// What must be known before a request can be reviewed.
#[derive(Debug, Default)]
pub(in crate::admission) struct ClusterNeeds {
    pub(in crate::admission) hold: Option<Permission>,
    pub(in crate::admission) references: Vec<Reference>,
}

#[derive(Debug, Default)]
pub(in crate::admission) struct ClusterAnswers {
    pub(in crate::admission) hold: Option<LookupResult<bool>>,
    pub(in crate::admission) permitted: Permissions,
}

/// A cluster, as it becomes and as it was. One that cannot be read was none.
fn versions(
    request: &AdmissionRequest<DynamicObject>,
) -> Result<(ClusterDeployment, Option<ClusterDeployment>), Problem> {
    let new = typed(request.object.as_ref())?;
    Ok((new, typed(request.old_object.as_ref()).ok()))
}

/// The finalizer stands for copies of machines that only we have.
fn held_paths(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let released = removes_finalizer(request, FINALIZER).then(|| "metadata.finalizers".to_owned());
    changed_marks(request, &HOLD_ANNOTATIONS).chain(released).collect()
}

/// What is named that was not. Secrets are read with our rights, and Pods that are machines are deleted and made
/// again with them.
fn references(
    request: &AdmissionRequest<DynamicObject>,
    new: &ClusterDeployment,
    old: Option<&ClusterDeployment>,
) -> Vec<Reference> {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let before = old.map(|old| named_secrets(&old.spec)).unwrap_or_default();
    let named = named_secrets(&new.spec).into_iter().filter(|named| !before.contains(named));
    let mut all: Vec<_> =
        named.map(|(path, name)| to_get(path, ("", "secrets"), namespace, name)).collect();
    let machines = |cluster: &ClusterDeployment| {
        cluster.spec.platform.pod.as_ref().map(|_| cluster.spec.infra_id.clone())
    };
    let pods = machines(new);
    if pods.is_some() && pods != old.and_then(machines) {
        all.push(to_create_pods(POD_PATH, namespace));
        all.push(to_delete_pods(POD_PATH, namespace));
    }
    all
}

/// What is wrong with a cluster now. What was wrong before can be changed elsewhere, and names are the schema's
/// business.
fn problems(new: &ClusterDeployment, old: Option<&ClusterDeployment>) -> Vec<Problem> {
    let before = old.map(check_cluster).unwrap_or_default();
    let mut problems = check_cluster(new);
    problems.retain(|problem| !before.contains(problem));
    problems.extend(old.map(|old| check_change(old, new)).unwrap_or_default());
    problems
}

/// What the program that a new cluster names says of it. A program may be another later, and what its cluster is
/// cannot be changed, so nobody is kept from changing the rest.
fn program_problems(
    actuators: &Actuators,
    new: &ClusterDeployment,
    old: Option<&DynamicObject>,
) -> Vec<Problem> {
    if old.is_some() || new.spec.platform.exec.is_none() {
        return Vec::new();
    }
    let problems = actuators.check(&platform_of(&new.spec.platform)).into_iter();
    let problem = |words: String| match words.split_once(": ") {
        Some((path, message)) => Problem::new(path, message),
        None => Problem::new("", words),
    };
    problems.map(|words| problem(words).beneath(EXEC_PATH)).collect()
}

impl Rule for ClusterRule {
    type Needs = ClusterNeeds;
    type Answers = ClusterAnswers;

    fn hook(&self) -> Hook {
        let marks = HOLD_ANNOTATIONS.into_iter().chain([KEEP_UNTIL]);
        let mut changes = expression::any_changes(marks);
        changes.push("oldObject == null || object.spec != oldObject.spec".to_owned());
        changes.push(expression::removes_finalizer(FINALIZER));
        Hook::writes((GROUP, VERSION, DEPLOYMENTS), changes.join(" || "))
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> ClusterNeeds {
        let held = !held_paths(request).is_empty();
        let versions = versions(request);
        ClusterNeeds {
            hold: held.then(|| hold_permission(request, (GROUP, DEPLOYMENTS))),
            references: versions
                .map(|(new, old)| references(request, &new, old.as_ref()))
                .unwrap_or_default(),
        }
    }

    async fn look_up(&self, needs: ClusterNeeds, lookup: Lookup<'_>) -> ClusterAnswers {
        let (hold, permitted) = tokio::join!(
            maybe(needs.hold.map(|permission| lookup.permitted(permission))),
            lookup.references_permitted(needs.references),
        );
        ClusterAnswers { hold, permitted }
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &ClusterAnswers,
    ) -> AdmissionResponse {
        let (new, old) = match versions(request) {
            Ok(versions) => versions,
            Err(problem) => return invalid(request, &[problem]),
        };
        let problems = problems(&new, old.as_ref());
        if !problems.is_empty() {
            return invalid(request, &problems);
        }
        let references = references(request, &new, old.as_ref());
        if let Some(refused) = review_references(request, &references, &answers.permitted) {
            return refused;
        }
        let problems = program_problems(&self.actuators, &new, request.old_object.as_ref());
        if !problems.is_empty() {
            return invalid(request, &problems);
        }
        review_held(request, &held_paths(request), answers.hold.as_ref())
    }
}
