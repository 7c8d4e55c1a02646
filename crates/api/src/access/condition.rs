//! Condition types of a session, and those reasons of theirs that the API checks.

/// It ended because nobody used it.
pub const IDLE: &str = "Idle";
/// As many people approved it as have to.
pub const APPROVED: &str = "Approved";
/// It grants what was asked for.
pub const ACTIVE: &str = "Active";
/// Whether uses are seen. While they are not, nothing counts as unused.
pub const ACTIVITY_SOURCE_HEALTHY: &str = "ActivitySourceHealthy";
/// A notice was accepted by nobody so far.
pub const UNDELIVERABLE: &str = "NoticeUndeliverable";
/// What the session is made of makes sense.
pub const ACCEPTED: &str = "Accepted";
/// Which state Events and audit lines have told of: its reason is the state's name.
pub const RECORDED: &str = "Recorded";

pub const ALL: [&str; 7] =
    [IDLE, APPROVED, ACTIVE, ACTIVITY_SOURCE_HEALTHY, UNDELIVERABLE, ACCEPTED, RECORDED];

/// Reasons of [`IDLE`], one of which a session has that is IdleExpired.
pub const IDLE_TIMEOUT: &str = "IdleTimeout";
pub const NEVER_USED: &str = "NeverUsed";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_documentation_lists_every_condition_and_no_other() {
        let page = include_str!("../../../../docs/access.md");
        let row = page.lines().find_map(|line| line.strip_prefix("| `conditions` | "));
        let listed = row.and_then(|row| row.split([';', '|']).next()).expect("a row of conditions");
        let listed: BTreeSet<&str> = listed.split(',').map(str::trim).collect();
        assert_eq!(listed, BTreeSet::from(ALL));
    }
}
