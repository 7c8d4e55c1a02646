//! What the caller may read and write, as the API says.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use sojourn_api::game::name::{COLLECTIONS, GROUP, SERVERS};
use sojourn_core::key::Key;

use super::super::service::{Action, GameService, ReviewError};
use crate::family::FamilyCaller;

/// In so many namespaces it is asked for one page what the caller may read.
const MAX_NAMESPACES: usize = 500;
/// So many reviews at the same time.
const MAX_CONCURRENT_REVIEWS: usize = 16;

/// The namespaces whose collections, or servers, the caller may list.
#[derive(Debug)]
pub(super) enum Readable {
    Everywhere,
    In {
        namespaces: BTreeSet<String>,
        /// There are others, about which nobody was asked.
        is_cut_off: bool,
    },
}

impl Readable {
    /// Of all namespaces with collections, or of one.
    pub(super) async fn of(
        service: &GameService,
        caller: &FamilyCaller,
        namespace: Option<&str>,
    ) -> Result<Self, ReviewError> {
        let named: BTreeSet<String> = match namespace {
            Some(namespace) => BTreeSet::from([namespace.to_owned()]),
            None if may_list(service, caller, COLLECTIONS, "").await? => {
                return Ok(Self::Everywhere);
            }
            None => {
                let keys = service.caches.collections.keys();
                keys.into_iter().map(|key| key.namespace.to_string()).collect()
            }
        };
        Self::among(service, caller, COLLECTIONS, named).await
    }

    /// The namespaces of these collections whose servers the caller may list.
    pub(super) async fn with_servers(
        &self,
        service: &GameService,
        caller: &FamilyCaller,
        shown: impl Iterator<Item = &Key>,
    ) -> Result<Self, ReviewError> {
        if matches!(self, Self::Everywhere) && may_list(service, caller, SERVERS, "").await? {
            return Ok(Self::Everywhere);
        }
        let named = shown.map(|key| key.namespace.to_string()).collect();
        Self::among(service, caller, SERVERS, named).await
    }

    async fn among(
        service: &GameService,
        caller: &FamilyCaller,
        resource: &str,
        named: BTreeSet<String>,
    ) -> Result<Self, ReviewError> {
        let is_cut_off = named.len() > MAX_NAMESPACES;
        let asked = named.into_iter().take(MAX_NAMESPACES).map(|namespace| async move {
            let allowed = may_list(service, caller, resource, &namespace).await?;
            Ok::<_, ReviewError>(allowed.then_some(namespace))
        });
        let answers: Vec<Result<Option<String>, ReviewError>> =
            futures::stream::iter(asked).buffered(MAX_CONCURRENT_REVIEWS).collect().await;
        let namespaces: Result<Vec<Option<String>>, ReviewError> = answers.into_iter().collect();
        let namespaces = namespaces?.into_iter().flatten().collect();
        Ok(Self::In { namespaces, is_cut_off })
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In { namespaces, .. } => namespaces.contains(&*key.namespace),
        }
    }

    pub(super) const fn is_cut_off(&self) -> bool {
        matches!(self, Self::In { is_cut_off: true, .. })
    }
}

async fn may_list(
    service: &GameService,
    caller: &FamilyCaller,
    resource: &str,
    namespace: &str,
) -> Result<bool, ReviewError> {
    service.review(caller, action("list", resource, namespace, None)).await
}

const fn action<'a>(
    verb: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: Option<&'a str>,
) -> Action<'a> {
    Action { group: GROUP, verb, resource, subresource: None, namespace, name }
}

/// Whether the caller may see a collection.
pub(super) async fn may_see_collection(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
) -> Result<bool, ReviewError> {
    service.review(caller, action("get", COLLECTIONS, &key.namespace, Some(&key.name))).await
}

/// Whether the caller may see a server.
pub(super) async fn may_see_server(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
) -> Result<bool, ReviewError> {
    service.review(caller, action("get", SERVERS, &key.namespace, Some(&key.name))).await
}

/// Whether the caller may see the servers of a collection.
pub(super) async fn may_see_servers(
    service: &GameService,
    caller: &FamilyCaller,
    collection: &Key,
) -> Result<bool, ReviewError> {
    may_list(service, caller, SERVERS, &collection.namespace).await
}

/// Whether the caller may change a collection.
pub(super) async fn may_update_collection(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
) -> Result<bool, ReviewError> {
    service.review(caller, action("update", COLLECTIONS, &key.namespace, Some(&key.name))).await
}

/// Whether the caller may change a server; any of the namespace, if none is named.
pub(super) async fn may_update_server(
    service: &GameService,
    caller: &FamilyCaller,
    namespace: &str,
    name: Option<&str>,
) -> Result<bool, ReviewError> {
    service.review(caller, action("update", SERVERS, namespace, name)).await
}
