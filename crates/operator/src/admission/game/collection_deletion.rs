//! The deletion of a collection that takes its servers away before it, whoever plays on them.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::name::{COLLECTIONS, GROUP};
use sojourn_api::name::VERSION;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, maybe};
use super::super::refusal::{hold_permission, review_held_because};
use super::super::request::{propagation_policy, typed};
use super::super::rule::Rule;

/// The finalizer by which an object's dependents are deleted before it.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Debug)]
pub(in crate::admission) struct CollectionDeletionRule;

impl Rule for CollectionDeletionRule {
    /// Whether the sender has the verb `hold` there.
    type Needs = Option<Permission>;
    type Answers = Option<LookupResult<bool>>;

    fn hook(&self) -> Hook {
        let expression = "has(request.options.propagationPolicy) \
                          && request.options.propagationPolicy == 'Foreground'";
        Hook {
            name: "collection-deletion",
            operations: &["DELETE"],
            ..Hook::writes((GROUP, VERSION, COLLECTIONS), expression.to_owned())
        }
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Option<Permission> {
        let held = !servers_first_deletion(request).is_empty();
        held.then(|| hold_permission(request, (GROUP, COLLECTIONS)))
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
        let paths = servers_first_deletion(request);
        review_held_because(request, &paths, COLLECTIONS, hold.as_ref(), || {
            "its servers would go at once, whoever plays on them; delete it in the background, \
             which waits for players"
                .to_owned()
        })
    }
}

/// A collection is deleted with its servers first, and has some.
fn servers_first_deletion(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let first = propagation_policy(request) == Some("Foreground");
    let ends_servers = first && may_have_servers(request.old_object.as_ref());
    ends_servers.then(|| "propagationPolicy".to_owned()).into_iter().collect()
}

/// Whether a collection has servers, or is to have some. One that cannot be read may have them.
pub(super) fn may_have_servers(collection: Option<&DynamicObject>) -> bool {
    typed::<DedicatedGameServerCollection>(collection).map_or(true, |collection| {
        let counted = collection.status.map_or(0, |status| status.replicas);
        collection.spec.replicas > 0 || counted > 0
    })
}
