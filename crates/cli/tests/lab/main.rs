//! Personal environments from one end to the other: the binary, real processes, a real Prometheus, a
//! real mail server, and real servers to hand data in to; on `sojourn up` and on a real control
//! plane.
//!
//! | variable of the environment | meaning                                                          |
//! |-----------------------------|------------------------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl and the programs of a real control plane       |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those                         |
//! | `SOJOURN_REQUIRE_WORLD`     | `1`: fail rather than skip without Prometheus, aiosmtpd and moto |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]
#![expect(clippy::print_stdout, reason = "what was skipped")]

mod bastion;
#[path = "../pods/case_cluster.rs"]
mod case_cluster;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod cluster;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod crash;
mod disk;
mod exam;
mod example;
mod expiry;
mod external;
mod fixture;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod ingress;
mod ladder;
mod link;
mod objects;
mod outage;
mod person;
#[path = "../../../apiserver/tests/conformance/pick.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod pick;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod program;
mod prometheus;
mod reach;
#[path = "../pods/real.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod real;
mod report;
mod s3;
mod scheduler;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod smtp;
mod submission;
#[path = "../pods/survivors.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod survivors;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
mod tool;
mod upload;
mod visitor;
mod wait;
