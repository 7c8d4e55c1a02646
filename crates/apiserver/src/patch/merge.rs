//! JSON merge patch (RFC 7386), as Kubernetes does it.

use serde_json::Value;

use super::{PatchError, json_type};

/// Applies a merge patch: objects merge, null deletes, anything else replaces.
///
/// Unlike the RFC, members that are null are also dropped from objects inside of a list that
/// replaces something other than an object.
///
/// # Errors
/// If the patch is not an object.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) => {
            merge(target, patch);
            Ok(())
        }
        Value::Null => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_type(other)
        ))),
    }
}

fn merge(target: &mut Value, patch: &Value) {
    match (&mut *target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    target.remove(name);
                    continue;
                }
                match target.get_mut(name) {
                    Some(member) => merge(member, value),
                    None => {
                        target.insert(name.clone(), without_nulls(value));
                    }
                }
            }
        }
        (Value::Object(_), replacement) => target.clone_from(replacement),
        (_, replacement) => *target = without_nulls(replacement),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name.clone(), without_nulls(member)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}
