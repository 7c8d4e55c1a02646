//! The operator of the family access among people, on several replicas.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::access::{BreakglassEscalation, BreakglassSession};
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_core::access::act::Verb;
use sojourn_core::access::person::Person;
use sojourn_core::access::request::Request;
use sojourn_core::key::Key;
use sojourn_operator::access::service::{AccessService, ServiceError};
use sojourn_operator::admission;
use sojourn_rbac::User;
use tokio::task::JoinSet;

use super::invariants::{MAX_SESSION_SILENCE, SessionChecker};
use super::replica::{Follower, Surroundings};
use super::{Access, NAME};
use crate::fault::Rates;
use crate::kubelet::Kubelet;
use crate::process::Process;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, SimulatedApi};
use crate::simulation::{self, Checker as _, Simulation, observe};

pub const NAMESPACE: &str = "access";
pub const CLUSTER: &str = "local";
/// Who may list ConfigMaps, and whose rights are lent.
pub const GROUP: &str = "oncall";
pub const APPROVER: &str = "grace@example.org";
/// The API server keeps no decision.
pub const CONFIG: &str = "clusters:\n  local: {authorizedTTL: 0s}\nmailConfigDir: /etc/mail\n";

/// A simulation of sessions and those who use them.
pub type AccessSimulation = Simulation<Access>;

/// What a simulation is made with.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub rates: Rates,
    pub long_watches: bool,
    /// Whether the clocks of replicas differ.
    pub skewed: bool,
    /// `access.yaml`.
    pub config: String,
}

impl Default for Setting {
    fn default() -> Self {
        let config = CONFIG.to_owned();
        Self { seed: 1, rates: Rates::default(), long_watches: true, skewed: false, config }
    }
}

/// Somebody of that name.
pub fn person(user: &str) -> Person {
    Person { user: user.to_owned(), email: Some(user.to_owned()), ..Person::default() }
}

