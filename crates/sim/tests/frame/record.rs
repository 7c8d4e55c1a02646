//! What is on record: nobody's edit makes an instance look unused.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_core::key::Key;
use sojourn_core::lab::source;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, LabSimulation, Setting};

const MINUTE: Duration = Duration::from_secs(60);
const MIRROR: &str = "lab.sojourn.dev/last-activity";

fn key() -> Key {
    Key::new("lab", "one")
}

fn last(instance: &Instance) -> Option<String> {
    let activity = instance.status.as_ref()?.activity.as_ref()?;
    activity.last.as_ref().map(|time| format!("{:.0}", time.0))
}

fn mirrored(instance: &Instance) -> Option<String> {
    instance.metadata.annotations.as_ref()?.get(MIRROR).cloned()
}

/// Lent for three hours of disuse, without a warning, and used after two.
async fn used() -> (LabSimulation, String) {
    let config = format!("{CONFIG}enableInactivityNotifications: false\n");
    let simulation = LabSimulation::new(Setting { config, ..Setting::default() }).await;
    simulation.make_namespace("lab").await;
    simulation.make_tenant().await;
    let stop_after = Some(SignedDuration::from_hours(3));
    let policy = Policy { stop_after, persistent: true, ..Policy::default() };
    let template = Key::new("lab", "notebook");
    simulation.make_template(&template, &Design { policy, environments: 1 }).await;
    simulation.lend(&key(), &template, json!({})).await;
    simulation.pass(120 * MINUTE).await;
    simulation.use_it(&key(), source::GATEWAY);
    let seen = simulation.until(20 * MINUTE, &key(), |one| last(one).is_some()).await;
    let last = last(&seen).expect("it was just there");
    simulation.until(MINUTE, &key(), |one| mirrored(one).as_ref() == Some(&last)).await;
    (simulation, last)
}

// case: lab I7
#[tokio::test(start_paused = true)]
async fn a_last_use_that_cannot_be_read_stops_nothing_and_is_refused_or_mended() {
    let (simulation, last_use) = used().await;
    for garbage in [json!("yesterday"), json!("1970-01-01T00:00:00Z"), Value::Null] {
        let change = json!({"metadata": {"annotations": {MIRROR: garbage}}});
        simulation.change(&key(), &change).await;
        let mended = |one: &Instance| mirrored(one).as_ref() == Some(&last_use);
        simulation.until(MINUTE, &key(), mended).await;
    }
    for garbage in [json!("yesterday"), json!(7), json!({})] {
        let change = json!({"status": {"activity": {"last": garbage}}});
        let (api, params) = (simulation.instances(&key()), PatchParams::default());
        let patched = api.patch_status("one", &params, &Patch::Merge(&change)).await;
        let refused = patched.expect_err("it is no time").to_string();
        assert!(refused.contains("status.activity.last"), "{garbage}: {refused}");
    }
    // Three hours after its start it has been used an hour ago.
    simulation.pass(90 * MINUTE).await;
    let instance = simulation.instance(&key()).await.expect("there");
    assert_eq!((instance.spec.running, last(&instance)), (true, Some(last_use)));
    simulation.assert_invariants();
}

/// A definition that takes any words for the last use, as one of somebody else's might.
async fn loosen(simulation: &LabSimulation) {
    let api: Api<CustomResourceDefinition> = Api::all(simulation.client.clone());
    let mut definition = api.get("instances.lab.sojourn.dev").await.expect("a definition");
    let version = definition.spec.versions.first_mut().expect("a version");
    let mut schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
    for name in ["status", "activity", "last"] {
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        schema = properties.and_then(|properties| properties.get_mut(name));
    }
    let any = JSONSchemaProps { type_: Some("string".to_owned()), ..JSONSchemaProps::default() };
    *schema.expect("it is known") = any;
    let params = PostParams::default();
    api.replace("instances.lab.sojourn.dev", &params, &definition).await.expect("it is taken");
}

// Something that got past the schema is no reason to call an instance unused. Neither is a use of
// which only the time is missing.
// case: lab I7
#[tokio::test(start_paused = true)]
async fn a_last_use_that_is_lost_counts_as_now_and_is_said() {
    for lost in [json!("yesterday"), Value::Null] {
        let (simulation, last_use) = used().await;
        loosen(&simulation).await;
        simulation.operator.want(false);
        simulation.pass(30 * MINUTE).await;
        let change = json!({"status": {"activity": {"last": lost}}});
        let (api, params) = (simulation.instances(&key()), PatchParams::default());
        api.patch_status("one", &params, &Patch::Merge(&change)).await.expect("it is taken");
        let read = simulation.instance(&key()).await.expect("there");
        assert_eq!(last(&read), None, "{lost}: it cannot be read");
        let since = simulation.now();
        simulation.operator.want(true);
        let mended = simulation.until(5 * MINUTE, &key(), |one| last(one).is_some()).await;
        let now = last(&mended).expect("it was just there");
        assert!(now > last_use && now >= format!("{since:.0}"), "{lost}: {now}");
        simulation.until(MINUTE, &key(), |one| mirrored(one).as_ref() == Some(&now)).await;
        assert_eq!(simulation.events("LastUseLost").await.len(), 1, "{lost}: it is said, once");
        // Since its start it would be unused for long enough, and stopped; three hours after what
        // counts as its last use it is.
        simulation.pass(150 * MINUTE).await;
        let kept = simulation.instance(&key()).await.expect("there");
        assert_eq!((kept.spec.running, last(&kept)), (true, Some(now)), "{lost}");
        simulation.until(60 * MINUTE, &key(), |one| !one.spec.running).await;
        simulation.assert_invariants();
    }
}
