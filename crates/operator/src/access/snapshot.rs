//! Parse: a session with what it remembers, or what is wrong with it.

use std::sync::Arc;

use sojourn_api::access::{
    AccessConfig, BreakglassEscalation, BreakglassSession, escalation, session,
};
use sojourn_core::access::escalation::Approvers;
use sojourn_core::access::session::{Session, SessionState};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;

use super::caches::{AccessCaches, read_state_of, read_usage_of};

/// A session that is being looked at.
#[derive(Debug)]
pub(crate) struct SessionSnapshot {
    pub(crate) key: Key,
    pub(crate) object: BreakglassSession,
    pub(crate) config: Arc<AccessConfig>,
    /// What was asked for, or why that cannot be told.
    pub(crate) session: Result<Session, String>,
    /// What the object remembers.
    pub(crate) state: SessionState,
    /// How it was used, as the object has it.
    pub(crate) usage: Usage,
    /// Its escalation as it is now, if it is there and can be read.
    escalation: Option<BreakglassEscalation>,
}

impl SessionSnapshot {
    pub(crate) fn of(
        caches: &AccessCaches,
        key: &Key,
        object: BreakglassSession,
        config: Arc<AccessConfig>,
    ) -> Self {
        Self {
            key: key.clone(),
            config,
            session: session(&object).map_err(|problems| problems.to_string()),
            state: read_state_of(&object),
            usage: read_usage_of(&object),
            escalation: caches.escalation(key, &object),
            object,
        }
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Who approves it, as its escalation says now.
    pub(crate) fn approvers(&self) -> Option<Approvers> {
        let read = escalation(self.escalation.as_ref()?).ok()?;
        Some(read.approvers)
    }
}
