//! Several `sojourn operator` on a real kube-apiserver, each with the rights of the operator's account
//! and no others: one acts, and another takes over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Extra};
use crate::folder::Folder;
use crate::process::{Ended, Running, command, sojourn};

const TOKEN: &str = "operator-token";
/// Somebody who has no rights until a test gives them some.
pub(crate) const MALLORY: &str = "mallory@example.org";
pub(crate) const MALLORY_TOKEN: &str = "mallory-token";
/// The lease is free after 15 s without a change; candidates look every 2 s; the rest is starting up
/// on a slow and busy machine.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(40);
/// Less than the lease's duration: nobody waited for it to expire.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(14);

/// A watch tells of the deletion; the rest is a slow and busy machine.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    pub(crate) kubectl: PathBuf,
    pub(crate) folder: Folder,
    pub(crate) plane: ControlPlane,
}

impl Cluster {
    pub(crate) async fn start(assets: &Path) -> Self {
        let account = "system:serviceaccount:sojourn-system:sojourn";
        let groups = "system:serviceaccounts,system:serviceaccounts:sojourn-system";
        let tokens =
            format!("{TOKEN},{account},operator,\"{groups}\"\n{MALLORY_TOKEN},{MALLORY},mallory\n");
        let extra = Extra { tokens, ..Extra::default() };
        let plane = ControlPlane::start_with(assets, extra).await.expect("the control plane");
        let cluster = Self { kubectl: assets.join("kubectl"), folder: Folder::new(), plane };
        let definitions = sojourn(&["crds"]);
        assert_eq!(definitions.code, Some(0), "{}", definitions.stderr);
        cluster.apply(&definitions.stdout);
        let text = std::fs::read_to_string(cluster.plane.kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["users"][0]["user"] = json!({"token": TOKEN});
        std::fs::write(cluster.folder.join("operator"), config.to_string()).expect("written");
        cluster
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> Ended {
        let ended = self.try_kubectl(words);
        assert_eq!(ended.code, Some(0), "kubectl {words:?}: {}", ended.stderr);
        ended
    }

    fn try_kubectl(&self, words: &[&str]) -> Ended {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.args(words).arg("--kubeconfig").arg(self.plane.kubeconfig());
        Running::start_reading(kubectl, Stdio::null()).ended()
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let ended = self.try_to_apply(manifest);
        assert_eq!(ended.code, Some(0), "{manifest}: {}", ended.stderr);
    }

    fn try_to_apply(&self, manifest: &str) -> Ended {
        let file = self.folder.join("applied.yaml");
        std::fs::write(&file, manifest).expect("a file in a new folder");
        self.try_kubectl(&["apply", "--server-side", "--filename", &file.display().to_string()])
    }

    /// What no schema can tell is refused by the webhook, with the field and a sentence.
    fn assert_admission_refuses(&self) {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "none"}]}});
        let night = json!({"cron": "0 2 * * *", "duration": "2h", "timeZone": "Moon/Far_Side"});
        for (spec, words) in [
            (
                json!({"size": 1, "template": {"provider": "moon", "config": {}}}),
                "spec.template.provider: is no provider that is registered; there is pod",
            ),
            (
                json!({
                    "size": 1, "template": {"provider": "pod", "pod": pod},
                    "budgets": [{"max": 1, "allow": [night]}],
                }),
                "\"Moon/Far_Side\" is no time zone that is known",
            ),
        ] {
            let group = json!({
                "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
                "metadata": {"name": "bad", "namespace": "default"}, "spec": spec,
            });
            let refused = self.try_to_apply(&group.to_string());
            assert_eq!(refused.code, Some(1), "{}", refused.stderr);
            assert!(refused.stderr.contains(words), "{}", refused.stderr);
        }
    }

    /// With admission on a port of its own: here no Service stands before the replicas.
    pub(crate) fn operator(&self) -> Running {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let webhook = taken.local_addr().expect("an address").to_string();
        drop(taken);
        let mut operator = command(&["operator", "--metrics", "127.0.0.1:0", "--kubeconfig"]);
        operator.arg(self.folder.join("operator"));
        operator.args(["--webhook", &webhook, "--webhook-url", &format!("https://{webhook}")]);
        operator.env("SOJOURN_LOG", "info");
        Running::start(operator)
    }

    /// The holder, and how often it changed.
    fn lease(&self) -> (String, i64) {
        let lease =
            self.kubectl(&["get", "lease", "sojourn", "-n", "sojourn-system", "-o", "json"]);
        let lease: Value = serde_json::from_str(&lease.stdout).expect("JSON");
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        (holder.to_owned(), spec["leaseTransitions"].as_i64().unwrap_or_default())
    }

    /// Where admission is, and by which certificate it is known.
    fn webhook(&self) -> (String, String) {
        let found = self.kubectl(&["get", "validatingwebhookconfigurations", "-o", "json"]);
        let found: Value = serde_json::from_str(&found.stdout).expect("JSON");
        let client = &found["items"][0]["webhooks"][0]["clientConfig"];
        let text = |field: &str| client[field].as_str().unwrap_or_default().to_owned();
        (text("url"), text("caBundle"))
    }

    /// Without a registration the API server asks nobody, and a bad object gets in. Whoever serves
    /// admission notices.
    fn assert_registration_is_restored(&self) {
        let deleted = Instant::now();
        self.kubectl(&["delete", "validatingwebhookconfigurations", "admission.sojourn.dev"]);
        while self.webhook().0.is_empty() {
            assert!(deleted.elapsed() < RESTORE_TIMEOUT, "nobody asks admission any more");
            std::thread::yield_now();
        }
        self.assert_admission_refuses();
    }

    /// Whoever acts looks at a new object and says what is wrong with it.
    fn assert_somebody_acts(&self, name: &str) {
        let instance = json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": {"name": "none"}, "tenant": {"name": "nobody"}},
        });
        self.apply(&instance.to_string());
        let named = format!("instance/{name}");
        self.kubectl(&["wait", "--for=condition=Accepted=False", &named, "--timeout=30s"]);
    }
}

