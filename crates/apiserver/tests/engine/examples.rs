//! Every file in `examples/engine` is accepted as it stands.

use std::path::Path;

use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};

use crate::controller::RealServer;
use crate::fixture::{admin, open, open_definition, post};

fn example(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/engine");
    let text = std::fs::read_to_string(folder.join(name)).expect("the example is there");
    serde_saphyr::from_str(&text).expect("the example is YAML")
}

#[tokio::test]
async fn examples_are_applied() {
    let engine = open().await;
    apply(&admin(&engine)).await;
    engine.close().await;
}

/// A real server also refuses rules whose cost it cannot bound.
#[tokio::test(flavor = "multi_thread")]
async fn examples_are_applied_on_a_real_server() {
    if let Some(real) = RealServer::start().await {
        apply(&real.client).await;
    }
}

async fn apply(client: &Client) {
    let crontabs = "/apis/example.com/v1/namespaces/default/crontabs";
    open_definition(client, &example("crontab.yaml"), crontabs).await;
    let made = post(client, crontabs, &example("nightly.yaml")).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.message());
    assert_eq!(made.body["spec"]["replicas"], json!(1), "the default is filled in");

    let mut busy = example("nightly.yaml");
    busy["metadata"]["name"] = json!("busy");
    busy["spec"] = json!({"schedule": "* * * * *", "replicas": 4});
    let refused = post(client, crontabs, &busy).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.message().contains("more than three replicas cannot run every minute"));
}
