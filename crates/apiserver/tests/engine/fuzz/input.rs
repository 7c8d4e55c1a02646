//! What is thrown at the engine: things that are almost right, and things that are not at all.

use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const WIDGETS: &str = "/apis/garbage.example/v1/namespaces/default/widgets";

type Seed = fn() -> (&'static str, Value);

/// What is there before the first request.
pub(super) const SEED: [Seed; 5] = [
    || (MAPS, config_map("seed")),
    || ("/api/v1/namespaces/default/pods", pod("seed")),
    || ("/api/v1/namespaces/default/services", service("seed")),
    || (DEFINITIONS, definition("widgets")),
    || (WIDGETS, widget("seed")),
];

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"a": "b"}, "finalizers": ["garbage.example/x"]},
        "data": {"a": "1"},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"a": "b"}},
        "spec": {
            "containers": [{
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"operator": "Exists"}],
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    })
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "garbage.example/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, "tags": ["a"], "parts": [{"name": "p", "count": 1}], "free": {"x": 1}},
    })
}

pub(super) fn definition(plural: &str) -> Value {
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100"}],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "default": 3},
            "tags": {
                "type": "array",
                "maxItems": 9,
                "x-kubernetes-list-type": "set",
                "items": {"type": "string", "pattern": "^[a-z]*$", "maxLength": 9},
            },
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "count": {"type": "integer", "format": "int32"},
                    },
                },
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let singular = plural.trim_end_matches('s');
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.garbage.example")},
        "spec": {
            "group": "garbage.example",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": "Widget"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": spec,
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

pub(super) fn method() -> impl Strategy<Value = Method> {
    select(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"][..])
        .prop_map(|name| Method::from_bytes(name.as_bytes()).expect("a token"))
}

/// A piece of a path: words that mean something, and others.
fn segment() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "api",
        "apis",
        "v1",
        "v2",
        "namespaces",
        "default",
        "configmaps",
        "pods",
        "seed",
        "status",
        "scale",
        "log",
        "exec",
        "binding",
        "eviction",
        "token",
        "finalize",
        "watch",
        "proxy",
        "events",
        "events.k8s.io",
        "batch",
        "jobs",
        "garbage.example",
        "widgets",
        "nodes",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "coordination.k8s.io",
        "leases",
        "openapi",
        "v3",
        "metrics",
        "version",
        "healthz",
        "authentication.k8s.io",
        "tokenreviews",
        "*",
        "..",
        "%2e%2e",
        "%00",
        "%ff%fe",
        "%2F",
        "",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "ephemeralcontainers",
        "serviceaccounts",
        "services",
        "persistentvolumeclaims",
        "secrets",
    ];
    prop_oneof![
        12 => select(KNOWN).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9._~!$&'()*+,;=:@-]{0,12}",
        1 => "(%[0-9a-fA-F]{2}){1,6}",
        1 => Just("a".repeat(4_000)),
    ]
}

pub(super) fn path() -> impl Strategy<Value = String> {
    let free = vec(segment(), 0..8).prop_map(|parts| format!("/{}", parts.join("/")));
    let below = (target(), vec(segment(), 0..4))
        .prop_map(|(start, parts)| format!("{start}/{}", parts.join("/")));
    prop_oneof![free, below]
}

/// Paths of collections and objects that are there.
pub(super) fn target() -> impl Strategy<Value = &'static str> {
    select(
        &[
            MAPS,
            "/api/v1/namespaces/default/configmaps/seed",
            "/api/v1/namespaces/default/pods",
            "/api/v1/pods",
            "/api/v1/namespaces/default/services/seed",
            "/api/v1/namespaces/default/events",
            "/apis/events.k8s.io/v1/events",
            "/apis/coordination.k8s.io/v1/leases",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            WIDGETS,
            "/apis/garbage.example/v1/namespaces/default/widgets/seed/scale",
            "/api/v1/namespaces",
            "/apis",
            "/openapi/v3/api/v1",
        ][..],
    )
}

pub(super) fn existing() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "/api/v1/namespaces/default/configmaps/seed",
            "/api/v1/namespaces/default/pods/seed",
            "/api/v1/namespaces/default/pods/seed/status",
            "/api/v1/namespaces/default/services/seed",
            "/api/v1/namespaces/default",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.garbage.example",
            "/apis/garbage.example/v1/namespaces/default/widgets/seed",
            "/apis/garbage.example/v1/namespaces/default/widgets/seed/status",
            "/apis/garbage.example/v1/namespaces/default/widgets/seed/scale",
            "/apis/garbage.example/v1/namespaces/default/widgets/new",
        ][..],
    )
}

/// A method that has a body, and where it goes.
pub(super) fn write() -> impl Strategy<Value = (Method, &'static str)> {
    let methods = select(&["POST", "PUT", "PATCH", "DELETE"][..])
        .prop_map(|name| Method::from_bytes(name.as_bytes()).expect("a token"));
    let reviews = select(
        &[
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            "/api/v1/namespaces/default/pods/seed/eviction",
            "/api/v1/namespaces/default/pods/seed/binding",
        ][..],
    );
    (methods, prop_oneof![target(), existing(), reviews])
}

