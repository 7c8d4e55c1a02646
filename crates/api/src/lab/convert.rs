//! From the wire to `core` and back.

pub use intent::{
    CheckTarget, OptOuts, Recipient, check_target, intent, needs_submission, power_intent,
    recipient, sources,
};
pub use state::{read_state, write_state};
pub use validity::{alerts, check_instance, check_template, check_tenant};

mod intent;
mod state;
mod validity;
