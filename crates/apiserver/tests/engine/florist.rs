//! A controller as its users write them: kube-rs's `Controller` with a finalizer, children by
//! server-side apply, status by server-side apply, events, and a leader's lease.
//!
//! It is told its client and the time, and knows nothing of what answers: the same code runs on
//! the embedded engine and on a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sojourn_apiserver::Clock;

pub(crate) const MANAGER: &str = "florist";
pub(crate) const FINALIZER: &str = "florist.example/arrangement";
pub(crate) const LEASE: &str = "florist";
/// The ConfigMap in which cleanups are written down; nobody owns it.
pub(crate) const LEDGER: &str = "ledger";

/// How long a lease is good without being renewed.
const LEASE_SECONDS: i32 = 300;
const RENEW_INTERVAL: Duration = Duration::from_secs(120);
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// How often an arrangement is looked at even if nothing changed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(600);

#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "florist.example",
    version = "v1",
    kind = "Bouquet",
    namespaced,
    status = "BouquetStatus",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
pub(crate) struct BouquetSpec {
    pub(crate) flowers: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BouquetStatus {
    pub(crate) observed_generation: i64,
    pub(crate) phase: String,
    pub(crate) arrangement: String,
}

/// The context of the controller.
#[derive(Clone)]
pub(crate) struct Florist {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Who holds the lease.
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
    /// kube-rs's recorder reads the machine's clock, so it is not for runs that must be repeatable.
    pub(crate) recorder: Option<Recorder>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrangeError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Self>>),
}