pub(super) fn query() -> impl Strategy<Value = String> {
    let name = select(
        &[
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "watch",
            "timeoutSeconds",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "labelSelector",
            "fieldSelector",
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "gracePeriodSeconds",
            "propagationPolicy",
            "orphanDependents",
            "pretty",
            "includeObject",
            "container",
            "tailLines",
            "as",
            "",
        ][..],
    );
    let value = prop_oneof![
        4 => select(&[
            "", "0", "1", "-1", "true", "false", "All", "Exact", "NotOlderThan", "999999999999",
            "18446744073709551616", "9223372036854775807", "-9223372036854775808", "Strict",
            "Foreground", "a%3Db", "eyJydiI6MSwic3RhcnQiOiJhIn0", "e30", "%00", "%ff", "1e9", "None",
            "eyJydiI6MTg0NDY3NDQwNzM3MDk1NTE2MTUsInN0YXJ0IjoiIn0",
        ][..]).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9%+=,!()-]{0,20}",
    ];
    vec((name, value), 0..6).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join("&")
    })
}

pub(super) fn headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name = prop_oneof![
        8 => select(&[
            "accept", "content-type", "content-length", "authorization", "user-agent", "host",
            "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-a%zz",
            "accept-encoding", "if-match", "x-remote-user", "connection", "transfer-encoding",
        ][..]).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9-]{1,20}",
    ];
    let value = prop_oneof![
        4 => select(&[
            "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "application/json;as=Table;v=v9;g=meta.k8s.io", "application/cbor", "*/*;q=0", ";;;,,,",
            "application/vnd.kubernetes.protobuf", "Bearer", "Bearer ", "Bearer a.b.c", "gzip",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "system:masters",
            "99999999999999999999", "-1", "eve", "",
        ][..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ];
    vec((name, value), 0..6)
}

/// JSON that may mean anything.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(
            &[
                "",
                "a",
                "seed",
                "default",
                "*",
                "100m",
                "1e999",
                "-1",
                "\u{0}",
                "\u{1f600}",
                "a/b",
                "true",
                "2024-01-01T00:00:00Z",
                "9999999999999999999999",
                "(((((",
                "[a-z]{1000000}",
                "$patch",
                "999999999-99-99T99:99:99Z",
                "127.0.0.1",
                "::",
                "Foreground",
                "delete",
                "merge",
            ][..]
        )
        .prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((word(), inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Names of members that mean something somewhere.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(&[
            "apiVersion", "kind", "metadata", "spec", "status", "data", "name", "namespace", "labels",
            "annotations", "finalizers", "ownerReferences", "managedFields", "uid", "generateName",
            "resourceVersion", "containers", "ports", "env", "volumes", "size", "tags", "parts",
            "count", "$patch", "$setElementOrder/containers", "$retainKeys", "$deleteFromPrimitiveList/x",
            "fieldsV1", "f:metadata", "k:{\"name\":\"a\"}", "v:1", ".", "i:0", "versions", "schema",
            "openAPIV3Schema", "properties", "type", "items", "default", "x-kubernetes-validations",
            "rule", "pattern", "names", "creationTimestamp", "deletionTimestamp", "generation",
            "key", "value", "op", "path", "from", "replicas", "conditions", "",
        ][..]).prop_map(str::to_owned),
        1 => ".{0,8}",
    ]
}

/// An object that would be taken, and where.
pub(super) fn create() -> impl Strategy<Value = (&'static str, Value)> {
    select(&[0_usize, 1, 2, 3, 4][..]).prop_map(|kind| {
        let named = match kind {
            0 => (MAPS, config_map("fresh")),
            1 => ("/api/v1/namespaces/default/pods", pod("fresh")),
            2 => ("/api/v1/namespaces/default/services", service("fresh")),
            3 => (DEFINITIONS, definition("gadgets")),
            _ => (WIDGETS, widget("fresh")),
        };
        let (path, mut object) = named;
        if kind != 3 {
            object["metadata"]["generateName"] = json!("fresh-");
            object["metadata"]["name"] = json!("");
        }
        (path, object)
    })
}

/// The way to a member, chosen by numbers.
pub(super) fn member() -> impl Strategy<Value = (Vec<usize>, String)> {
    (vec(any::<usize>(), 0..9), word())
}

/// Puts a value somewhere into an object: over what is there, or beside it.
pub(super) fn set(object: &mut Value, (way, word): &(Vec<usize>, String), value: Value) {
    put(object, way, word, value);
}

fn put(at: &mut Value, way: &[usize], word: &str, value: Value) {
    match (at, way) {
        (Value::Object(members), [step, rest @ ..]) if !members.is_empty() => {
            let index = step % members.len();
            let member = members.values_mut().nth(index).expect("the index is within");
            put(member, rest, word, value);
        }
        (Value::Array(items), [step, rest @ ..]) if !items.is_empty() => {
            let index = step % items.len();
            put(&mut items[index], rest, word, value);
        }
        (Value::Object(members), _) => {
            members.insert(word.to_owned(), value);
        }
        (other, _) => *other = value,
    }
}

/// A patch and its media type.
pub(super) fn patch() -> impl Strategy<Value = (&'static str, Value)> {
    let pointer = prop_oneof![
        select(
            &[
                "",
                "/",
                "/metadata",
                "/metadata/finalizers",
                "/metadata/finalizers/-",
                "/spec/ports/0",
                "/spec/containers/99999999999999999999",
                "/spec/containers/-1",
                "/data/a",
                "/metadata/name",
                "/a~2b",
                "/~",
                "metadata",
                "/metadata/managedFields",
                "/metadata/labels/a~1b",
                "/spec/tags/-",
            ][..]
        )
        .prop_map(str::to_owned),
        "(/[a-z~0-9]{0,6}){0,4}",
    ];
    let op = select(&["add", "remove", "replace", "move", "copy", "test", "", "none"][..]);
    let operation = (op, pointer.clone(), pointer, value()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    );
    let operations = vec(operation, 0..5).prop_map(Value::from);
    let object = || {
        (create(), member(), value()).prop_map(|((_, mut object), member, value)| {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.insert("name".to_owned(), json!("seed"));
            }
            set(&mut object, &member, value);
            object
        })
    };
    prop_oneof![
        (Just("application/json-patch+json"), prop_oneof![4 => operations, 1 => value()]),
        (Just("application/merge-patch+json"), prop_oneof![value(), object()]),
        (Just("application/strategic-merge-patch+json"), prop_oneof![value(), object()]),
        (Just("application/apply-patch+yaml"), prop_oneof![value(), object()]),
    ]
}

/// A media type and bytes that may or may not be of it.
pub(super) fn body() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let media = select(
        &[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/merge-patch+json",
            "application/json-patch+json",
            "text/plain",
            "",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
            "application/cbor",
            "application/json; charset=utf-16",
        ][..],
    );
    let cut = |text: String, at: prop::sample::Index| {
        let mut bytes = text.into_bytes();
        bytes.truncate(at.index(bytes.len() + 1));
        bytes
    };
    let truncated = (create(), any::<prop::sample::Index>())
        .prop_map(move |((_, object), at)| cut(object.to_string(), at));
    let any_json = value().prop_map(|value| value.to_string().into_bytes());
    let protobuf = prop_oneof![
        vec(any::<u8>(), 0..200),
        // Fields of every wire type, with lengths that lie.
        vec((0_u8..8, 0_u8..32, any::<u8>()), 0..60).prop_map(|fields| {
            fields.iter().flat_map(|(wire, field, byte)| [(field << 3) | wire, *byte]).collect()
        }),
        unknown("v1", "ConfigMap"),
        unknown("v1", "Pod"),
        unknown("v1", "Namespace"),
        unknown("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    ]
    .prop_map(|bytes| [b"k8s\0".as_slice(), &bytes].concat());
    let yaml = "([a-z&*!|>%@`\"'{}\\[\\]:,#?~ -]{0,12}\n){0,12}".prop_map(String::into_bytes);
    let protobuf = (Just("application/vnd.kubernetes.protobuf"), protobuf);
    prop_oneof![
        2 => (media.clone(), truncated),
        2 => (media.clone(), any_json),
        1 => (media.clone(), vec(any::<u8>(), 0..300)),
        2 => (media, yaml),
        3 => protobuf,
    ]
}

/// The envelope that Kubernetes puts around protobuf, with garbage for the object.
fn unknown(api_version: &'static str, kind: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let object = prop_oneof![
        vec(any::<u8>(), 0..100),
        vec((1_u8..6, vec(any::<u8>(), 0..20)), 0..6).prop_map(|fields| {
            fields.into_iter().flat_map(|(field, bytes)| delimited(field, &bytes)).collect()
        }),
    ];
    object.prop_map(move |object| {
        let kind = [delimited(1, api_version.as_bytes()), delimited(2, kind.as_bytes())].concat();
        [delimited(1, &kind), delimited(2, &object)].concat()
    })
}

/// A field of bytes that are short enough for a length of one byte.
fn delimited(field: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX).min(127);
    [&[(field << 3) | 2, length], &bytes[..usize::from(length)]].concat()
}

pub(super) fn selector() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        6 => select(&[
            "a", "b", "=", "==", "!=", "!", " in ", " notin ", "(", ")", ",", ">", "<", " ", "in", "1",
            "metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "seed", "\\", "\\,",
            "a.b/c", "exists", "\u{e9}", "involvedObject.name", "=seed", "=Running",
        ][..]).prop_map(str::to_owned),
        1 => ".{0,5}",
    ];
    vec(token, 0..10).prop_map(|tokens| tokens.concat())
}