impl AccessSimulation {
    /// A simulation with our kinds, an operator that has just been started, and one escalation. Call it on a paused
    /// clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let api = SimulatedApi::open(ApiSettings {
            rng: &rng,
            rates: setting.rates,
            long_watches: setting.long_watches,
            providers: admission::Providers::default(),
        })
        .await;
        api.faults.bound_silence("breakglasssessions", MAX_SESSION_SILENCE);
        let SimulatedApi { clock, client, engine, .. } = &api;
        let checker = SharedRecord::new(SessionChecker::new(clock.clone()));
        let drivers = Surroundings::new(clock.clone(), checker.clone(), setting.skewed);
        engine.set_extension_authorizer(Arc::new(drivers.clone()));
        simulated_api::make_namespace(client, shared::NAMESPACE).await;
        simulated_api::make_namespace(client, NAMESPACE).await;
        simulated_api::configure(client, NAME, &setting.config).await;
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        let mut observers = JoinSet::new();
        observers.spawn(observe::<BreakglassSession, SessionChecker>(
            client.clone(),
            checker.clone(),
            SessionChecker::saw,
            SessionChecker::saw_deleted,
        ));
        let surroundings = simulation::Surroundings { kubelet, drivers, checker, observers };
        let simulation = Self::assemble(api, surroundings);
        simulation.make_rights().await;
        simulation
    }

    /// Whoever is of the group may list ConfigMaps.
    async fn make_rights(&self) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": GROUP},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": GROUP},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": GROUP,
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP},
            ],
        });
        for object in [role, binding] {
            self.apply(&object).await;
        }
    }

    /// Makes an object as it should be.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn apply(&self, object: &Value) {
        apply(&self.client, object).await;
    }

    /// Offers the group to these users, on terms that `spec` adds.
    pub async fn offer(&self, name: &str, users: &[&str], spec: Value) {
        let mut object = json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassEscalation",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "allowed": {"users": users, "clusters": [CLUSTER]},
                "escalatedGroup": GROUP,
                "approvers": {"users": [APPROVER]},
            },
        });
        if let (Some(into), Some(from)) = (object["spec"].as_object_mut(), spec.as_object()) {
            into.extend(from.clone());
        }
        self.apply(&object).await;
    }

    /// A replica that serves beside the one that leads.
    pub fn follower(&self) -> Process<Follower> {
        let long_watches = true;
        self.run_beside(Follower { surroundings: self.drivers.clone(), long_watches })
    }

    /// A service that people reach.
    ///
    /// # Panics
    /// If no replica comes up.
    pub async fn service(&self) -> AccessService {
        for _ in 0..600 {
            if let Some(service) = self.drivers.service(0) {
                return service;
            }
            self.pass(Duration::from_secs(1)).await;
        }
        panic!("no replica serves");
    }

    /// The pages that people see, and what links in mails lead to.
    ///
    /// # Panics
    /// If no replica comes up.
    pub async fn pages(&self) -> Router {
        // Whoever serves one serves the other.
        self.service().await;
        self.drivers.pages().expect("a replica serves")
    }

    /// Somebody asks for the group.
    pub async fn request(&self, user: &str) -> Result<Key, ServiceError> {
        self.request_on(CLUSTER, user, GROUP).await
    }

    /// Somebody asks for a group on some cluster.
    pub async fn request_on(
        &self,
        cluster: &str,
        user: &str,
        group: &str,
    ) -> Result<Key, ServiceError> {
        let asked = Request {
            cluster: cluster.to_owned(),
            group: group.to_owned(),
            reason: Some("a simulated incident".to_owned()),
            ..Request::default()
        };
        let made = self.service().await.request(&person(user), NAMESPACE, asked).await?;
        Ok(Key::new(NAMESPACE, made.metadata.name.unwrap_or_default()))
    }

    /// Somebody does something to a session.
    pub async fn act(&self, user: &str, key: &Key, verb: Verb) -> Result<(), ServiceError> {
        self.service().await.act(&person(user), key, verb, None).await.map(drop)
    }

    /// A session of that user that is approved.
    ///
    /// # Panics
    /// If nobody can have one.
    pub async fn approved(&self, user: &str) -> Key {
        self.approved_on(CLUSTER, user, GROUP).await
    }

    /// The same for a group on some cluster.
    ///
    /// # Panics
    /// If nobody can have one.
    pub async fn approved_on(&self, cluster: &str, user: &str, group: &str) -> Key {
        let key = self.request_on(cluster, user, group).await.expect("it is offered");
        let pending = |one: &BreakglassSession| super::invariants::state_of(one).is_some();
        self.until(Duration::from_secs(60), &key, pending).await;
        self.act(APPROVER, &key, Verb::Approve).await.expect("it is approved");
        key
    }

    /// A client of somebody without rights of their own.
    pub fn client_of(&self, user: &str) -> Client {
        let groups = vec!["system:authenticated".to_owned()];
        let user = User { name: user.to_owned(), groups, ..User::default() };
        self.engine.client(Identity::authenticated(user))
    }

    /// Whether somebody may list ConfigMaps just now, which is a use if they may.
    ///
    /// # Panics
    /// If the API answers neither yes nor no.
    pub async fn uses(&self, user: &str) -> bool {
        list_config_maps(Api::namespaced(self.client_of(user), NAMESPACE)).await
    }

    /// Waits, at most so long, until a session is as it should be.
    ///
    /// # Panics
    /// If it is not by then.
    pub async fn until(
        &self,
        limit: Duration,
        key: &Key,
        is: impl Fn(&BreakglassSession) -> bool,
    ) -> BreakglassSession {
        let found = self.checker.wait_for(limit, |checker| {
            let last = checker.session(key)?;
            is(last).then(|| last.clone())
        });
        if let Some(found) = found.await {
            return found;
        }
        let checker = self.checker.lock();
        let shown = checker.session(key).map(|one| serde_json::to_string_pretty(&one.status));
        panic!(
            "{key} is not as expected after {limit:?}: {shown:?}\n{}",
            checker.log().lines().join("\n")
        );
    }

    pub fn sessions(&self) -> Api<BreakglassSession> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn escalations(&self) -> Api<BreakglassEscalation> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A session as it is on record.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn session(&self, key: &Key) -> BreakglassSession {
        self.sessions().get(&key.name).await.expect("it is there")
    }

    /// Checks what must hold at the end, once what is due within so long is done.
    pub fn check_end(&self, slack: SignedDuration) {
        self.checker.lock().check_end(slack);
    }
}

/// Makes an object as it should be.
///
/// # Panics
/// If it is refused.
pub(super) async fn apply(client: &Client, object: &Value) {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams::apply("people").force();
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{object} is refused: {error}"));
}

/// Whether that is allowed.
///
/// # Panics
/// If the API answers neither yes nor no.
pub(super) async fn list_config_maps(api: Api<ConfigMap>) -> bool {
    match api.list(&Default::default()).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 403 => false,
        Err(error) => panic!("the API answers neither yes nor no: {error}"),
    }
}
