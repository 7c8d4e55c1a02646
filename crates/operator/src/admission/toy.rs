//! What is refused of toys: what the installation's options do not allow, and what a schema cannot tell.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::name::VERSION;
use sojourn_api::name::shared::KEEP_UNTIL;
use sojourn_api::toy::{GROUP, TOYS, Toy, ToyConfig, check};

use super::Setup;
use super::hook::Hook;
use super::lookup::{Lookup, LookupResult};
use super::refusal::{invalid, unknown};
use super::request::{bad_times, typed};
use super::rule::{RegisteredRule, Rule};

pub(super) fn rules(_: &Setup) -> Vec<RegisteredRule> {
    vec![RegisteredRule::new(ToyRule)]
}

#[derive(Debug)]
struct ToyRule;

impl Rule for ToyRule {
    type Needs = ();
    type Answers = LookupResult<ToyConfig>;

    /// The controller writes statuses and deletes, which nobody reviews.
    fn hook(&self) -> Hook {
        Hook::writes((GROUP, VERSION, TOYS), "true".to_owned())
    }

    fn needs(&self, _: &AdmissionRequest<DynamicObject>) {}

    async fn look_up(&self, (): (), lookup: Lookup<'_>) -> LookupResult<ToyConfig> {
        lookup.config().await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        config: &LookupResult<ToyConfig>,
    ) -> AdmissionResponse {
        let config = match config {
            Ok(config) => config,
            Err(why) => {
                let lifespan = ["spec.lifespan".to_owned()];
                return unknown(request, &lifespan, "how long a toy may live", why);
            }
        };
        let mut problems = bad_times(request, &[KEEP_UNTIL]);
        match typed::<Toy>(request.object.as_ref()) {
            Ok(toy) => problems.extend(check(&toy.spec, config)),
            Err(problem) => problems.push(problem),
        }
        match problems.is_empty() {
            true => AdmissionResponse::from(request),
            false => invalid(request, &problems),
        }
    }
}
