//! The kinds of the five families: their wire types, the conversion to and from `core`, their
//! validation, and the names of labels, annotations and conditions.
//!
//! | module | holds |
//! |---|---|
//! | `name` | every label, annotation, finalizer and condition type |
//! | `family` | the registry of families |
//! | `config` | the ConfigMap `sojourn-system/sojourn`, one key per family |
//! | `activity`, `keep`, `notice` | what any kind's status has: what replicas write about use, what owners were given, what people were told |
//! | `problem` | what is wrong with something that somebody wrote |
//! | `grammar`, `schema` | the forms of fields, as schema rules and as checks |
//! | `pod_template`, `template_hash`, `window` | what several kinds have in their specs |
//! | one per family | its kinds, its configuration, its conversion |
//!
//! What a kind means is said twice, on purpose: in its schema, which both engines enforce without a
//! webhook, and in the conversion, which trusts nobody. Patterns and sentences are shared, and a
//! test feeds both the same texts.
//!
//! This crate has no runtime and no client: what a kind means on the wire can be tested as data.

pub mod access;
pub mod activity;
mod annotation;
pub mod cluster;
pub mod config;
mod definition;
pub mod family;
pub mod game;
mod grammar;
pub mod group;
pub mod install;
pub mod keep;
pub mod lab;
mod lenient;
mod limit;
pub mod name;
pub mod notice;
mod pod_template;
pub mod problem;
mod role;
mod schema;
mod template_hash;
mod time;
#[cfg(feature = "toy")]
pub mod toy;
mod window;
mod wire_enum;

pub use definition::{crds, operator_role, roles};
