//! The families, as a program runs them. A family has two halves:
//!
//! | half | runs | has |
//! |---|---|---|
//! | [`Family::serve`] | on every replica, outside the lease | caches that nobody fences, and what people and admission need |
//! | [`ServedFamily::lead`] | on the one that leads, while it does | controllers, which borrow those caches and write with a fenced client |
//!
//! What is served outlives every term of leadership. A new family adds its module and one line to
//! [`FAMILIES`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::watch;

use crate::access::AccessFamily;
use crate::access::authorizer::AccessAuthorizer;
use crate::clock::Clock;
use crate::cluster::ClusterFamily;
use crate::cluster::actuators::Actuators;
use crate::driver::DriverFactory;
use crate::frame::{Limits, Tasks, WatchSettings};
use crate::game::{GameFamily, GameSetup};
use crate::gateway::{ActivityCallback, Backends, ReportVerifier};
use crate::group::{GroupFamily, Providers};
use crate::installation_key::InstallationKeyError;
use crate::lab::LabFamily;
use crate::link::{LinkHandler, Links};
use crate::metrics::Metrics;
use crate::replica::ReplicaName;

/// Every family, in the order in which they are started.
pub const FAMILIES: &[&dyn Family] = &[
    &LabFamily,
    &GroupFamily,
    &AccessFamily,
    &GameFamily,
    &ClusterFamily,
    #[cfg(feature = "toy")]
    &crate::toy::ToyFamily,
];

/// What families are started with, the same for all of them.
#[derive(Clone)]
pub struct Setup {
    pub clock: Arc<dyn Clock>,
    pub watching: WatchSettings,
    pub limits: Limits,
    pub metrics: Metrics,
    pub driver_factory: Arc<dyn DriverFactory>,
    /// Who makes machines, beside `pod`, which is always there.
    pub providers: Providers,
    /// Who stops and starts machines of clusters, beside `pod`, which is always there.
    pub actuators: Actuators,
    pub web: WebService,
    pub own_program: ProgramPath,
    /// The name of this process, where there may be other replicas.
    pub replica: Option<ReplicaName>,
    /// How game servers run here.
    pub game: GameSetup,
}

impl Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("web", &self.web).finish_non_exhaustive()
    }
}

/// What this process serves people.
#[derive(Debug, Clone, Default)]
pub struct WebService {
    /// The access gateway.
    pub gateway: bool,
    /// It takes reports of use.
    pub reports: bool,
    /// Where people and Pods reach it, unless a family's options say otherwise.
    pub public_url: Option<String>,
}

/// This program, as Pods that run it find it.
#[derive(Debug, Clone)]
pub struct ProgramPath(pub String);

