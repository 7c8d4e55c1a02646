//! Templates: what they mean to the provider `pod`, and how two are compared.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::group::template::{MachineTemplate, POD_NEEDED};
use crate::pod_template;
use crate::problem::Problem;
use crate::template_hash::hash;

/// A text that is the same for equal templates, in whatever order their fields were written.
pub fn template_hash(template: &MachineTemplate) -> String {
    hash(serde_json::to_value(template).unwrap_or_default())
}

/// The Pod that a machine of this template is; paths of problems begin at the template.
pub fn pod_template(template: &MachineTemplate) -> Result<PodTemplateSpec, Problem> {
    let Some(pod) = &template.pod else { return Err(Problem::new("pod", POD_NEEDED)) };
    pod_template::read(pod, RESERVED).map_err(|problem| problem.beneath("pod"))
}

/// What a Pod template must not say about its Pods.
pub const RESERVED: &str = "must be left out: it is the Machine's";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