impl Florist {
    pub(crate) fn new(
        client: &Client,
        namespace: &str,
        name: &str,
        clock: impl Clock + 'static,
    ) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            clock: Arc::new(clock),
            recorder: None,
        }
    }

    pub(crate) fn with_recorder(mut self) -> Self {
        let reporter = Reporter { controller: MANAGER.to_owned(), instance: None };
        self.recorder = Some(Recorder::new(self.client.clone(), reporter));
        self
    }

    pub(crate) fn bouquets(&self) -> Api<Bouquet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits for the lease, works while it is held, and gives it back when `stop` is there.
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send + Sync + 'static) {
        while !matches!(self.acquire_lease().await, Ok(true)) {
            tokio::time::sleep(RETRY_DELAY).await;
        }
        let florist = Arc::new(self);
        let controller = Controller::new(florist.bouquets(), watcher::Config::default())
            .owns(florist.config_maps(), watcher::Config::default())
            .graceful_shutdown_on(stop)
            .run(reconcile, |_, _, _| Action::requeue(RETRY_DELAY), florist.clone())
            .for_each(|outcome| {
                if let Err(error) = outcome {
                    print_error(&florist.name, &error);
                }
                std::future::ready(())
            });
        tokio::select! {
            () = controller => {}
            () = florist.renew_lease() => {}
        }
        florist.release_lease().await.expect("the lease can be given back");
    }

    /// Renews for as long as the lease is ours.
    async fn renew_lease(&self) {
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            if matches!(self.acquire_lease().await, Ok(false)) {
                return;
            }
        }
    }

    /// Takes or renews the lease by comparing and swapping; whether it is ours now.
    pub(crate) async fn acquire_lease(&self) -> Result<bool, kube::Error> {
        let now = self.clock.now();
        let Some(mut lease) = self.leases().get_opt(LEASE).await? else {
            let spec = LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                acquire_time: Some(MicroTime(now)),
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            };
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(spec) };
            return swapped(self.leases().create(&self.post(), &lease).await);
        };
        let spec = lease.spec.get_or_insert_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.name {
            let good_for = SignedDuration::from_secs(LEASE_SECONDS.into());
            let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            if !holder.is_empty() && now.duration_since(renewed) < good_for {
                return Ok(false);
            }
            spec.holder_identity = Some(self.name.clone());
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
        }
        spec.renew_time = Some(MicroTime(now));
        swapped(self.leases().replace(LEASE, &self.post(), &lease).await)
    }

    async fn release_lease(&self) -> Result<(), kube::Error> {
        let mut lease = self.leases().get(LEASE).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.name) {
            spec.holder_identity = None;
            swapped(self.leases().replace(LEASE, &self.post(), &lease).await)?;
        }
        Ok(())
    }

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.name.clone()), ..PostParams::default() }
    }

    async fn report(
        &self,
        bouquet: &Bouquet,
        reason: &str,
        note: String,
    ) -> Result<(), kube::Error> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        let event = Event {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Arrange".to_owned(),
            secondary: None,
        };
        recorder.publish(&event, &bouquet.object_ref(&())).await
    }

    async fn arrange(&self, bouquet: &Bouquet) -> Result<Action, kube::Error> {
        let apply = PatchParams::apply(MANAGER).force();
        let child = ConfigMap {
            metadata: ObjectMeta {
                name: Some(child_name(bouquet)),
                owner_references: bouquet.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("flowers".to_owned(), bouquet.spec.flowers.join(" "))])),
            ..ConfigMap::default()
        };
        self.config_maps().patch(&child_name(bouquet), &apply, &Patch::Apply(&child)).await?;
        let generation = bouquet.metadata.generation.unwrap_or(0);
        // The cache may not have seen the last status yet; asking keeps the events exact.
        let live = self.bouquets().get(&bouquet.name_any()).await?;
        if live.status.is_none_or(|status| status.observed_generation != generation) {
            self.report(bouquet, "Arranged", format!("{} flowers", bouquet.spec.flowers.len()))
                .await?;
        }
        let status = BouquetStatus {
            observed_generation: generation,
            phase: "Arranged".to_owned(),
            arrangement: child_name(bouquet),
        };
        let status = json!({
            "apiVersion": Bouquet::api_version(&()),
            "kind": Bouquet::kind(&()),
            "status": status,
        });
        self.bouquets().patch_status(&bouquet.name_any(), &apply, &Patch::Apply(&status)).await?;
        Ok(Action::requeue(RECHECK_INTERVAL))
    }

    async fn clean_up(&self, bouquet: &Bouquet) -> Result<Action, kube::Error> {
        let name = bouquet.name_any();
        // A manager for each entry: what one cleanup wrote, the next one does not take back.
        let apply = PatchParams::apply(&format!("{MANAGER}-{name}")).force();
        let entry = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": LEDGER},
            "data": {&name: bouquet.spec.flowers.join(" ")},
        });
        self.config_maps().patch(LEDGER, &apply, &Patch::Apply(&entry)).await?;
        // Here too the cache may be behind, and show a finalizer that is already gone.
        let live = self.bouquets().get_opt(&name).await?;
        if live.is_some_and(|live| live.finalizers().iter().any(|held| held == FINALIZER)) {
            self.report(bouquet, "Wilted", "taken away".to_owned()).await?;
        }
        Ok(Action::await_change())
    }
}

async fn reconcile(bouquet: Arc<Bouquet>, florist: Arc<Florist>) -> Result<Action, ArrangeError> {
    let bouquets = florist.bouquets();
    let outcome = finalizer(&bouquets, FINALIZER, bouquet, |event| async {
        Ok(match event {
            finalizer::Event::Apply(bouquet) => florist.arrange(&bouquet).await?,
            finalizer::Event::Cleanup(bouquet) => florist.clean_up(&bouquet).await?,
        })
    });
    outcome.await.map_err(|error| ArrangeError::Finalizer(Box::new(error)))
}

#[expect(clippy::print_stdout, reason = "it is shown with the test that fails")]
fn print_error(who: &str, error: &dyn std::fmt::Display) {
    println!("{who}: {error}");
}

pub(crate) fn child_name(bouquet: &Bouquet) -> String {
    format!("{}-arrangement", bouquet.name_any())
}

/// Whether a compare-and-swap went through; somebody else being first is no error.
fn swapped<T>(outcome: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match outcome {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
