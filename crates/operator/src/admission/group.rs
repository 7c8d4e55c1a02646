//! What is refused of groups and machines, where a schema cannot tell: it is about the installation, about
//! another object, or about who asks.
//!
//! The Machines that our controllers make for a group are reviewed like anybody's, and their account may
//! create Pods.

pub(super) mod instance_group;
pub(super) mod machine;
mod marks;
pub(super) mod pod;
mod provider;
pub(super) mod template_rule;

use sojourn_api::name::GROUP_GROUP;

pub use self::provider::Providers;
use super::Setup;
use super::rule::RegisteredRule;

/// Each with its API group.
const GROUPS: (&str, &str) = (GROUP_GROUP, "instancegroups");
const MACHINES: (&str, &str) = (GROUP_GROUP, "machines");

pub(super) fn rules(setup: &Setup) -> Vec<RegisteredRule> {
    let providers = &setup.providers;
    vec![
        RegisteredRule::new(instance_group::rule(providers.clone())),
        RegisteredRule::new(machine::rule(providers.clone())),
        RegisteredRule::new(pod::PodRule),
    ]
}
