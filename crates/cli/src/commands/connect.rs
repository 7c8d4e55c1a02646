//! API access of the commands that people type.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client, Config};
use sojourn_api::family::{FAMILIES, Family};
use tokio::runtime::Runtime;

use super::kubeconfig_search::SelectedKubeconfig;
use super::{api_error, client};
use crate::args::{Connection, Named};
use crate::exit::{Exit, Failure};

/// How long an answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// So many objects are asked for at a time.
pub(super) const PAGE_SIZE: u32 = 500;
/// The groups that are ours end like this.
const OUR_GROUPS: &str = ".sojourn.dev";

/// A client, with the namespace and kubeconfig that it uses.
pub(super) struct ApiContext {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) config: Config,
}

/// One of our kinds, as the API serves it.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
    /// It has a status, so somebody decides what becomes of it.
    pub(super) looked_after: bool,
}

/// Runs what a command does with the API.
pub(super) fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Runtime::new()
        .context("cannot start threads")
        .map_err(|error| Failure::unavailable(error, "See whether this user may have more."))?;
    runtime.block_on(work)
}

impl ApiContext {
    pub(super) async fn find(connection: &Connection) -> Result<Self, Failure> {
        let selected = SelectedKubeconfig::find(connection)?;
        let mut config = selected.config(connection.context.as_deref()).await?;
        config.connect_timeout = Some(REQUEST_TIMEOUT);
        config.read_timeout = Some(REQUEST_TIMEOUT);
        let client =
            client::single_attempt(&config).map_err(|error| selected.unusable(error.into()))?;
        let namespace =
            connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self { client, namespace, config })
    }

    /// The kinds of ours that the API serves.
    pub(super) async fn kinds(&self) -> Result<Vec<Kind>, Failure> {
        let discovery = Discovery::new(self.client.clone())
            .run_aggregated()
            .await
            .map_err(|error| self.failed(error, "cannot ask which kinds there are"))?;
        let ours = discovery.groups().filter(|group| group.name().ends_with(OUR_GROUPS));
        Ok(ours
            .flat_map(kube::discovery::ApiGroup::recommended_resources)
            .map(|(resource, capabilities)| Kind {
                resource,
                namespaced: capabilities.scope == Scope::Namespaced,
                looked_after: capabilities
                    .subresources
                    .iter()
                    .any(|(subresource, _)| subresource.plural.ends_with("status")),
            })
            .collect())
    }

    /// The kind that somebody means, by its name in the singular, the plural, or shortened.
    pub(super) async fn kind(&self, named: &Named) -> Result<Kind, Failure> {
        let kinds = self.kinds().await?;
        let typed = named.kind.as_str();
        let shortened = FAMILIES
            .iter()
            .flat_map(Family::kinds)
            .find(|kind| kind.short.iter().any(|short| short == typed));
        let means = |kind: &&Kind| {
            let singular = kind.resource.kind.to_ascii_lowercase();
            [kind.resource.plural.as_str(), &singular].contains(&typed)
                || shortened.as_ref().is_some_and(|names| names.kind == kind.resource.kind)
        };
        if kinds.is_empty() {
            return Err(self.no_kinds());
        }
        kinds.iter().find(means).cloned().ok_or_else(|| {
            let mut known: Vec<_> =
                kinds.iter().map(|kind| kind.resource.kind.to_ascii_lowercase()).collect();
            known.sort_unstable();
            let error = anyhow!("{} is no kind of Sojourn's that the API serves", named.kind);
            Failure::new(Exit::Usage, error, format!("It serves: {}.", known.join(", ")))
        })
    }

    pub(super) fn api(&self, kind: &Kind, all_namespaces: bool) -> Api<DynamicObject> {
        if kind.namespaced && !all_namespaces {
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        }
    }

    pub(super) async fn get(
        &self,
        named: &Named,
    ) -> Result<(Api<DynamicObject>, DynamicObject), Failure> {
        let kind = self.kind(named).await?;
        let api = self.api(&kind, false);
        let object = api
            .get(&named.name)
            .await
            .map_err(|error| self.failed(error, &format!("cannot get {named}")))?;
        Ok((api, object))
    }

    /// The same, of a kind whose objects something is decided about.
    pub(super) async fn get_managed(
        &self,
        named: &Named,
    ) -> Result<(Api<DynamicObject>, DynamicObject), Failure> {
        if !self.kind(named).await?.looked_after {
            let error = anyhow!("nothing is ever decided about a {}", named.kind);
            return Err(Failure::new(
                Exit::Usage,
                error,
                "Name something that is lent, such as instance/alice.",
            ));
        }
        self.get(named).await
    }

    /// What to tell people when the API refuses.
    pub(super) fn failed(&self, error: kube::Error, what: &str) -> Failure {
        api_error::failure(error, what, &self.config.cluster_url, &self.namespace)
    }

    /// A client that waits for as long as it takes for the next of what it is told: for watches and logs.
    pub(super) fn streaming_client(&self) -> Result<Client, Failure> {
        let mut config = self.config.clone();
        config.read_timeout = None;
        client::single_attempt(&config).map_err(|error| self.failed(error, "cannot make a client"))
    }

    /// The API is there and knows nothing of ours.
    pub(super) fn no_kinds(&self) -> Failure {
        let error = anyhow!("{} serves none of Sojourn's kinds", self.config.cluster_url);
        let advice = "Install them (sojourn crds | sojourn apply -f -), or use another kubeconfig \
                      (--kubeconfig FILE).";
        Failure::unavailable(error, advice)
    }
}
