//! A text is refused by a schema when, and only when, the typed reading refuses it.

use kube::Client;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use sojourn_api::group::convert::{check_group, check_machine};
use sojourn_api::lab::convert::{check_instance, check_template, check_tenant};
use sojourn_api::problem::Problem;

use crate::fixture::{causes, dry, engine, group, instance, machine, template, tenant};

/// Texts per field.
const TRIES: usize = 150;

/// Texts of a strategy, the same in every run.
fn texts(strategy: impl Strategy<Value = String>) -> Vec<String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut text = || strategy.new_tree(&mut runner).expect("a text").current();
    (0..TRIES).map(|_| text()).collect()
}

/// Pieces put together, so that many texts are good or nearly so.
fn pieces(of: &[&str], most: usize) -> impl Strategy<Value = String> + use<> {
    let of: Vec<String> = of.iter().map(|&piece| piece.to_owned()).collect();
    prop_oneof![
        9 => proptest::collection::vec(select(of), 0..=most).prop_map(|pieces| pieces.concat()),
        1 => "\\PC{0,12}",
    ]
}

/// What the typed reading says of an object of this kind.
fn typed(object: &Value) -> Vec<Problem> {
    let whole = object.clone();
    match object["kind"].as_str().expect("a kind") {
        "Tenant" => check_tenant(&serde_json::from_value(whole).expect("a Tenant")),
        "Template" => check_template(&serde_json::from_value(whole).expect("a Template")),
        "InstanceGroup" => check_group(&serde_json::from_value(whole).expect("an InstanceGroup")),
        "Machine" => check_machine(&serde_json::from_value(whole).expect("a Machine")),
        _ => check_instance(&serde_json::from_value(whole).expect("an Instance")),
    }
}

/// Both sides say the same of the field, for every text.
async fn agree(client: &Client, field: &str, texts: Vec<String>, object: impl Fn(&str) -> Value) {
    let mut good = 0;
    for text in &texts {
        let object = object(text);
        let problems = typed(&object);
        let here = problems.iter().any(|problem| problem.path == field);
        let there = match dry(client, &object).await {
            Ok(_) => false,
            Err(status) => {
                let named = causes(&status).iter().any(|(path, _)| *path == field);
                assert!(named, "{field} = {text:?}: refused for another reason: {status:?}");
                true
            }
        };
        assert_eq!(here, there, "{field} = {text:?}: refused here, there; {problems:?}");
        good += usize::from(!here);
    }
    let bad = texts.len() - good;
    assert!(good > 0 && bad > 0, "{field}: {good} good and {bad} bad texts try too little");
}

/// Of which spans, and much that is none, are made.
const SPANS: [&str; 31] = [
    "1",
    "90",
    "0",
    "007",
    "1.5",
    "2.",
    ".5",
    "5227",
    "36599",
    "878400",
    "52704000",
    "3162240000",
    "w",
    "d",
    "h",
    "m",
    "s",
    "ms",
    "1w",
    "2d",
    "3h",
    "4m",
    "5s",
    "6ms",
    "1.5h",
    "0.25m",
    "1.5d",
    "never",
    " ",
    "-",
    "x",
];

#[tokio::test]
async fn on_spans_of_time() {
    let (engine, client) = engine().await;
    let term = || texts(pieces(&SPANS, 5));
    agree(&client, "spec.deleteAfter", term(), |text| template(json!({ "deleteAfter": text })))
        .await;
    let newer = |text: &str| template(json!({ "cleanup": { "stopAfterInactivity": text } }));
    agree(&client, "spec.cleanup.stopAfterInactivity", term(), newer).await;
    let span = |text: &str| instance("one", json!({ "statusCheck": { "interval": text } }));
    agree(&client, "spec.statusCheck.interval", term(), span).await;
    engine.close().await;
}

