//! Between the wire and `core`, and what makes an object of the family a sensible one.

mod intent;
mod state;
mod validity;

pub use intent::{escalation, session, spec_of};
pub use state::{read_state, read_usage, write_state, write_usage};
pub use validity::{check_escalation, check_session};
