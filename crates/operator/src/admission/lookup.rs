//! What the API says about a request: the objects that it names, and what its sender may do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::core::admission::AdmissionRequest;
use kube::core::{ClusterResourceScope, DynamicObject, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use sojourn_api::config::{self, FamilyConfig};
use sojourn_api::name::shared;
use sojourn_core::key::Key;
use tokio::time::Instant;

use super::reference::Reference;
use crate::api_error::api_error_message;

/// How long everything together may take to be found out. Whoever waits for us waits ten seconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);
/// Questions that are asked at the same time for one request.
const MAX_CONCURRENT_REVIEWS: usize = 8;

/// Something that the sender may or may not do; without a name, to all objects of the namespace, and
/// without a namespace, to objects that are in none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: String,
    pub name: Option<String>,
}

/// What was found out; an error says why it was not.
pub type LookupResult<T> = Result<T, String>;

/// Whether the sender has each of some permissions.
pub type Permissions = BTreeMap<Permission, LookupResult<bool>>;

/// Asks the API about one request, until its time is over.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    client: Option<&'a Client>,
    request: &'a AdmissionRequest<DynamicObject>,
    until: Instant,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(
        client: Option<&'a Client>,
        request: &'a AdmissionRequest<DynamicObject>,
    ) -> Self {
        Self { client, request, until: Instant::now() + LOOKUP_TIMEOUT }
    }

    pub(super) fn request(self) -> &'a AdmissionRequest<DynamicObject> {
        self.request
    }

    /// Whether whoever sent the request has a permission.
    pub(super) async fn permitted(self, permission: Permission) -> LookupResult<bool> {
        let review = review(self.request, permission);
        let reviews: Api<SubjectAccessReview> = Api::all(self.client()?);
        let params = PostParams::default();
        let review = self.in_time(reviews.create(&params, &review)).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// The same of several, each asked once.
    async fn all_permitted(self, permissions: impl IntoIterator<Item = Permission>) -> Permissions {
        let permissions: BTreeSet<Permission> = permissions.into_iter().collect();
        stream::iter(permissions)
            .map(|permission| async move {
                let found = self.permitted(permission.clone()).await;
                (permission, found)
            })
            .buffer_unordered(MAX_CONCURRENT_REVIEWS)
            .collect()
            .await
    }

    /// The same of what references need.
    pub(super) async fn references_permitted(
        self,
        references: impl IntoIterator<Item = Reference>,
    ) -> Permissions {
        self.all_permitted(references.into_iter().map(|reference| reference.permission)).await
    }

    /// An object of a namespace, if there is one.
    pub(super) async fn namespaced<K>(self, key: Key) -> LookupResult<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let objects: Api<K> = Api::namespaced(self.client()?, &key.namespace);
        self.in_time(objects.get_opt(&key.name)).await
    }

    /// An object that is in no namespace, if there is one.
    pub(super) async fn cluster_wide<K>(self, name: String) -> LookupResult<Option<K>>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let objects: Api<K> = Api::all(self.client()?);
        self.in_time(objects.get_opt(&name)).await
    }

    /// All objects of a kind in a namespace.
    pub(super) async fn all_in<K>(self, namespace: String) -> LookupResult<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let objects: Api<K> = Api::namespaced(self.client()?, &namespace);
        let list = async {
            match objects.list(&ListParams::default()).await {
                Ok(all) => Ok(all.items),
                // Where the kind is not defined there are none.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        };
        self.in_time(list).await
    }

    /// A family's options.
    pub(super) async fn config<T: FamilyConfig>(self) -> LookupResult<T> {
        let map: Option<ConfigMap> =
            self.namespaced(Key::new(shared::NAMESPACE, shared::CONFIG_MAP)).await?;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        config::parse(&data).map_err(|problems| problems.to_string())
    }

    fn client(self) -> LookupResult<Client> {
        self.client.cloned().ok_or_else(|| "the API cannot be asked yet".to_owned())
    }

    async fn in_time<T>(
        self,
        asked: impl Future<Output = Result<T, kube::Error>>,
    ) -> LookupResult<T> {
        match tokio::time::timeout_at(self.until, asked).await {
            Err(_) => Err(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs())),
            Ok(answer) => answer.map_err(|error| api_error_message(&error)),
        }
    }
}

/// What is to be found out, if anything is.
pub(super) async fn maybe<T>(asked: Option<impl Future<Output = T>>) -> Option<T> {
    match asked {
        Some(asked) => Some(asked.await),
        None => None,
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
