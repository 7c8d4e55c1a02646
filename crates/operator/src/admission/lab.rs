//! What is refused of lab: marks that only some people may set, what binds an exam, what is named without a
//! right to it, and what takes data away that is not handed in yet.

pub(super) mod claim;
pub(super) mod instance;
pub(super) mod instance_deletion;
pub(super) mod namespace;
mod owed;
pub(super) mod template;
mod tenant;

use sojourn_api::name::LAB_GROUP;

use super::Setup;
use super::rule::RegisteredRule;

/// Each with its API group.
const INSTANCES: (&str, &str) = (LAB_GROUP, "instances");
const TEMPLATES: (&str, &str) = (LAB_GROUP, "templates");

pub(super) fn rules(_: &Setup) -> Vec<RegisteredRule> {
    vec![
        RegisteredRule::new(instance::InstanceRule),
        RegisteredRule::new(template::TemplateRule),
        RegisteredRule::new(instance_deletion::InstanceDeletionRule),
        RegisteredRule::new(claim::ClaimRule),
        RegisteredRule::new(namespace::NamespaceRule),
    ]
}
