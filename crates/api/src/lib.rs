//! The kinds of the five families: their wire types, the conversion to and from `core`, their
//! validation, and the names of labels, annotations and conditions.
//!
//! This crate has no runtime and no client: what a kind means on the wire can be tested as data.
