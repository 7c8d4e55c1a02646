//! From the wire to `core` and back.

pub use candidate::{candidate, collection_name};
pub use intent::{
    CollectionWanted, QuarantinePolicy, collection_intent, server_health, server_intent,
};
pub use port::{Granted, all_ports, port_requests, with_granted};
pub use state::{
    CollectionMemory, PendingScale, read_collection, read_server, write_collection, write_server,
};
pub use template::{pod_template, revision};
pub use validity::{check_collection, check_server};

mod autoscaler;
mod candidate;
mod intent;
mod port;
mod state;
mod template;
#[cfg(test)]
mod tests;
mod validity;
