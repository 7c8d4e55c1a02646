//! Secrets: `stringData`, and what each type must hold.

mod json_syntax;
mod pem;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::Kind;
use super::config_map::{MAX_DATA_BYTES, decoded_len, validate_immutability, validate_key};
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::warning::Warnings;

const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";

#[derive(Debug)]
pub(crate) struct Secret;

impl Kind for Secret {
    fn default(&self, obj: &mut Object) {
        if obj.text("type").is_empty() {
            obj.insert("type".to_owned(), "Opaque".into());
        }
        // `stringData` is only ever written: it is merged into `data`, and wins.
        if let Some(Value::Object(texts)) = obj.remove("stringData")
            && !texts.is_empty()
        {
            let data = object_mut(obj, "data");
            for (key, text) in texts {
                let encoded = BASE64.encode(text.as_str().unwrap_or_default());
                data.insert(key, encoded.into());
            }
        }
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let path = Path::new("data");
        let mut size = 0;
        for (key, value) in obj.entries("data") {
            validate_key(key, &path, errors);
            size += decoded_len(value);
        }
        if size > MAX_DATA_BYTES {
            errors.push(FieldError::too_long(&path, MAX_DATA_BYTES));
        }
        validate_type(obj, &path, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        if new.text("type") != old.text("type") {
            let path = Path::new("type");
            errors.push(FieldError::invalid_text(&path, new.text("type"), "field is immutable"));
        }
        validate_immutability(new, old, &["data"], errors);
        self.validate(new, errors);
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        if new.text("type") != "kubernetes.io/tls" {
            return out;
        }
        let data = new.at("data");
        let pair = (decode(data.at("tls.crt")), decode(data.at("tls.key")));
        out.extend(pem::key_pair_fault(&pair.0, &pair.1));
        out
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, _label: &str) -> Cow<'a, str> {
        Cow::Borrowed(obj.text("type"))
    }
}

fn validate_type(obj: &Object, path: &Path<'_>, errors: &mut FieldErrors) {
    let data = obj.at("data");
    let account = obj.at("metadata").at("annotations").text(ACCOUNT_ANNOTATION);
    let missing = |key: &str| data.get(key).is_none();
    let mut require = |key: &str| errors.push(FieldError::required(&path.key(key), ""));
    match obj.text("type") {
        "kubernetes.io/service-account-token" if account.is_empty() => {
            let metadata = Path::new("metadata");
            let annotations = metadata.field("annotations");
            let path = annotations.key(ACCOUNT_ANNOTATION);
            errors.push(FieldError::required(&path, ""));
        }
        "kubernetes.io/dockercfg" => validate_json(data, ".dockercfg", path, errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_json(data, ".dockerconfigjson", path, errors);
        }
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| missing(key)) {
                require(key);
            }
        }
        _ => {}
    }
}

fn validate_json(data: &Value, key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(value) = data.get(key) else {
        errors.push(FieldError::required(&path.key(key), ""));
        return;
    };
    if let Err(fault) = json_syntax::check_object(&decode(value)) {
        let redacted = "<secret contents redacted>";
        errors.push(FieldError::invalid_text(&path.key(key), redacted, fault));
    }
}

/// The bytes behind a value. What is no base64 was refused when the body was decoded.
fn decode(value: &Value) -> Vec<u8> {
    BASE64.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = FieldErrors::new();
        let new = new.as_object().unwrap();
        match old {
            Some(old) => Secret.validate_update(new, old.as_object().unwrap(), &mut errors),
            None => Secret.validate(new, &mut errors),
        }
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn string_data_is_merged_and_wins() {
        let mut obj = json!({"data": {"a": "YQ==", "b": ""}, "stringData": {"a": "zz", "c": ""}});
        for _ in 0..2 {
            Secret.default(obj.as_object_mut().unwrap());
            let expected = json!({"data": {"a": "eno=", "b": "", "c": ""}, "type": "Opaque"});
            assert_eq!(obj, expected);
        }
        let mut obj = json!({"stringData": {}, "type": "x"});
        Secret.default(obj.as_object_mut().unwrap());
        assert_eq!(obj, json!({"type": "x"}));
    }

    #[test]
    fn types_need_their_keys() {
        for (kind, expected) in [
            (
                "kubernetes.io/service-account-token",
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            ("kubernetes.io/dockercfg", vec!["data[.dockercfg]: Required value"]),
            ("kubernetes.io/dockerconfigjson", vec!["data[.dockerconfigjson]: Required value"]),
            (
                "kubernetes.io/basic-auth",
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            ("kubernetes.io/ssh-auth", vec!["data[ssh-privatekey]: Required value"]),
            (
                "kubernetes.io/tls",
                vec!["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            ),
            ("kubernetes.io/whatever", vec![]),
            ("Opaque", vec![]),
        ] {
            assert_eq!(faults(&json!({"type": kind}), None), expected, "{kind}");
        }
        let good = |kind: &str, data: Value| faults(&json!({"type": kind, "data": data}), None);
        assert!(good("kubernetes.io/basic-auth", json!({"password": ""})).is_empty());
        assert!(good("kubernetes.io/dockercfg", json!({".dockercfg": "e30="})).is_empty());
        assert!(good("kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})).is_empty());
        assert_eq!(
            good("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
            ["data[ssh-privatekey]: Required value"]
        );
        assert_eq!(
            good("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "eA=="})),
            ["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid \
              character 'x' looking for beginning of value"]
        );
    }

    #[test]
    fn size_and_keys_are_checked() {
        let big = BASE64.encode(vec![b'x'; MAX_DATA_BYTES + 1]);
        assert_eq!(
            faults(&json!({"data": {"a": big, "..": ""}}), None),
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data: Too long: may not be more than 1048576 bytes",
            ]
        );
    }

    #[test]
    fn the_type_and_immutable_data_stay() {
        let old = json!({"data": {"a": "YQ=="}, "immutable": true, "type": "Opaque"});
        let new = json!({"data": {"a": "YmI="}, "type": "x"});
        assert_eq!(
            faults(&new, Some(&old)),
            [
                "type: Invalid value: \"x\": field is immutable",
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ]
        );
        assert!(faults(&old, Some(&old)).is_empty());
    }

    #[test]
    fn a_tls_secret_without_pem_is_warned_of() {
        let obj =
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}});
        assert_eq!(
            Secret.warnings(obj.as_object().unwrap(), None).into_texts(),
            ["tls: failed to find any PEM data in certificate input"]
        );
        let obj = json!({"type": "Opaque"});
        assert!(Secret.warnings(obj.as_object().unwrap(), None).into_texts().is_empty());
        assert_eq!(Secret.selectable_field(obj.as_object().unwrap(), "type"), "Opaque");
    }
}
