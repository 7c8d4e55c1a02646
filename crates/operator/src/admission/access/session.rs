//! Sessions: the operator makes them, from what people ask for, and writes their status. Nobody else does, whatever
//! rights they have: a session is a permission that others approved, and its status says so.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use sojourn_api::access::session::SPEC_STAYS;
use sojourn_api::access::{AccessConfig, BreakglassSession, GROUP, SESSIONS, check_session};
use sojourn_api::install;
use sojourn_api::name::VERSION;
use sojourn_api::problem::Problem;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, maybe};
use super::super::refusal::{invalid, refuse, unasked, unknown};
use super::super::request::{part, sender, typed};
use super::super::rule::Rule;
use super::changes_spec;

/// The subresource that holds what became of a session.
const STATUSES: &str = "breakglasssessions/status";

#[derive(Debug)]
pub(in crate::admission) struct SessionRule;

impl Rule for SessionRule {
    /// Whether the options must be known.
    type Needs = bool;
    type Answers = Option<LookupResult<AccessConfig>>;

    /// A cluster does not ask about what the operator writes, the embedded engine does.
    fn hook(&self) -> Hook {
        Hook::writes((GROUP, VERSION, SESSIONS), changes_spec())
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> bool {
        is_operator(request) && request.operation == Operation::Create
    }

    async fn look_up(&self, needed: bool, lookup: Lookup<'_>) -> Self::Answers {
        maybe(needed.then(|| lookup.config())).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        config: &Self::Answers,
    ) -> AdmissionResponse {
        if request.operation != Operation::Create {
            let (new, old) = part(request, "/spec");
            return match new == old {
                true => AdmissionResponse::from(request),
                false => forbid(request, "spec", SPEC_STAYS.to_owned()),
            };
        }
        if !is_operator(request) {
            let user = sender(request);
            let message = format!(
                "{user} cannot make a BreakglassSession: only the operator does, for whoever asks with `sojourn request`"
            );
            return forbid(request, "spec", message);
        }
        let paths = ["spec.grantedGroup".to_owned(), "spec.idleTimeout".to_owned()];
        let config = match config {
            Some(Ok(config)) => config,
            Some(Err(why)) => return unknown(request, &paths, "what the options allow", why),
            None => return unasked(request, &paths),
        };
        let problems = match typed::<BreakglassSession>(request.object.as_ref()) {
            Ok(session) => check_session(&session.spec, config),
            Err(problem) => vec![problem],
        };
        match problems.is_empty() {
            true => AdmissionResponse::from(request),
            false => invalid(request, &problems),
        }
    }
}

#[derive(Debug)]
pub(in crate::admission) struct StatusRule;

impl Rule for StatusRule {
    type Needs = ();
    type Answers = ();

    fn hook(&self) -> Hook {
        let writes = Hook::writes((GROUP, VERSION, STATUSES), "true".to_owned());
        Hook { name: "session-status", operations: &["UPDATE"], ..writes }
    }

    fn needs(&self, _: &AdmissionRequest<DynamicObject>) {}

    async fn look_up(&self, (): (), _: Lookup<'_>) {}

    fn review(&self, request: &AdmissionRequest<DynamicObject>, (): &()) -> AdmissionResponse {
        if is_operator(request) {
            return AdmissionResponse::from(request);
        }
        let user = sender(request);
        let message = format!(
            "{user} cannot write the status of a BreakglassSession: only the operator does, for whoever may `sojourn approve`, reject, withdraw, drop, cancel or extend it"
        );
        forbid(request, "status", message)
    }
}

fn is_operator(request: &AdmissionRequest<DynamicObject>) -> bool {
    request.user_info.username.as_deref() == Some(install::user_name().as_str())
}

fn forbid(
    request: &AdmissionRequest<DynamicObject>,
    path: &str,
    message: String,
) -> AdmissionResponse {
    refuse(request, 403, "Forbidden", &[Problem::new(path, message)])
}
