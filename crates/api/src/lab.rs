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

use kube::CustomResourceExt as _;

use crate::config::ConfigKey;
use crate::family::Family;
use crate::name::LAB_GROUP;

pub(crate) const FAMILY: Family = Family {
    name: "lab",
    api_group: LAB_GROUP,
    config: ConfigKey::of::<LabConfig>(),
    aliases: &[],
    crds: || vec![Tenant::crd(), Template::crd(), Instance::crd()],
    roles: role::roles,
    person_role: Some(role::USER),
    operator_rules: role::operator,
};
