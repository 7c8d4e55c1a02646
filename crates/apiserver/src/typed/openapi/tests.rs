use serde_json::json;

use super::*;

fn schemas(api_version: &str, kinds: &[&str]) -> Value {
    let table = table();
    let roots: Vec<TypeId> =
        kinds.iter().map(|kind| table.lookup(api_version, kind).expect("a kind")).collect();
    component_schemas(api_version, &roots)
}

/// A schema without its descriptions, which are long.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let described = |name: &str, value: &Value| name == "description" && value.is_string();
            members
                .iter()
                .filter(|(name, value)| !described(name, value))
                .map(|(name, value)| (name.clone(), bare(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// Schemas as the real server's document for `v1` has them.
#[test]
fn definitions_are_upstream_s() {
    let schemas = schemas("v1", &["Service", "Pod", "ConfigMap", "DeleteOptions"]);
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1";
    for (name, wanted) in [
        (
            "io.k8s.api.core.v1.ServicePort",
            json!({
                "type": "object",
                "required": ["port"],
                "properties": {
                    "appProtocol": {"type": "string"},
                    "name": {"type": "string"},
                    "nodePort": {"type": "integer", "format": "int32"},
                    "port": {"type": "integer", "format": "int32", "default": 0},
                    "protocol":
                        {"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]},
                    "targetPort": {"allOf": [{"$ref":
                        "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}]},
                },
            }),
        ),
        (
            "io.k8s.api.core.v1.ResourceRequirements",
            json!({
                "type": "object",
                "properties": {
                    "claims": {
                        "type": "array",
                        "items": {
                            "default": {},
                            "allOf":
                                [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ResourceClaim"}],
                        },
                        "x-kubernetes-list-map-keys": ["name"],
                        "x-kubernetes-list-type": "map",
                    },
                    "limits": {"type": "object", "additionalProperties": {"$ref":
                        "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}},
                    "requests": {"type": "object", "additionalProperties": {"$ref":
                        "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}},
                },
            }),
        ),
        (
            "io.k8s.api.core.v1.ConfigMap",
            json!({
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "binaryData": {"type": "object",
                        "additionalProperties": {"type": "string", "format": "byte"}},
                    "data": {"type": "object",
                        "additionalProperties": {"type": "string", "default": ""}},
                    "immutable": {"type": "boolean"},
                    "kind": {"type": "string"},
                    "metadata":
                        {"default": {}, "allOf": [{"$ref": format!("{meta}.ObjectMeta")}]},
                },
                "x-kubernetes-group-version-kind":
                    [{"group": "", "kind": "ConfigMap", "version": "v1"}],
            }),
        ),
        (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            json!({"type": "string", "format": "date-time"}),
        ),
    ] {
        assert_eq!(bare(&schemas[name]), wanted, "{name}");
    }
    assert_eq!(
        schemas["io.k8s.api.core.v1.ServicePort"]["properties"]["port"]["description"],
        "The port that will be exposed by this service."
    );
}

#[test]
fn every_reference_leads_somewhere() {
    fn targets<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
        match schema {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| targets(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| targets(item, found)),
            _ => {}
        }
    }
    let crd = schemas("apiextensions.k8s.io/v1", &["CustomResourceDefinitionList"]);
    for schemas in [&crd, &schemas("v1", &["PodList", "NodeList", "Status"])] {
        let mut found = Vec::new();
        targets(schemas, &mut found);
        assert!(found.len() > 20);
        for target in found {
            let name = target.strip_prefix("#/components/schemas/").expect("a component");
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}

#[test]
fn options_are_kinds_of_the_document() {
    let schemas = schemas("batch/v1", &["JobList", "DeleteOptions"]);
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"],
        json!([
            {"group": "", "kind": "DeleteOptions", "version": "v1"},
            {"group": "batch", "kind": "DeleteOptions", "version": "v1"},
        ])
    );
}
