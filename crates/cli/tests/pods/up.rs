//! `sojourn up` as a whole: how it ends, what then becomes of its Pods, and what the next one finds.

mod datagrams;
mod lacking;
mod published;
mod service;

use std::path::Path;
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::case;
use crate::client;
use crate::expectation::{Expected, unmet};
use crate::folder::Folder;
use crate::observer::{self, Observer, latest};
use crate::process::{Running, command};
use crate::skip;
use crate::survivors::{self, Reaper, interrupt};

const POD_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A server, and what is seen of the Pods of its namespace `default`.
struct Up {
    server: Running,
    client: Client,
    pods: Observer,
}

impl Up {
    async fn on(data: &Path, more: &[&str]) -> Self {
        let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
        up.arg(data).args(more);
        Self::of(Running::start(up)).await
    }

    async fn of(server: Running) -> Self {
        server.ready();
        let client = client::connect(&server.kubeconfig()).await;
        let pods = Observer::start(pods(&client)).await;
        Self { server, client, pods }
    }

    async fn create(&self, name: &str, short: &Value) {
        let pod: DynamicObject = serde_json::from_value(case::pod(name, short)).expect("a Pod");
        // At first the namespace has no ServiceAccount yet.
        let created = async {
            while pods(&self.client).create(&PostParams::default(), &pod).await.is_err() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        timeout(POD_TIMEOUT, created).await.unwrap_or_else(|_| panic!("{name} cannot be created"));
    }

    /// Waits until a Pod is so, and says what it is.
    async fn until(&self, name: &str, expected: Value) -> Value {
        let expected: Expected = serde_json::from_value(expected).expect("expectations");
        let mut last = None;
        let seen = self.pods.until(|seen| {
            let pod = latest(seen, name)?;
            last = unmet(pod, &expected);
            last.is_none().then(|| pod.clone())
        });
        match timeout(POD_TIMEOUT, seen).await {
            Ok(Some(pod)) => pod,
            _ => panic!("{name}: {last:?}"),
        }
    }

    /// Waits until the Pod's log has the word.
    async fn until_said(&self, name: &str, word: &str) {
        let path = format!("/api/v1/namespaces/default/pods/{name}/log");
        let said = async {
            loop {
                let request = http::Request::get(&path).body(Vec::new()).expect("a request");
                if self.client.request_text(request).await.is_ok_and(|text| text.contains(word)) {
                    break;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        timeout(POD_TIMEOUT, said).await.unwrap_or_else(|_| panic!("{name} never said {word}"));
    }
}

fn pods(client: &Client) -> Api<DynamicObject> {
    observer::api(client, "default", "pods")
}

/// A word for the arguments of a test's processes, by which they are found.
fn word(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A Pod that runs on; its process has `word` among its arguments.
fn lasting(script: &str, word: &str) -> Value {
    json!({"containers": [{"command": ["sh", "-c", script, word]}]})
}

fn running() -> Value {
    json!({"/status/phase": "Running", "/status/containerStatuses/0/ready": true})
}

const LOOP: &str = "while :; do sleep 0.1; done";

#[tokio::test]
async fn ctrl_c_ends_pods_with_their_grace_and_the_next_up_runs_them_again() {
    let (folder, word) = (Folder::new(), word("ctrl-c"));
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    // It says goodbye where the next run finds it.
    let script = format!(
        "cat /kept/word; trap 'sleep 1; echo bye > /kept/word; exit 0' TERM; echo armed; {LOOP}"
    );
    let mut pod = lasting(&script, &word);
    pod["terminationGracePeriodSeconds"] = json!(30);
    pod["volumes"] = json!([{"name": "kept", "emptyDir": {}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "kept", "mountPath": "/kept"}]);
    up.create("main", &pod).await;
    up.until("main", running()).await;
    survivors::wait_for(&word, 1);
    // A shell that has no trap yet ends without a goodbye.
    up.until_said("main", "armed").await;
    interrupt(up.server);
    assert_eq!(survivors::with(&word), Vec::<u32>::new());
    survivors::assert_none(&folder.join("node"));

    let up = Up::on(folder.path(), &[]).await;
    let again = up.until("main", running()).await;
    survivors::wait_for(&word, 1);
    assert!(again["metadata"]["deletionTimestamp"].is_null());
    up.until_said("main", "bye").await;
    interrupt(up.server);
}

#[tokio::test]
async fn kept_pods_are_taken_over_as_they_are() {
    let (folder, word) = (Folder::new(), word("kept"));
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &["--keep-pods"]).await;
    up.create("main", &lasting(LOOP, &word)).await;
    let before = up.until("main", running()).await;
    let processes = survivors::wait_for(&word, 1);
    interrupt(up.server);
    assert_eq!(survivors::with(&word), processes);

    let up = Up::on(folder.path(), &[]).await;
    let after = up.until("main", running()).await;
    assert_eq!(survivors::with(&word), processes);
    for pointer in [
        "/metadata/uid",
        "/status/startTime",
        "/status/containerStatuses/0/containerID",
        "/status/containerStatuses/0/restartCount",
        "/status/containerStatuses/0/state",
    ] {
        assert_eq!(after.pointer(pointer), before.pointer(pointer), "{pointer}");
    }
    interrupt(up.server);
    assert_eq!(survivors::with(&word), Vec::<u32>::new());
}

#[tokio::test]
async fn after_a_crash_every_end_is_known() {
    let (folder, word) = (Folder::new(), word("crash"));
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let ends = |name: &str| {
        let script = format!("trap 'echo last words; exit 7' USR1; {LOOP}");
        let mut pod = lasting(&script, &format!("{name}-{word}"));
        pod["restartPolicy"] = json!("Never");
        pod
    };
    for name in ["ends", "goes-on"] {
        up.create(name, &ends(name)).await;
        up.until(name, running()).await;
    }
    let goes_on = survivors::wait_for(&format!("goes-on-{word}"), 1);
    let started = up.until("goes-on", running()).await;
    up.server.crash();
    let ended = survivors::wait_for(&format!("ends-{word}"), 1);
    survivors::signal(&ended, "-USR1");
    survivors::wait_for(&format!("ends-{word}"), 0);

    let up = Up::on(folder.path(), &[]).await;
    let end = json!({
        "/status/phase": "Failed",
        "/status/containerStatuses/0/state/terminated/exitCode": 7,
        "/status/containerStatuses/0/restartCount": 0,
    });
    up.until("ends", end).await;
    let request = http::Request::get("/api/v1/namespaces/default/pods/ends/log");
    let request = request.body(Vec::new()).expect("a request");
    assert_eq!(up.client.request_text(request).await.expect("logs"), "last words\n");
    let now = up.until("goes-on", running()).await;
    assert_eq!(now["status"]["containerStatuses"], started["status"]["containerStatuses"]);
    assert_eq!(survivors::with(&format!("goes-on-{word}")), goes_on);
    interrupt(up.server);
}

#[tokio::test]
async fn pods_of_a_server_in_memory_die_with_it() {
    let (folder, word) = (Folder::new(), word("in-memory"));
    let _reaper = Reaper::of(folder.path());
    let up = Up::of(Running::up_in_memory(&folder, &[])).await;
    let script = format!("trap '' TERM HUP INT; setsid sh -c \"trap '' TERM; {LOOP}\" & {LOOP}");
    up.create("main", &lasting(&script, &word)).await;
    up.until("main", running()).await;
    survivors::wait_for(&word, 1);
    up.server.crash();
    survivors::wait_for(&word, 0);
    survivors::assert_none(folder.path());
}

#[tokio::test]
async fn without_pods_they_stay_pending() {
    let folder = Folder::new();
    let up = Up::on(folder.path(), &["--no-pods"]).await;
    up.create("main", &json!({"containers": [{"command": ["true"]}]})).await;
    let pod = up.until("main", json!({"/status/phase": "Pending"})).await;
    assert_eq!(pod["spec"]["nodeName"], Value::Null);
    interrupt(up.server);
    assert!(!folder.join("node").exists(), "a node left something");

    let up = Up::on(folder.path(), &[]).await;
    up.until("main", running()).await;
    interrupt(up.server);
    survivors::assert_none(&folder.join("node"));
}

#[tokio::test]
async fn unconfined_pods_see_the_machine() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    std::fs::write(folder.join("seen"), "").expect("a file");
    let up = Up::on(folder.path(), &["--unconfined"]).await;
    up.server.stderr_line("warning: Pods run unconfined");
    let script =
        "test -e \"$FILE\" && echo x > \"$SOJOURN_MOUNT_DATA/file\" && cd \"$HOME\" && exit 3";
    let pod = json!({
        "restartPolicy": "Never",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [{
            "command": ["sh", "-c", script],
            "env": [{"name": "FILE", "value": folder.join("seen")}],
            "volumeMounts": [{"name": "data", "mountPath": "/srv/data"}],
        }],
    });
    up.create("main", &pod).await;
    let ended = json!({
        "/status/phase": "Failed",
        "/status/containerStatuses/0/state/terminated/exitCode": 3,
    });
    up.until("main", ended).await;
    interrupt(up.server);
    survivors::assert_none(&folder.join("node"));
}

/// A shim that does not answer is not one that ended: until it says more, nothing is known, nothing
/// is told and nothing is taken apart.
#[tokio::test]
async fn unknown_is_not_ended() {
    let (folder, word) = (Folder::new(), word("unknown"));
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let mut pod = lasting(&format!("trap 'exit 7' TERM; {LOOP}"), &word);
    pod["restartPolicy"] = json!("Never");
    up.create("main", &pod).await;
    let before = up.until("main", running()).await;
    let processes = survivors::wait_for(&word, 1);
    up.server.crash();

    let shims = survivors::with(&folder.join("node").display().to_string());
    survivors::signal(&shims, "-STOP");
    let up = Up::on(folder.path(), &[]).await;
    up.server.stderr_line("cannot adopt its processes yet");
    let during = pods(&up.client).get("main").await.expect("the Pod is there").data;
    assert_eq!(during["status"], before["status"]);
    assert_eq!(survivors::with(&word), processes);

    survivors::signal(&shims, "-CONT");
    survivors::signal(&processes, "-TERM");
    let ended = json!({
        "/status/phase": "Failed",
        "/status/containerStatuses/0/state/terminated/exitCode": 7,
        "/status/containerStatuses/0/restartCount": 0,
    });
    up.until("main", ended).await;
    interrupt(up.server);
}

/// Two nodes on one folder would both look after the same Pods.
#[tokio::test]
async fn a_folder_has_one_node() {
    let folder = Folder::new();
    let up = Up::on(folder.path(), &[]).await;
    let mut second = command(&["node", "--name", "second", "--kubeconfig"]);
    second.arg(up.server.kubeconfig()).arg("--data").arg(folder.join("node"));
    let refused = Running::start(second).ended();
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("another node uses"), "{}", refused.stderr);
    interrupt(up.server);
}
