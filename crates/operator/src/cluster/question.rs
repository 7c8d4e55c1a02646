//! What is asked of the outside for a decision, beside the controller: a provider about its machines, and a cluster
//! about itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use sojourn_api::cluster::name::KUBECONFIG_KEY;
use sojourn_core::cluster::{
    CallFailure, ErrorClass, InventoryMachine, Listing, OperationId, Probe, Target,
};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::actuator::{Account, Cluster, Platform};
use sojourn_drivers::guard::Allow;

use super::actuators::Actuators;
use super::snapshot::ClusterSnapshot;
use super::target::{KubeconfigRef, TargetClient, TargetProblem, TargetQuestion, Targets};
use super::words;
use crate::api_error::api_error_message;
use crate::clock::Clock;

/// Our own API is not waited for longer.
const SECRET_TIMEOUT: Duration = Duration::from_secs(15);
/// A cluster that has not said everything by then cannot be read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Which operation a cluster was in when something was asked, and whether that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) at: Timestamp,
    operation: Option<OperationId>,
    is_settled: bool,
}

impl Asked {
    pub(super) fn now(snapshot: &ClusterSnapshot, at: Timestamp) -> Self {
        let is_settled = snapshot.state.operation_under_way().is_none();
        Self { at, operation: snapshot.operation(), is_settled }
    }

    /// Whether an answer about machines still says something. One from before a cluster settled speaks of machines
    /// that were still on their way.
    pub(super) fn speaks_of_machines(&self, snapshot: &ClusterSnapshot) -> bool {
        let now = Self::now(snapshot, self.at);
        !now.is_settled || now == *self
    }

    /// Whether an answer of the cluster still says something. What it said before it was stopped proves nothing once
    /// it is started.
    pub(super) fn speaks_of_cluster(&self, snapshot: &ClusterSnapshot) -> bool {
        self.operation == snapshot.operation()
    }
}

/// What a provider answered.
#[derive(Debug)]
pub(crate) struct ProviderAnswer {
    pub(super) asked: Asked,
    pub(super) machines: Listing,
    pub(super) records: Known<Vec<InventoryMachine>>,
}

/// What a cluster answered.
#[derive(Debug)]
pub(crate) struct TargetAnswer {
    pub(super) asked: Asked,
    pub(super) target: Target,
    pub(super) probe: Option<Probe>,
}

/// Where a cluster's machines are, and what shows its provider who asks.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) key: Key,
    pub(super) infra_id: String,
    pub(super) platform: Platform,
    pub(super) secret: Option<String>,
}

impl Place {
    pub(super) fn of(snapshot: &ClusterSnapshot, client: &Client) -> Self {
        let infra_id = snapshot.cluster().map(|cluster| cluster.spec.infra_id.clone());
        Self {
            client: client.clone(),
            key: snapshot.key.clone(),
            infra_id: infra_id.unwrap_or_default(),
            platform: snapshot.platform.clone(),
            secret: snapshot.access.secret.clone(),
        }
    }

    /// The same with no credentials: for what is asked of nobody else.
    pub(super) fn without_account(&self) -> Cluster {
        Cluster {
            key: self.key.clone(),
            infra_id: self.infra_id.clone(),
            platform: self.platform.clone(),
            account: Account::default(),
        }
    }

    /// With what the Secret holds now.
    pub(super) async fn cluster(&self) -> Result<Cluster, CallFailure> {
        let account = match &self.secret {
            Some(name) => self.account(name).await?,
            None => Account::default(),
        };
        Ok(Cluster { account, ..self.without_account() })
    }

