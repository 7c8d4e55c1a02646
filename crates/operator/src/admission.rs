//! What is refused before it is written, where a schema cannot tell: a bad configuration, marks that
//! only some people may set, templates that no provider can use, references that their writer has no
//! right to ([`mod@reference`]), and deletions that come before what they owe.
//!
//! Each family brings a list of rules ([`rule::Rule`]), one for each kind that it reviews. Two of their steps are
//! pure: `needs` says what must be known, `review` decides when it is; in between, [`lookup`] asks the API.
//! Around them is one service, which the embedded engine calls in the process and a cluster calls as a
//! webhook. What cannot be found out is refused. A new family adds its module and one line to [`FAMILIES`].

mod access;
mod cluster;
mod configuration;
mod game;
mod group;
mod hook;
mod lab;
mod lookup;
mod reference;
mod refusal;
mod request;
mod rule;
#[cfg(feature = "toy")]
mod toy;
mod webhook;

pub use group::Providers;
pub use hook::Hook;
pub use lookup::{LookupResult, Permission, Permissions};
pub use reference::Reference;
pub use webhook::{PATH, Target, configuration};

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::name::shared;
use tower::util::BoxCloneService;

use self::lookup::Lookup;
use self::rule::{FamilyRules, RegisteredRule};
use crate::cluster::actuators::Actuators;

/// What refusals are signed with.
pub const NAME: &str = shared::ADMISSION;

/// The rules of every family, in the order in which they are asked.
const FAMILIES: &[FamilyRules] = &[
    lab::rules,
    group::rules,
    access::rules,
    game::rules,
    cluster::rules,
    #[cfg(feature = "toy")]
    toy::rules,
];

/// What rules know of the installation, the same for all families.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Who makes machines, beside `pod`, which is always there.
    pub providers: Providers,
    /// Who stops and starts machines of clusters, beside `pod`, which is always there.
    pub actuators: Actuators,
}

/// The rules of the installation and of every family.
fn rules(setup: &Setup) -> Vec<RegisteredRule> {
    let mut all = vec![RegisteredRule::new(configuration::ConfigurationRule)];
    all.extend(FAMILIES.iter().flat_map(|family| family(setup)));
    all
}

/// The admission service. It gets its client later: an engine needs its hooks before it has clients.
#[derive(Clone)]
pub struct Admission {
    client: Arc<OnceLock<Client>>,
    rules: Arc<[RegisteredRule]>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("connected", &self.client.get().is_some()).finish()
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(&Setup::default())
    }
}

impl Admission {
    pub fn new(setup: &Setup) -> Self {
        Self { client: Arc::default(), rules: rules(setup).into() }
    }

    /// The API groups in which writes are reviewed.
    pub fn groups(&self) -> Vec<String> {
        self.each(|hook| hook.group)
    }

    /// The resources whose writes are reviewed.
    pub fn resources(&self) -> Vec<String> {
        self.each(|hook| hook.resource)
    }

    fn each(&self, part: impl Fn(&Hook) -> &'static str) -> Vec<String> {
        let parts: BTreeSet<&str> = self.rules.iter().map(|rule| part(&rule.hook)).collect();
        parts.into_iter().map(str::to_owned).collect()
    }

    /// Gives it the client with which the API is asked. Only the first counts.
    pub fn connect(&self, client: Client) {
        // An error means that a client is set already; any of them will do.
        let _ = self.client.set(client);
    }

    /// The service that an engine calls for every write of [`Self::resources`].
    pub fn service(
        &self,
    ) -> BoxCloneService<AdmissionRequest<DynamicObject>, AdmissionResponse, Infallible> {
        let admission = self.clone();
        BoxCloneService::new(tower::service_fn(move |request| {
            let admission = admission.clone();
            async move { Ok(admission.admit(&request).await) }
        }))
    }

    /// The same as a webhook, at [`PATH`].
    pub fn router(&self) -> Router {
        webhook::router(self.clone())
    }

    async fn admit(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        review_by_all(&self.rules, request, Lookup::new(self.client.get(), request)).await
    }
}

/// Several rules may care about one request, such as the deletion of a namespace: all of them must allow
/// it, and the first refusal is the answer.
async fn review_by_all(
    rules: &[RegisteredRule],
    request: &AdmissionRequest<DynamicObject>,
    lookup: Lookup<'_>,
) -> AdmissionResponse {
    let mut response = AdmissionResponse::from(request);
    for review in rules.iter().filter_map(|rule| rule.review(request, lookup)) {
        let one = review.await;
        if !one.allowed {
            return one;
        }
        if let Some(warnings) = one.warnings {
            response.warnings.get_or_insert_default().extend(warnings);
        }
    }
    response
}

#[cfg(test)]
mod tests;
