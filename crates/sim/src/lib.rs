//! The whole system on a virtual clock: the real controllers on the real embedded API, with
//! scripted drivers and injected faults. A seed replays a run.
//!
//! What every family's simulation is made of:
//!
//! | module | holds |
//! |---|---|
//! | `family` | the registry of simulated families, which the tests of seeds walk |
//! | `simulation` | a family's operator on a cluster, as replicas that can be killed and taken over |
//! | `simulated_api` | the embedded API server with our kinds and admission, its clients and its clock |
//! | `fault` | a connection to the API that fails as real ones do |
//! | `process` | a program that can be killed anywhere |
//! | `kubelet` | what Pods and Jobs do when there is no node |
//! | `mail` | the mail server, which refuses and loses what it is told to |
//! | `record` | what observers recorded, shared with whoever waits for it |
//! | `event_log`, `event_counts`, `outcome` | what happened, how often, and which invariants it violated |
//! | `trace` | a fingerprint of a run, by which its replay is recognised |
//! | `rng` | the seeded random number generator |
//!
//! What a family brings, under the same names in `lab` and `group` (a small one has them in one file):
//! `simulation` with its controllers and what people do, `invariants` with the checker of what must never
//! happen, `month` with the events of many days drawn from a seed, and one line in [`family::FAMILIES`].
//!
//! Time passes only while everybody waits: the clock is tokio's, paused, and jumps to the next timer
//! when nothing else is left to do. Nothing sleeps for real.

pub mod access;
pub mod cluster;
pub mod event_counts;
pub mod event_log;
pub mod family;
pub mod fault;
pub mod game;
pub mod group;
pub mod kubelet;
pub mod lab;
pub mod mail;
pub mod outcome;
pub mod process;
pub mod record;
pub mod rng;
pub mod simulated_api;
pub mod simulation;
#[cfg(feature = "toy")]
pub mod toy;
pub mod trace;

pub use family::{FAMILIES, SimulatedFamily};
