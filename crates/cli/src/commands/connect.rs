//! API access of the commands that people type.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client, Config};
use sojourn_api::family::{FAMILIES, Family};
use tokio::runtime::Runtime;

use super::{client, data};
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
        let usage =
            |error| Failure::new(Exit::Usage, error, "Say which one to use: --kubeconfig FILE.");
        let kubeconfig = match kubeconfig_file(connection) {
            Some(path) => Kubeconfig::read_from(&path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display())),
            None => Kubeconfig::read().context("cannot find a kubeconfig"),
        }
        .map_err(usage)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("cannot use the kubeconfig")
            .map_err(usage)?;
        config.connect_timeout = Some(REQUEST_TIMEOUT);
        config.read_timeout = Some(REQUEST_TIMEOUT);
        let client =
            client::single_attempt(&config).context("cannot use the kubeconfig").map_err(usage)?;
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
        kinds.iter().find(means).cloned().ok_or_else(|| {
            let mut known: Vec<_> =
                kinds.iter().map(|kind| kind.resource.kind.to_ascii_lowercase()).collect();
            known.sort_unstable();
            let error = anyhow!("{} is no kind of Sojourn's that the API serves", named.kind);
            let advice = if known.is_empty() {
                "The API serves none: is it the right one, and are the kinds there (sojourn crds)?"
                    .to_owned()
            } else {
                format!("It serves: {}.", known.join(", "))
            };
            Failure::new(Exit::Usage, error, advice)
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
        let (exit, advice) = match &error {
            kube::Error::Api(status) if status.is_not_found() => (
                Exit::Negative,
                format!("Looked in namespace {}; another one: -n NAMESPACE.", self.namespace),
            ),
            kube::Error::Api(status) if status.is_forbidden() => {
                (Exit::Negative, "Ask whoever runs the platform for the right to do it.".to_owned())
            }
            kube::Error::Api(_) => (Exit::Negative, String::new()),
            _ => (Exit::Unavailable, format!("Is {} up and reachable?", self.config.cluster_url)),
        };
        // The whole Status is for programs; its message is for people.
        let error = match error {
            kube::Error::Api(status) => anyhow!("{}", status.message),
            other => anyhow::Error::from(other),
        };
        Failure::new(exit, error.context(what.to_owned()), advice)
    }
}

/// The file that was asked for, or that `sojourn up` left; otherwise kubectl's rules hold.
fn kubeconfig_file(connection: &Connection) -> Option<PathBuf> {
    if let Some(path) = &connection.kubeconfig {
        return Some(path.clone());
    }
    if std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let ours = data::directory(None).ok()?.join("kubeconfig");
    ours.exists().then_some(ours)
}