/// What it called itself when it began to stand by.
fn identity(operator: &Running) -> String {
    let line = operator.stderr_line("Standing by as ");
    let rest = line.trim_start_matches("Standing by as ");
    rest.split(';').next().unwrap_or_default().to_owned()
}

fn get(operator: &Running, path: &str) -> String {
    let url = operator.field("metrics");
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let address: SocketAddr = address.parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn assert_leads(operator: &Running, leads: bool) {
    assert!(get(operator, "/healthz").ends_with("ok"));
    let metrics = get(operator, "/metrics");
    let expected = format!("sojourn_leader {}", u8::from(leads));
    assert!(metrics.lines().any(|line| line == expected), "no {expected} in\n{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_replicas_of_the_operator_act_one_at_a_time() {
    let Some(assets) = crate::assets() else { return };
    let _turn = crate::ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(&assets).await;

    let first = cluster.operator();
    first.stderr_line("The operator is up.");
    let leader = identity(&first);
    assert_eq!(cluster.lease(), (leader.clone(), 1));
    cluster.assert_somebody_acts("first");
    cluster.assert_admission_refuses();
    let (registered, certificate) = cluster.webhook();
    let second = cluster.operator();
    let waits = second.stderr_line("Standing by as ");
    assert!(waits.ends_with(&format!("; {leader} leads.")), "{waits}");
    assert_leads(&first, true);
    assert_leads(&second, false);
    let (elsewhere, same) = cluster.webhook();
    assert!(registered != elsewhere && certificate == same, "a standby has the same certificate");
    // It is admitted by the one that stands by.
    cluster.assert_somebody_acts("admitted");
    cluster.assert_registration_is_restored();
    assert!(get(&second, "/readyz").ends_with("ok"));

    let killed = Instant::now();
    first.crash();
    second.stderr_line("The operator is up.");
    let took = killed.elapsed();
    println!("killed: another acts after {took:.1?}");
    assert!(took < TAKEOVER_TIMEOUT, "{took:?}");
    assert_eq!(cluster.lease(), (identity(&second), 2));
    assert_leads(&second, true);
    cluster.assert_somebody_acts("second");

    let third = cluster.operator();
    third.stderr_line("Standing by as ");
    let asked = Instant::now();
    second.signal("TERM");
    third.stderr_line("The operator is up.");
    let took = asked.elapsed();
    println!("asked to stop: another acts after {took:.1?}");
    assert!(took < HANDOVER_TIMEOUT, "{took:?}");
    let ended = second.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(cluster.lease(), (identity(&third), 3));
    cluster.assert_somebody_acts("third");
}
