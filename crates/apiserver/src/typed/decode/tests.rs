use serde_json::json;

use super::*;

fn decoded(api_version: &str, kind: &str, mut body: Value) -> (Value, Vec<String>) {
    let ty = table().lookup(api_version, kind).expect("a kind");
    let mut strict = Vec::new();
    decode(ty, &mut body, &mut strict).expect("decodes");
    (body, strict)
}

fn refused(api_version: &str, kind: &str, mut body: Value) -> String {
    let ty = table().lookup(api_version, kind).expect("a kind");
    decode(ty, &mut body, &mut Vec::new()).expect_err("must not decode").to_string()
}

fn pod(container: &Value) -> Value {
    json!({"spec": {"containers": [container]}})
}

fn crd(property: &Value) -> Value {
    json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
        "properties": {"spec": {"properties": {"a": property}}}}}}]}})
}

/// Bodies and the messages with which the real server refused them.
#[test]
fn type_errors_are_in_go_s_words() {
    let number = "json: cannot unmarshal number";
    for (body, wanted) in [
        (
            json!({"data": {"a": 1}}),
            format!("{number} into Go struct field ConfigMap.data of type string"),
        ),
        (
            json!({"data": []}),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type \
             map[string]string"
                .to_owned(),
        ),
        (json!({"binaryData": {"a": "!!"}}), "illegal base64 data at input byte 0".to_owned()),
        (
            json!({"binaryData": {"a": {}}}),
            "json: cannot unmarshal object into Go struct field ConfigMap.binaryData of type \
             []uint8"
                .to_owned(),
        ),
        (
            json!({"immutable": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"
                .to_owned(),
        ),
        (
            json!({"metadata": {"labels": {"x": 1}}}),
            format!("{number} into Go struct field ObjectMeta.metadata.labels of type string"),
        ),
        (
            json!({"metadata": {"ownerReferences": [{"uid": 1}]}}),
            format!(
                "{number} into Go struct field OwnerReference.metadata.ownerReferences.uid of \
                 type types.UID"
            ),
        ),
        (
            json!({"metadata": {"creationTimestamp": "x"}}),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
                .to_owned(),
        ),
        (
            json!({"metadata": {"creationTimestamp": 1}}),
            format!(
                "{number} into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
            ),
        ),
        (
            json!({"metadata": {"generation": 1.5}}),
            format!(
                "{number} 1.5 into Go struct field ObjectMeta.metadata.generation of type int64"
            ),
        ),
        (
            json!({"metadata": []}),
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type \
             v1.ObjectMeta"
                .to_owned(),
        ),
    ] {
        assert_eq!(refused("v1", "ConfigMap", body.clone()), wanted, "{body}");
    }
}

#[test]
fn type_errors_name_the_innermost_struct_and_embedded_ones() {
    let regex = "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let port = "Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet\
                .port of type int32";
    for (body, wanted) in [
        (
            pod(&json!({"ports": [{"containerPort": "80"}]})),
            "json: cannot unmarshal string into Go struct field \
             ContainerPort.spec.containers.ports.containerPort of type int32"
                .to_owned(),
        ),
        (
            pod(&json!({"ports": [{"containerPort": 99_999_999_999_i64}]})),
            "json: cannot unmarshal number 99999999999 into Go struct field \
             ContainerPort.spec.containers.ports.containerPort of type int32"
                .to_owned(),
        ),
        (
            pod(&json!({"livenessProbe": {"httpGet": {"port": true}}})),
            format!("json: cannot unmarshal bool into {port}"),
        ),
        (
            pod(&json!({"livenessProbe": {"httpGet": {"port": 3_000_000_000_i64}}})),
            format!("json: cannot unmarshal number 3000000000 into {port}"),
        ),
        (pod(&json!({"resources": {"limits": {"cpu": "abc"}}})), regex.to_owned()),
        (pod(&json!({"resources": {"limits": {"cpu": []}}})), regex.to_owned()),
        (
            pod(&json!({"resources": {"limits": {"cpu": "1ee"}}})),
            "unable to parse quantity's suffix".to_owned(),
        ),
        (
            pod(&json!({"resources": {"limits": "x"}})),
            "json: cannot unmarshal string into Go struct field \
             ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList"
                .to_owned(),
        ),
        (
            json!({"spec": {"volumes": [{"emptyDir": 1}]}}),
            "json: cannot unmarshal number into Go struct field \
             Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource"
                .to_owned(),
        ),
        (
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type \
             []v1.Container"
                .to_owned(),
        ),
        (
            json!({"spec": {"containers": [1], "hostNetwork": "true"}}),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type \
             v1.Container"
                .to_owned(),
        ),
        // Go stops at a type that decodes itself, and forgets earlier errors.
        (
            json!({"spec": {"activeDeadlineSeconds": "x",
                "containers": [{"resources": {"limits": {"cpu": "abc"}}}]}}),
            regex.to_owned(),
        ),
    ] {
        assert_eq!(refused("v1", "Pod", body.clone()), wanted, "{body}");
    }
}

#[test]
fn schemas_within_schemas() {
    let version = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    let at = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties\
              .properties";
    for (property, wanted) in [
        (
            json!({"type": 1}),
            format!("json: cannot unmarshal number into {at}.type of type string"),
        ),
        (
            json!({"additionalProperties": {"type": 1}}),
            format!(
                "json: cannot unmarshal number into {at}.additionalProperties.type of type string"
            ),
        ),
        (json!({"additionalProperties": "x"}), "boolean or JSON schema expected".to_owned()),
        (
            json!({"items": {"properties": {"x": {"maxLength": "q"}}}}),
            format!(
                "json: cannot unmarshal string into {at}.items.properties.maxLength of type int64"
            ),
        ),
        (
            json!({"maximum": "x"}),
            format!("json: cannot unmarshal string into {at}.maximum of type float64"),
        ),
    ] {
        assert_eq!(refused(version, kind, crd(&property)), wanted, "{property}");
    }
    // Types that decode themselves drop what they do not know, and say nothing.
    let (body, strict) = decoded(
        version,
        kind,
        crd(&json!({
            "bogus": 1, "additionalProperties": {"foo": 1, "type": "string"}, "multipleOf": 1.0,
            "minimum": 1, "maximum": 1.5, "default": "", "required": [], "properties": {},
            "items": null, "nullable": false, "enum": [1, null],
        })),
    );
    assert_eq!(
        strict,
        ["unknown field \
          \"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.bogus\""]
    );
    assert_eq!(
        body.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a"),
        Some(&json!({
            "additionalProperties": {"type": "string"}, "multipleOf": 1, "minimum": 1,
            "maximum": 1.5, "default": "", "enum": [1, null],
        }))
    );
}

#[test]
fn unknown_members_are_told_and_removed() {
    let (body, strict) = decoded(
        "v1",
        "Pod",
        json!({"spec": {
            "baz": 1,
            "containers": [
                {"name": "a", "env": [{"name": "A", "valueFrom": {"bar": 1}}], "Image": "b"}],
            "volumes": [{"name": "x", "emptyDir": {"foo": 1}}],
        }}),
    );
    assert_eq!(
        strict,
        [
            r#"unknown field "spec.baz""#,
            r#"unknown field "spec.containers[0].Image""#,
            r#"unknown field "spec.containers[0].env[0].valueFrom.bar""#,
            r#"unknown field "spec.volumes[0].emptyDir.foo""#,
        ]
    );
    assert_eq!(
        body["spec"],
        json!({
            "containers":
                [{"name": "a", "env": [{"name": "A", "valueFrom": {}}], "resources": {}}],
            "volumes": [{"name": "x", "emptyDir": {}}],
        })
    );
}

/// What the real server answers to the same bodies, without what it defaults.
#[test]
fn bodies_become_what_go_writes() {
    for (version, kind, body, wanted) in [
        (
            "v1",
            "ConfigMap",
            json!({"data": {"a": null}, "binaryData": {"a": null, "b": "YQ==\n", "c": [1, 2]},
                "immutable": null, "metadata": {"labels": {}, "finalizers": [], "name": ""}}),
            json!({"data": {"a": ""}, "binaryData": {"a": "", "b": "YQ==", "c": "AQI="},
                "metadata": {}}),
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"rules": []}),
            json!({"metadata": {}, "rules": null}),
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            json!({"spec": {"renewTime": "2020-01-02T03:04:05.123456+02:00", "acquireTime": null}}),
            json!({"metadata": {}, "spec": {"renewTime": "2020-01-02T01:04:05.123456Z"}}),
        ),
        (
            "v1",
            "Event",
            json!({"involvedObject": {"namespace": "default"}, "count": 0}),
            json!({
                "metadata": {}, "involvedObject": {"namespace": "default"}, "source": {},
                "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
                "reportingComponent": "", "reportingInstance": "",
            }),
        ),
        (
            "v1",
            "Pod",
            pod(&json!({
                "name": "a", "args": [null, "a"], "command": [],
                "env": [{"name": "B", "value": ""}], "lifecycle": {}, "securityContext": {},
                "livenessProbe": {"httpGet": {"port": null, "path": ""}},
                "resources": {"limits":
                    {"cpu": "1000m", "memory": "1024Mi", "x.y/z": 2, "a.b/c": null}},
            })),
            json!({
                "metadata": {}, "status": {},
                "spec": {"containers": [{
                    "name": "a", "args": ["", "a"], "env": [{"name": "B"}], "lifecycle": {},
                    "securityContext": {}, "livenessProbe": {"httpGet": {"port": 0}},
                    "resources": {"limits":
                        {"cpu": "1", "memory": "1Gi", "x.y/z": "2", "a.b/c": "0"}},
                }]},
            }),
        ),
        (
            "v1",
            "Node",
            json!({"spec": null}),
            json!({
                "metadata": {}, "spec": {},
                "status": {
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": {
                        "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "",
                        "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "",
                        "kubeProxyVersion": "", "operatingSystem": "", "architecture": "",
                    },
                },
            }),
        ),
    ] {
        let (got, strict) = decoded(version, kind, body);
        assert_eq!(got, wanted, "{kind}");
        assert!(strict.is_empty(), "{strict:?}");
    }
}

