//! The definitions and roles in `deploy/` are those that the program has.
//!
//! `UPDATE_DEFINITIONS=1 cargo test -p sojourn-api --test definitions` writes them anew.

#![expect(clippy::disallowed_methods, reason = "what to write anew is said in the environment")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

const AGAIN: &str = "UPDATE_DEFINITIONS=1 cargo test -p sojourn-api --test definitions";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn yaml(object: &impl Serialize) -> String {
    // Through JSON, which leaves out what is not set.
    let value = serde_json::to_value(object).expect("an object is JSON");
    serde_saphyr::to_string(&value).expect("JSON is YAML")
}

/// A role, with what it is.
fn typed(role: &impl Serialize, kind: &str) -> String {
    let mut value = serde_json::to_value(role).expect("an object is JSON");
    value["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
    value["kind"] = kind.into();
    yaml(&value)
}

/// What should be in which file.
fn wanted() -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for crd in sojourn_api::crds() {
        let name = crd.metadata.name.clone().expect("a definition has a name");
        files.insert(PathBuf::from(format!("crds/{name}.yaml")), yaml(&crd));
    }
    let roles = sojourn_api::roles().into_iter().map(|role| typed(&role, "ClusterRole"));
    let all: Vec<_> = roles.chain([typed(&sojourn_api::operator_role(), "Role")]).collect();
    files.insert(PathBuf::from("roles.yaml"), all.join("---\n"));
    files
}

#[test]
fn files_are_what_the_program_says() {
    let update = std::env::var_os("UPDATE_DEFINITIONS").is_some();
    for (file, text) in wanted() {
        let path = deploy().join(&file);
        if update {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, &text).expect("a file");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "deploy/{} is not fresh; run {AGAIN}", file.display());
    }
    let kept = std::fs::read_dir(deploy().join("crds")).expect("a folder");
    for file in kept {
        let name = PathBuf::from("crds").join(file.expect("a file").file_name());
        assert!(wanted().contains_key(&name), "deploy/{} is of no kind of ours", name.display());
    }
}

/// Larger definitions are slow to read, for kubectl and for people.
#[test]
fn definitions_stay_small() {
    for crd in sojourn_api::crds() {
        let size = serde_json::to_string(&crd).expect("JSON").len();
        assert!(size < 40_000, "{:?} has {size} bytes", crd.metadata.name);
    }
}

/// Every rule of every role of ours, with the role's name.
fn rules() -> Vec<(String, k8s_openapi::api::rbac::v1::PolicyRule)> {
    let of = |role: k8s_openapi::api::rbac::v1::ClusterRole| {
        let name = role.metadata.name.unwrap_or_default();
        role.rules.unwrap_or_default().into_iter().map(move |rule| (name.clone(), rule))
    };
    sojourn_api::roles().into_iter().flat_map(of).collect()
}

#[test]
fn no_role_changes_somebody_else_s_webhooks_follows_secrets_everywhere_or_deletes_claims() {
    let mut registers = 0;
    for (role, rule) in rules() {
        let about = |resource: &str| rule.resources.iter().flatten().any(|one| one == resource);
        let verbs: Vec<_> = rule.verbs.iter().map(String::as_str).collect();
        assert!(!verbs.contains(&"*") && !about("*"), "{role}: {rule:?}");
        if about("validatingwebhookconfigurations") && verbs != ["create"] {
            let ours = Some(vec!["admission.sojourn.dev".to_owned()]);
            assert_eq!(rule.resource_names, ours, "{role}");
            assert_eq!(verbs, ["get", "list", "watch", "patch"], "{role}");
            registers += 1;
        }
        // Only the operator does, which could have any Pod read them: what clusters name, and what their Pods
        // are made again from. It follows none, and rewrites none that it did not look at.
        let of_clusters = ["get", "list", "create", "update", "delete"];
        let by_operator = role == "sojourn-operator" && verbs == of_clusters;
        assert!(!about("secrets") || by_operator || verbs == ["create"], "{role}: {verbs:?}");
        assert!(!about("persistentvolumeclaims") || !verbs.contains(&"delete"), "{role}");
    }
    assert_eq!(registers, 1, "the operator's");
}

#[test]
fn only_keepers_lend_to_others() {
    let lends = |(role, rule): (String, k8s_openapi::api::rbac::v1::PolicyRule)| {
        rule.verbs.iter().any(|verb| verb == "lend").then_some(role)
    };
    let all: Vec<_> = rules().into_iter().filter_map(lends).collect();
    assert_eq!(all, ["sojourn-lab-keeper"]);
}
