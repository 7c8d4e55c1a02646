//! One controller, three servers: in process, over TLS, and a real kube-apiserver. What it leaves
//! behind is the same.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::runtime::conditions;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, CustomResourceExt, Resource, ResourceExt};
use serde_json::json;
use sojourn_apiserver::auth::kubeconfig::{Credential, Kubeconfig};
use sojourn_apiserver::auth::token::Token;
use sojourn_apiserver::{SystemClock, SystemEntropy};
use tokio::sync::oneshot;

use crate::control_plane::ControlPlane;
use crate::fixture::{TEST_TIMEOUT, admin, eventually, open, user, within};
use crate::florist::{
    Bouquet, BouquetSpec, FINALIZER, Florist, LEASE, LEDGER, MANAGER, child_name,
};
use crate::identity;
use crate::skip;
use crate::target::Target;

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_works_in_process() {
    let engine = open().await;
    run_controller_scenario(admin(&engine), TEST_TIMEOUT).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_works_over_tls() {
    let engine = open().await;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = engine.serve_tls(any_port).await.expect("a port on loopback");
    let token = Token::generate(&SystemEntropy::default()).expect("random numbers");
    engine.add_token(token.reveal(), user("admin", &["system:masters"]));
    let config = Kubeconfig {
        name: "test",
        server: &format!("https://{}", server.address()),
        authority_pem: server.authority_pem(),
        credential: Credential::Token(&token),
        namespace: None,
    };
    let config = kube::config::Kubeconfig::from_yaml(&config.render()).expect("it is a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
    let client = Client::try_from(config.expect("kube-rs reads it")).expect("it makes a client");
    run_controller_scenario(client, TEST_TIMEOUT).await;
    engine.end_watches();
    within("the listener ends", TEST_TIMEOUT, server.stop()).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_works_on_a_real_server() {
    if let Some(real) = RealServer::start().await {
        run_controller_scenario(real.client.clone(), real.timeout).await;
    }
}

/// A real control plane and an administrator's client of it.
pub(crate) struct RealServer {
    pub(crate) client: Client,
    timeout: Duration,
    _plane: ControlPlane,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl RealServer {
    /// Nothing where its binaries are not at hand and need not be.
    pub(crate) async fn start() -> Option<Self> {
        let Some(assets) = ControlPlane::assets() else {
            let required = std::env::var("SOJOURN_REQUIRE_KUBE").is_ok_and(|value| value == "1");
            assert!(!required, "KUBEBUILDER_ASSETS is not set");
            skip::left_to_another_run("KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)");
            return None;
        };
        // Two that look for free ports at the same time may find the same ones.
        static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let alone = ONE.lock().await;
        let plane = ControlPlane::start(&assets).await.expect("the control plane starts");
        let target = std::sync::Arc::new(plane.target().await.expect("the control plane answers"));
        let timeout = target.timeout();
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let target = target.clone();
            async move {
                let token = format!("Bearer {}", identity::ADMIN.token);
                let token = HeaderValue::from_str(&token).expect("the token is plain text");
                request.headers_mut().insert(header::AUTHORIZATION, token);
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                target.send(Request::from_parts(parts, bytes)).await
            }
        });
        Some(Self {
            client: Client::new(service, "default"),
            timeout,
            _plane: plane,
            _alone: alone,
        })
    }
}

/// Runs the florist controller from the definition to the last deletion, and checks each step.
async fn run_controller_scenario(client: Client, timeout: Duration) {
    let namespace = "flowers";
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let new = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let new = serde_json::from_value(new).expect("it is a Namespace");
    namespaces.create(&PostParams::default(), &new).await.expect("a Namespace is created");
    install(&client, timeout).await;

    let florist = Florist::new(&client, namespace, "anna", SystemClock).with_recorder();
    let test = ControllerTest { florist, timeout };
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(test.florist.clone().run(async { drop(stopped.await) }));

    let rose = test.arranges_a_new_bouquet().await;
    test.follows_changes(&rose).await;
    test.repairs_children(&rose).await;
    test.cleans_up(&rose).await;
    test.records_events(&rose).await;
    test.holds_the_lease().await;

    stop.send(()).expect("the controller still runs");
    within("the controller stops", timeout, running).await.expect("it did not panic");
    test.released_the_lease().await;
    uninstall(&client, timeout).await;
}

pub(crate) async fn install(client: &Client, timeout: Duration) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = Bouquet::crd();
    let made = definitions.create(&PostParams::default(), &definition).await;
    made.expect("the definition is accepted");
    let established =
        await_condition(definitions, Bouquet::crd_name(), conditions::is_crd_established());
    let established = within("the definition is established", timeout, established).await;
    established.expect("the definition can be watched");
}

async fn uninstall(client: &Client, timeout: Duration) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Bouquet::crd_name();
    let deleted = definitions.delete(name, &DeleteParams::default()).await;
    let uid = deleted.expect("the definition can be deleted").map_left(|crd| crd.uid()).left();
    let uid = uid.flatten().expect("a definition is not gone at once");
    let gone = await_condition(definitions, name, conditions::is_deleted(&uid));
    within("the definition goes", timeout, gone).await.expect("the definition can be watched");
}

