//! An escalation: who may ask for which group on which clusters, who approves, and on what terms.

use super::session::Terms;

/// What an administrator allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    pub name: String,
    pub uid: String,
    pub allowed: Allowed,
    pub escalated_group: String,
    pub approvers: Approvers,
    pub terms: Terms,
    pub require_reason: bool,
    /// So many sessions of this escalation a user may have at a time.
    pub max_sessions_per_user: Option<u32>,
}

/// Who may ask, and for which clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    pub users: Vec<String>,
    pub groups: Vec<String>,
    pub clusters: Vec<String>,
}

/// Who approves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approvers {
    pub users: Vec<String>,
    pub groups: Vec<String>,
    /// So many different people have to approve.
    pub required: u32,
    /// Whether a user may approve what they asked for themselves.
    pub self_approval: bool,
}
