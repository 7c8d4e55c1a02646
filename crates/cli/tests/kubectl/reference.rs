//! Who names something must be allowed to: the attacks on a real kube-apiserver, where admission is a
//! webhook of `sojourn operator` with the rights of its account and no others.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{Ended, Running};
use crate::replicas::{Cluster, MALLORY, MALLORY_TOKEN};

fn object(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"},
    });
    object["spec"] = spec;
    object
}

fn lab(kind: &str, name: &str, spec: Value) -> Value {
    object("lab.sojourn.dev/v1alpha1", kind, name, spec)
}

fn machines(kind: &str, spec: Value) -> Value {
    object("group.sojourn.dev/v1alpha1", kind, "bad", spec)
}

/// A Template whose program is given a key of the Secret `vault`.
fn reads_the_vault(name: &str) -> Value {
    let key = json!({"name": "vault", "key": "token"});
    let env = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": key}}]);
    lab("Template", name, json!({"environmentList": [{"name": "web", "image": "i", "env": env}]}))
}

fn instance(name: &str, template: &str, part: Value) -> Value {
    let mut spec = json!({"template": {"name": template}, "tenant": {"name": "mallory"}});
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    lab("Instance", name, spec)
}

/// Everything with our kinds in one namespace, and nothing else.
fn rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "ours", "namespace": "default"});
    let rule = json!({
        "apiGroups": ["lab.sojourn.dev", "group.sojourn.dev"], "resources": ["*"],
        "verbs": ["get", "list", "create", "update", "patch", "delete", "hold"],
    });
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "ours"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": MALLORY}],
    });
    [role, binding]
}

fn tenant(name: &str, user: Option<&str>) -> Value {
    let mut tenant = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
        "spec": {"email": format!("{name}@example.org")},
    });
    if let Some(user) = user {
        tenant["spec"]["user"] = json!(user);
    }
    tenant
}

/// Everything with our kinds but `hold`, and deletions of what holds their data, in a namespace.
fn rights_without_hold(namespace: &str) -> [Value; 2] {
    let [mut role, mut binding] = rights();
    for object in [&mut role, &mut binding] {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let rule = |group: &str, resources: Value| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "patch", "delete"]});
    role["rules"] = json!([
        rule("lab.sojourn.dev", json!(["instances"])),
        rule("", json!(["persistentvolumeclaims", "namespaces"])),
    ]);
    [role, binding]
}

