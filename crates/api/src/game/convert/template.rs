//! Templates: the Pod that a server is, and how two are compared.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

use crate::game::collection::DedicatedGameServerCollectionSpec;
use crate::pod_template;
use crate::problem::Problem;
use crate::template_hash::hash;

/// A text that is the same for everything that makes the same servers, in whatever order it was written.
pub fn revision(spec: &DedicatedGameServerCollectionSpec) -> String {
    hash(json!({
        "template": spec.template,
        "portsToExpose": spec.ports_to_expose,
        "ports": spec.ports,
        "maxPlayersPerServer": spec.seats(),
        "counters": spec.counters,
        "lists": spec.lists,
        "health": spec.health,
    }))
}

/// The Pod that a server is; paths of problems begin at the template.
pub fn pod_template(template: &Value) -> Result<PodTemplateSpec, Problem> {
    pod_template::read(template, RESERVED)
}

/// What a Pod template must not say about its Pods.
const RESERVED: &str = "must be left out: it is the server's";
