//! The family `cluster`: whole clusters that sleep and wake, and always come back.

pub mod config;
pub mod convert;
pub mod deployment;
pub mod name;
pub mod platform;
pub mod role;
pub mod status;
pub mod sync;

pub use config::ClusterConfig;
pub use deployment::ClusterDeployment;
pub use sync::ClusterSync;

use kube::CustomResourceExt as _;

use crate::config::ConfigKey;
use crate::family::Family;

pub const FAMILY: Family = Family {
    name: "cluster",
    api_group: name::GROUP,
    config: ConfigKey::of::<ClusterConfig>(),
    aliases: &[],
    crds: || vec![ClusterDeployment::crd(), ClusterSync::crd()],
    roles: role::roles,
    person_role: None,
    operator_rules: role::operator,
};