/// The running controller, checked through the API.
struct ControllerTest {
    florist: Florist,
    timeout: Duration,
}

impl ControllerTest {
    async fn until(&self, what: &str, name: &str, condition: impl Condition<Bouquet>) {
        let waited = await_condition(self.florist.bouquets(), name, condition);
        within(what, self.timeout, waited).await.expect("bouquets can be watched");
    }

    async fn arranges_a_new_bouquet(&self) -> Bouquet {
        let rose = Bouquet::new("rose", BouquetSpec { flowers: vec!["rose".to_owned()] });
        let by = PostParams { field_manager: Some("gardener".to_owned()), dry_run: false };
        self.florist.bouquets().create(&by, &rose).await.expect("a bouquet is created");
        self.until("the bouquet is arranged", "rose", observed(1)).await;
        let rose = self.florist.bouquets().get("rose").await.expect("it is there");
        assert_eq!(rose.finalizers(), [FINALIZER]);
        let status = rose.status.as_ref().expect("it has a status");
        assert_eq!((&*status.phase, &*status.arrangement), ("Arranged", "rose-arrangement"));
        let owned: Vec<_> = rose
            .managed_fields()
            .iter()
            .map(|entry| {
                let subresource = entry.subresource.as_deref().unwrap_or_default();
                (
                    entry.manager.as_deref().unwrap_or_default(),
                    entry.operation.as_deref().unwrap_or_default(),
                    subresource,
                )
            })
            .filter(|(manager, ..)| ["gardener", MANAGER].contains(manager))
            .collect();
        assert_eq!(owned, [(MANAGER, "Apply", "status"), ("gardener", "Update", "")]);

        let child = self.child(&rose).await.expect("the child is there");
        assert_eq!(child.data.as_ref().expect("it has data")["flowers"], "rose");
        let owner = rose.controller_owner_ref(&()).expect("a stored object has a uid");
        assert_eq!(child.owner_references(), [owner]);
        rose
    }

    async fn follows_changes(&self, rose: &Bouquet) {
        let wider = json!({"spec": {"flowers": ["rose", "fern"]}});
        let by = PatchParams { field_manager: Some("gardener".to_owned()), ..Default::default() };
        let bouquets = self.florist.bouquets();
        let changed = bouquets.patch("rose", &by, &Patch::Merge(&wider)).await;
        assert_eq!(changed.expect("it can be patched").metadata.generation, Some(2));
        self.until("the change is arranged", "rose", observed(2)).await;
        let child = self.child(rose).await.expect("the child is there");
        assert_eq!(child.data.expect("it has data")["flowers"], "rose fern");
    }

    /// A child that is deleted is made again; one that is changed is put right, and what others
    /// added to it stays.
    async fn repairs_children(&self, rose: &Bouquet) {
        let children = self.florist.config_maps();
        let before = self.child(rose).await.and_then(|child| child.uid());
        let name = child_name(rose);
        children.delete(&name, &DeleteParams::default()).await.expect("it can be deleted");
        eventually("the child is made again", self.timeout, async || {
            self.child(rose).await.filter(|child| child.uid() != before)
        })
        .await;

        let meddling = json!({"data": {"flowers": "weeds", "card": "from me"}});
        let by = PatchParams { field_manager: Some("meddler".to_owned()), ..Default::default() };
        children.patch(&name, &by, &Patch::Merge(&meddling)).await.expect("it can be patched");
        let data = eventually("the child is put right", self.timeout, async || {
            let data = self.child(rose).await?.data?;
            (data["flowers"] == "rose fern").then_some(data)
        })
        .await;
        assert_eq!(data["card"], "from me");
    }

