use proptest::prelude::*;
use serde_json::json;

use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..User::default()
    }
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: &Value) -> Binding {
    Binding::from_value(&json!({
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": API_GROUP, "kind": role.0, "name": role.1},
        "subjects": subjects,
    }))
    .unwrap()
}

fn sample() -> Policy {
    let mut policy = Policy::default();
    policy.upsert_cluster_role(
        ClusterRole::from_value(&json!({
            "metadata": {"name": "viewer"},
            "rules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]},
                {"verbs": ["get"], "nonResourceURLs": ["/version"]},
            ],
        }))
        .unwrap(),
    );
    policy.upsert_role(
        Role::from_value(&json!({
            "metadata": {"name": "secrets", "namespace": "shop"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}],
        }))
        .unwrap(),
    );
    policy.upsert_binding(binding(
        "",
        "all-view",
        ("ClusterRole", "viewer"),
        &json!([{"kind": "Group", "name": "staff"}, {"kind": "User", "name": "alice"}]),
    ));
    policy.upsert_binding(binding(
        "shop",
        "robots",
        ("Role", "secrets"),
        &json!([
            {"kind": "ServiceAccount", "name": "robot"},
            {"kind": "ServiceAccount", "name": "other", "namespace": "office"},
        ]),
    ));
    policy
}

fn ask(policy: &Policy, user: &User, namespace: &str, resource: &str) -> (bool, String) {
    let request = Attributes { namespace, ..Attributes::on_resource(user, "get", "", resource) };
    let decision = policy.authorize(&request);
    (decision.is_allowed(), decision.reason())
}

