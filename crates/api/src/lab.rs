//! The family `lab`: personal environments that are lent to people.

pub mod config;
pub mod convert;
pub mod environment;
pub mod instance;
pub mod reference;
pub mod role;
pub mod status;
pub mod template;
pub mod tenant;

pub use config::LabConfig;
pub use instance::Instance;
pub use template::Template;
pub use tenant::Tenant;

pub(crate) use role::roles;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    vec![Tenant::crd(), Template::crd(), Instance::crd()]
}
