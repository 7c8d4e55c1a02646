//! Templates: what they mean to the provider `pod`, and how two are compared.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ring::digest;
use serde_json::{Map, Value};

use crate::group::template::{MachineTemplate, POD_NEEDED};
use crate::problem::Problem;

/// So many bytes of the digest tell templates apart.
const DIGEST: usize = 16;

/// A text that is the same for equal templates, in whatever order their fields were written.
pub fn template_hash(template: &MachineTemplate) -> String {
    let value = serde_json::to_value(template).map(sorted).unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, value.to_string().as_bytes());
    hex::encode(&digest.as_ref()[..DIGEST])
}

/// With the fields of every object in order. What is null says nothing and is left out.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().filter(|(_, v)| !v.is_null()).collect();
            fields.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(
                fields.into_iter().map(|(key, v)| (key, sorted(v))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

/// The Pod that a machine of this template is; paths of problems begin at the template.
pub fn pod_template(template: &MachineTemplate) -> Result<PodTemplateSpec, Problem> {
    let Some(pod) = &template.pod else { return Err(Problem::new("pod", POD_NEEDED)) };
    let pod: PodTemplateSpec = serde_json::from_value(pod.clone())
        .map_err(|error| Problem::new("pod", format!("is no Pod template: {error}")))?;
    if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
        return Err(Problem::new("pod.spec.containers", "must have an item"));
    }
    match pod.metadata.as_ref().and_then(|metadata| reserved_metadata(metadata).next()) {
        Some(field) => Err(Problem::new(format!("pod.metadata.{field}"), RESERVED)),
        None => Ok(pod),
    }
}

/// What a Pod template must not say about its Pods.
pub const RESERVED: &str = "must be left out: it is the Machine's";

/// The fields with that which are there.
pub fn reserved_metadata(metadata: &ObjectMeta) -> impl Iterator<Item = &'static str> {
    let fields = [
        ("name", metadata.name.is_some() || metadata.generate_name.is_some()),
        ("namespace", metadata.namespace.is_some()),
        ("ownerReferences", metadata.owner_references.is_some()),
        ("finalizers", metadata.finalizers.is_some()),
    ];
    fields.into_iter().filter(|(_, given)| *given).map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(value: Value) -> MachineTemplate {
        serde_json::from_value(value).expect("a template")
    }

    #[test]
    fn order_does_not_count_and_everything_else_does() {
        let one = template(
            json!({ "provider": "fake", "config": { "a": 1, "b": { "c": 2, "d": null } } }),
        );
        let same = template(json!({ "config": { "b": { "c": 2 }, "a": 1 }, "provider": "fake" }));
        let hash = template_hash(&one);
        assert_eq!(hash, template_hash(&same));
        // It stands in Machines that outlive this program.
        assert_eq!(hash, "797aa5e0eadcf820d374793bcf04297b");
        let others = [
            json!({ "provider": "fake", "config": { "a": 1, "b": { "c": 3 } } }),
            json!({ "provider": "fake", "config": { "a": "1", "b": { "c": 2 } } }),
            json!({ "provider": "fakes", "config": { "a": 1, "b": { "c": 2 } } }),
            json!({ "provider": "fake", "config": { "a": 1, "b": [2] } }),
            json!({ "provider": "fake" }),
        ];
        for other in others {
            assert_ne!(hash, template_hash(&template(other.clone())), "{other}");
        }
    }

    #[test]
    fn a_pod_is_read_when_it_is_needed() {
        let good = json!({ "spec": { "containers": [{ "name": "web", "command": ["true"] }] } });
        let pod =
            pod_template(&template(json!({ "provider": "pod", "pod": &good }))).expect("a Pod");
        assert_eq!(pod.spec.expect("a spec").containers[0].name, "web");
        let path = |value: Value| pod_template(&template(value)).expect_err("bad").path;
        assert_eq!(path(json!({ "provider": "pod" })), "pod");
        let wrong = json!({ "spec": { "containers": "web" } });
        assert_eq!(path(json!({ "provider": "pod", "pod": wrong })), "pod");
        let none = json!({ "spec": { "containers": [] } });
        assert_eq!(path(json!({ "provider": "pod", "pod": none })), "pod.spec.containers");
        for (metadata, field) in [
            (json!({ "generateName": "a-" }), "name"),
            (json!({ "namespace": "b" }), "namespace"),
            (json!({ "ownerReferences": [] }), "ownerReferences"),
            (json!({ "finalizers": ["a/b"] }), "finalizers"),
        ] {
            let mut named = good.clone();
            named["metadata"] = metadata;
            let found = path(json!({ "provider": "pod", "pod": named }));
            assert_eq!(found, format!("pod.metadata.{field}"));
        }
    }
}