#[test]
fn decides_with_upstreams_reasons() {
    let policy = sample();
    let allowed = |reason: &str| (true, format!("RBAC: allowed by {reason}"));
    let denied = (false, String::new());
    let cases = [
        (
            user("alice", &[]),
            "shop",
            "configmaps",
            allowed(r#"ClusterRoleBinding "all-view" of ClusterRole "viewer" to User "alice""#),
        ),
        (
            // The first subject of the binding that fits is the one named.
            user("alice", &["staff"]),
            "",
            "configmaps",
            allowed(r#"ClusterRoleBinding "all-view" of ClusterRole "viewer" to Group "staff""#),
        ),
        (user("bob", &["staff2"]), "", "configmaps", denied.clone()),
        (user("alice", &[]), "", "secrets", denied.clone()),
        (
            user("system:serviceaccount:shop:robot", &[]),
            "shop",
            "secrets",
            allowed(
                r#"RoleBinding "robots/shop" of Role "secrets" to ServiceAccount "robot/shop""#,
            ),
        ),
        (
            user("system:serviceaccount:office:other", &[]),
            "shop",
            "secrets",
            allowed(
                r#"RoleBinding "robots/shop" of Role "secrets" to ServiceAccount "other/office""#,
            ),
        ),
        (user("system:serviceaccount:office:robot", &[]), "shop", "secrets", denied.clone()),
        (user("system:serviceaccount:shop:robot", &[]), "office", "secrets", denied.clone()),
        (user("system:serviceaccount:shop:robot", &[]), "", "secrets", denied.clone()),
        (user("root", &[SUPERUSER_GROUP]), "", "secrets", denied),
    ];
    for (user, namespace, resource, expected) in cases {
        assert_eq!(ask(&policy, &user, namespace, resource), expected, "{user:?} {namespace}");
    }
    let alice = user("alice", &[]);
    assert!(policy.authorize(&Attributes::on_path(&alice, "get", "/version")).is_allowed());
    assert!(!policy.authorize(&Attributes::on_path(&alice, "post", "/version")).is_allowed());
}

#[test]
fn names_the_roles_that_are_missing() {
    let mut policy = Policy::default();
    let alice = json!([{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "g"}]);
    policy.upsert_binding(binding("", "a", ("ClusterRole", "nope"), &alice));
    let user = user("alice", &["g"]);
    let one = r#"RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found"#;
    assert_eq!(ask(&policy, &user, "shop", "pods"), (false, one.to_owned()));

    policy.upsert_binding(binding("shop", "b", ("Role", "nope2"), &alice));
    let two = r#"RBAC: [clusterrole.rbac.authorization.k8s.io "nope" not found, role.rbac.authorization.k8s.io "nope2" not found]"#;
    assert_eq!(ask(&policy, &user, "shop", "pods"), (false, two.to_owned()));
    assert_eq!(
        policy.rules_for(&user, "shop").to_review_status(None)["evaluationError"],
        two.strip_prefix("RBAC: ").unwrap()
    );

    policy.upsert_binding(binding("", "a", ("Thing", "x"), &alice));
    let odd = r#"RBAC: unsupported role reference kind: "Thing""#;
    assert_eq!(ask(&policy, &user, "", "pods"), (false, odd.to_owned()));
}

#[test]
fn follows_changes() {
    let mut policy = sample();
    let alice = user("alice", &[]);
    let robot = user("system:serviceaccount:shop:robot", &[]);
    let carol = json!([{"kind": "User", "name": "carol"}]);
    policy.upsert_binding(binding("", "all-view", ("ClusterRole", "viewer"), &carol));
    assert!(!ask(&policy, &alice, "", "configmaps").0);
    assert!(ask(&policy, &user("carol", &[]), "", "configmaps").0);

    policy.remove_role("shop", "secrets");
    assert!(!ask(&policy, &robot, "shop", "secrets").0);
    policy.remove_binding("shop", "robots");
    policy.remove_binding("", "all-view");
    policy.remove_binding("", "never-was");
    policy.remove_cluster_role("viewer");
    assert!(policy.bindings.is_empty() && policy.roles.is_empty());
    assert_eq!(ask(&policy, &robot, "shop", "secrets"), (false, String::new()));
}

#[test]
fn lists_rules_for_a_review() {
    let policy = sample();
    assert_eq!(
        policy.rules_for(&user("alice", &["staff"]), "shop").to_review_status(None),
        json!({
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version"]}],
            "incomplete": false,
        })
    );
}

#[test]
fn finds_who_can() {
    let policy = sample();
    let nobody = User::default();
    let who = |namespace, resource| -> Vec<String> {
        let request =
            Attributes { namespace, ..Attributes::on_resource(&nobody, "get", "", resource) };
        policy.subjects_who_can(&request).into_iter().map(|subject| subject.name).collect()
    };
    assert_eq!(who("shop", "secrets"), ["system:masters", "robot", "other"]);
    assert_eq!(who("", "configmaps"), ["system:masters", "staff", "alice"]);
    assert_eq!(who("", "nodes"), ["system:masters"]);
}

#[test]
fn knows_stale_aggregations() {
    let mut policy = sample();
    policy.upsert_cluster_role(
        ClusterRole::from_value(&json!({
            "metadata": {"name": "sum"},
            "aggregationRule": {"clusterRoleSelectors": [{}]},
        }))
        .unwrap(),
    );
    assert_eq!(policy.aggregating_roles().collect::<Vec<_>>(), ["sum"]);
    let rules = policy.stale_aggregation("sum").unwrap().unwrap();
    assert_eq!(rules, policy.cluster_role("viewer").unwrap().rules);
    let sum = policy.cluster_role("sum").unwrap().clone();
    policy.upsert_cluster_role(ClusterRole { rules, ..sum });
    assert_eq!(policy.stale_aggregation("sum").unwrap(), None);
    assert_eq!(policy.stale_aggregation("viewer").unwrap(), None);
}

proptest! {
    /// The index answers as a walk over all bindings would.
    #[test]
    fn index_agrees_with_a_full_walk(
        steps in prop::collection::vec(
            (0..4usize, 0..3usize, prop::collection::vec((0..3usize, 0..3usize, 0..3usize), 0..4), any::<bool>()),
            0..20,
        ),
        name in 0..5usize,
        groups in prop::collection::vec(0..3usize, 0..3),
    ) {
        const NAMESPACES: [&str; 3] = ["", "n1", "n2"];
        const NAMES: [&str; 5] =
            ["x", "y", "z", "system:serviceaccount:n1:x", "system:serviceaccount:n2:y"];
        const KINDS: [&str; 3] = ["User", "Group", "ServiceAccount"];
        let mut policy = Policy::default();
        let mut all: BTreeMap<(&str, String), Binding> = BTreeMap::new();
        for (binding_name, namespace, subjects, remove) in steps {
            let namespace = NAMESPACES[namespace];
            let binding_name = format!("b{binding_name}");
            if remove {
                policy.remove_binding(namespace, &binding_name);
                all.remove(&(namespace, binding_name));
                continue;
            }
            let subjects: Vec<Value> = subjects
                .into_iter()
                .map(|(kind, name, ns)| json!({"kind": KINDS[kind], "name": NAMES[name], "namespace": NAMESPACES[ns]}))
                .collect();
            let made = binding(namespace, &binding_name, ("ClusterRole", "r"), &json!(subjects));
            policy.upsert_binding(made.clone());
            all.insert((namespace, binding_name), made);
        }
        let user = user(NAMES[name], &groups.iter().map(|&g| NAMES[g]).collect::<Vec<_>>());
        for namespace in NAMESPACES {
            let walked: Vec<&str> = all
                .values()
                .filter(|b| b.namespace.is_empty() || b.namespace == namespace)
                .filter(|b| b.subjects.iter().any(|s| s.applies_to(&user, &b.namespace)))
                .map(|b| b.name.as_str())
                .collect();
            let mut indexed: Vec<(&str, &str)> = policy
                .indexes(namespace)
                .flat_map(|index| index.of(&user))
                .map(|b| (b.namespace.as_str(), b.name.as_str()))
                .collect();
            indexed.sort_unstable();
            indexed.dedup();
            let indexed: Vec<&str> = indexed.into_iter().map(|(_, name)| name).collect();
            prop_assert_eq!(indexed, walked);
        }
    }
}