    async fn account(&self, name: &str) -> Result<Account, CallFailure> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.key.namespace);
        let failure = |class, why: &str| {
            let message = format!("the Secret {name} with its credentials {why}");
            CallFailure::new(class, message)
        };
        let secret = match tokio::time::timeout(SECRET_TIMEOUT, api.get_opt(name)).await {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => return Err(failure(ErrorClass::Auth, "is not there")),
            Ok(Err(error)) => {
                let why = format!("cannot be read: {}", words(&api_error_message(&error)));
                return Err(failure(ErrorClass::Transient, &why));
            }
            Err(_) => {
                return Err(failure(ErrorClass::Transient, "cannot be read in time"));
            }
        };
        let fields = secret.data.unwrap_or_default().into_iter();
        let texts: Result<BTreeMap<_, _>, _> = fields
            .map(|(field, value)| String::from_utf8(value.0).map(|text| (field, text)))
            .collect();
        match texts {
            Ok(texts) => Ok(Account::new(texts)),
            Err(_) => Err(failure(ErrorClass::Auth, "holds what is no text")),
        }
    }
}

/// What is asked of a provider.
pub(super) struct ProviderQuestion {
    pub(super) asked: Asked,
    pub(super) place: Place,
    pub(super) machines: bool,
    pub(super) records: bool,
}

impl ProviderQuestion {
    pub(super) async fn ask(self, actuators: Actuators) -> Option<ProviderAnswer> {
        let Self { asked, place, machines, records } = self;
        let listing = async {
            if !machines {
                return Listing::NotListed;
            }
            match place.cluster().await {
                Ok(cluster) => actuators.list(&cluster).await,
                Err(failure) => Listing::Failed(failure),
            }
        };
        let on_record = async {
            if records { actuators.records(&place.without_account()).await } else { Known::Unknown }
        };
        let (machines, records) = tokio::join!(listing, on_record);
        Some(ProviderAnswer { asked, machines, records })
    }
}

/// How a cluster itself is reached.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) targets: Targets,
    pub(super) key: Key,
    /// The Secret with its kubeconfig.
    pub(super) secret: String,
    pub(super) allowed_addresses: Vec<String>,
}

impl Way {
    /// Nothing, if it has no kubeconfig.
    pub(super) fn of(
        snapshot: &ClusterSnapshot,
        targets: &Targets,
        allowed_addresses: &[String],
    ) -> Option<Self> {
        let secret = snapshot.cluster()?.spec.kubeconfig_secret_ref.as_ref()?;
        Some(Self {
            targets: targets.clone(),
            key: snapshot.key.clone(),
            secret: secret.name.clone(),
            allowed_addresses: allowed_addresses.to_vec(),
        })
    }

    pub(super) async fn client(&self) -> Result<TargetClient, String> {
        let allow = Allow::parse(&self.allowed_addresses);
        let allow = allow.map_err(|error| error.to_string())?;
        let kubeconfig = KubeconfigRef {
            namespace: &self.key.namespace,
            name: &self.secret,
            key: KUBECONFIG_KEY,
        };
        let client = self.targets.client(kubeconfig, &allow).await;
        client.map_err(|problem: TargetProblem| problem.to_string())
    }
}

/// What is asked of a cluster.
#[derive(Debug)]
pub(super) struct ClusterQuestion {
    pub(super) asked: Asked,
    pub(super) way: Way,
    /// Whoever reads it has probed it.
    pub(super) read: Option<TargetQuestion>,
}

impl ClusterQuestion {
    pub(super) async fn ask(self, clock: Arc<dyn Clock>) -> Option<TargetAnswer> {
        let Self { asked, way, read } = self;
        let (target, probe) = match (way.client().await, read) {
            (Ok(client), Some(question)) => {
                let read = tokio::time::timeout(READ_TIMEOUT, client.read(&question)).await;
                let seconds = READ_TIMEOUT.as_secs();
                let late =
                    |_| Target::Unreadable(format!("not everything was said within {seconds} s"));
                (read.unwrap_or_else(late), None)
            }
            (Ok(client), None) => (Target::NotRead, Some(client.probe(clock.as_ref()).await)),
            (Err(why), Some(_)) => (Target::Unreadable(why), None),
            (Err(why), None) => (Target::NotRead, Some(Probe { at: asked.at, result: Err(why) })),
        };
        Some(TargetAnswer { asked, target, probe })
    }
}
