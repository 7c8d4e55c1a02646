//! What is refused of escalations and sessions: what the options do not allow, and sessions that somebody else than
//! the operator makes, or whose status somebody else writes.

pub(super) mod escalation;
pub(super) mod session;

use super::Setup;
use super::rule::RegisteredRule;

pub(super) fn rules(_: &Setup) -> Vec<RegisteredRule> {
    vec![
        RegisteredRule::new(escalation::EscalationRule),
        RegisteredRule::new(session::SessionRule),
        RegisteredRule::new(session::StatusRule),
    ]
}

/// An expression: it is new, or its spec is not as it was.
fn changes_spec() -> String {
    "oldObject == null || object.spec != oldObject.spec".to_owned()
}
