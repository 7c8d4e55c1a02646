//! Escalations: which groups may be given at all, by whom, and that an idle timeout does not end what is in use.
//!
//! An escalation gives the rights of a group to others, in the whole cluster, whatever namespace it is in. So whoever
//! writes one must be allowed to act as that group themselves.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;
use sojourn_api::access::{
    AccessConfig, BreakglassEscalation, BreakglassEscalationSpec, ESCALATIONS, GROUP,
    check_escalation,
};
use sojourn_api::name::VERSION;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permissions};
use super::super::reference::{Reference, review_references, to_impersonate_group};
use super::super::refusal::{invalid, unasked, unknown};
use super::super::request::{part, typed};
use super::super::rule::Rule;
use super::changes_spec;

#[derive(Debug)]
pub(in crate::admission) struct EscalationRule;

/// What was found out before a change is reviewed.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::admission) struct EscalationAnswers {
    pub(in crate::admission) config: LookupResult<AccessConfig>,
    /// Whether the sender may do what the reference needs.
    pub(in crate::admission) permitted: Permissions,
}

impl Rule for EscalationRule {
    /// The group that is given, if anything of the spec changes.
    type Needs = Option<Reference>;
    type Answers = Option<EscalationAnswers>;

    fn hook(&self) -> Hook {
        Hook::writes((GROUP, VERSION, ESCALATIONS), changes_spec())
    }

    /// One that is bad already, since the options are others by now, can still get a label.
    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Option<Reference> {
        let (new, old) = part(request, "/spec");
        let new = new.filter(|new| old.as_ref() != Some(new))?;
        let group = new.pointer("/escalatedGroup").and_then(Value::as_str).unwrap_or_default();
        Some(to_impersonate_group("spec.escalatedGroup", group))
    }

    async fn look_up(&self, needed: Option<Reference>, lookup: Lookup<'_>) -> Self::Answers {
        let references = vec![needed?];
        let (config, permitted) =
            tokio::join!(lookup.config(), lookup.references_permitted(references));
        Some(EscalationAnswers { config, permitted })
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &Self::Answers,
    ) -> AdmissionResponse {
        let Some(reference) = self.needs(request) else { return AdmissionResponse::from(request) };
        let paths = ["spec.escalatedGroup".to_owned(), "spec.idleTimeout".to_owned()];
        let Some(answers) = answers else { return unasked(request, &paths) };
        let config = match &answers.config {
            Ok(config) => config,
            Err(why) => return unknown(request, &paths, "what the options allow", why),
        };
        let escalation = match typed::<BreakglassEscalation>(request.object.as_ref()) {
            Ok(escalation) => escalation,
            Err(problem) => return invalid(request, &[problem]),
        };
        let problems = check_escalation(&escalation.spec, config);
        if !problems.is_empty() {
            return invalid(request, &problems);
        }
        if let Some(refused) = review_references(request, &[reference], &answers.permitted) {
            return refused;
        }
        let mut response = AdmissionResponse::from(request);
        let unknown = unknown_clusters(&escalation.spec, config);
        response.warnings = (!unknown.is_empty()).then_some(unknown);
        response
    }
}

/// Clusters that an escalation names and nobody asks for.
fn unknown_clusters(spec: &BreakglassEscalationSpec, config: &AccessConfig) -> Vec<String> {
    let known = |name: &String| config.cluster == *name || config.clusters.contains_key(name);
    let named = spec.allowed.clusters.iter().enumerate();
    named
        .filter(|(_, name)| !known(name))
        .map(|(index, name)| {
            format!("spec.allowed.clusters[{index}]: {name} is no cluster of the configuration")
        })
        .collect()
}
