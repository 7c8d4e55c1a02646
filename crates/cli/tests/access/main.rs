//! Emergency permissions from one end to the other: the binary, its commands, and people with tokens of their own;
//! on `sojourn up`, and on a real kube-apiserver that asks our authorization webhook.
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

mod api_server;
mod cache;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod clusters;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod end;
mod example;
#[path = "../it/folder.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod life;
#[path = "../lab/objects.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod objects;
mod office;
mod people;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod request;
mod stage;
mod stop;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
#[path = "../lab/tool.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod tool;
#[path = "../lab/wait.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod wait;
