//! The whole system on a virtual clock: the real controllers on the real embedded API, with
//! scripted drivers and injected faults. A seed replays a run.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the engine, the clock, the operator as a process that can be killed |
//! | `fault` | a way to the API that fails as real ones do |
//! | `drivers` | scripted metrics, mail and status checks |
//! | `process` | a program that can be killed anywhere |
//! | `group` | a world of groups and machines |
//! | `kubelet` | what Pods and Jobs do when there is no node |
//! | `truth` | what really happened, and what must never |
//! | `trace` | a fingerprint of it, by which a run is known again |
//! | `people` | what they do to instances, templates and namespaces |
//! | `plan`, `month` | what people do in a month, drawn from a seed, and the run of it |
//!
//! Time passes only while everybody waits: the clock is tokio's, paused, and jumps to the next timer
//! when nothing else is left to do. Nothing sleeps for real.

pub mod drivers;
pub mod event_counts;
pub mod fault;
pub mod group;
pub mod kubelet;
pub mod month;
pub mod people;
pub mod plan;
pub mod process;
pub mod rng;
pub mod trace;
pub mod truth;
pub mod world;
