use serde_json::json;

use super::*;

fn faults(kind: &dyn Kind, obj: &Value) -> Vec<String> {
    let mut errors = crate::field::FieldErrors::new();
    kind.validate(obj.as_object().unwrap(), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_review_says_who_and_what() {
    let neither = "spec.resourceAttributes: Invalid value: null: exactly one of \
                   nonResourceAttributes or resourceAttributes must be specified";
    assert_eq!(
        faults(&SubjectAccessReview, &json!({})),
        [
            neither,
            "spec.user: Invalid value: \"\": at least one of user or group must be specified"
        ]
    );
    assert_eq!(faults(&SelfSubjectAccessReview, &json!({})), [neither]);
    let both = json!({"spec": {
        "user": "u", "resourceAttributes": {"verb": "get"},
        "nonResourceAttributes": {"path": "/", "verb": "get"},
    }});
    assert_eq!(
        faults(&SubjectAccessReview, &both),
        [
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be \
          specified in combination with resourceAttributes"
        ]
    );
    let by_group = json!({"spec": {"groups": ["g"], "resourceAttributes": {"verb": "get"}}});
    assert!(faults(&SubjectAccessReview, &by_group).is_empty());
}

#[test]
fn a_review_has_no_metadata() {
    let spec = json!({"nonResourceAttributes": {"path": "/", "verb": "get"}});
    let named = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": spec});
    assert_eq!(
        faults(&SelfSubjectAccessReview, &named),
        ["metadata: Invalid value: {\"name\":\"x\",\"labels\":{\"a\":\"b\"}}: must be empty"]
    );
    let managed = json!({
        "metadata": {"managedFields": [{"manager": "x"}], "creationTimestamp": null}, "spec": spec,
    });
    assert!(faults(&SelfSubjectAccessReview, &managed).is_empty());
}

#[test]
fn a_local_review_stays_in_its_namespace() {
    let good = json!({
        "metadata": {"namespace": "ns1"},
        "spec": {"user": "u", "resourceAttributes": {"verb": "get", "namespace": "ns1"}},
    });
    assert!(faults(&LocalSubjectAccessReview, &good).is_empty());
    let elsewhere = json!({
        "metadata": {"namespace": "ns1"},
        "spec": {"user": "u", "resourceAttributes": {"verb": "get", "namespace": "o"}},
    });
    assert_eq!(
        faults(&LocalSubjectAccessReview, &elsewhere),
        ["spec.resourceAttributes.namespace: Invalid value: \"o\": must match metadata.namespace"]
    );
    let path = json!({
        "metadata": {"namespace": "ns1", "name": "x"},
        "spec": {"user": "u", "nonResourceAttributes": {"path": "/p", "verb": "get"}},
    });
    assert_eq!(
        faults(&LocalSubjectAccessReview, &path),
        [
            "metadata: Invalid value: {\"name\":\"x\",\"namespace\":\"ns1\"}: must be empty except \
             for namespace",
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/p\",\"Verb\":\"get\"}: \
             disallowed on this kind of request",
        ]
    );
}

#[test]
fn selectors_are_checked() {
    let review = |field: Value, label: Value| {
        json!({"spec": {"user": "u", "resourceAttributes": {
            "verb": "list", "fieldSelector": field, "labelSelector": label,
        }}})
    };
    let fields = "spec.resourceAttributes.fieldSelector";
    let labels = "spec.resourceAttributes.labelSelector";
    let mixed = json!({"rawSelector": "a", "requirements": [{"key": "a", "operator": "In"}]});
    assert_eq!(
        faults(&SubjectAccessReview, &review(json!({}), mixed)),
        [
            format!(
                "{fields}.requirements: Required value: when {fields} is specified, requirements \
                 or rawSelector is required"
            ),
            format!(
                "{labels}.rawSelector: Invalid value: \"a\": may not specified at the same time \
                 as requirements"
            ),
            format!(
                "{labels}.requirements[0].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'"
            ),
        ]
    );
    let requirements = json!({"requirements": [
        {"operator": "Foo"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
    ]});
    assert_eq!(
        faults(&SubjectAccessReview, &review(requirements, json!({"rawSelector": "a"}))),
        [
            format!("{fields}.requirements[0].key: Required value: must be specified"),
            format!(
                "{fields}.requirements[1].values: Forbidden: may not be specified when `operator` \
                 is 'Exists' or 'DoesNotExist'"
            ),
        ]
    );
}

#[test]
fn a_token_lives_for_a_while() {
    let mut obj = json!({});
    TokenRequest.default(obj.as_object_mut().unwrap());
    assert_eq!(obj, json!({"spec": {"expirationSeconds": 3600}}));
    assert!(faults(&TokenRequest, &obj).is_empty());
    assert_eq!(
        faults(&TokenRequest, &json!({"spec": {"expirationSeconds": 10}})),
        ["spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 \
          minutes"]
    );
    assert_eq!(
        faults(&TokenRequest, &json!({"spec": {"expirationSeconds": 4_294_967_297_i64}})),
        ["spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger \
          than 2^32 seconds"]
    );
}

#[test]
fn a_review_of_nothing_is_a_bad_request() {
    let missing =
        |kind: &str, spec: Value| missing_subject(kind, json!({"spec": spec}).as_object().unwrap());
    assert_eq!(
        missing("TokenReview", json!({})),
        Some("token is required for TokenReview in authentication")
    );
    assert_eq!(missing("SelfSubjectRulesReview", json!({})), Some("no namespace on request"));
    assert_eq!(missing("TokenReview", json!({"token": "t"})), None);
    assert_eq!(missing("SelfSubjectReview", json!({})), None);
}
