//! The family `group`: machines that are replaced before they are too old.

pub mod budget;
pub mod config;
pub mod convert;
pub mod expiry;
pub mod instance_group;
pub mod machine;
pub mod role;
pub mod status;
pub mod template;

pub use config::GroupConfig;
pub use instance_group::InstanceGroup;
pub use machine::Machine;

pub(crate) use role::roles;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    vec![InstanceGroup::crd(), Machine::crd()]
}
