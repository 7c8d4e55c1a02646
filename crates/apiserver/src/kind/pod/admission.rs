//! What admission does to a Pod before it is stored: the plugins that a Kubernetes API server runs by
//! default, as functions of the Pod and of the objects that they look up.
//!
//! A refusal's text is what follows `pods "x" is forbidden: `.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::annotation::MIRROR;
use super::binding::set_condition;
use super::default::mirror_service_account;
use crate::go;
use crate::json::{Access, Object, object_mut};

const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// One hour and a bit: clients of old tokens are told apart by it.
const TOKEN_SECONDS: i64 = 3607;
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
const EVICTING_TAINTS: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodRefusal {
    #[error("a mirror pod may not reference service accounts")]
    MirrorAccount,
    #[error("a mirror pod may not reference secrets")]
    MirrorSecret,
    #[error("a mirror pod may not use ServiceAccountToken volume projections")]
    MirrorToken,
    #[error("{0}")]
    SecretNotMountable(String),
    #[error("no PriorityClass with name {0} was found")]
    NoPriorityClass(String),
    #[error(
        "the integer value of priority ({given}) must not be provided in pod spec; priority \
         admission controller computed {computed} from the given PriorityClass name"
    )]
    Priority { given: i64, computed: i64 },
    #[error(
        "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority \
         admission controller computed {computed} from the given PriorityClass name"
    )]
    Preemption { given: String, computed: String },
    #[error("pod rejected: RuntimeClass {} not found", go::quote(.0))]
    NoRuntimeClass(String),
    #[error("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")]
    OverheadDiffers,
    #[error("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")]
    OverheadWithoutClass,
    #[error(
        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {class}; \
         pod.spec.nodeSelector[{key}] = {pod}"
    )]
    NodeSelector { key: String, class: String, pod: String },
}

/// The service account that the Pod runs as, `default` if it names none; the caller looks it up.
/// `None` for a mirror Pod, which has none.
pub(crate) fn service_account_name(pod: &mut Object) -> Result<Option<String>, PodRefusal> {
    if is_mirror(pod) {
        validate_mirror(pod)?;
        return Ok(None);
    }
    let spec = object_mut(pod, "spec");
    if spec.text("serviceAccountName").is_empty() {
        spec.insert("serviceAccountName".to_owned(), "default".into());
    }
    mirror_service_account(spec);
    Ok(Some(spec.text("serviceAccountName").to_owned()))
}

fn is_mirror(pod: &Object) -> bool {
    !pod.at("metadata").at("annotations").at(MIRROR).is_null()
}

fn validate_mirror(pod: &Object) -> Result<(), PodRefusal> {
    let spec = pod.at("spec");
    if !spec.text("serviceAccountName").is_empty() {
        return Err(PodRefusal::MirrorAccount);
    }
    let mut secret = !spec.list("imagePullSecrets").is_empty();
    secret |= spec.list("volumes").iter().any(|volume| {
        !volume.at("secret").is_null()
            || volume.at("projected").list("sources").iter().any(|s| !s.at("secret").is_null())
    });
    super::each_container(spec, &crate::field::Path::root(), |container, _| {
        secret |=
            container.list("env").iter().any(|v| !v.at("valueFrom").at("secretKeyRef").is_null());
        secret |= container.list("envFrom").iter().any(|source| !source.at("secretRef").is_null());
    });
    if secret {
        return Err(PodRefusal::MirrorSecret);
    }
    let token = spec.list("volumes").iter().any(|volume| {
        let sources = volume.at("projected").list("sources");
        sources.iter().any(|source| !source.at("serviceAccountToken").is_null())
    });
    if token { Err(PodRefusal::MirrorToken) } else { Ok(()) }
}

