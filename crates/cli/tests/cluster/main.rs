//! Clusters that sleep and wake, from one end to the other: the binary, its commands, and machines that are Pods, on
//! `sojourn up`.
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

#[path = "../pods/case_cluster.rs"]
mod case_cluster;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
#[path = "../lab/cluster.rs"]
mod cluster;
mod command;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod deployment;
mod example;
#[path = "../lab/fixture.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod fixture;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod journal;
#[path = "../lab/objects.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod objects;
mod pod;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
#[path = "../pods/real.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod real;
#[path = "../lab/scheduler.rs"]
mod scheduler;
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
