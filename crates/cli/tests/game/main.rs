//! Game servers from one end to the other: the binary, its commands, and servers that are real processes which players
//! reach over UDP; on `sojourn up` and on a real control plane.
//!
//! | variable of the environment | meaning                                                    |
//! |-----------------------------|------------------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl and the programs of a real control plane |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those                   |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]
#![expect(clippy::print_stdout, reason = "what was skipped")]

mod allocation;
mod arena;
mod begin;
#[path = "../pods/case_cluster.rs"]
mod case_cluster;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod clients;
#[path = "../lab/cluster.rs"]
mod cluster;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod example;
mod failover;
mod failure;
#[path = "../lab/fixture.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod fixture;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod intruder;
mod matchmaker;
#[path = "../lab/objects.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod objects;
#[path = "../access/people.rs"]
#[allow(dead_code, reason = "the tests of sessions, whose it is, use all of it")]
mod people;
mod player;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
#[path = "../pods/real.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod real;
mod removal;
mod restart;
mod rollout;
mod scale;
#[path = "../lab/scheduler.rs"]
mod scheduler;
#[path = "../../../../xtask/skip.rs"]
mod skip;
#[path = "../pods/survivors.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod survivors;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
#[path = "../lab/tool.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod tool;
#[path = "../lab/wait.rs"]
mod wait;
