//! The configuration as it is read live. The engine here has no admission, so that bad ones get in.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use sojourn_api::lab::LabConfig;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine};
use sojourn_operator::configuration::Configuration;
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_rbac::User;
use tokio::sync::Notify;

const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

struct Stage {
    _engine: Engine,
    maps: Api<ConfigMap>,
    configuration: Arc<Configuration<LabConfig>>,
    changed: Arc<Notify>,
    _tasks: Tasks,
}

impl Stage {
    async fn new() -> Self {
        let engine = Engine::open(Config::in_memory()).await.expect("an engine opens");
        let groups = vec!["system:masters".to_owned()];
        let admin = User { name: "admin".to_owned(), groups, ..User::default() };
        let client = engine.client(Identity::authenticated(admin));
        make_namespace(&client).await;
        let maps = Api::namespaced(client.clone(), shared::NAMESPACE);
        let configuration = Arc::new(Configuration::default());
        let changed = Arc::new(Notify::new());
        let mut tasks = Tasks::default();
        {
            let (configuration, changed) = (configuration.clone(), changed.clone());
            tasks.spawn("configuration", async move {
                let told = || changed.notify_one();
                configuration.follow(&client, WatchSettings::default(), told).await;
            });
        }
        configuration.until_ready().await;
        Self { _engine: engine, maps, configuration, changed, _tasks: tasks }
    }

    /// Puts another text in place, and waits until somebody was told.
    async fn put(&self, text: &str) {
        self.write(shared::CONFIG_MAP, text).await;
        tokio::time::timeout(CHANGE_TIMEOUT, self.changed.notified())
            .await
            .expect("it is read live");
    }

    async fn write(&self, name: &str, text: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"lab.yaml": text},
        });
        let params = PatchParams::apply("test").force();
        self.maps.patch(name, &params, &Patch::Apply(map)).await.expect("it is written");
    }

    fn margin(&self) -> SignedDuration {
        self.configuration.current().margin
    }
}

async fn make_namespace(client: &Client) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shared::NAMESPACE},
    });
    let api: Api<Namespace> = Api::all(client.clone());
    let params = PatchParams::apply("test").force();
    api.patch(shared::NAMESPACE, &params, &Patch::Apply(namespace)).await.expect("it is made");
}

#[tokio::test]
async fn it_is_read_live_and_its_absence_is_the_defaults() {
    let fixture = Stage::new().await;
    assert_eq!(fixture.margin(), SignedDuration::from_mins(1));
    fixture.put("margin: 5m").await;
    assert_eq!(fixture.margin(), SignedDuration::from_mins(5));
    fixture.write("another", "margin: 9m").await;
    fixture.put("margin: 7m").await;
    assert_eq!(fixture.margin(), SignedDuration::from_mins(7), "another ConfigMap is not ours");
    fixture.maps.delete(shared::CONFIG_MAP, &DeleteParams::default()).await.expect("deleted");
    tokio::time::timeout(CHANGE_TIMEOUT, fixture.changed.notified())
        .await
        .expect("it is read live");
    assert_eq!(fixture.margin(), SignedDuration::from_mins(1));
}

#[tokio::test]
async fn a_bad_one_that_got_in_keeps_the_last_good_values_and_says_so() {
    let fixture = Stage::new().await;
    fixture.put("margin: 5m").await;
    for (text, named) in [
        ("margin: soon", "margin"),
        ("margn: 5m", "margin"),
        ("queryStep: 0s", "queryStep"),
        ("[not, a, map]", "lab.yaml"),
    ] {
        fixture.put(text).await;
        assert_eq!(fixture.margin(), SignedDuration::from_mins(5), "{text}");
        let problem = fixture.configuration.problem().expect("a problem");
        assert!(problem.contains(named), "{text}: {problem}");
    }
    fixture.put("margin: 6m").await;
    assert_eq!(
        (fixture.margin(), fixture.configuration.problem()),
        (SignedDuration::from_mins(6), None)
    );
}
