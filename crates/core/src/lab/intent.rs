//! What is wanted of an instance: its spec, its template, its namespace and the configuration,
//! resolved into one value.

use jiff::{SignedDuration, Timestamp};

use crate::notice::OnUndeliverable;
use crate::term::Term;

/// Everything that somebody set.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub uid: String,
    pub created_at: Timestamp,
    /// Somebody deleted the object; it goes once its finalizer is gone.
    pub deleting: bool,
    pub running: bool,
    /// Nothing is decided and no clock runs.
    pub paused: bool,
    /// Everything is decided and nothing is done.
    pub observe: bool,
    /// The end that somebody who may do so takes back, by its time.
    pub reopen: Option<Timestamp>,
    /// What the owner asked for; how much of it is given is in the state.
    pub keep_until: Option<Timestamp>,
    /// Any environment keeps its data: then the instance is stopped rather than deleted.
    pub persistent: bool,
    pub inactivity: InactivityPolicy,
    pub expiration: ExpirationPolicy,
    pub termination: TerminationPolicy,
    pub submission: SubmissionPolicy,
    pub on_undeliverable: OnUndeliverable,
    /// Notices that were on record by then and nobody accepted are given up: somebody who may do so
    /// has said so.
    pub notices_waived: Option<Timestamp>,
    /// How long somebody may take to accept a warning before the deadline that it tells has to move.
    /// Whole seconds.
    pub delivery: SignedDuration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct InactivityPolicy {
    /// The controller is on.
    pub enabled: bool,
    /// The namespace wants to be left alone.
    pub opted_out: bool,
    pub notify: bool,
    pub stop_after: Term,
    pub delete_after_stopped: Term,
    pub max_alerts: u32,
    pub interval: SignedDuration,
    pub margin: SignedDuration,
    /// How often sources are looked at; nothing is known sooner.
    pub tick: SignedDuration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExpirationPolicy {
    pub enabled: bool,
    pub notify: bool,
    pub delete_after: Term,
    pub interval: SignedDuration,
    pub margin: SignedDuration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TerminationPolicy {
    pub enabled: bool,
    pub check: Option<StatusCheck>,
}

/// When the instance's status is checked; the prober knows how.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusCheck {
    pub target: CheckTarget,
    pub interval: SignedDuration,
    /// So many misses in a row end it; at least two.
    pub confirmations: u32,
}

/// Whose status it is that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckTarget {
    /// That of another system, which can be asked whether the instance runs or not.
    Endpoint,
    /// Its own: there is nothing to see while it does not run.
    Itself,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubmissionPolicy {
    pub enabled: bool,
    /// What is handed in, if anything ever is.
    pub wanted: Option<SubmissionScope>,
    /// The newest request, retry and waiver, as the owner's commands wrote them.
    pub requested: Option<Timestamp>,
    pub retried: Option<Timestamp>,
    pub waived: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubmissionScope {
    /// At every end, and not only when somebody asks.
    pub on_termination: bool,
    /// The environments of the template, in its order. Whether one has a claim counts for more than
    /// what is said of it here.
    pub environments: Vec<EnvironmentEligibility>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentEligibility {
    pub environment: String,
    /// Why it has nothing to hand in, if it has nothing.
    pub not_because: Option<String>,
}
