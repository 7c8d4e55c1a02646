//! Templates: whoever writes a program decides what becomes of what it is given.

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::lab::Template;
use sojourn_api::lab::convert::alerts;
use sojourn_api::lab::reference::Referent;
use sojourn_api::name::VERSION;
use sojourn_api::name::lab::CUSTOM_ALERTS;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, Permissions};
use super::super::reference::{Reference, review_references, to_read};
use super::super::refusal::invalid;
use super::super::request::{changed, path_of, typed, value};
use super::super::rule::Rule;
use super::super::webhook::expression;
use super::TEMPLATES;

#[derive(Debug)]
pub(in crate::admission) struct TemplateRule;

impl Rule for TemplateRule {
    /// What the programs of a Template are given.
    type Needs = Vec<Reference>;
    type Answers = Permissions;

    fn hook(&self) -> Hook {
        let (group, resource) = TEMPLATES;
        Hook::writes((group, VERSION, resource), is_reviewed())
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
        given(request)
    }

    async fn look_up(&self, given: Vec<Reference>, lookup: Lookup<'_>) -> Permissions {
        lookup.references_permitted(given).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        permitted: &Permissions,
    ) -> AdmissionResponse {
        if let Err(problem) = typed::<Template>(request.object.as_ref()) {
            return invalid(request, &[problem]);
        }
        if let Some(refused) = review_references(request, &given(request), permitted) {
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
}

fn given(request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
    let Ok(template) = typed::<Template>(request.object.as_ref()) else { return Vec::new() };
    let old = typed::<Template>(request.old_object.as_ref()).ok();
    let referents = template.spec.referents_since(old.as_ref().map(|old| &old.spec));
    let namespace = request.namespace.as_deref().unwrap_or_default();
    to_read_referents("spec.environmentList", &referents, namespace)
}

/// The sender must be allowed to read what a Template names, in the namespace where its programs run.
pub(super) fn to_read_referents(
    path: &str,
    referents: &BTreeSet<Referent<'_>>,
    namespace: &str,
) -> Vec<Reference> {
    let given: Vec<_> =
        referents.iter().map(|referent| (referent.resource(), referent.name())).collect();
    to_read(path, &given, namespace)
}

/// An expression: something of a Template that we review is not as it was.
fn is_reviewed() -> String {
    let mut all = expression::any_changes([CUSTOM_ALERTS]);
    all.push(expression::sets("environmentList"));
    all.join(" || ")
}
