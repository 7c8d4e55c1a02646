//! Kubernetes' built-in kinds, from generated tables instead of generated code.
//!
//! The tables are written by `xtask/kube-tables` from the Go types themselves, so that every rule of
//! upstream's encoding (names, `omitempty`, protobuf numbers, list types, OpenAPI) is data:
//! * [`fn@decode`] does to a JSON body what Go's decode and encode round trip does;
//! * [`decode_protobuf`] turns a protobuf body into JSON first;
//! * [`shapes`] says how values are composed, for apply and strategic merge;
//! * [`openapi`] publishes the same types as OpenAPI v3 schemas.

mod base64;
mod decode;
pub(crate) mod openapi;
mod path;
mod protobuf;
mod shapes;
mod table;

pub(crate) use decode::{decode, decode_object_meta};
pub(crate) use protobuf::{ProtobufError, decode_protobuf};
pub(crate) use table::table;

/// The RBAC objects that a server creates for itself, as a JSON list.
pub(crate) const BOOTSTRAP_RBAC: &str = include_str!("../tables/rbac.json");
