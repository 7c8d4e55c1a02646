//! ConfigMaps, and what they share with Secrets: keys, the size limit, immutability.

use serde_json::Value;

use super::Kind;
use super::grammar::config_key;
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object};

/// How many bytes of values a ConfigMap or Secret can hold.
pub(crate) const MAX_DATA_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct ConfigMap;

impl Kind for ConfigMap {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let mut size = 0;
        let data = Path::new("data");
        for (key, value) in obj.entries("data") {
            validate_key(key, &data, errors);
            if obj.at("binaryData").get(key).is_some() {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid_text(&data.key(key), key, detail));
            }
            size += value.as_str().map_or(0, str::len);
        }
        let binary = Path::new("binaryData");
        for (key, value) in obj.entries("binaryData") {
            validate_key(key, &binary, errors);
            size += decoded_len(value);
        }
        if size > MAX_DATA_BYTES {
            // Upstream blames a path without a name, which prints like this.
            errors.push(FieldError::too_long(&Path::root().key(""), MAX_DATA_BYTES));
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        validate_immutability(new, old, &["data", "binaryData"], errors);
        self.validate(new, errors);
    }
}

pub(super) fn validate_key(key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    for fault in config_key(key) {
        errors.push(FieldError::invalid_text(&path.key(key), key, fault));
    }
}

/// Once `immutable` is set, neither it nor the values can change.
pub(super) fn validate_immutability(
    new: &Object,
    old: &Object,
    members: &[&str],
    errors: &mut FieldErrors,
) {
    if !old.flag("immutable") {
        return;
    }
    let mut forbid = |member: &str| {
        let detail = "field is immutable when `immutable` is set";
        errors.push(FieldError::forbidden(&Path::new(member), detail));
    };
    if !new.flag("immutable") {
        forbid("immutable");
    }
    for member in members {
        if new.get(*member) != old.get(*member) {
            forbid(member);
        }
    }
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &Value) -> usize {
    let text = base64.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = FieldErrors::new();
        let new = new.as_object().unwrap();
        match old {
            Some(old) => ConfigMap.validate_update(new, old.as_object().unwrap(), &mut errors),
            None => ConfigMap.validate(new, &mut errors),
        }
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults_read_as_the_api_answers_them() {
        assert!(faults(&json!({"data": {"a": "1"}, "binaryData": {"b": "AA=="}}), None).is_empty());
        assert_eq!(
            faults(&json!({"data": {"ok": "7"}, "binaryData": {"ok": "AA==", "..": ""}}), None),
            [
                "data[ok]: Invalid value: \"ok\": duplicate of key present in binaryData",
                "binaryData[..]: Invalid value: \"..\": must not be '..'",
            ]
        );
        let too_long = ["[]: Too long: may not be more than 1048576 bytes"];
        assert_eq!(faults(&json!({"data": {"a": "x".repeat(MAX_DATA_BYTES + 1)}}), None), too_long);
        let binary = "A".repeat((MAX_DATA_BYTES / 3 + 2) * 4);
        assert_eq!(faults(&json!({"binaryData": {"a": binary}}), None), too_long);
        assert!(faults(&json!({"data": {"a": "x".repeat(MAX_DATA_BYTES)}}), None).is_empty());
    }

    #[test]
    fn an_immutable_one_stays_as_it_is() {
        let old = json!({"data": {"a": "1"}, "immutable": true});
        let reason = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(
            faults(&json!({"data": {"a": "2"}, "binaryData": {"b": ""}}), Some(&old)),
            [
                format!("immutable: {reason}"),
                format!("data: {reason}"),
                format!("binaryData: {reason}"),
            ]
        );
        assert!(faults(&old, Some(&old)).is_empty());
        assert!(faults(&old, Some(&json!({"data": {"a": "2"}}))).is_empty());
    }

    #[test]
    fn base64_is_measured_without_decoding() {
        for (text, len) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3), ("=", 0)] {
            assert_eq!(decoded_len(&json!(text)), len, "{text}");
        }
    }
}
