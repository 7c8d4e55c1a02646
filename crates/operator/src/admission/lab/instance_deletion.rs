//! The deletion of an Instance in a way that leaves nothing to be handed in.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::name::VERSION;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, maybe};
use super::super::refusal::hold_permission;
use super::super::request::propagation_policy;
use super::super::rule::Rule;
use super::INSTANCES;
use super::owed::{is_owing, review_owed};

#[derive(Debug)]
pub(in crate::admission) struct InstanceDeletionRule;

impl Rule for InstanceDeletionRule {
    /// Whether the sender has the verb `hold` there.
    type Needs = Option<Permission>;
    type Answers = Option<LookupResult<bool>>;

    fn hook(&self) -> Hook {
        let (group, resource) = INSTANCES;
        Hook {
            name: "deletion",
            operations: &["DELETE"],
            ..Hook::writes((group, VERSION, resource), is_reviewed())
        }
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Option<Permission> {
        let owed = !children_first_deletion(request).is_empty();
        owed.then(|| hold_permission(request, INSTANCES))
    }

    async fn look_up(
        &self,
        hold: Option<Permission>,
        lookup: Lookup<'_>,
    ) -> Option<LookupResult<bool>> {
        maybe(hold.map(|permission| lookup.permitted(permission))).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        hold: &Option<LookupResult<bool>>,
    ) -> AdmissionResponse {
        review_owed(request, &children_first_deletion(request), hold.as_ref(), || {
            "its data is not handed in yet; delete it in the background, which waits for that"
                .to_owned()
        })
    }
}

/// An Instance is deleted with its parts first, or without them, although its data is owed: then there
/// is nothing left to be handed in, or nobody can tell whose it is.
fn children_first_deletion(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let children_first = matches!(propagation_policy(request), Some("Foreground" | "Orphan"));
    let owed = children_first && is_owing(request.old_object.as_ref());
    owed.then(|| "propagationPolicy".to_owned()).into_iter().collect()
}

/// An expression: an Instance is deleted in a way that leaves nothing to be handed in. What is owed stays
/// so when the destination is taken away.
fn is_reviewed() -> String {
    "(has(oldObject.spec.submission) \
     || has(oldObject.status) && has(oldObject.status.submission)) && (has(request.options.propagationPolicy) \
     && request.options.propagationPolicy in ['Foreground', 'Orphan'] \
     || has(request.options.orphanDependents) && request.options.orphanDependents)"
        .to_owned()
}
