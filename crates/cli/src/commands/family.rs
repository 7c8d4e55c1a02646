//! The families of Sojourn's own kinds: what they need of an API, what of them is served, and their
//! controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::api::{Patch, PatchParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_drivers::dial::Dial;
use sojourn_operator::clock::SystemClock;
use sojourn_operator::driver::SystemDriverFactory;
use sojourn_operator::family::{
    FamilyAuthorizer, FamilyWeb, ProgramPath, ServedFamilies, Setup, StartError, WebService,
};
use sojourn_operator::frame::task::Ended;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::GameSetup;
use sojourn_operator::installation_key::InstallationKeyError;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::replica::ReplicaName;

use super::providers::MachineDrivers;
use crate::exit::{Exit, Failure};

/// How long a replica that ends may take to write what was reported to it.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The families, served by this process whether it leads or not.
pub(super) struct Served {
    tasks: Tasks,
    families: ServedFamilies,
}

/// The controllers of the families, running.
pub(super) struct Controllers {
    tasks: Tasks,
}

/// What families are started with in a real process.
pub(super) fn setup(
    web: WebService,
    own_program: ProgramPath,
    dial: Arc<dyn Dial>,
    metrics: Metrics,
    replica: Option<ReplicaName>,
    game: GameSetup,
    machines: MachineDrivers,
) -> Setup {
    let MachineDrivers { providers, actuators } = machines;
    Setup {
        clock: Arc::new(SystemClock),
        watching: WatchSettings::default(),
        limits: Limits::default(),
        metrics,
        driver_factory: Arc::new(SystemDriverFactory { dial }),
        providers,
        actuators,
        web,
        own_program,
        replica,
        game,
    }
}

impl Served {
    pub(super) async fn start(client: &Client, setup: &Setup) -> Result<Self, Failure> {
        let mut tasks = Tasks::default();
        let families = ServedFamilies::serve(client, setup, &mut tasks).await.map_err(refused)?;
        Ok(Self { tasks, families })
    }

    /// Starts the controllers, which write with this client.
    pub(super) async fn lead(&self, client: &Client) -> Result<Controllers, Failure> {
        let mut tasks = Tasks::default();
        self.families.lead(client, &mut tasks).await.map_err(refused)?;
        Ok(Controllers { tasks })
    }

    /// All of them.
    pub(super) fn families(&self) -> &ServedFamilies {
        &self.families
    }

    /// What the families bring to the listener for people.
    pub(super) fn web(&self) -> Vec<FamilyWeb> {
        self.families.web()
    }

    /// What the families allow beyond RBAC, if they allow anything.
    pub(super) fn authorizer(&self) -> Option<FamilyAuthorizer> {
        self.families.authorizer()
    }

    /// Waits until something that is served ends, which nothing should.
    pub(super) async fn failed(&mut self) -> Failure {
        bug(self.tasks.any_ended().await)
    }

    /// Ends at once.
    pub(super) async fn abandon(self) {
        self.tasks.stop().await;
    }

    /// Ends when what was reported is on record.
    pub(super) async fn stop(self) {
        if tokio::time::timeout(FINISH_TIMEOUT, self.families.finish()).await.is_err() {
            tracing::warn!("some use that was reported to this replica may not be on record");
        }
        self.tasks.stop().await;
    }
}

impl Controllers {
    /// Waits until one of the controllers ends, which none should.
    pub(super) async fn failed(&mut self) -> Failure {
        bug(self.tasks.any_ended().await)
    }

    pub(super) async fn stop(self) {
        self.tasks.stop().await;
    }
}

fn bug(ended: Ended) -> Failure {
    Failure::new(Exit::Bug, ended, "Please report it. Nothing that was acknowledged is lost.")
}

fn refused(error: StartError) -> Failure {
    let advice = match &error {
        StartError::InstallationKey(InstallationKeyError::Unusable(_)) => {
            "Put the key back from a backup, or delete the Secret: the next start makes a new one, \
             and links that were mailed before end."
        }
        StartError::InstallationKey(InstallationKeyError::NoRandomness(_)) => {
            "Links would be signed with a key that anybody can guess. See that /dev/urandom and \
             getrandom(2) work here, then start again."
        }
        StartError::InstallationKey(InstallationKeyError::Api(_))
        | StartError::Groups(_)
        | StartError::Objects { .. }
        | StartError::Replica(_)
        | StartError::Coverage(_) => {
            "Are the kinds there (sojourn crds | kubectl apply -f -), and may the operator read them?"
        }
    };
    Failure::unavailable(error, advice)
}

/// Installs our kinds and roles into an API, as an administrator.
pub(super) async fn install_kinds(client: &Client) -> Result<(), Failure> {
    let taught = async {
        for definition in sojourn_api::crds() {
            apply(client, &definition).await?;
        }
        for role in sojourn_api::roles() {
            apply(client, &role).await?;
        }
        apply(client, &install::namespace()).await?;
        apply(client, &install::binding()).await?;
        apply_in(client, &install::account()).await?;
        apply_in(client, &sojourn_api::operator_role()).await?;
        apply_in(client, &install::own_binding()).await
    };
    taught.await.map_err(|error: anyhow::Error| {
        Failure::unavailable(error, "The controllers need their kinds and rights.")
    })
}

/// Gives whoever uses this machine's browser the role of an owner, in every namespace.
pub(super) async fn bind_person(client: &Client) -> Result<(), Failure> {
    for binding in install::person_bindings() {
        apply(client, &binding).await.map_err(|error| {
            Failure::unavailable(error, "Without it, the sign-in link opens nothing.")
        })?;
    }
    Ok(())
}

async fn apply<K>(client: &Client, object: &K) -> anyhow::Result<()>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    apply_by(&Api::all(client.clone()), object).await
}

/// The same, in our own namespace.
async fn apply_in<K>(client: &Client, object: &K) -> anyhow::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    apply_by(&Api::namespaced(client.clone(), shared::NAMESPACE), object).await
}

async fn apply_by<K>(api: &Api<K>, object: &K) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let params = PatchParams::apply(shared::MANAGER).force();
    let name = object.name_any();
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("cannot apply {} {name}", K::kind(&())))?;
    Ok(())
}
