//! What the family `cluster` does on the real embedded API.

#[path = "cluster/pod.rs"]
mod pod;
