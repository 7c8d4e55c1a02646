//! Leases.

use super::Kind;
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object};

#[derive(Debug)]
pub(crate) struct Lease;

impl Kind for Lease {
    fn prepare_create(&self, obj: &mut Object) {
        drop_coordination(obj);
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object) {
        drop_coordination(new);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let spec = obj.at("spec");
        let path = Path::new("spec");
        if spec.int("leaseDurationSeconds").is_some_and(|seconds| seconds <= 0) {
            let value = spec.at("leaseDurationSeconds");
            let path = path.field("leaseDurationSeconds");
            errors.push(FieldError::invalid(&path, value, "must be greater than 0"));
        }
        if spec.int("leaseTransitions").is_some_and(|transitions| transitions < 0) {
            let value = spec.at("leaseTransitions");
            let path = path.field("leaseTransitions");
            errors.push(FieldError::invalid(&path, value, "must be greater than or equal to 0"));
        }
    }
}

/// Coordinated leader election is off unless a gate is opened, so its fields are never stored.
fn drop_coordination(obj: &mut Object) {
    if let Some(spec) = obj.get_mut("spec").and_then(|spec| spec.as_object_mut()) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_checked() {
        let faults = |spec: serde_json::Value| {
            let mut errors = FieldErrors::new();
            Lease.validate(json!({"spec": spec}).as_object().unwrap(), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            faults(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        assert!(faults(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0})).is_empty());
        assert!(faults(json!({})).is_empty());
    }

    #[test]
    fn coordination_is_dropped() {
        let mut obj =
            json!({"spec": {"strategy": "x", "preferredHolder": "y", "holderIdentity": "z"}});
        Lease.prepare_create(obj.as_object_mut().unwrap());
        assert_eq!(obj, json!({"spec": {"holderIdentity": "z"}}));
    }
}
