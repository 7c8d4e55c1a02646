//! What is refused before it is written, where a schema cannot tell: a bad configuration, marks that
//! only some people may set, templates that no provider can use, references that their writer has no
//! right to ([`reference`]), and deletions that come before what they owe ([`lab`], [`pod`]).
//!
//! The judgement is pure and in steps: [`needs`] says what must be known, [`further`] what must be known
//! then, [`judge`] decides when it is. Around it is one service, which the embedded engine calls in the
//! process and a cluster calls as a webhook. What cannot be found out is refused.

mod group;
mod lab;
mod pod;
mod provider;
mod reference;
mod rule;
mod webhook;

pub use provider::Providers;
pub use reference::Reference;
pub use rule::{Answers, Found, Needs, Permission, further, judge, needs};
pub use webhook::{PATH, Target, configuration};

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::{Api, Client, ResourceExt};
use sojourn_api::config;
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_api::lab::convert::needs_submission;
use sojourn_api::lab::{Instance, Template, Tenant};
use sojourn_api::name::{GROUP_GROUP, LAB_GROUP, shared};
use sojourn_core::key::Key;
use tokio::time::Instant;
use tower::util::BoxCloneService;

use crate::spoken::spoken;

/// The groups and resources whose writes are judged.
pub const GROUPS: [&str; 3] = ["", LAB_GROUP, GROUP_GROUP];
pub const RESOURCES: [&str; 8] = [
    "configmaps",
    lab::NAMESPACES,
    lab::CLAIMS,
    lab::INSTANCES,
    lab::TEMPLATES,
    group::GROUPS,
    group::MACHINES,
    pod::PODS,
];
/// What refusals are signed with.
pub const NAME: &str = shared::ADMISSION;

/// How long everything together may take to be found out. Whoever waits for us waits ten seconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);
/// Questions that are asked at the same time for one request.
const MAX_CONCURRENT_REVIEWS: usize = 8;

/// The admission service. It gets its client later: an engine needs its hooks before it has clients.
#[derive(Clone, Default)]
pub struct Admission {
    client: Arc<OnceLock<Client>>,
    providers: Providers,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("connected", &self.client.get().is_some()).finish()
    }
}

impl Admission {
    /// Knows these providers of machines.
    pub fn new(providers: Providers) -> Self {
        Self { client: Arc::default(), providers }
    }

    /// Gives it the client with which the API is asked. Only the first counts.
    pub fn connect(&self, client: Client) {
        // An error means that a client is set already; any of them will do.
        let _ = self.client.set(client);
    }

    /// The service that an engine calls for every write of [`RESOURCES`].
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
        let needs = needs(request);
        let until = Instant::now() + LOOKUP_TIMEOUT;
        let ask = |permission| self.ask(request, permission, until);
        let (hold, manage, config, group, made_from, tenant, owing, drained) = tokio::join!(
            maybe(needs.hold.map(ask)),
            maybe(needs.manage.map(ask)),
            maybe(needs.config.then(|| self.config(until))),
            maybe(needs.group.map(|key| self.group(key, until))),
            maybe(needs.made_from.map(|key| self.template(key, until))),
            maybe(needs.tenant.map(|name| self.tenant(name, until))),
            maybe(needs.owing.map(|namespace| self.owing(namespace, until))),
            maybe(needs.drained.map(|key| self.drained(key, until))),
        );
        let template = needs.template.map(|template| self.providers.check(&template));
        let mut answers = Answers {
            hold,
            manage,
            config,
            group,
            template,
            made_from,
            tenant,
            owing,
            drained,
            ..Answers::default()
        };
        let references = [needs.references, further(request, &answers)].concat();
        let permissions: BTreeSet<_> = references.into_iter().map(|one| one.permission).collect();
        answers.permitted = stream::iter(permissions)
            .map(|permission| async { (permission.clone(), ask(permission).await) })
            .buffer_unordered(MAX_CONCURRENT_REVIEWS)
            .collect()
            .await;
        judge(request, &answers)
    }

    /// Whether whoever sent the request has a permission; an error says why nobody knows.
    async fn ask(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        permission: Permission,
        until: Instant,
    ) -> Found<bool> {
        let review = review(request, permission);
        let reviews: Api<SubjectAccessReview> = Api::all(self.client()?);
        let params = PostParams::default();
        let review = in_time(until, reviews.create(&params, &review)).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// What the installation says about groups.
    async fn config(&self, until: Instant) -> Found<GroupConfig> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client()?, shared::NAMESPACE);
        let map = in_time(until, maps.get_opt(shared::CONFIG_MAP)).await?;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        config::parse(&data).map_err(|problems| problems.to_string())
    }

    async fn group(&self, key: Key, until: Instant) -> Found<Option<InstanceGroup>> {
        let groups: Api<InstanceGroup> = Api::namespaced(self.client()?, &key.namespace);
        in_time(until, groups.get_opt(&key.name)).await
    }

    async fn template(&self, key: Key, until: Instant) -> Found<Option<Template>> {
        let templates: Api<Template> = Api::namespaced(self.client()?, &key.namespace);
        in_time(until, templates.get_opt(&key.name)).await
    }

    async fn tenant(&self, name: String, until: Instant) -> Found<Option<Tenant>> {
        let tenants: Api<Tenant> = Api::all(self.client()?);
        in_time(until, tenants.get_opt(&name)).await
    }

    /// The Instances of a namespace whose data is not handed in yet.
    async fn owing(&self, namespace: String, until: Instant) -> Found<Vec<String>> {
        let instances: Api<Instance> = Api::namespaced(self.client()?, &namespace);
        let list = async {
            match instances.list(&ListParams::default()).await {
                Ok(all) => Ok(all.items),
                // Where the kind is not defined there are none.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        };
        let all = in_time(until, list).await?;
        Ok(all
            .iter()
            .filter(|instance| needs_submission(instance))
            .map(ResourceExt::name_any)
            .collect())
    }

    /// A Machine, if its namespace is being deleted.
    async fn drained(&self, key: Key, until: Instant) -> Found<Option<Machine>> {
        let client = self.client()?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = in_time(until, namespaces.get_opt(&key.namespace)).await?;
        if namespace.is_none_or(|found| found.metadata.deletion_timestamp.is_none()) {
            return Ok(None);
        }
        let machines: Api<Machine> = Api::namespaced(client, &key.namespace);
        in_time(until, machines.get_opt(&key.name)).await
    }

    fn client(&self) -> Found<Client> {
        self.client.get().cloned().ok_or_else(|| "the API cannot be asked yet".to_owned())
    }
}

/// What is to be found out, if anything is.
async fn maybe<T>(asked: Option<impl Future<Output = T>>) -> Option<T> {
    match asked {
        Some(asked) => Some(asked.await),
        None => None,
    }
}

async fn in_time<T>(
    until: Instant,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Found<T> {
    match tokio::time::timeout_at(until, asked).await {
        Err(_) => Err(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs())),
        Ok(answer) => answer.map_err(|error| spoken(&error)),
    }
}

fn review(
    request: &AdmissionRequest<DynamicObject>,
    permission: Permission,
) -> SubjectAccessReview {
    let user = &request.user_info;
    let attributes = ResourceAttributes {
        group: Some(permission.group.to_owned()),
        resource: Some(permission.resource.to_owned()),
        subresource: permission.subresource.map(str::to_owned),
        verb: Some(permission.verb.to_owned()),
        namespace: Some(permission.namespace),
        name: permission.name,
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests;
