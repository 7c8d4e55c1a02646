//! The Pods of machines: in a namespace that is being deleted, whoever deletes everything there deletes
//! Pods, too, and a Pod that is deleted ends. One whose machine is still drained is not deleted yet; it
//! is tried again, and the controllers delete it themselves once its drain is over.
//!
//! In every other namespace a Pod can be deleted by whoever may.

use k8s_openapi::api::core::v1::Namespace;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::group::Machine;
use sojourn_api::group::status::Phase;
use sojourn_api::install;
use sojourn_api::name::group::MACHINE;
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, maybe};
use super::super::refusal::{refuse, unasked, unknown};
use super::super::request::sender;
use super::super::rule::Rule;

const PODS: &str = "pods";
const PATH: &str = "metadata.namespace";

/// The Machine that a Pod runs as, by name and uid. Nothing, if the Pod has ended, or is about to.
fn machine_of(request: &AdmissionRequest<DynamicObject>) -> Option<(Key, String)> {
    let pod = request.old_object.as_ref()?;
    let phase = pod.data.pointer("/status/phase").and_then(|phase| phase.as_str());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    if ended || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let owner = pod.owner_references().iter().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == Machine::kind(&())
            && owner.api_version == Machine::api_version(&())
    })?;
    let namespace = request.namespace.as_deref().unwrap_or_default();
    Some((Key::new(namespace, owner.name.as_str()), owner.uid.clone()))
}

#[derive(Debug)]
pub(in crate::admission) struct PodRule;

impl Rule for PodRule {
    /// The Machine that must be known before a Pod is deleted.
    type Needs = Option<Key>;
    /// That Machine, if its namespace is being deleted.
    type Answers = Option<LookupResult<Option<Machine>>>;

    fn hook(&self) -> Hook {
        Hook {
            operations: &["DELETE"],
            // The Pods of machines alone, which can be deleted when we are not there: only their drain is
            // lost.
            label: Some(MACHINE),
            ignores_failures: true,
            ..Hook::writes(
                ("", "v1", PODS),
                // It is not about to end already.
                "!has(oldObject.metadata.deletionTimestamp)".to_owned(),
            )
        }
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Option<Key> {
        needs(request)
    }

    async fn look_up(
        &self,
        machine: Option<Key>,
        lookup: Lookup<'_>,
    ) -> Option<LookupResult<Option<Machine>>> {
        maybe(machine.map(|key| drained(key, lookup))).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        drained: &Option<LookupResult<Option<Machine>>>,
    ) -> AdmissionResponse {
        review(request, drained.as_ref())
    }
}

/// The controllers delete a Pod when its drain is over, so nothing must be known for that.
fn needs(request: &AdmissionRequest<DynamicObject>) -> Option<Key> {
    let ours = sender(request) == install::user_name();
    machine_of(request).filter(|_| !ours).map(|(key, _)| key)
}

/// A Machine, if its namespace is being deleted.
async fn drained(key: Key, lookup: Lookup<'_>) -> LookupResult<Option<Machine>> {
    let namespace: Option<Namespace> = lookup.cluster_wide(key.namespace.to_string()).await?;
    if namespace.is_none_or(|found| found.metadata.deletion_timestamp.is_none()) {
        return Ok(None);
    }
    lookup.namespaced(key).await
}

/// Whether the Pod may go, by what was found out about its Machine in a namespace that is being deleted.
fn review(
    request: &AdmissionRequest<DynamicObject>,
    drained: Option<&LookupResult<Option<Machine>>>,
) -> AdmissionResponse {
    let Some(key) = needs(request) else { return AdmissionResponse::from(request) };
    let paths = [PATH.to_owned()];
    let machine = match drained {
        Some(Ok(machine)) => machine.as_ref(),
        Some(Err(why)) => {
            let what = format!("whether the Machine {} is still drained", key.name);
            return unknown(request, &paths, &what, why);
        }
        None => return unasked(request, &paths),
    };
    let uid = machine_of(request).map(|(_, uid)| uid);
    match machine.filter(|machine| machine.uid() == uid).and_then(why_not_yet) {
        Some(why) => {
            let message = format!(
                "is being deleted, and the Pod goes with the Machine {}, which {why}",
                key.name
            );
            refuse(request, 403, "Forbidden", &[Problem::new(PATH, message)])
        }
        None => AdmissionResponse::from(request),
    }
}

/// Why a machine does not go yet.
fn why_not_yet(machine: &Machine) -> Option<String> {
    let status = machine.status.as_ref();
    let deadline = || status.and_then(|status| status.drain.as_ref()?.deadline.as_ref());
    match status.and_then(|status| status.phase).unwrap_or_default() {
        // On record, so the Pod may go; what failed was never anybody's.
        Phase::Deleting | Phase::Failed => None,
        Phase::Draining => Some(match deadline() {
            Some(deadline) => format!(
                "is drained until {:.0}; it goes then, or when its drain is answered Done",
                deadline.0
            ),
            None => "is drained".to_owned(),
        }),
        Phase::Pending | Phase::Provisioning | Phase::Registered | Phase::Ready => {
            Some("is to be drained; its drain has not begun: the operator begins it".to_owned())
        }
    }
}
