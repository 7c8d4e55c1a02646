//! A definition that is older, or newer, than the program that writes the statuses.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::json;
use sojourn_api::lab::Instance;
use sojourn_sim::lab::simulation::LabSimulation;

use crate::fixture::{HOUR, MINUTE, condition, kept, key, lend, simulation, status, template};

const TOO_OLD: &str = "DefinitionTooOld";

/// Changes what the definition of Instances knows of a status.
async fn redefine(
    simulation: &LabSimulation,
    change: impl Fn(&mut std::collections::BTreeMap<String, JSONSchemaProps>),
) {
    let api: Api<CustomResourceDefinition> = Api::all(simulation.client.clone());
    let mut definition = api.get("instances.lab.sojourn.dev").await.expect("a definition");
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut()).expect("properties");
        let status = properties.get_mut("status").and_then(|status| status.properties.as_mut());
        change(status.expect("properties of the status"));
    }
    let params = PostParams::default();
    api.replace("instances.lab.sojourn.dev", &params, &definition).await.expect("it is taken");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_too_old_is_said_once_and_nothing_is_written_until_it_is_newer() {
    let simulation = simulation(&kept(), "").await;
    redefine(&simulation, |status| drop(status.remove("lifecycle"))).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    let too_old = |one: &Instance| condition(one, TOO_OLD).is_some_and(|(_, holds)| holds);
    let told = simulation.until(MINUTE * 3, &key("one"), too_old).await;
    let conditions = status(&told).conditions;
    let words = &conditions.iter().find(|one| one.type_ == TOO_OLD).expect("just seen").message;
    assert!(words.contains("status.lifecycle") && words.contains("sojourn crds"), "{words}");
    simulation.pass(MINUTE * 10).await;
    assert_eq!(simulation.events(TOO_OLD).await.len(), 1);
    let (requests, version) =
        (simulation.faults.requests(), told.metadata.resource_version.clone());
    simulation.pass(HOUR * 6).await;
    let now = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(now.metadata.resource_version, version, "nothing is written");
    // What is observed is written down in between.
    let requests = simulation.faults.requests() - requests;
    assert!(requests < 100, "{requests} requests in six hours");

    let whole = sojourn_api::crds()
        .into_iter()
        .find(|one| one.metadata.name.as_deref() == Some("instances.lab.sojourn.dev"));
    let whole = whole.expect("a definition of ours");
    let newest = whole.spec.versions[0].schema.clone().and_then(|it| it.open_api_v3_schema);
    let newest = newest.and_then(|it| it.properties).expect("properties");
    let lifecycle = newest["status"].properties.as_ref().expect("properties")["lifecycle"].clone();
    redefine(&simulation, |status| drop(status.insert("lifecycle".to_owned(), lifecycle.clone())))
        .await;
    let works =
        |one: &Instance| status(one).ready_at.is_some() && condition(one, TOO_OLD).is_none();
    simulation.until(MINUTE * 3, &key("one"), works).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn what_a_newer_version_wrote_survives_an_older_one() {
    let simulation = simulation(&kept(), "").await;
    let text =
        || JSONSchemaProps { type_: Some("string".to_owned()), ..JSONSchemaProps::default() };
    redefine(&simulation, |status| {
        status.insert("history".to_owned(), text());
        let activity = status.get_mut("activity").and_then(|it| it.properties.as_mut());
        activity.expect("properties").insert("device".to_owned(), text());
        for list in ["environments", "conditions"] {
            let entry = status.get_mut(list).and_then(|list| match &mut list.items {
                Some(JSONSchemaPropsOrArray::Schema(entry)) => entry.properties.as_mut(),
                _ => None,
            });
            entry.expect("entries").insert("zone".to_owned(), text());
        }
    })
    .await;
    lend(&simulation, "one", json!({})).await;
    let resource = ApiResource::erase::<Instance>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(simulation.client.clone(), "lab", &resource);
    let mut stored = api.get("one").await.expect("it is there").data["status"].take();
    let lists = ["environments", "conditions"].map(|name| {
        let mut list = stored[name].take();
        let entries = list.as_array_mut().expect("entries");
        assert!(!entries.is_empty(), "{name}");
        entries.iter_mut().for_each(|entry| entry["zone"] = json!("north"));
        list
    });
    let newer = json!({"status": {
        "history": "kept", "activity": {"device": "lamp"},
        "environments": lists[0], "conditions": lists[1],
    }});
    api.patch_status("one", &PatchParams::default(), &Patch::Merge(&newer)).await.expect("taken");
    simulation.stop(&key("one")).await;
    let stopped = |one: &Instance| status(one).last_stopped_at.is_some();
    simulation.until(MINUTE * 10, &key("one"), stopped).await;
    let now = api.get("one").await.expect("it is there").data;
    assert_eq!(now["status"]["history"], "kept");
    assert_eq!(now["status"]["activity"]["device"], "lamp");
    assert_eq!(now["status"]["environments"][0]["zone"], "north", "{now}");
    let ready = now["status"]["conditions"].as_array().expect("conditions").iter();
    let ready = ready.filter(|one| one["type"] == "Ready").collect::<Vec<_>>();
    assert_eq!((&ready[0]["zone"], &ready[0]["status"]), (&json!("north"), &json!("False")));
    simulation.assert_invariants();
}
