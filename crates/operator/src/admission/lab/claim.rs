//! Claims whose data is not handed in yet.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use sojourn_api::name::lab::{CLAIM_FINALIZER, INSTANCE};

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, maybe};
use super::super::refusal::hold_permission;
use super::super::request::removes_finalizer;
use super::super::rule::Rule;
use super::super::webhook::expression;
use super::INSTANCES;
use super::owed::review_owed;

const CLAIMS: &str = "persistentvolumeclaims";

#[derive(Debug)]
pub(in crate::admission) struct ClaimRule;

impl Rule for ClaimRule {
    /// Whether the sender has the verb `hold` on the Instance.
    type Needs = Option<Permission>;
    type Answers = Option<LookupResult<bool>>;

    fn hook(&self) -> Hook {
        Hook {
            name: "claims",
            operations: &["DELETE", "UPDATE"],
            ..Hook::writes(("", "v1", CLAIMS), expression::loses(CLAIM_FINALIZER))
        }
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Option<Permission> {
        let owed = !removes_claim_finalizer(request).is_empty();
        owed.then(|| to_hold_instance_of(request))
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
        review_owed(request, &removes_claim_finalizer(request), hold.as_ref(), || {
            "its data is not handed in yet".to_owned()
        })
    }
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
    Permission { name, ..hold_permission(request, INSTANCES) }
}
