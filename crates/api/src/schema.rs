//! Schemas of fields whose types are not ours, written out so that they stay structural, small
//! enough to read with `kubectl explain`, and strict about what the program relies on.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::grammar::{self, Grammar};

/// A rule over a whole object that is told at one of its fields.
pub(crate) fn rule_at(rule: &str, field: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message, "fieldPath": field })
}

pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Something counted; servers warn about formats of unsigned numbers.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": 0 })
}

/// A number, or a share of a group.
pub(crate) fn share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": format!(
                "type(self) == int ? int(self) >= 0 : {}",
                grammar::PERCENT.expression("string(self)"),
            ),
            "message": grammar::PERCENT.message(),
        }],
    })
}

/// A Pod as it is to be made. Its spec is read when it is needed: the whole of it would make a
/// definition of a megabyte.
pub(crate) fn pod(_: &mut SchemaGenerator) -> Schema {
    let texts = |what: &str| {
        json!({
            "type": "object",
            "description": what,
            "maxProperties": 64,
            "additionalProperties": { "type": "string", "maxLength": 4096 },
        })
    };
    json_schema!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "description": "What the Pods carry beside our own labels.",
                "properties": {
                    "labels": texts("Labels of the Pods."),
                    "annotations": texts("Annotations of the Pods."),
                },
            },
            "spec": {
                "type": "object",
                "description": "The spec of the Pods.",
                "required": ["containers"],
                "properties": {
                    "containers": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 50,
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": { "name": { "type": "string", "maxLength": 63 } },
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                    },
                },
                "x-kubernetes-preserve-unknown-fields": true,
            },
        },
    })
}

/// What only the provider understands.
pub(crate) fn config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A text of a given form, as an item or a nested property.
fn text(grammar: &Grammar) -> Value {
    json!({
        "type": "string",
        "maxLength": grammar.longest,
        "x-kubernetes-validations": grammar.rules(),
    })
}

pub(crate) fn codes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 16,
        "items": {
            "type": "string",
            "maxLength": grammar::CODES.longest,
            "x-kubernetes-validations": grammar::codes_rules(),
        },
    })
}

/// Arguments of a program.
pub(crate) fn arguments(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "items": { "type": "string", "maxLength": 32768 },
        "x-kubernetes-list-type": "atomic",
    })
}

pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": { "type": "string", "maxLength": 316 },
            },
        },
    })
}

pub(crate) fn env(_: &mut SchemaGenerator) -> Schema {
    let key_of = |what: &str| {
        json!({
            "type": "object",
            "description": format!("A key of a {what} in the Instance's namespace."),
            "required": ["key", "name"],
            "properties": {
                "key": { "type": "string", "maxLength": 253 },
                "name": text(&grammar::REFERENCE),
                "optional": { "type": "boolean" },
            },
        })
    };
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": text(&grammar::VARIABLE),
                "value": { "type": "string", "maxLength": 32768 },
                "valueFrom": {
                    "type": "object",
                    "description": "Where the value comes from, if it is not written here.",
                    "properties": {
                        "configMapKeyRef": key_of("ConfigMap"),
                        "secretKeyRef": key_of("Secret"),
                        "fieldRef": {
                            "type": "object",
                            "description": "A field of the Pod.",
                            "required": ["fieldPath"],
                            "properties": {
                                "apiVersion": { "type": "string", "maxLength": 16 },
                                "fieldPath": { "type": "string", "maxLength": 317 },
                            },
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef)].filter(x, x).size() == 1",
                        "message": "must have exactly one of configMapKeyRef, secretKeyRef and fieldRef",
                    }],
                },
            },
            "x-kubernetes-validations": [rule_at(
                "!(has(self.valueFrom) && has(self.value) && self.value != '')",
                ".valueFrom",
                "must not stand beside a value",
            )],
        },
    })
}

pub(crate) fn ports(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "items": {
            "type": "object",
            "required": ["containerPort"],
            "properties": {
                "containerPort": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535 },
                "name": text(&grammar::PORT_NAME),
                "protocol": { "type": "string", "enum": ["TCP", "UDP"], "default": "TCP" },
            },
        },
    })
}

pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    let amounts = |what: &str| {
        json!({
            "type": "object",
            "description": what,
            "maxProperties": 16,
            "additionalProperties": {
                "x-kubernetes-int-or-string": true,
                "maxLength": grammar::QUANTITY.longest,
                "x-kubernetes-validations": [{
                    "rule": format!(
                        "type(self) == int ? int(self) >= 0 : {}",
                        grammar::QUANTITY.expression("string(self)"),
                    ),
                    "message": grammar::QUANTITY.message(),
                }],
            },
        })
    };
    json_schema!({
        "type": "object",
        "properties": {
            "limits": amounts("At most so much: cpu, memory, ephemeral-storage."),
            "requests": amounts("At least so much."),
        },
    })
}

pub(crate) fn probe(_: &mut SchemaGenerator) -> Schema {
    let seconds = |what: &str, minimum: i32| json!({ "type": "integer", "format": "int32", "minimum": minimum, "description": what });
    let port = || {
        json!({
            "description": "A port's name or number.",
            "x-kubernetes-int-or-string": true,
            "maxLength": 15,
        })
    };
    json_schema!({
        "type": "object",
        "properties": {
            "httpGet": {
                "type": "object",
                "description": "Ready when this answers with a code from 200 to 399.",
                "required": ["port"],
                "properties": {
                    "path": { "type": "string", "maxLength": 2048 },
                    "port": port(),
                    "scheme": { "type": "string", "enum": ["HTTP", "HTTPS"] },
                    "httpHeaders": {
                        "type": "array",
                        "maxItems": 16,
                        "items": {
                            "type": "object",
                            "required": ["name", "value"],
                            "properties": {
                                "name": { "type": "string", "maxLength": 256 },
                                "value": { "type": "string", "maxLength": 4096 },
                            },
                        },
                    },
                },
            },
            "tcpSocket": {
                "type": "object",
                "description": "Ready when this can be connected to.",
                "required": ["port"],
                "properties": { "port": port() },
            },
            "exec": {
                "type": "object",
                "description": "Ready when this ends with 0.",
                "properties": {
                    "command": {
                        "type": "array",
                        "maxItems": 100,
                        "items": { "type": "string", "maxLength": 32768 },
                    },
                },
            },
            "initialDelaySeconds": seconds("How long after the start the first look is.", 0),
            "periodSeconds": seconds("How often to look.", 1),
            "timeoutSeconds": seconds("How long to wait for an answer.", 1),
            "successThreshold": seconds("So many good answers in a row make it ready.", 1),
            "failureThreshold": seconds("So many bad answers in a row make it not ready.", 1),
        },
        "x-kubernetes-validations": [{
            "rule": "[has(self.httpGet), has(self.tcpSocket), has(self.exec)].filter(x, x).size() == 1",
            "message": "must have exactly one of httpGet, tcpSocket and exec",
        }],
    })
}
