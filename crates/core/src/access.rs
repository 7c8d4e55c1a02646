//! Access: emergency permissions, which are requested, approved, used, and end when nobody uses them.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | what a session was lent with, what is remembered of it, and which states follow which |
//! | [`usage`] | how it was used, as several replicas count it |
//! | [`idle`] | when it ends because nobody uses it |
//! | [`grant`] | until when it grants anything, and which uses are written down at once, for the authorizer |
//! | [`deciding`] | [`decide`]: what becomes of a session by itself; [`forecast`]: what will |
//! | [`escalation`], [`person`] | who may ask for which group, who approves, and who somebody is |
//! | [`request`](mod@request) | [`request()`]: a session that somebody asks for |
//! | [`act`](mod@act) | [`act()`]: what a person does to a session |
//! | [`reason`], [`refusal`] | why something happens, or is refused, in words |
//!
//! **Recorded first.** A notice is sent, and a session deleted, only because the *stored* state says so. The end
//! of a session needs no such care: its permissions end at its deadline, whatever has been written by then.

pub mod act;
pub mod deciding;
pub mod escalation;
pub mod grant;
pub mod idle;
pub mod person;
pub mod reason;
pub mod refusal;
pub mod request;
pub mod session;
pub mod usage;

#[cfg(test)]
mod test_session;

pub use act::{Recorded, Verb, act};
pub use deciding::{Effect, Observed, SessionDecision, Settings, Sibling, decide, forecast};
pub use escalation::{Allowed, Approvers, Escalation};
pub use grant::{Grant, granted_until};
pub use idle::{idle_deadline, idle_from, idle_span};
pub use person::Person;
pub use reason::Reason;
pub use refusal::{MAX_REASON_CHARS, Refusal};
pub use request::{ExistingSession, NewSession, Request, request, session_name};
pub use session::{
    Action, Approval, Extension, NoticeKind, ReasonEnded, Session, SessionState, State, Terms,
    UpcomingAction,
};
pub use usage::{BASE, MAX_REPLICAS, MAX_UNWRITTEN, ReplicaUse, Usage};