/// Mounts the account's token into every container, under a volume whose name ends in `suffix`,
/// and gives the Pod the account's pull secrets.
pub(crate) fn admit_service_account(
    pod: &mut Object,
    account: &Object,
    suffix: &str,
) -> Result<(), PodRefusal> {
    let spec = object_mut(pod, "spec");
    let automount = spec
        .at("automountServiceAccountToken")
        .as_bool()
        .or_else(|| account.at("automountServiceAccountToken").as_bool());
    if automount.unwrap_or(true) {
        mount_token(spec, suffix);
    }
    let secrets = account.list("imagePullSecrets");
    if spec.list("imagePullSecrets").is_empty() && !secrets.is_empty() {
        let secrets: Value = secrets.iter().map(|s| json!({"name": s.text("name")})).collect();
        spec.insert("imagePullSecrets".to_owned(), secrets);
    }
    let enforced = account.at("metadata").at("annotations").text(ENFORCE_SECRETS);
    if matches!(enforced, "1" | "t" | "T" | "true" | "TRUE" | "True") {
        limit_secrets(spec, account)?;
    }
    Ok(())
}

fn mount_token(spec: &mut Object, suffix: &str) {
    let mut names = spec.list("volumes").iter().map(|volume| volume.text("name"));
    let existing = names.find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let has_volume = existing.is_some();
    let name = existing.unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let mounts = container.list("volumeMounts");
            if mounts.iter().any(|mount| mount.text("mountPath") == TOKEN_MOUNT) {
                continue;
            }
            push(
                container,
                "volumeMounts",
                json!({"name": name, "readOnly": true, "mountPath": TOKEN_MOUNT}),
            );
            mounted = true;
        }
    }
    if mounted && !has_volume {
        push(spec, "volumes", json!({"name": name, "projected": token_source()}));
    }
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
            }]}},
        ],
    })
}

fn push(parent: &mut Object, key: &str, item: Value) {
    let list = parent.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// An account can insist that its Pods use no secrets but those that it lists.
fn limit_secrets(spec: &Object, account: &Object) -> Result<(), PodRefusal> {
    let account_name = account.at("metadata").text("name");
    let names = |member: &str| -> HashSet<&str> {
        account.list(member).iter().map(|secret| secret.text("name")).collect()
    };
    let (secrets, pull_secrets) = (names("secrets"), names("imagePullSecrets"));
    let refuse = |what: String, kind: &str| {
        Err(PodRefusal::SecretNotMountable(format!(
            "{what} is not allowed because service account {account_name} does not reference that \
             {kind}"
        )))
    };
    for volume in spec.list("volumes") {
        let secret = volume.at("secret");
        let name = secret.text("secretName");
        if !secret.is_null() && !secrets.contains(name) {
            return refuse(format!("volume with secret.secretName=\"{name}\""), "secret");
        }
    }
    for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
        for container in spec.list(list) {
            let of = format!("{word} {}", container.text("name"));
            for var in container.list("env") {
                let reference = var.at("valueFrom").at("secretKeyRef");
                let (name, var) = (reference.text("name"), var.text("name"));
                if !reference.is_null() && !secrets.contains(name) {
                    let what =
                        format!("{of} with envVar {var} referencing secret.secretName=\"{name}\"");
                    return refuse(what, "secret");
                }
            }
            for source in container.list("envFrom") {
                let reference = source.at("secretRef");
                let name = reference.text("name");
                if !reference.is_null() && !secrets.contains(name) {
                    let what =
                        format!("{of} with envFrom referencing secret.secretName=\"{name}\"");
                    return refuse(what, "secret");
                }
            }
        }
    }
    for (i, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        let name = secret.text("name");
        if !pull_secrets.contains(name) {
            return refuse(format!("imagePullSecrets[{i}].name=\"{name}\""), "imagePullSecret");
        }
    }
    Ok(())
}

