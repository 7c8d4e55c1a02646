//! The family `game` as a whole, on a virtual clock.

#[path = "game/allocation.rs"]
mod allocation;
#[path = "game/autoscaler.rs"]
mod autoscaler;
#[path = "game/drain.rs"]
mod drain;
#[path = "game/failure.rs"]
mod failure;
#[path = "game/fixture.rs"]
mod fixture;
#[path = "game/kill.rs"]
mod kill;
#[path = "game/node.rs"]
mod node;
#[path = "game/notice.rs"]
mod notice;
#[path = "game/page.rs"]
mod page;
#[path = "game/rollout.rs"]
mod rollout;
#[path = "game/scale.rs"]
mod scale;
#[path = "game/sidecar.rs"]
mod sidecar;
