//! What the family `cluster` does on the real embedded API.

#[path = "cluster/fixture.rs"]
mod fixture;
#[path = "cluster/kill.rs"]
mod kill;
#[path = "cluster/pod.rs"]
mod pod;
#[path = "cluster/request.rs"]
mod request;
#[path = "cluster/toggle.rs"]
mod toggle;
