//! What is refused of collections and servers, where a schema cannot tell: what is in their Pods, and who asks.

pub(in crate::admission) mod collection_deletion;

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::DeserializeOwned;
use sojourn_api::game::convert::{check_collection, check_server};
use sojourn_api::game::name::{COLLECTION_FINALIZER, COLLECTIONS, DEV_ADDRESS, GROUP, SERVERS};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_api::name::VERSION;
use sojourn_api::name::shared::{OBSERVE, PAUSED};
use sojourn_api::problem::Problem;

use self::collection_deletion::{CollectionDeletionRule, FOREGROUND, may_have_servers};
use super::Setup;
use super::hook::Hook;
use super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::reference::{Reference, review_references, to_create_pods};
use super::refusal::{hold_permission, invalid, review_held};
use super::request::{changed_marks, gains_finalizer, part, removes_finalizer, typed};
use super::rule::{RegisteredRule, Rule};
use super::webhook::expression;

/// Annotations that take an object out of its owner's hands.
const HOLD_ANNOTATIONS: [&str; 2] = [PAUSED, OBSERVE];

pub(super) fn rules(_: &Setup) -> Vec<RegisteredRule> {
    vec![
        RegisteredRule::new(GameRule::<DedicatedGameServerCollection> {
            resource: (GROUP, COLLECTIONS),
            check: check_collection,
        }),
        RegisteredRule::new(GameRule::<DedicatedGameServer> {
            resource: (GROUP, SERVERS),
            check: check_server,
        }),
        RegisteredRule::new(CollectionDeletionRule),
    ]
}

/// The rule of one of the two kinds.
struct GameRule<K> {
    /// With its API group.
    resource: (&'static str, &'static str),
    check: fn(&K) -> Vec<Problem>,
}

/// What must be known before a request can be reviewed.
#[derive(Debug, Default)]
struct GameNeeds {
    hold: Option<Permission>,
    /// A Pod that is written out is made with our rights, and may name whatever a Pod may.
    references: Vec<Reference>,
}

#[derive(Debug, Default)]
struct GameAnswers {
    hold: Option<LookupResult<bool>>,
    permitted: Permissions,
}

impl<K> GameRule<K> {
    fn held_paths(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
        let servers_first = gains_finalizer(request, FOREGROUND)
            && request.resource.resource == COLLECTIONS
            && may_have_servers(request.old_object.as_ref());
        let released = servers_first || removes_finalizer(request, COLLECTION_FINALIZER);
        let released = released.then(|| "metadata.finalizers".to_owned());
        changed_marks(request, &HOLD_ANNOTATIONS).chain(released).collect()
    }

    fn references(request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
        let (new, old) = part(request, "/spec/template");
        let namespace = request.namespace.as_deref().unwrap_or_default();
        (new != old).then(|| to_create_pods("spec.template", namespace)).into_iter().collect()
    }
}

impl<K> Rule for GameRule<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    type Needs = GameNeeds;
    type Answers = GameAnswers;

    fn hook(&self) -> Hook {
        let mut changes =
            expression::any_changes(HOLD_ANNOTATIONS.into_iter().chain([DEV_ADDRESS]));
        changes.push("oldObject == null || object.spec != oldObject.spec".to_owned());
        changes.push(expression::removes_finalizer(COLLECTION_FINALIZER));
        changes.push(expression::gains(FOREGROUND));
        let (group, resource) = self.resource;
        Hook::writes((group, VERSION, resource), changes.join(" || "))
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> GameNeeds {
        let held = !Self::held_paths(request).is_empty();
        GameNeeds {
            hold: held.then(|| hold_permission(request, self.resource)),
            references: Self::references(request),
        }
    }

    async fn look_up(&self, needs: GameNeeds, lookup: Lookup<'_>) -> GameAnswers {
        let (hold, permitted) = tokio::join!(
            maybe(needs.hold.map(|permission| lookup.permitted(permission))),
            lookup.references_permitted(needs.references),
        );
        GameAnswers { hold, permitted }
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &GameAnswers,
    ) -> AdmissionResponse {
        let new = match typed::<K>(request.object.as_ref()) {
            Ok(new) => new,
            Err(problem) => return invalid(request, &[problem]),
        };
        // What was wrong before can be changed elsewhere. Names are the schema's business.
        let old = typed::<K>(request.old_object.as_ref()).ok();
        let before = old.map(|old| (self.check)(&old)).unwrap_or_default();
        let mut problems = (self.check)(&new);
        problems.retain(|problem| !before.contains(problem) && problem.path != "metadata.name");
        if !problems.is_empty() {
            return invalid(request, &problems);
        }
        let references = Self::references(request);
        if let Some(refused) = review_references(request, &references, &answers.permitted) {
            return refused;
        }
        review_held(request, &Self::held_paths(request), answers.hold.as_ref())
    }
}