    async fn cleans_up(&self, rose: &Bouquet) {
        let policy = PropagationPolicy::Foreground;
        let options = DeleteParams { propagation_policy: Some(policy), ..Default::default() };
        let deleted = self.florist.bouquets().delete("rose", &options).await;
        let marked = deleted.expect("it can be deleted").left().expect("it is only marked");
        let finalizers = marked.finalizers();
        assert!(finalizers.iter().any(|name| name == FINALIZER), "{finalizers:?}");
        assert!(finalizers.iter().any(|name| name == "foregroundDeletion"), "{finalizers:?}");
        let uid = rose.uid().expect("a stored object has a uid");
        self.until("the bouquet goes", "rose", conditions::is_deleted(&uid)).await;
        // A change that was being arranged meanwhile may have made the child once more.
        eventually("the child goes", self.timeout, async || {
            self.child(rose).await.is_none().then_some(())
        })
        .await;
        let ledger = self.florist.config_maps().get(LEDGER).await.expect("the cleanup ran");
        assert_eq!(ledger.data.expect("it has data")["rose"], "rose fern");
    }

    async fn records_events(&self, rose: &Bouquet) {
        let events: Api<Event> =
            Api::namespaced(self.florist.client.clone(), &self.florist.namespace);
        let all = events.list(&ListParams::default()).await.expect("events can be listed");
        let mut told: Vec<_> = all
            .iter()
            .filter(|event| event.regarding.as_ref().is_some_and(|of| of.uid == rose.uid()))
            .map(|event| {
                let times = event.series.as_ref().map_or(1, |series| series.count);
                (event.reason.as_deref().unwrap_or_default(), times, event.note.as_deref())
            })
            .collect();
        told.sort_unstable();
        assert_eq!(told, [("Arranged", 2, Some("1 flowers")), ("Wilted", 1, Some("taken away"))]);
    }

    /// Others do not get the lease while it is held, and a swap of an old state is refused.
    async fn holds_the_lease(&self) {
        let rival =
            Florist::new(&self.florist.client, &self.florist.namespace, "berta", SystemClock);
        assert!(!rival.acquire_lease().await.expect("leases can be read"));
        let leases = self.florist.leases();
        let old = leases.get(LEASE).await.expect("the lease is there");
        assert!(self.florist.acquire_lease().await.expect("the holder renews"));
        let late = leases.replace(LEASE, &PostParams::default(), &old).await;
        let Err(kube::Error::Api(status)) = late else { panic!("{late:?}") };
        assert_eq!((status.code, &*status.reason), (409, "Conflict"));
        let spec = leases.get(LEASE).await.expect("it is there").spec.expect("it has a spec");
        assert_eq!(spec.holder_identity.as_deref(), Some("anna"));
        assert_eq!(spec.lease_transitions, Some(0));
    }

    async fn released_the_lease(&self) {
        let rival =
            Florist::new(&self.florist.client, &self.florist.namespace, "berta", SystemClock);
        assert!(rival.acquire_lease().await.expect("leases can be written"));
        let lease = self.florist.leases().get(LEASE).await.expect("the lease is there");
        let spec = lease.spec.expect("it has a spec");
        assert_eq!(spec.holder_identity.as_deref(), Some("berta"));
        assert_eq!(spec.lease_transitions, Some(1));
    }

    async fn child(&self, bouquet: &Bouquet) -> Option<ConfigMap> {
        let found = self.florist.config_maps().get_opt(&child_name(bouquet)).await;
        found.expect("configmaps can be read")
    }
}

/// The controller has seen this generation.
pub(crate) fn observed(generation: i64) -> impl Condition<Bouquet> {
    move |bouquet: Option<&Bouquet>| {
        bouquet
            .and_then(|bouquet| bouquet.status.as_ref())
            .is_some_and(|status| status.observed_generation == generation)
    }
}
