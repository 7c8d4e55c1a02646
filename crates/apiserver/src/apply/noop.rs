//! Writes that change nothing.

use serde_json::Value;

use crate::json::{Access, Object};

const MANAGED_FIELDS: &str = "managedFields";

/// Whether writing `new` over `old` changes nothing but the version and the times at which
/// managers last wrote. Such a write is not made, and the times stay what they were.
pub(crate) fn is_noop(old: &Object, new: &Object) -> bool {
    let before = old.at("metadata").list(MANAGED_FIELDS);
    let after = new.at("metadata").list(MANAGED_FIELDS);
    before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| equal_without(before, after, &["time"]))
        && equal_but_for_owners(old, new)
}

/// Whether two objects are the same, owners and versions aside.
pub(crate) fn equal_but_for_owners(a: &Object, b: &Object) -> bool {
    let ignored = [MANAGED_FIELDS, "resourceVersion"];
    equal_without(a.at("metadata"), b.at("metadata"), &ignored)
        && equal_members(a, b, &["metadata"])
}

fn equal_without(a: &Value, b: &Value, ignored: &[&str]) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => equal_members(a, b, ignored),
        _ => a == b,
    }
}

/// Whether two objects have the same members, those in `ignored` aside.
fn equal_members(a: &Object, b: &Object, ignored: &[&str]) -> bool {
    let counts = |(name, _): &(&String, &Value)| !ignored.contains(&name.as_str());
    a.iter().filter(counts).eq(b.iter().filter(counts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(data: &str, version: &str, time: &str, owned: &str) -> Object {
        let object = json!({
            "metadata": {"name": "a", "resourceVersion": version, "managedFields": [
                {"manager": "m", "time": time, "fieldsV1": {owned: {}}},
            ]},
            "data": {"a": data},
        });
        object.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn only_times_and_versions_do_not_count() {
        let (t1, t2) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
        let old = object("x", "1", t1, "f:a");
        assert!(is_noop(&old, &object("x", "", t2, "f:a")));
        assert!(!is_noop(&old, &object("x", "1", t1, "f:b")));
        assert!(!is_noop(&old, &object("y", "1", t1, "f:a")));
        let mut unowned = old.clone();
        unowned["metadata"] = json!({"name": "a", "resourceVersion": "1"});
        assert!(!is_noop(&old, &unowned));
    }
}
