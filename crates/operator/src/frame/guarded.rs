//! An object as it came, readable or not: one that nobody can read must not hide the others.
//!
//! What managers own (`metadata.managedFields`) is most of an object and nobody here reads it, so it
//! is passed over before anything is made of it.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// An object, or why it cannot be read.
pub type Read<K> = Result<K, String>;

/// The object, or its metadata with what is wrong with the rest.
#[derive(Debug, Clone)]
pub struct Guarded<K>(Result<K, Unreadable>);

#[derive(Debug, Clone)]
struct Unreadable {
    problem: String,
    metadata: Box<ObjectMeta>,
}

impl<K> Guarded<K> {
    /// The object, or why it cannot be read.
    pub fn read(self) -> Read<K> {
        self.0.map_err(|unreadable| unreadable.problem)
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::Object(deserializer.deserialize_map(Whole)?);
        match K::deserialize(&object) {
            Ok(read) => Ok(Self(Ok(read))),
            Err(problem) => {
                let metadata = object.get("metadata").map(Box::<ObjectMeta>::deserialize);
                let metadata = metadata.transpose().map_err(D::Error::custom)?.unwrap_or_default();
                Ok(Self(Err(Unreadable { problem: problem.to_string(), metadata })))
            }
        }
    }
}

/// A whole object.
struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = if name == "metadata" {
                fields.next_value::<Metadata>()?.0
            } else {
                fields.next_value()?
            };
            object.insert(name, value);
        }
        Ok(object)
    }
}

/// Metadata, without what managers own.
struct Metadata(Value);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Map<String, Value>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
                let mut metadata = Map::new();
                while let Some(name) = fields.next_key::<String>()? {
                    if name == "managedFields" {
                        fields.next_value::<IgnoredAny>()?;
                    } else {
                        metadata.insert(name, fields.next_value()?);
                    }
                }
                Ok(metadata)
            }
        }

        deserializer.deserialize_map(Fields).map(|fields| Self(Value::Object(fields)))
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt as _;
    use kube::api::WatchEvent;

    use super::*;

    const READABLE: &str = r#"{"apiVersion":"v1","kind":"Pod",
        "metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}],
                    "resourceVersion":"7"},
        "spec":{"containers":[{"name":"main"}]}}"#;
    const UNREADABLE: &str = r#"{"metadata":{"namespace":"n","name":"b","resourceVersion":"8"},
        "spec":{"containers":"none"}}"#;

    fn guarded(text: &str) -> Guarded<Pod> {
        serde_json::from_str(text).expect("guarded")
    }

    #[test]
    fn an_object_comes_without_what_managers_own() {
        let pod = guarded(READABLE);
        assert_eq!((pod.name_any(), pod.resource_version().as_deref()), ("a".into(), Some("7")));
        let pod = pod.read().expect("readable");
        assert_eq!(pod.metadata.managed_fields, None);
        assert_eq!(pod.spec.expect("a spec").containers[0].name, "main");
    }

    #[test]
    fn one_that_cannot_be_read_keeps_its_name_and_says_why() {
        let pod = guarded(UNREADABLE);
        assert_eq!((pod.namespace().as_deref(), pod.name_any()), (Some("n"), "b".into()));
        let problem = pod.read().expect_err("unreadable");
        assert!(problem.contains("none"), "{problem}");
    }

    #[test]
    fn a_watch_may_say_what_happened_after_the_object() {
        for text in [
            format!(r#"{{"type":"ADDED","object":{READABLE}}}"#),
            format!(r#"{{"object":{READABLE},"type":"ADDED"}}"#),
        ] {
            let event: WatchEvent<Guarded<Pod>> = serde_json::from_str(&text).expect("an event");
            let WatchEvent::Added(pod) = event else { panic!("another event") };
            assert_eq!(pod.name_any(), "a");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["[]", "7", r#"{"metadata":[]}"#] {
            assert!(serde_json::from_str::<Guarded<Pod>>(text).is_err(), "{text}");
        }
    }
}
