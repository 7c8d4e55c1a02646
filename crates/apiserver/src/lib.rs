//! A Kubernetes API on SQLite, embedded.
//!
//! [`Engine`] speaks the Kubernetes API for a dozen core kinds and for every custom resource that
//! a definition teaches it. It is generic: it knows none of the kinds of the program around it.
//! Given to a `kube::Client` it works without a socket; served over TLS it works with kubectl.
//!
//! | part | does |
//! |---|---|
//! | `serve` | a request's authentication, routing, authorization and seat |
//! | `verb` | create, get, list, watch, update, patch, delete |
//! | `registry`, `kind`, `typed`, `schema`, `cel` | which kinds there are and their rules |
//! | `apply`, `patch` | field ownership and the patch types |
//! | `store`, `follower`, `view` | objects in memory and on disk, and what is derived from them |
//! | `background` | controllers: garbage collection, namespaces, definitions, expiry |
//!
//! It must never see the other crates of this project, save for `rbac`.

mod admission;
mod allocate;
mod apply;
pub mod auth;
mod background;
mod backup;
mod body;
mod bootstrap;
mod cel;
mod clock;
mod discovery;
mod engine;
mod eviction;
mod field;
pub mod folder;
mod follower;
mod go;
#[cfg(test)]
mod growth;
mod internal;
mod json;
mod jsonpath;
mod kind;
mod logs;
mod media;
mod meta;
mod metrics;
mod name;
mod openapi;
mod patch;
mod registry;
mod request;
mod respond;
mod review;
mod scale;
mod schema;
mod selection;
mod selector;
mod serve;
mod shape;
#[cfg(test)]
#[path = "../../../xtask/skip.rs"]
mod skip;
mod status;
mod store;
mod subresource;
mod table;
mod typed;
mod verb;
mod view;
mod warning;

pub use admission::{Hook, HookScope, HookService, Hooks};
pub use auth::extension::{ExtensionAuthorizer, ExtensionDecision, Question};
pub use backup::{BackupError, backup};
pub use clock::{
    Clock, Entropy, NoRandomness, SeededEntropy, SystemClock, SystemEntropy, TokioClock,
};
pub use engine::{Config, Engine, Limits};
pub use serve::listener::{ServeError, Server};
pub use store::OpenError;
