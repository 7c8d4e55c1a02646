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

use kube::CustomResourceExt as _;

use crate::config::ConfigKey;
use crate::family::Family;
use crate::name::GROUP_GROUP;

pub(crate) const FAMILY: Family = Family {
    name: "group",
    api_group: GROUP_GROUP,
    config: ConfigKey::of::<GroupConfig>(),
    aliases: &[("group", "InstanceGroup"), ("groups", "InstanceGroup")],
    crds: || vec![InstanceGroup::crd(), Machine::crd()],
    roles: role::roles,
    // Nobody visits a machine through us.
    person_role: None,
    operator_rules: role::operator,
};
