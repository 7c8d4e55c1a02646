//! The API that a simulation runs on: the embedded API server with our kinds and our admission, a virtual clock, a
//! client whose requests always work, and the faults of the operator's requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks, SeededEntropy, TokioClock};
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::clock::VirtualClock;
use sojourn_operator::frame::WatchSettings;
use sojourn_rbac::User;

use crate::fault::{Faults, Rates, reliable_client};
use crate::process::Host;
use crate::rng::Rng;
use crate::trace::Trace;

/// When every simulation begins: a Monday, at midnight.
pub const BEGIN: Timestamp = Timestamp::constant(1_893_456_000, 0);
/// How often it is checked whether a kind is served.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a killed operator stays down, unless the simulation says otherwise.
const DEFAULT_DOWN_FOR: Duration = Duration::from_secs(5);

/// What an API is made with.
#[derive(Debug)]
pub(crate) struct ApiSettings<'a> {
    pub(crate) rng: &'a Rng,
    pub(crate) rates: Rates,
    /// Whether the operator's watches last; normal ones are opened again every five minutes.
    pub(crate) long_watches: bool,
    pub(crate) providers: admission::Providers,
}

/// An API without an operator.
pub(crate) struct SimulatedApi {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) engine: Engine,
    /// People's and observers', whose requests always work.
    pub(crate) client: Client,
    pub(crate) faults: Arc<Faults>,
    pub(crate) trace: Trace,
    pub(crate) long_watches: bool,
    pub(crate) host: Host,
}

impl SimulatedApi {
    /// Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub(crate) async fn open(settings: ApiSettings<'_>) -> Self {
        let ApiSettings { rng, rates, long_watches, providers } = settings;
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let (engine, admission) = open_engine(rng, providers).await;
        let people = User {
            name: "people".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let plain = engine.client(Identity::authenticated(people));
        let trace = Trace::starting_now();
        let client = reliable_client(plain.clone(), trace.clone());
        admission.connect(client.clone());
        install_kinds(&client).await;
        let faults = Faults::new(rates, rng.split("faults"), long_watches, trace.clone());
        let down_for = Arc::new(Mutex::new(DEFAULT_DOWN_FOR));
        let account = User {
            name: install::user_name(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let operator = engine.client(Identity::authenticated(account));
        let host = Host { client: operator, faults: faults.clone(), down_for };
        Self { clock, engine, client, faults, trace, long_watches, host }
    }
}

/// How an operator watches the API.
pub(crate) const fn watch_settings(long_watches: bool) -> WatchSettings {
    // With a timeout of zero the client never gives a silent watch up; the connection makes it last.
    if long_watches {
        WatchSettings { timeout_seconds: 0, bookmarks: false }
    } else {
        WatchSettings { timeout_seconds: 290, bookmarks: true }
    }
}

async fn open_engine(rng: &Rng, providers: admission::Providers) -> (Engine, Admission) {
    let admission = Admission::new(&admission::Setup { providers, ..admission::Setup::default() });
    let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
    let hook = Hook::new(admission::NAME, scope, admission.service());
    let hooks = Hooks { mutating: Vec::new(), validating: vec![hook] };
    let config = Config::in_memory()
        .clock(TokioClock::starting_at(BEGIN))
        .entropy(SeededEntropy::new(rng.split("engine").next_u64()))
        .inline_writes()
        .hooks(hooks);
    (Engine::open(config).await.expect("an engine in memory opens"), admission)
}

async fn install_kinds(client: &Client) {
    for definition in sojourn_api::crds() {
        install_kind(client, &definition).await;
    }
}

/// Applies a definition, and waits until its kind is served.
///
/// # Panics
/// If it is refused.
pub async fn install_kind(client: &Client, definition: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("people").force();
    let name = definition.metadata.name.clone().unwrap_or_default();
    api.patch(&name, &params, &Patch::Apply(definition)).await.expect("a good definition");
    loop {
        let there = api.get(&name).await.expect("it was made");
        let conditions = there.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Makes a namespace, unless it is there.
///
/// # Panics
/// If it is refused.
pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("one");
    if let Err(error) = api.create(&PostParams::default(), &namespace).await {
        let is_there = matches!(&error, kube::Error::Api(status) if status.is_already_exists());
        assert!(is_there, "{error}");
    }
}

/// Sets the options of a family in our ConfigMap.
///
/// # Panics
/// If they are refused.
pub(crate) async fn configure(client: &Client, family: &str, text: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": shared::CONFIG_MAP},
        "data": {format!("{family}.yaml"): text},
    });
    let params = PatchParams::apply("people").force();
    let applied = api.patch(shared::CONFIG_MAP, &params, &Patch::Apply(map)).await;
    applied.unwrap_or_else(|error| panic!("the configuration is refused: {error}"));
}
