//! `sojourn drain-agent` on a real control plane: scheduler, ReplicaSets, DaemonSets and
//! PodDisruptionBudgets are Kubernetes' own, and so are the agent's rights. Nodes have no kubelets;
//! kwok plays them.
//!
//! | variable of the environment | meaning                                            |
//! |-----------------------------|----------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl, kwok and the programs of a control plane |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those           |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod cluster;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod drain;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
#[path = "../../../../xtask/skip.rs"]
mod skip;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
#[path = "../lab/wait.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod wait;