/// Why a family cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot ask the API which groups it serves")]
    Groups(#[source] kube::Error),
    #[error(transparent)]
    InstallationKey(InstallationKeyError),
    #[error("cannot list the {kind}s")]
    Objects { kind: &'static str, source: kube::Error },
    #[error("cannot make this replica known to the others")]
    Replica(#[source] kube::Error),
    #[error("cannot read what was observed before")]
    Coverage(#[source] kube::Error),
}

/// One family of kinds.
pub trait Family: Debug + Send + Sync {
    /// The name that its modules, its document and its options have.
    fn name(&self) -> &'static str;

    /// Starts what every replica serves; the tasks are the caller's to watch. `client` is not fenced:
    /// nothing that this half writes is a decision.
    fn serve<'a>(
        &'a self,
        client: Client,
        setup: &'a Setup,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>>;
}

/// A family that is served here.
pub trait ServedFamily: Debug + Send + Sync {
    /// Starts its controllers, which write with `client` for as long as the tasks are not stopped. It may
    /// be called again when they are.
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>>;

    /// Writes what was reported and is not in the objects yet, and leaves the other replicas. Nothing is
    /// served any more.
    fn finish(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    /// What it brings to the listener for people, if anything.
    fn web(&self) -> Option<FamilyWeb> {
        None
    }

    /// What it allows beyond RBAC, if it allows anything.
    fn authorizer(&self) -> Option<FamilyAuthorizer> {
        None
    }

    /// What Pods of its own ask of it, who show a token of theirs: on every replica.
    fn pod_service(&self) -> Option<axum::Router> {
        None
    }

    /// The addresses of this machine that a Pod, and no other, may reach. Nothing, if that is not known yet.
    fn addresses_for_pod(&self, _pod: &Pod) -> Option<Vec<SocketAddr>> {
        Some(Vec::new())
    }
}

/// What a family allows beyond RBAC.
#[derive(Debug, Clone)]
pub struct FamilyAuthorizer {
    /// Asked in the process of the embedded API server.
    pub authorizer: AccessAuthorizer,
    /// Asked by other API servers at `/authorize`, on every replica.
    pub webhook: axum::Router,
}

/// What a family brings to the listener for people.
#[derive(Clone)]
pub struct FamilyWeb {
    /// As addresses and links name it.
    pub family: &'static str,
    /// Where the gateway leads, if it has anything that people open.
    pub gateway: Option<FamilyGateway>,
    /// Who reports use of its objects, if anybody does.
    pub reports: Option<FamilyReports>,
    /// What the links in its mails do, if they have any.
    pub link_handler: Option<Arc<dyn LinkHandler>>,
    /// Where people reach us, if its configuration says so.
    pub site: Option<Site>,
    /// What people ask of it by HTTP, if anything: mounted (nested) under `/api/<family>`, behind the
    /// authenticator, with a [`FamilyCaller`] in the extensions of every request.
    pub service: Option<axum::Router>,
    /// The same at paths of its own, which programs know.
    pub root_service: Option<axum::Router>,
    /// What people see of it in a browser, if anything.
    pub pages: Option<FamilyPages>,
}

/// The pages of a family: mounted (nested) under `/<family>`, behind the authenticator, with a [`FamilyCaller`] in
/// the extensions of every request.
#[derive(Debug, Clone)]
pub struct FamilyPages {
    /// What the front page calls them.
    pub title: &'static str,
    pub router: axum::Router,
}

/// Who asks something of a family's service, as the API server reviewed them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyCaller {
    pub user: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What people open of a family.
#[derive(Clone)]
pub struct FamilyGateway {
    pub backends: Arc<dyn Backends>,
    /// Told of use through the gateway.
    pub activity: ActivityCallback,
}

/// What is reported about the objects of a family.
#[derive(Clone)]
pub struct FamilyReports {
    pub verifier: Arc<dyn ReportVerifier>,
    /// Told of use that was reported.
    pub activity: ActivityCallback,
}

/// Where people reach us, the same for all families.
#[derive(Clone)]
pub struct Site {
    pub links: Links,
    /// Tells the time as the controllers do.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Where people reach us, if the configuration says so, now and from each change on.
    pub public_url: watch::Receiver<Option<String>>,
    /// Below which name instances have their origins, if the configuration says so.
    pub gateway_domain: Option<String>,
}

impl Debug for FamilyGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyGateway").finish_non_exhaustive()
    }
}

impl Debug for FamilyReports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyReports").finish_non_exhaustive()
    }
}

impl Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("gateway_domain", &self.gateway_domain).finish_non_exhaustive()
    }
}

impl Debug for FamilyWeb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyWeb").field("family", &self.family).finish_non_exhaustive()
    }
}

/// Every family, served here.
#[derive(Debug, Clone)]
pub struct ServedFamilies(Vec<Arc<dyn ServedFamily>>);

impl ServedFamilies {
    /// Starts what every replica serves, of every family.
    pub async fn serve(
        client: &Client,
        setup: &Setup,
        tasks: &mut Tasks,
    ) -> Result<Self, StartError> {
        let mut served = Vec::with_capacity(FAMILIES.len());
        for family in FAMILIES {
            served.push(family.serve(client.clone(), setup, tasks).await?);
        }
        Ok(Self(served))
    }

    /// Starts the controllers of every family.
    pub async fn lead(&self, client: &Client, tasks: &mut Tasks) -> Result<(), StartError> {
        for family in &self.0 {
            family.lead(client.clone(), tasks).await?;
        }
        Ok(())
    }

    /// Ends what is served of every family. Their tasks run until then.
    pub async fn finish(&self) {
        for family in &self.0 {
            family.finish().await;
        }
    }

    /// What they allow beyond RBAC, on every replica: at most one of them does.
    pub fn authorizer(&self) -> Option<FamilyAuthorizer> {
        self.0.iter().find_map(|family| family.authorizer())
    }

    /// The addresses of this machine that a Pod, and no other, may reach. Nothing, if that is not known yet.
    pub fn addresses_for_pod(&self, pod: &Pod) -> Option<Vec<SocketAddr>> {
        let all: Option<Vec<_>> =
            self.0.iter().map(|family| family.addresses_for_pod(pod)).collect();
        all.map(|addresses| addresses.concat())
    }

    /// What Pods of their own ask of them.
    pub fn pod_service(&self) -> axum::Router {
        let services = self.0.iter().filter_map(|family| family.pod_service());
        services.fold(axum::Router::new(), axum::Router::merge)
    }

    /// What they bring to the listener for people.
    pub fn web(&self) -> Vec<FamilyWeb> {
        self.0.iter().filter_map(|family| family.web()).collect()
    }
}

#[cfg(test)]
mod tests {
    use sojourn_api::family;

    use super::*;

    #[test]
    fn every_family_of_the_api_is_run() {
        let run: Vec<_> = FAMILIES.iter().map(|family| family.name()).collect();
        let known: Vec<_> = family::FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(run, known);
    }
}
