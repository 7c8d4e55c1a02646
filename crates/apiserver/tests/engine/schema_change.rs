//! Objects that are older than their definition's schema.

use serde_json::{Value, json};
use sojourn_apiserver::{Config, Engine};

use crate::fixture::{Folder, TEST_TIMEOUT, admin, eventually, get, open_definition, patch, post};

const THINGS: &str = "/apis/schema.example/v1/namespaces/default/things";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.schema.example";

fn versions(colour: &Value) -> Value {
    json!([{
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"colour": colour}}},
        }},
    }])
}

/// Defaults apply to what was stored before they were declared, also after a restart.
#[tokio::test]
async fn later_defaults_are_filled_in_when_older_objects_are_read() {
    let folder = Folder::new();
    let engine = Engine::open(Config::at(folder.path())).await.expect("the store opens");
    let client = admin(&engine);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.schema.example"},
        "spec": {
            "group": "schema.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions(&json!({"type": "string"})),
        },
    });
    open_definition(&client, &definition, THINGS).await;
    let thing = json!({
        "apiVersion": "schema.example/v1", "kind": "Thing",
        "metadata": {"name": "old"}, "spec": {},
    });
    post(&client, THINGS, &thing).await.ok();
    let change =
        json!({"spec": {"versions": versions(&json!({"type": "string", "default": "red"}))}});
    patch(&client, DEFINITION, &change).await.ok();
    let old = format!("{THINGS}/old");
    assert_eq!(get(&client, &old).await.ok().body["spec"], json!({"colour": "red"}));
    engine.close().await;

    let engine = Engine::open(Config::at(folder.path())).await.expect("the store opens again");
    let client = admin(&engine);
    eventually("the kind is served again", TEST_TIMEOUT, async || {
        (get(&client, &old).await.body["spec"] == json!({"colour": "red"})).then_some(())
    })
    .await;
    let listed = get(&client, THINGS).await.ok().body;
    assert_eq!(listed["items"][0]["spec"], json!({"colour": "red"}));
    engine.close().await;
}
