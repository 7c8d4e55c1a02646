//! From the wire to `core` and back.

pub use condition::write_conditions;
pub use intent::cluster_intent;
pub use state::{read_state, write_state};
pub use validity::{check_change, check_cluster, named_secrets};

mod condition;
mod intent;
mod state;
#[cfg(test)]
mod tests;
mod validity;