/// An Instance in the namespace `exam`, and the claim that holds its data until that is handed in.
fn owed(name: &str, part: Value) -> [Value; 2] {
    let mut instance = instance(name, "plain", part);
    instance["metadata"]["namespace"] = json!("exam");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": format!("{name}-web"), "namespace": "exam",
            "labels": {"lab.sojourn.dev/instance": name},
            "finalizers": ["lab.sojourn.dev/submission"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    [instance, claim]
}

impl Cluster {
    fn kubectl_as_mallory(&self, words: &[&str]) -> Ended {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.args(words).arg("--kubeconfig").arg(self.kubeconfig_of_mallory());
        Running::start_reading(kubectl, Stdio::null()).ended()
    }

    fn kubeconfig_of_mallory(&self) -> PathBuf {
        let text = std::fs::read_to_string(self.plane.kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["users"][0]["user"] = json!({"token": MALLORY_TOKEN});
        let kubeconfig = self.folder.join("mallory");
        std::fs::write(&kubeconfig, config.to_string()).expect("written");
        kubeconfig
    }

    /// What somebody with rights over our kinds alone can do.
    fn try_as_mallory(&self, object: &Value) -> Ended {
        let file = self.folder.join("tried.yaml");
        std::fs::write(&file, object.to_string()).expect("written");
        let file = file.display().to_string();
        let words = ["apply", "--server-side", "--force-conflicts", "--filename", &file];
        self.kubectl_as_mallory(&words)
    }

    fn assert_refused(&self, object: &Value, words: &str) {
        let tried = self.try_as_mallory(object);
        assert_eq!(tried.code, Some(1), "{object} is refused: {}", tried.stderr);
        assert!(tried.stderr.contains(words), "{words}: not in {}", tried.stderr);
    }

    /// What is not handed in yet is not taken away by whoever may not `hold`: the conditions under which
    /// the API server asks at all let none of it pass.
    fn assert_owed_is_kept(&self) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "exam"}});
        self.apply(&namespace.to_string());
        let template = json!({"environmentList": [{"name": "web", "image": "i"}]});
        let mut plain = lab("Template", "plain", template);
        plain["metadata"]["namespace"] = json!("exam");
        let door = json!({"submission": {"url": "https://x/"}, "running": false});
        let entry = json!({"environment": "web", "state": "Failed"});
        let failed = json!({"status": {"claims": ["web"], "submission": [entry]}});
        for object in rights_without_hold("exam").into_iter().chain([plain]) {
            self.apply(&object.to_string());
        }
        for (name, part, status) in [
            ("ends", door, json!({"status": {"claims": ["web"]}})),
            // Taking the destination away pays nothing.
            ("failed", json!({"running": false}), failed),
        ] {
            for object in owed(name, part) {
                self.apply(&object.to_string());
            }
            let (named, status) = (format!("instance/{name}"), status.to_string());
            let words = ["patch", &named, "-n", "exam", "--subresource=status", "--type=merge"];
            self.kubectl(&[&words[..], &["-p", &status]].concat());
        }
        for deletion in [
            &["pvc/ends-web"][..],
            &["instance/ends", "--cascade=foreground"],
            &["instance/ends", "--cascade=orphan"],
            &["instance/failed", "--cascade=foreground"],
            &["namespace/exam"],
        ] {
            let words = [&["delete", "--wait=false", "-n", "exam"], deletion].concat();
            let tried = self.kubectl_as_mallory(&words);
            assert_eq!(tried.code, Some(1), "{deletion:?}: {}", tried.stdout);
            for words in ["not handed in yet", "needs the verb `hold`"] {
                assert!(tried.stderr.contains(words), "{deletion:?}: {}", tried.stderr);
            }
        }
        let free = r#"{"metadata": {"finalizers": null}}"#;
        let words = ["patch", "pvc/ends-web", "-n", "exam", "--type=merge", "-p", free];
        let freed = self.kubectl_as_mallory(&words);
        assert!(freed.stderr.contains("needs the verb `hold`"), "{}", freed.stderr);
        let words =
            ["delete", "--wait=false", "-n", "exam", "instance/ends", "--cascade=background"];
        let waits = self.kubectl_as_mallory(&words);
        assert_eq!(waits.code, Some(0), "it waits for its data by itself: {}", waits.stderr);
    }

    fn assert_taken(&self, object: &Value) {
        let tried = self.try_as_mallory(object);
        assert_eq!(tried.code, Some(0), "{object}: {}", tried.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_references_are_asked_about_by_the_webhook() {
    let Some(assets) = crate::assets() else { return };
    let _turn = crate::ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(&assets).await;
    let operator = cluster.operator();
    operator.stderr_line("The operator is up.");
    let plain =
        || lab("Template", "plain", json!({"environmentList": [{"name": "web", "image": "i"}]}));
    let [role, binding] = rights();
    for object in [
        role,
        binding,
        tenant("mallory", Some(MALLORY)),
        tenant("dean", None),
        plain(),
        reads_the_vault("vault"),
    ] {
        cluster.apply(&object.to_string());
    }
    let vault = format!("{MALLORY} needs `get` on secrets \"vault\" in namespace \"default\"");
    cluster.assert_refused(&instance("bad", "vault", json!({})), &vault);
    cluster.assert_refused(&reads_the_vault("bad"), &vault);
    cluster.assert_refused(&reads_the_vault("plain"), &vault);
    let mut elsewhere = reads_the_vault("vault");
    elsewhere["spec"]["environmentList"][0]["image"] = json!("evil");
    cluster.assert_refused(&elsewhere, &vault);
    let door = json!({"submission": {"url": "https://x/", "secretRef": {"name": "vault"}}});
    cluster.assert_refused(&instance("bad", "plain", door), &vault);
    let other = json!({"template": {"name": "plain", "namespace": "kube-system"}});
    let words = "`get` on templates \"plain\" in namespace \"kube-system\"";
    cluster.assert_refused(&instance("bad", "plain", other), words);
    let mail = json!({"tenant": {"name": "dean"}, "prettyName": "Pay now!"});
    cluster.assert_refused(&instance("bad", "plain", mail), "needs `lend` on tenants \"dean\"");
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "none"}]}});
    let template = json!({"provider": "pod", "pod": pod});
    let pods = "`create` on pods in namespace \"default\"";
    let group = json!({"size": 1, "template": template});
    cluster.assert_refused(&machines("InstanceGroup", group), pods);
    let alone = json!({"onDemand": true, "template": template});
    cluster.assert_refused(&machines("Machine", alone), pods);

    // What is theirs goes on; and so do our own controllers, which take it up.
    cluster.assert_taken(&instance("good", "plain", json!({})));
    cluster.assert_taken(&instance("good", "plain", json!({"prettyName": "Mine"})));
    let finalizer = "--for=jsonpath={.metadata.finalizers[0]}=lab.sojourn.dev/instance";
    cluster.kubectl(&["wait", finalizer, "instance/good", "--timeout=60s"]);
    let group = json!({"size": 1, "template": template});
    cluster.apply(&machines("InstanceGroup", group).to_string());
    let made = "--for=jsonpath={.status.replicas.total}=1";
    cluster.kubectl(&["wait", made, "instancegroup/bad", "--timeout=60s"]);
    cluster.assert_owed_is_kept();
    // Nobody asks without the operator, and so nothing is named.
    operator.crash();
    cluster.assert_refused(&instance("late", "plain", json!({})), "failed calling webhook");
}
