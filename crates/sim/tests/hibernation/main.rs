//! The controller of clusters: a provider whose machines go off and on, a cluster with an API of its own, and an
//! operator that is killed after any of its effects.

mod deletion;
mod failure;
mod fixture;
mod itself;
mod kill;
mod many;
mod story;
mod target;
