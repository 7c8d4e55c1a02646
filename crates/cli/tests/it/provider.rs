//! Providers that third parties bring: the flag, the command for those who write one, and what is left of
//! a program whose server was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::group::{InstanceGroup, Machine};

use crate::folder::Folder;
use crate::lab::fixture::Fixture;
use crate::process::{Ended, sojourn};
use crate::skip;

const PYTHON: &str = "/usr/bin/python3";
const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/provider/sojourn-provider-folder");
const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder with the example in it; none where there is no Python.
fn with_example() -> Option<Folder> {
    if !Path::new(PYTHON).exists() {
        skip::whole(format_args!("there is no {PYTHON}"));
        return None;
    }
    let folder = Folder::new();
    chmod(folder.path(), 0o755);
    let program = program(&folder);
    fs::copy(EXAMPLE, &program).expect("the example is there");
    chmod(&program, 0o755);
    Some(folder)
}

fn program(folder: &Folder) -> PathBuf {
    folder.join("sojourn-provider-folder")
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// Processes that run this program.
fn processes(program: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("it is there").filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == text(program).as_bytes())
    };
    pids.filter(runs).collect()
}

fn group(name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 2, "template": {"provider": "exec", "config": config}},
    })
}

fn cluster(name: &str, exec: &Value) -> Value {
    json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"infraID": name, "platform": {"exec": exec}},
    })
}

#[tokio::test]
async fn machines_of_a_program_live_as_their_group_does_and_the_program_as_its_server() {
    let Some(folder) = with_example() else { return };
    let files = || fs::read_dir(folder.join("machines/blue")).into_iter().flatten().count();
    let program = program(&folder).canonicalize().expect("it is there");
    let stage = Fixture::empty(&["--no-pods", "--providers", text(folder.path())]).await;
    stage
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "sojourn", "namespace": "sojourn-system"},
            "data": {"group.yaml": "trial: 1s"},
        }))
        .await;
    let config = json!({"name": "folder", "config": {"folder": "blue"}});
    stage.apply(group("blue", &config)).await;
    let machines: Api<Machine> = Api::namespaced(stage.client.clone(), "default");
    let all = ListParams::default();
    let ready = eventually("two machines are ready", async || {
        let listed = machines.list(&all).await.ok()?.items;
        let ready = |machine: &Machine| {
            let status = serde_json::to_value(&machine.status).expect("JSON");
            status["phase"] == "Ready"
        };
        (listed.len() == 2 && listed.iter().all(ready)).then_some(listed)
    })
    .await;
    for machine in &ready {
        let uid = machine.metadata.uid.as_deref().expect("it has one");
        let status = serde_json::to_value(&machine.status).expect("JSON");
        assert_eq!(status["providerID"], format!("exec://folder/blue/{uid}"));
        assert!(folder.join(&format!("machines/blue/{uid}.json")).exists());
    }
    assert_eq!(files(), 2);

    let no_folder = json!({"name": "folder", "config": {}});
    let refused = stage.try_apply(group("bad", &no_folder)).await.expect_err("no folder is named");
    assert!(refused.contains("config.folder: it is needed"), "{refused}");
    let nobody = json!({"name": "nobody", "config": {}});
    let refused = stage.try_apply(group("bad", &nobody)).await.expect_err("there is no such one");
    assert!(refused.contains("there is no program nobody; there is folder"), "{refused}");
    for (exec, words) in [
        (json!({"name": "nobody"}), "spec.platform.exec.name: there is no program nobody"),
        (json!({"name": "folder"}), "spec.platform.exec.config.folder: it is needed"),
    ] {
        let refused = stage.try_apply(cluster("bad", &exec)).await.expect_err("nobody can");
        assert!(refused.contains(words), "{refused}");
    }

    let groups: Api<InstanceGroup> = Api::namespaced(stage.client.clone(), "default");
    groups.delete("blue", &DeleteParams::default()).await.expect("it is deleted");
    for machine in machines.list(&all).await.expect("listed").items {
        let done = eventually("it is being drained", async || {
            let name = machine.metadata.name.as_deref().expect("it has one");
            let drain = machines.get(name).await.ok()?.status?.drain?;
            Some(json!({"spec": {"drainReply": {"id": drain.id, "outcome": "Done"}}}))
        })
        .await;
        let name = machine.metadata.name.as_deref().expect("it has one");
        let (params, patch) = (kube::api::PatchParams::default(), kube::api::Patch::Merge(&done));
        machines.patch(name, &params, &patch).await.expect("it is answered");
    }
    eventually("nothing is left", async || (files() == 0).then_some(())).await;

    assert_eq!(processes(&program).len(), 1);
    let Fixture { server, .. } = stage;
    server.crash();
    eventually("the program has ended", async || processes(&program).is_empty().then_some(()))
        .await;
}