/// Lets the Pod stay five minutes on a node that is gone. On create and on update.
pub(crate) fn default_tolerations(pod: &mut Object) {
    let spec = object_mut(pod, "spec");
    for taint in EVICTING_TAINTS {
        let tolerated = spec.list("tolerations").iter().any(|toleration| {
            let key = toleration.text("key");
            (key.is_empty() || key == taint)
                && matches!(toleration.text("effect"), "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            });
            push(spec, "tolerations", toleration);
        }
    }
}

/// Resolves the Pod's priority. `class` is the PriorityClass that the Pod names, or the global
/// default one if it names none.
pub(crate) fn admit_priority(pod: &mut Object, class: Option<&Object>) -> Result<(), PodRefusal> {
    let spec = object_mut(pod, "spec");
    let name = spec.text("priorityClassName").to_owned();
    let (computed, policy) = match (class, name.as_str()) {
        (Some(class), _) => {
            spec.insert("priorityClassName".to_owned(), class.at("metadata").at("name").clone());
            let policy = class.at("preemptionPolicy").as_str().map(str::to_owned);
            (class.int("value").unwrap_or_default(), policy)
        }
        (None, "") => (0, Some("PreemptLowerPriority".to_owned())),
        // Every cluster has these two.
        (None, "system-node-critical") => (2_000_001_000, Some("PreemptLowerPriority".to_owned())),
        (None, "system-cluster-critical") => {
            (2_000_000_000, Some("PreemptLowerPriority".to_owned()))
        }
        (None, _) => return Err(PodRefusal::NoPriorityClass(name)),
    };
    if let Some(given) = spec.int("priority").filter(|given| *given != computed) {
        return Err(PodRefusal::Priority { given, computed });
    }
    spec.insert("priority".to_owned(), computed.into());
    if let Some(policy) = policy {
        let given = spec.at("preemptionPolicy").as_str().filter(|given| *given != policy);
        if let Some(given) = given {
            return Err(PodRefusal::Preemption { given: given.to_owned(), computed: policy });
        }
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

/// An update that leaves the priority out keeps it.
pub(crate) fn keep_priority(new: &mut Object, old: &Object) {
    let old = old.at("spec");
    let spec = object_mut(new, "spec");
    for member in ["priority", "preemptionPolicy"] {
        if let (true, Some(value)) = (spec.at(member).is_null(), old.get(member)) {
            spec.insert(member.to_owned(), value.clone());
        }
    }
}

/// Applies the RuntimeClass that the Pod names, if it names one.
pub(crate) fn admit_runtime_class(
    pod: &mut Object,
    class: Option<&Object>,
) -> Result<(), PodRefusal> {
    let spec = object_mut(pod, "spec");
    let name = spec.at("runtimeClassName").as_str().map(str::to_owned);
    let class = match (name, class) {
        (Some(name), None) => return Err(PodRefusal::NoRuntimeClass(name)),
        (Some(_), Some(class)) => Some(class),
        (None, _) => None,
    };
    let overhead = overhead_of(class);
    if !overhead.is_null() {
        let given = spec.at("overhead");
        if !given.is_null() && given != overhead {
            return Err(PodRefusal::OverheadDiffers);
        }
        spec.insert("overhead".to_owned(), overhead.clone());
    }
    let Some(scheduling) = class.and_then(|class| class.get("scheduling")) else {
        return Ok(());
    };
    for (key, value) in scheduling.entries("nodeSelector") {
        let selector = object_mut(spec, "nodeSelector");
        match selector.get(key) {
            Some(other) if other != value => {
                return Err(PodRefusal::NodeSelector {
                    key: key.clone(),
                    class: value.as_str().unwrap_or_default().to_owned(),
                    pod: other.as_str().unwrap_or_default().to_owned(),
                });
            }
            _ => {
                selector.insert(key.clone(), value.clone());
            }
        }
    }
    let merged = merge_tolerations(spec.list("tolerations"), scheduling.list("tolerations"));
    if !merged.is_empty() {
        spec.insert("tolerations".to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// What is left to be said of the overhead once the Pod is known to be valid.
pub(crate) fn validate_runtime_class(
    pod: &Object,
    class: Option<&Object>,
) -> Result<(), PodRefusal> {
    let spec = pod.at("spec");
    let class = class.filter(|_| !spec.at("runtimeClassName").is_null());
    match (spec.at("overhead"), overhead_of(class)) {
        (given, wanted) if given == wanted => Ok(()),
        (_, Value::Null) => Err(PodRefusal::OverheadWithoutClass),
        _ => Err(PodRefusal::OverheadDiffers),
    }
}

fn overhead_of(class: Option<&Object>) -> &Value {
    class.map_or(&Value::Null, |class| class.at("overhead").at("podFixed"))
}

fn merge_tolerations(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let covered = merged.iter().any(|other| covers(other, toleration))
            || all[i + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !covered {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether everything that `inner` tolerates, `outer` tolerates too.
fn covers(outer: &Value, inner: &Value) -> bool {
    if outer == inner {
        return true;
    }
    let any_key = outer.text("key").is_empty() && outer.text("operator") == "Exists";
    if inner.text("key") != outer.text("key") && !any_key {
        return false;
    }
    let effect = outer.text("effect");
    if !effect.is_empty() && inner.text("effect") != effect {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = outer.int("tolerationSeconds")
        && inner.int("tolerationSeconds").is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match outer.text("operator") {
        "" | "Equal" => {
            inner.text("operator") == "Equal" && inner.text("value") == outer.text("value")
        }
        "Exists" => true,
        _ => false,
    }
}

/// A Pod on a node has the labels of the node's zone and region. Of a new Pod that names its
/// node, and of a binding.
pub(crate) fn copy_topology_labels(obj: &mut Object, node: &Object) {
    let labels = node.at("metadata").at("labels");
    for key in TOPOLOGY_LABELS {
        if let Some(value) = labels.get(key) {
            let own = object_mut(object_mut(obj, "metadata"), "labels");
            own.insert(key.to_owned(), value.clone());
        }
    }
}

/// Says on a new Pod with scheduling gates that it waits for them. `now` is RFC 3339.
pub(crate) fn mark_gated(pod: &mut Object, now: &str) {
    if pod.at("spec").list("schedulingGates").is_empty() {
        return;
    }
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    });
    set_condition(object_mut(pod, "status"), condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn an_account_can_limit_the_secrets_of_its_pods() {
        let account = object(json!({
            "metadata": {"name": "a", "annotations": {ENFORCE_SECRETS: "true"}},
            "secrets": [{"name": "known"}],
        }));
        let mut pod = object(json!({"spec": {"containers": [
            {"name": "c", "env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "other"}}}]},
        ]}}));
        assert_eq!(
            admit_service_account(&mut pod, &account, "x").expect_err("refused").to_string(),
            "container c with envVar V referencing secret.secretName=\"other\" is not allowed \
             because service account a does not reference that secret"
        );
    }

    #[test]
    fn pull_secrets_come_from_the_account() {
        let account = object(json!({"imagePullSecrets": [{"name": "s"}]}));
        let mut pod = object(json!({"spec": {"automountServiceAccountToken": false}}));
        admit_service_account(&mut pod, &account, "x").expect("admitted");
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
        assert!(pod["spec"].get("volumes").is_none());
    }

    #[test]
    fn runtime_classes() {
        let class = object(json!({
            "overhead": {"podFixed": {"cpu": "1"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        }));
        let mut pod = object(json!({"spec": {
            "runtimeClassName": "r", "tolerations": [{"key": "t", "operator": "Equal", "value": "v"}],
        }}));
        admit_runtime_class(&mut pod, Some(&class)).expect("admitted");
        assert_eq!(
            pod["spec"],
            json!({
                "runtimeClassName": "r", "overhead": {"cpu": "1"}, "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "t", "operator": "Exists"}],
            })
        );
        let mut pod =
            object(json!({"spec": {"runtimeClassName": "r", "nodeSelector": {"a": "c"}}}));
        let refusal = admit_runtime_class(&mut pod, Some(&class)).expect_err("refused");
        assert_eq!(
            refusal.to_string(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
        );
    }

    #[test]
    fn priority_classes() {
        let class =
            object(json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}));
        let mut pod = object(json!({"spec": {"priorityClassName": "high"}}));
        admit_priority(&mut pod, Some(&class)).expect("admitted");
        assert_eq!(
            pod["spec"],
            json!({"priorityClassName": "high", "priority": 10, "preemptionPolicy": "Never"})
        );
    }

    #[test]
    fn topology_labels_come_from_the_node() {
        let node =
            object(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z", "x": "y"}}}));
        let mut pod = object(json!({"metadata": {"labels": {"a": "b"}}}));
        copy_topology_labels(&mut pod, &node);
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"a": "b", "topology.kubernetes.io/zone": "z"})
        );
    }
}
