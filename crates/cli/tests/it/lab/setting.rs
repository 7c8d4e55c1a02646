//! `config` and `crds`.

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::process::sojourn;

fn config_map(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "sojourn", "namespace": "sojourn-system"},
        "data": {"lab.yaml": text},
    })
}

/// One option as `config` prints it: where it comes from, and its value.
async fn option(stage: &Fixture, name: &str) -> (String, String) {
    let printed = stage.prints(&["config", "-o", "json"]).await;
    let all: Vec<Value> = serde_json::from_str(&printed).expect("JSON");
    let one = all.iter().find(|one| one["option"] == name).unwrap_or_else(|| panic!("no {name}"));
    let text = |field: &str| one[field].as_str().expect("a text").to_owned();
    (text("from"), text("value"))
}

#[tokio::test]
async fn config_says_what_is_in_force_and_where_it_comes_from() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    assert_eq!(option(&stage, "margin").await, ("default".to_owned(), "1m".to_owned()));
    stage.apply(config_map("margin: 5m")).await;
    assert_eq!(option(&stage, "margin").await, ("ConfigMap".to_owned(), "5m".to_owned()));
    assert_eq!(option(&stage, "activityInterval").await, ("default".to_owned(), "30s".to_owned()));
    let table = stage.prints(&["config"]).await;
    let margin = table.lines().find(|line| line.contains(" margin ")).expect("a line");
    let cells: Vec<_> = margin.split_whitespace().collect();
    assert_eq!(cells, ["lab.yaml", "margin", "ConfigMap", "5m"]);
    assert!(stage.prints(&["config", "-o", "name"]).await.lines().any(|line| line == "margin"));
    let yaml = stage.prints(&["config", "-o", "yaml"]).await;
    let read: Vec<Value> = serde_saphyr::from_str(&yaml).expect("YAML");
    assert!(read.iter().any(|one| one["option"] == "margin" && one["value"] == "5m"));
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_its_path_and_a_suggestion() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    stage.apply(config_map("margin: 5m")).await;
    for (text, words) in [
        ("margin: soon", &["data[lab.yaml].margin", "soon"][..]),
        ("margn: 5m", &["data[lab.yaml].margn", "margin is one"]),
        ("onUndeliverable: Shrug", &["data[lab.yaml].onUndeliverable"]),
        ("margin: [", &["data[lab.yaml]"]),
    ] {
        let refused = stage.try_apply(config_map(text)).await.expect_err("it is bad");
        for word in words {
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }
    assert_eq!(option(&stage, "margin").await.1, "5m", "nothing of it got in");
}

#[tokio::test]
async fn crds_is_all_that_another_api_needs_to_know() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let printed = sojourn(&["crds"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let documents: Vec<Value> = printed
        .stdout
        .split("---\n")
        .filter(|text| !text.trim().is_empty())
        .map(|text| serde_saphyr::from_str(text).expect("YAML"))
        .collect();
    let kinds = |kind: &str| {
        let names = documents.iter().filter(|one| one["kind"] == kind);
        let names = names.map(|one| one["metadata"]["name"].as_str().expect("a name"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let definitions = kinds("CustomResourceDefinition");
    for plural in ["instances", "templates", "tenants"] {
        assert!(definitions.contains(&format!("{plural}.lab.sojourn.dev")), "{definitions:?}");
    }
    assert!(kinds("ClusterRole").contains(&"sojourn-operator".to_owned()));
    assert_eq!(documents[0]["kind"], "Namespace", "what the others are in comes first");
    for document in &documents {
        stage.apply(document.clone()).await;
    }
    // Once they are there, so is the kind, and it is checked.
    let tenant = |email: &str| {
        json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "ada"},
            "spec": {"firstName": "Ada", "lastName": "Lovelace", "email": email},
        })
    };
    let refused = stage.try_apply(tenant("nobody")).await.expect_err("no address");
    assert!(refused.contains("spec.email"), "{refused}");
    stage.apply(tenant("ada@example.org")).await;
    assert_eq!(stage.prints(&["plan", "-A"]).await, "Nothing will happen by itself.");
}