/// The objects of the example, in order.
fn example() -> Vec<Value> {
    let folder = Path::new(EXAMPLE).parent().expect("it is in a folder");
    let entries = fs::read_dir(folder).expect("it is there").map(|file| file.expect("one").path());
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    let mut files: Vec<PathBuf> = entries.filter(is_yaml).collect();
    files.sort();
    let read = |file: &PathBuf| fs::read_to_string(file).expect("text");
    let objects = |text: String| serde_saphyr::from_multiple::<Value>(&text).expect("YAML");
    files.iter().map(read).flat_map(objects).collect()
}

#[tokio::test]
async fn the_example_has_a_group_and_a_cluster_that_sleeps_and_wakes() {
    let Some(folder) = with_example() else { return };
    let rack = folder.join("machines/rack");
    fs::create_dir_all(&rack).expect("it is ours");
    let names = ["one.json", "two.json"];
    for name in names {
        fs::write(rack.join(name), r#"{"state": "Running", "infraID": "green-x7k2p"}"#)
            .expect("it is ours");
    }
    let states = || {
        names.map(|name| {
            let text = fs::read_to_string(rack.join(name)).expect("nobody deletes it");
            let record: Value = serde_json::from_str(&text).expect("JSON");
            // What has not come yet is written when it is looked at next.
            record["then"]["state"].as_str().or(record["state"].as_str()).map(str::to_owned)
        })
    };
    let stage = Fixture::empty(&["--no-pods", "--providers", text(folder.path())]).await;
    let poll = "machinePoll: {min: 1s, max: 2s}";
    stage
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "sojourn", "namespace": "sojourn-system"},
            "data": {"cluster.yaml": poll},
        }))
        .await;
    for object in example() {
        stage.apply(object).await;
    }
    let clusters: Api<ClusterDeployment> = Api::namespaced(stage.client.clone(), "folder");
    let until = async |wanted: &str| {
        eventually(wanted, async || {
            let status = clusters.get("green").await.ok()?.status?;
            let status = serde_json::to_value(&status).expect("JSON");
            (status["powerState"] == wanted).then_some(())
        })
        .await;
    };
    until("Running").await;
    for (wanted, state) in [("Hibernating", "Stopped"), ("Running", "Running")] {
        let patch = kube::api::Patch::Merge(json!({"spec": {"powerState": wanted}}));
        let params = kube::api::PatchParams::default();
        clusters.patch("green", &params, &patch).await.expect("it may be written");
        until(wanted).await;
        assert_eq!(states(), [Some(state.to_owned()), Some(state.to_owned())]);
    }
}

fn refused(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no `{part}` in:\n{}", ended.stderr);
    }
}

#[test]
fn a_program_that_others_may_write_to_is_not_run() {
    let Some(folder) = with_example() else { return };
    let program = program(&folder);
    chmod(&program, 0o757);
    let up = ["up", "--in-memory", "--no-web", "--providers", text(folder.path())];
    let parts = ["others than its owner may write to it (mode 757)", "chmod go-w", text(&program)];
    refused(&sojourn(&up), 3, &parts);
    refused(&sojourn(&["provider-test", text(&program)]), 3, &parts);
    chmod(&program, 0o755);
    chmod(folder.path(), 0o777);
    refused(&sojourn(&up), 3, &["(mode 777)", text(folder.path())]);
    let missing = folder.join("missing");
    let up = ["up", "--in-memory", "--no-web", "--providers", text(&missing)];
    refused(&sojourn(&up), 3, &["cannot look at", "missing"]);
}

#[test]
fn provider_test_says_what_a_program_keeps() {
    let Some(folder) = with_example() else { return };
    let program = program(&folder);
    let config = folder.join("config.yaml");
    fs::write(&config, "folder: trial\n").expect("it is ours");
    let passed = sojourn(&["provider-test", text(&program), "--config", text(&config)]);
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
    let mut lines = passed.stdout.lines();
    let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    assert_eq!(head, ["CHECK", "RESULT", "WHY"]);
    let row = |check: &str| {
        passed.stdout.lines().any(|line| line.starts_with(check) && line.contains("  passed"))
    };
    assert!(row("the same uid is the same machine"), "{}", passed.stdout);
    assert!(row("machines outlive the program"), "{}", passed.stdout);
    assert!(passed.stdout.contains("no cluster is touched without --infra-id"));

    let careful = sojourn(&["provider-test", text(&program), "-o", "json"]);
    let findings: Value = serde_json::from_str(&careful.stdout).expect("JSON");
    assert_eq!(
        findings[0],
        json!({"check": "it says what it can do", "result": "passed", "why": ""})
    );

    fs::write(&program, format!("#!{PYTHON}\nprint('Hello!')\n")).expect("it is ours");
    let failed = sojourn(&["provider-test", text(&program)]);
    refused(&failed, 1, &["folder failed 1 of 1 checks"]);
    assert!(failed.stdout.contains("failed"), "{}", failed.stdout);
    let wrong = folder.join("wrong.yaml");
    fs::write(&wrong, "{").expect("it is ours");
    refused(
        &sojourn(&["provider-test", text(&program), "--config", text(&wrong)]),
        2,
        &["cannot use", "wrong.yaml"],
    );
    refused(&sojourn(&["provider-test"]), 2, &["PROGRAM"]);
}
