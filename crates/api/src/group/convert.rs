//! From the wire to `core` and back.

pub use intent::{
    MachineWanted, OnDemandWanted, Wanted, group_intent, machine_intent, on_demand_intent,
    template_of,
};
pub use state::{read_group, read_machine, write_group, write_machine};
pub use template::{RESERVED, pod_template, template_hash};

pub use crate::pod_template::reserved_metadata;
pub use validity::{check_group, check_machine};

mod budget;
mod intent;
mod state;
mod template;
mod validity;
