//! The family `game`: collections of game servers that grow with their players and shrink without throwing anybody out.

pub mod autoscaler;
pub mod collection;
pub mod config;
pub mod convert;
pub mod name;
pub mod port;
pub mod role;
pub mod server;
pub mod status;

pub use collection::DedicatedGameServerCollection;
pub use config::{GameConfig, SdkConfig};
pub use server::DedicatedGameServer;

use kube::CustomResourceExt as _;

use crate::config::ConfigKey;
use crate::family::Family;

pub(crate) const FAMILY: Family = Family {
    name: "game",
    api_group: name::GROUP,
    config: ConfigKey::of::<GameConfig>(),
    aliases: &[],
    crds: || vec![DedicatedGameServerCollection::crd(), DedicatedGameServer::crd()],
    roles: role::roles,
    person_role: Some(role::MATCHMAKER),
    operator_rules: role::operator,
};
