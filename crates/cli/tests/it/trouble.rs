//! What people are told when the API cannot be used: one sentence, and what to do next.

use std::path::Path;

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::lab::fixture::Fixture;
use crate::process::{Ended, Running, command, sojourn};

/// A command of each sort.
const COMMANDS: [&[&str]; 8] = [
    &["plan"],
    &["why", "instance/one"],
    &["keep", "instance/one"],
    &["stop", "instance/one"],
    &["config"],
    &["get", "pods"],
    &["delete", "pod/one"],
    &["logs", "one"],
];

fn read(kubeconfig: &Path) -> Value {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    serde_json::from_str(&text).expect("JSON")
}

/// Checks that a command failed with a sentence and advice, in these words.
fn told(args: &[&str], ended: &Ended, code: i32, words: &[&str]) {
    let stderr = &ended.stderr;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: no `{word}` in:\n{stderr}");
    }
    assert_eq!(stderr.lines().count(), 2, "{args:?}: a sentence and what to do: {stderr}");
    for debug in ["Error", "Some(", "os error", "{", "\\\"", "Kind("] {
        assert!(!stderr.contains(debug), "{args:?}: `{debug}` is for programmers:\n{stderr}");
    }
}

/// Runs each command with a kubeconfig that was changed.
fn all_told(config: &Value, code: i32, words: &[&str]) {
    let folder = Folder::new();
    let file = folder.join("kubeconfig");
    std::fs::write(&file, config.to_string()).expect("written");
    let file = file.display().to_string();
    for args in COMMANDS {
        let ended = sojourn(&[args, &["--kubeconfig", &file]].concat());
        told(args, &ended, code, words);
    }
}

fn free_address() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").to_string()
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_named() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let good = read(&stage.kubeconfig);
    let with = |pointer: &str, value: Value| {
        let mut config = good.clone();
        *config.pointer_mut(pointer).expect("it is there") = value;
        config
    };
    let server = "/clusters/0/cluster/server";
    // Nobody listens on a port that was free just now.
    let nobody = format!("https://{}", free_address());
    all_told(&with(server, json!(nobody)), 3, &["nobody listens at", &nobody, "`sojourn up`"]);
    let host = "https://nowhere.invalid:7443";
    all_told(&with(server, json!(host)), 3, &["nobody knows the host of", host]);
    // The listener for people speaks no TLS.
    let plain = stage.server.field("web").replace("http://", "https://");
    all_told(&with(server, json!(plain)), 3, &["does not speak TLS", &plain]);

    let folder = Folder::new();
    let other = Running::up_in_memory(&folder, &["--no-pods"]);
    let authority = "/clusters/0/cluster/certificate-authority-data";
    let foreign = read(&other.kubeconfig()).pointer(authority).cloned().expect("an authority");
    all_told(&with(authority, foreign), 3, &["is not trusted: another authority has signed it"]);
    let token = json!("nobody-has-this-token");
    all_told(&with("/users/0/user/token", token), 1, &["does not accept the credentials"]);
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_with_what_is_wrong() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let good = read(&stage.kubeconfig);
    let mut config = good.clone();
    config["current-context"] = json!("gone");
    all_told(&config, 2, &["has no context gone", "--context NAME; it has: sojourn."]);
    config["current-context"] = Value::Null;
    all_told(&config, 2, &["does not say which of its contexts is current"]);
    let mut config = good.clone();
    config["contexts"][0]["context"]["cluster"] = json!("gone");
    all_told(&config, 2, &["has no cluster gone"]);
    all_told(&json!("words"), 2, &["it is no kubeconfig"]);

    for args in COMMANDS {
        let missing = sojourn(&[args, &["--kubeconfig", "/nowhere/at/all"]].concat());
        told(args, &missing, 2, &["/nowhere/at/all: there is no such file", "--kubeconfig FILE"]);
    }
    // Nothing was said, and nothing is there.
    let folder = Folder::new();
    let mut bare = command(&["get", "pods"]);
    bare.env("HOME", folder.path()).env_remove("XDG_DATA_HOME");
    told(&["get"], &Running::start(bare).ended(), 2, &["~/.kube/config", "Start `sojourn up`"]);
    // The context that is asked for counts.
    let shown = stage.types(&["get", "ns", "default", "--context", "sojourn", "-o", "name"]).await;
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(0), "namespace/default"));
    let (code, words) = stage.refuses(&["get", "ns", "--context", "other"]).await;
    assert!(code == 2 && words.contains("has no context other"), "{words}");
}

#[tokio::test]
async fn an_api_without_our_kinds_is_told_from_one_without_objects() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    for args in
        [&["plan"][..], &["plan", "-A"], &["why", "instance/one"], &["keep", "instance/one"]]
    {
        let ended = stage.types(args).await;
        told(
            args,
            &ended,
            3,
            &["serves none of Sojourn's kinds", "sojourn crds | sojourn apply -f -"],
        );
    }
    let crds = sojourn(&["crds"]).stdout;
    let folder = Folder::new();
    let file = folder.join("crds.yaml");
    std::fs::write(&file, crds).expect("written");
    let applied = stage.types(&["apply", "-f", &file.display().to_string()]).await;
    assert_eq!((applied.code, applied.stderr.as_str()), (Some(0), ""));
    assert_eq!(stage.prints(&["plan"]).await, "Nothing will happen by itself.");
}

/// A kubeconfig for somebody who may do what a role says in a namespace, and nothing else.
async fn person(stage: &Fixture, folder: &Folder, rules: &Value) -> String {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "eve", "namespace": "default"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "eve"},
            "subjects": [{"kind": "ServiceAccount", "name": "eve", "namespace": "default"}],
        }),
    ] {
        stage.apply(object).await;
    }
    let accounts: kube::Api<k8s_openapi::api::core::v1::ServiceAccount> =
        kube::Api::namespaced(stage.client.clone(), "default");
    let asked = k8s_openapi::api::authentication::v1::TokenRequest::default();
    let params = kube::api::PostParams::default();
    let made = accounts.create_token_request("eve", &params, &asked).await;
    let token = made.expect("a token").status.expect("a status").token;
    let mut config = read(&stage.kubeconfig);
    config["users"][0]["user"] = json!({"token": token});
    let file = folder.join("eve");
    std::fs::write(&file, config.to_string()).expect("written");
    file.display().to_string()
}

#[tokio::test]
async fn whoever_may_not_is_told_so_and_shown_what_they_may() {
    let stage = Fixture::with_instance().await;
    let folder = Folder::new();
    let eve = person(&stage, &folder, &json!([])).await;
    let eve = |args: &[&str]| sojourn(&[args, &["--kubeconfig", &eve]].concat());
    for args in [
        &["why", "instance/one"][..],
        &["keep", "instance/one"],
        &["plan", "instance/one"],
        &["plan", "-n", "default"],
        &["get", "instances"],
        &["delete", "instance/one"],
        &["logs", "one"],
    ] {
        told(args, &eve(args), 1, &["forbidden", "Ask whoever runs the platform"]);
    }
    told(&["plan"], &eve(&["plan"]), 1, &["you may list nothing of Sojourn's", "-n NAMESPACE"]);

    let rules = json!([{
        "apiGroups": ["lab.sojourn.dev"], "resources": ["instances"], "verbs": ["get", "list"],
    }]);
    let folder = Folder::new();
    let allowed = person(&stage, &folder, &rules).await;
    let ended = sojourn(&["plan", "-o", "name", "--kubeconfig", &allowed]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "instance/one"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("Looked in namespace default alone: you may not list everything."),
        "{}",
        ended.stderr
    );
}
