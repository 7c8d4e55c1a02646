//! A real control plane as an administrator prepares it for `sojourn operator`: our kinds, a kubelet,
//! and the operator's own account with the rights that we ask for and no others.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::OUTSIDE;
use crate::folder::Folder;
use crate::process::{Ended, Running, command, sojourn};
use crate::real::Real;
use crate::scheduler::Scheduler;

/// The account that `sojourn crds` makes.
const ACCOUNT: (&str, &str) = ("sojourn-system", "sojourn");
/// Somebody who signs in.
const PERSON: (&str, &str) = ("default", "person");

pub(crate) struct Cluster {
    /// An administrator's.
    pub(crate) kubeconfig: PathBuf,
    /// The operator's.
    own_kubeconfig: PathBuf,
    /// Somebody's who uses instances.
    pub(crate) person_kubeconfig: PathBuf,
    _scheduler: Scheduler,
    real: Real,
}

impl Cluster {
    /// `web`: where the operator will serve people and reports.
    pub(crate) async fn start(
        assets: &Path,
        ports: &str,
        web: SocketAddr,
        folder: &Folder,
    ) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_sojourn"));
        let beside = program.parent().expect("a folder").display().to_string();
        let (web, outside) = (web.to_string(), OUTSIDE.to_string());
        let more = [
            // The operator is no part of the node here and cannot dial into Pods.
            "--publish-ports",
            "--expose",
            &beside,
            "--pods-may-reach",
            &web,
            "--pods-may-reach",
            &outside,
        ];
        let real = Real::start_with(assets, ports, &more).await;
        let case_cluster = real.case_cluster().clone();
        let scheduler = Scheduler::start(case_cluster.client.clone(), case_cluster.node.clone());
        let kubectl = case_cluster.kubectl.expect("it is there");
        let file = folder.join("install.yaml");
        std::fs::write(&file, good(sojourn(&["crds"]))).expect("a file");
        apply(&kubectl, &case_cluster.kubeconfig, &file);
        let file = folder.join("person.json");
        std::fs::write(&file, person().to_string()).expect("a file");
        apply(&kubectl, &case_cluster.kubeconfig, &file);
        let kubeconfig_of = |account: (&str, &str)| {
            let file = folder.join(&format!("{}.kubeconfig", account.1));
            let token = token(account, &kubectl, &case_cluster.kubeconfig);
            write_kubeconfig(&case_cluster.kubeconfig, &token, &file);
            file
        };
        let (own_kubeconfig, person_kubeconfig) = (kubeconfig_of(ACCOUNT), kubeconfig_of(PERSON));
        Self {
            kubeconfig: case_cluster.kubeconfig,
            own_kubeconfig,
            person_kubeconfig,
            _scheduler: scheduler,
            real,
        }
    }

    /// Starts the controllers, with their own account and further options.
    pub(crate) fn operator(&self, web: &str, log: &str, more: &[String]) -> Running {
        // One at a time, and killed often: it would only wait for its own lease to expire.
        let alone = ["--leader-elect", "false"].into_iter();
        let options: Vec<&str> = alone.chain(more.iter().map(String::as_str)).collect();
        let operator = self.replica(web, log, &options);
        operator.stderr_line("The operator is up.");
        operator
    }

    /// Starts one of several operators, with further options. It may have to wait for its turn.
    pub(crate) fn replica(&self, web: &str, log: &str, more: &[&str]) -> Running {
        let mut operator = command(&["operator", "--web", web]);
        operator.arg("--kubeconfig").arg(&self.own_kubeconfig);
        operator.args(["--submit-program", env!("CARGO_BIN_EXE_sojourn")]).args(more);
        operator.env("SOJOURN_LOG", log);
        Running::start(operator)
    }

    pub(crate) fn stop(self) {
        self.real.stop();
    }
}

/// Somebody who uses instances, bound by a role and by nothing else.
fn person() -> Value {
    let (namespace, name) = PERSON;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "sojourn-lab-user",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [account, binding]})
}

fn token((namespace, name): (&str, &str), kubectl: &Path, kubeconfig: &Path) -> String {
    let mut create = Command::new(kubectl);
    create.args(["create", "token", name, "--namespace", namespace]);
    create.arg("--kubeconfig").arg(kubeconfig);
    good(Running::start(create).ended()).trim().to_owned()
}

/// An administrator's kubeconfig with another token.
fn write_kubeconfig(administrator: &Path, token: &str, file: &Path) {
    let text = std::fs::read_to_string(administrator).expect("a kubeconfig");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["users"][0]["user"] = json!({"token": token});
    std::fs::write(file, config.to_string()).expect("a file");
}

/// `kubectl apply`.
pub(crate) fn apply(kubectl: &Path, kubeconfig: &Path, what: &Path) {
    let mut apply = Command::new(kubectl);
    apply.args(["apply", "--server-side", "--filename"]).arg(what);
    apply.arg("--kubeconfig").arg(kubeconfig);
    good(Running::start(apply).ended());
}

/// What a command said that went well.
pub(crate) fn good(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}
