use serde_json::json;

use super::*;

fn faults(kind: &dyn Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = crate::field::FieldErrors::new();
    let new = new.as_object().unwrap();
    match old {
        Some(old) => kind.validate_update(new, old.as_object().unwrap(), &mut errors),
        None => kind.validate(new, &mut errors),
    }
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn rules_are_checked_by_scope() {
    let rules = json!({"rules": [
        {},
        {"verbs": ["get"], "nonResourceURLs": ["/a"]},
        {"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["x"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["x"]},
    ]});
    let both = "Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
                non-resource URLs";
    let namespaced = "Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs";
    let empty = [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ];
    let mut expected: Vec<String> = empty.map(str::to_owned).to_vec();
    expected.push(format!("rules[2].nonResourceURLs: {both}"));
    assert_eq!(faults(&ClusterRole, &rules, None), expected);
    expected.insert(3, format!("rules[1].nonResourceURLs: {namespaced}"));
    expected.insert(4, format!("rules[2].nonResourceURLs: {namespaced}"));
    assert_eq!(faults(&Role, &rules, None), expected);
}

#[test]
fn aggregation_needs_good_selectors() {
    assert_eq!(
        faults(&ClusterRole, &json!({"aggregationRule": {}}), None),
        ["aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector \
          required if aggregationRule is non-nil"]
    );
    let good = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    assert!(faults(&ClusterRole, &good, None).is_empty());
    let bad = json!({"aggregationRule": {"clusterRoleSelectors": [
        {"matchExpressions": [{"key": "a", "operator": "Foo"}, {"key": "a", "operator": "In"}]},
    ]}});
    assert_eq!(
        faults(&ClusterRole, &bad, None),
        [
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \
             \"Foo\": not a valid selector operator",
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[1].values: Required value: \
             must be specified when `operator` is 'In' or 'NotIn'",
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
        ]
    );
    let value = json!({"aggregationRule": {"clusterRoleSelectors": [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]},
    ]}});
    assert_eq!(faults(&ClusterRole, &value, None).len(), 2);
    assert_eq!(
        faults(&ClusterRole, &value, Some(&value)),
        ["aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector."]
    );
}

#[test]
fn bindings_are_completed() {
    let mut obj = json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "a"},
            {"kind": "ServiceAccount", "name": "s"},
            {"kind": "Group", "name": "g", "apiGroup": "q"},
        ],
    });
    let expected = json!({
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": GROUP},
        "subjects": [
            {"kind": "User", "name": "a", "apiGroup": GROUP},
            {"kind": "ServiceAccount", "name": "s"},
            {"kind": "Group", "name": "g", "apiGroup": "q"},
        ],
    });
    for _ in 0..2 {
        RoleBinding.default(obj.as_object_mut().unwrap());
        assert_eq!(obj, expected);
    }
}

#[test]
fn bindings_are_checked() {
    let bad = json!({
        "roleRef": {"apiGroup": "z", "kind": "Foo", "name": "a/b%"},
        "subjects": [
            {"kind": "User", "apiGroup": GROUP},
            {"kind": "ServiceAccount", "name": "ok", "apiGroup": "x"},
            {"kind": "Foo", "name": "x"},
            {"kind": "Group", "name": "g", "apiGroup": "q"},
        ],
    });
    let expected = [
        "roleRef.apiGroup: Unsupported value: \"z\": supported values: \
         \"rbac.authorization.k8s.io\"",
        "roleRef.kind: Unsupported value: \"Foo\": supported values: \"Role\", \"ClusterRole\"",
        "roleRef.name: Invalid value: \"a/b%\": may not contain '/'",
        "roleRef.name: Invalid value: \"a/b%\": may not contain '%'",
        "subjects[0].name: Required value",
        "subjects[1].apiGroup: Unsupported value: \"x\": supported values: \"\"",
        "subjects[2].kind: Unsupported value: \"Foo\": supported values: \"ServiceAccount\", \
         \"User\", \"Group\"",
        "subjects[3].apiGroup: Unsupported value: \"q\": supported values: \
         \"rbac.authorization.k8s.io\"",
    ];
    assert_eq!(faults(&RoleBinding, &bad, None), expected);
    let cluster = json!({
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": ".."},
        "subjects": [{"kind": "ServiceAccount", "name": "ok"}],
    });
    assert_eq!(
        faults(&ClusterRoleBinding, &cluster, None),
        [
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "roleRef.name: Invalid value: \"..\": may not be '..'",
            "subjects[0].namespace: Required value",
        ]
    );
}

#[test]
fn a_binding_keeps_its_role() {
    let old = json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"}});
    assert!(faults(&RoleBinding, &old, Some(&old)).is_empty());
    let new = json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "zz"}});
    assert_eq!(
        faults(&RoleBinding, &new, Some(&old)),
        ["roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\
          \"ClusterRole\",\"Name\":\"zz\"}: cannot change roleRef"]
    );
}
