use serde_json::json;

use super::*;
use crate::object::{Binding, ClusterRole};

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..User::default()
    }
}

fn bob() -> User {
    user("bob", &["dev", "ops", "system:authenticated"])
}

fn rules(value: Value) -> Vec<PolicyRule> {
    serde_json::from_value(value).unwrap()
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: API_GROUP.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

/// Bob holds `editor`, which lets him write RBAC objects and read configmaps.
fn policy() -> Policy {
    let mut policy = Policy::default();
    for (name, role) in [
        (
            "editor",
            json!([
                {"apiGroups": [API_GROUP], "resources": ["*"], "verbs": ["create", "update"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
            ]),
        ),
        (
            "cluster-admin",
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
        ),
        (
            "binder",
            json!([{"apiGroups": [API_GROUP], "resources": ["clusterroles"], "verbs": ["bind"],
                    "resourceNames": ["cluster-admin"]}]),
        ),
    ] {
        let object = json!({"metadata": {"name": name}, "rules": role});
        policy.upsert_cluster_role(ClusterRole::from_value(&object).unwrap());
    }
    for (name, role, who) in [
        ("bob-edits", "editor", "bob"),
        ("root-all", "cluster-admin", "root"),
        ("c", "binder", "carol"),
    ] {
        let object = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": who}],
        });
        policy.upsert_binding(Binding::from_value(&object).unwrap());
    }
    policy
}

fn write_role(user: &User, rules: &[PolicyRule], aggregates: bool) -> Result<(), EscalationError> {
    let policy = policy();
    let write =
        RoleWrite { user, resource: "clusterroles", namespace: "", name: "", rules, aggregates };
    check_role(&policy, &write, &|request| policy.authorize(request).is_allowed())
}

fn bind(user: &User, namespace: &str, role_ref: &RoleRef) -> Result<(), EscalationError> {
    let policy = policy();
    check_binding(&policy, user, namespace, role_ref, &|request| {
        policy.authorize(request).is_allowed()
    })
}

#[test]
fn roles_list_what_is_not_held() {
    let wanted = rules(json!([
        {"apiGroups": ["", "apps"], "resources": ["pods", "secrets"], "verbs": ["list", "get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update"], "resourceNames": ["a", "b"]},
    ]));
    let expected = r#"user "bob" (groups=["dev" "ops" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["configmaps"], ResourceNames:["a"], Verbs:["update"]}
{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["update"]}
{APIGroups:[""], Resources:["pods"], Verbs:["list" "get"]}
{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get"]}
{APIGroups:["apps"], Resources:["pods"], Verbs:["list" "get"]}
{APIGroups:["apps"], Resources:["secrets"], Verbs:["list" "get"]}"#;
    assert_eq!(write_role(&bob(), &wanted, false).unwrap_err().to_string(), expected);

    let paths = rules(json!([{"nonResourceURLs": ["/foo", "/bar*"], "verbs": ["get", "post"]}]));
    let expected = r#"user "bob" (groups=["dev" "ops" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{NonResourceURLs:["/bar*"], Verbs:["get"]}
{NonResourceURLs:["/bar*"], Verbs:["post"]}
{NonResourceURLs:["/foo"], Verbs:["get"]}
{NonResourceURLs:["/foo"], Verbs:["post"]}"#;
    assert_eq!(write_role(&bob(), &paths, false).unwrap_err().to_string(), expected);
}

#[test]
fn roles_within_ones_own_rules_pass() {
    let own = rules(json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]));
    assert_eq!(write_role(&bob(), &own, false), Ok(()));
    assert_eq!(
        write_role(&bob(), &own, true).unwrap_err().to_string(),
        "must have cluster-admin privileges to use the aggregationRule"
    );
    let all = rules(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
    assert_eq!(write_role(&user("root", &[]), &all, true), Ok(()));
    assert_eq!(write_role(&user("x", &["system:masters"]), &all, true), Ok(()));
}

#[test]
fn bindings_need_the_verb_or_the_rules() {
    let admin = role_ref("ClusterRole", "cluster-admin");
    let expected = r#"user "bob" (groups=["dev" "ops" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:["*"], Resources:["*"], Verbs:["*"]}
{NonResourceURLs:["*"], Verbs:["*"]}"#;
    assert_eq!(bind(&bob(), "", &admin).unwrap_err().to_string(), expected);
    assert_eq!(bind(&bob(), "shop", &role_ref("ClusterRole", "editor")), Ok(()));
    assert_eq!(bind(&user("carol", &[]), "shop", &admin), Ok(()));
    assert!(bind(&user("carol", &[]), "", &role_ref("ClusterRole", "editor")).is_err());
    assert_eq!(
        bind(&bob(), "shop", &role_ref("Role", "missing")),
        Err(EscalationError::RoleNotFound(UnresolvedRole {
            kind: "Role".to_owned(),
            name: "missing".to_owned(),
        }))
    );
    assert_eq!(bind(&user("x", &["system:masters"]), "", &role_ref("Role", "missing")), Ok(()));
}

#[test]
fn mentions_roles_that_could_not_be_resolved() {
    let mut policy = policy();
    let object = json!({
        "metadata": {"name": "dangling"},
        "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": "gone"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    policy.upsert_binding(Binding::from_value(&object).unwrap());
    let wanted = rules(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
    assert_eq!(
        require_held(&policy, &user("bob", &[]), "", &wanted).unwrap_err().to_string(),
        "user \"bob\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}; resolution errors: \
         [clusterrole.rbac.authorization.k8s.io \"gone\" not found]"
    );
}

#[test]
fn collection_may_touch_its_own_fields() {
    let old = json!({"metadata": {"name": "a", "finalizers": ["x"], "uid": "1"}, "rules": []});
    let collected =
        json!({"metadata": {"name": "a", "ownerReferences": [{}], "uid": "1"}, "rules": []});
    let relabelled =
        json!({"metadata": {"name": "a", "labels": {"a": "b"}, "uid": "1"}, "rules": []});
    let changed = json!({"metadata": {"name": "a", "uid": "1"}, "rules": [{}]});
    assert!(changes_only_collection_fields(&collected, &old));
    assert!(!changes_only_collection_fields(&relabelled, &old));
    assert!(!changes_only_collection_fields(&changed, &old));
    assert!(!changes_only_collection_fields(&Value::Null, &old));
}