#[tokio::test]
async fn on_addresses_and_urls() {
    let (engine, client) = engine().await;
    let mail = [
        "ada@example.org",
        "ada@",
        "@example.org",
        "ada",
        "b.c",
        "o'b",
        "+x",
        "@",
        "@",
        "example",
        ".",
        "org",
        "-",
        "_",
        " ",
        "é",
        "1",
    ];
    agree(&client, "spec.email", texts(pieces(&mail, 6)), tenant).await;
    let url = [
        "http://",
        "https://",
        "ftp://",
        "host",
        "example.org",
        ":",
        "8080",
        "/",
        "path",
        "?x=1",
        "[::1]",
        "@",
        " ",
        "#",
        "%20",
        "é",
        "-",
    ];
    let checked = |text: &str| instance("one", json!({ "statusCheck": { "url": text } }));
    agree(&client, "spec.statusCheck.url", texts(pieces(&url, 5)), checked).await;
    let sent = |text: &str| instance("one", json!({ "submission": { "url": text } }));
    agree(&client, "spec.submission.url", texts(pieces(&url, 5)), sent).await;
    engine.close().await;
}

#[tokio::test]
async fn on_environments() {
    let (engine, client) = engine().await;
    let of = |field: &str, text: &str| {
        let mut environment = json!({ "name": "web", "image": "i" });
        environment[field] = json!(text);
        template(json!({ "environmentList": [environment] }))
    };
    let at = |field: &str| format!("spec.environmentList[0].{field}");
    let name = ["a", "web", "0", "-", "longer-name", "A", ".", "_", ""];
    agree(&client, &at("name"), texts(pieces(&name, 3)), |text| of("name", text)).await;
    let path = ["/", "/", "data", "..", ".", ":", " ", "é", "\n", "x"];
    agree(&client, &at("mountPath"), texts(pieces(&path, 5)), |text| of("mountPath", text)).await;
    let size = ["0", "1", "10", ".5", "Gi", "M", "k", "m", "-", "e3", " ", "1Gi"];
    agree(&client, &at("size"), texts(pieces(&size, 3)), |text| of("size", text)).await;
    let memory = |text: &str| {
        let resources = json!({ "limits": { "memory": text } });
        let environment = json!({ "name": "web", "image": "i", "resources": resources });
        template(json!({ "environmentList": [environment] }))
    };
    agree(&client, &at("resources.limits[memory]"), texts(pieces(&size, 3)), memory).await;
    engine.close().await;
}

#[tokio::test]
async fn on_codes_and_references() {
    let (engine, client) = engine().await;
    let code = ["2", "200", "404", "299", "xx", "2xx", "-", "600", "XX", ","];
    let ends = |text: &str| instance("one", json!({ "statusCheck": { "endCodes": [text] } }));
    agree(&client, "spec.statusCheck.endCodes[0]", texts(pieces(&code, 3)), ends).await;
    let name = ["a", "b-c", ".", "-", "A", "0", "/", "é"];
    let of = |text: &str| instance("one", json!({ "template": { "name": text } }));
    agree(&client, "spec.template.name", texts(pieces(&name, 3)), of).await;
    let of =
        |text: &str| instance("one", json!({ "template": { "name": "t", "namespace": text } }));
    agree(&client, "spec.template.namespace", texts(pieces(&name, 3)), of).await;
    engine.close().await;
}

#[tokio::test]
async fn on_what_groups_and_machines_say() {
    let (engine, client) = engine().await;
    let of = |path: [&'static str; 2]| {
        move |text: &str| match path {
            ["", field] => group("web", json!({ field: text })),
            [part, field] => group("web", json!({ part: { field: text } })),
        }
    };
    let spans = [
        ["", "drainTimeout"],
        ["", "registrationTimeout"],
        ["expiry", "eligibleAge"],
        ["expiry", "jitter"],
    ];
    for path in spans {
        let field = ["spec", path[0], path[1]].join(".").replace("..", ".");
        agree(&client, &field, texts(pieces(&SPANS, 5)), of(path)).await;
    }
    let share = ["0", "1", "10", "100", "99", "101", "%", "%", "-", ".5", " "];
    let of_share = of(["", "maxUnhealthy"]);
    agree(&client, "spec.maxUnhealthy", texts(pieces(&share, 3)), of_share).await;
    let name = ["a", "b-c", ".", "-", "A", "0", "/", "é"];
    let of_group = |text: &str| machine("one", json!({ "group": text }));
    agree(&client, "spec.group", texts(pieces(&name, 3)), of_group).await;
    engine.close().await;
}