#[test]
fn metadata_of_custom_objects() {
    let mut strict = Vec::new();
    let mut metadata = json!({
        "name": "b", "foo": 1, "labels": {"a": null}, "annotations": {}, "managedFields": [],
        "creationTimestamp": null, "ownerReferences": [{"bar": 1, "uid": "u"}],
    });
    decode_object_meta(&mut metadata, &mut strict).expect("decodes");
    assert_eq!(
        metadata,
        json!({"name": "b", "labels": {"a": ""},
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "u"}]})
    );
    assert_eq!(
        strict,
        [r#"unknown field "metadata.foo""#, r#"unknown field "metadata.ownerReferences[0].bar""#]
    );
    for (mut metadata, wanted) in [
        (
            json!({"labels": {"x": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (json!([]), "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
    ] {
        let error = decode_object_meta(&mut metadata, &mut strict).expect_err("must not decode");
        assert_eq!(error.to_string(), wanted);
    }
    let mut strict = Vec::new();
    let mut embedded = json!({"foo": 1});
    decode_object_meta_at("spec.template.metadata", &mut embedded, &mut strict).expect("decodes");
    assert_eq!(strict, [r#"unknown field "spec.template.metadata.foo""#]);
}

/// Printed by Go's encoder.
#[test]
fn floats_are_written_as_go_writes_them() {
    let canonical = |text: &str| {
        let number: Number = serde_json::from_str(text).expect("a number");
        go_float(&number).map(|number| number.to_string())
    };
    assert_eq!(canonical("1"), None);
    assert_eq!(canonical("1.5"), None);
    assert_eq!(canonical("1.0").as_deref(), Some("1"));
    assert_eq!(canonical("-3.0").as_deref(), Some("-3"));
    assert_eq!(canonical("9223372036854775807").as_deref(), Some("9223372036854776000"));
}

#[test]
fn strict_errors_are_bounded() {
    let members: Map<String, Value> =
        (0..200).map(|number| (format!("x{number}"), Value::Null)).collect();
    let (body, strict) = decoded("v1", "ConfigMap", Value::Object(members));
    assert_eq!(strict.len(), MAX_STRICT_ERRORS);
    assert_eq!(body, json!({"metadata": {}}));
}

#[test]
fn what_a_type_adds_to_a_short_body_is_bounded() {
    let ty = table().lookup("v1", "Pod").expect("a kind");
    for (short, name) in
        [(json!({}), "containers"), (Value::Null, "containers"), (json!({}), "volumes")]
    {
        let mut body = json!({"spec": {name: vec![short; 100_000]}});
        let decoded = decode(ty, &mut body, &mut Vec::new());
        assert!(matches!(decoded, Err(DecodeError::TooLarge(_))), "{name}: {decoded:?}");
    }
}

mod any_value {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9:TZ.-]{0,8}".prop_map(Value::from),
            Just(json!("2020-01-02T03:04:05Z")),
        ];
        let name = prop_oneof![
            "spec|status|metadata|name|labels|containers|resources|limits|cpu|env|ports|volumes",
            "livenessProbe|httpGet|port|emptyDir|sizeLimit|ownerReferences|[a-z]{1,3}",
        ];
        leaf.prop_recursive(6, 64, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn decodes_to_something_that_decodes_to_itself(body in value()) {
            let ty = table().lookup("v1", "Pod").expect("a kind");
            let mut once = body;
            if decode(ty, &mut once, &mut Vec::new()).is_ok() {
                let mut strict = Vec::new();
                let mut twice = once.clone();
                prop_assert_eq!(decode(ty, &mut twice, &mut strict), Ok(()));
                prop_assert_eq!(&twice, &once);
                prop_assert!(strict.is_empty());
            }
        }
    }
}
