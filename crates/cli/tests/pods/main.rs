//! Pods as their users see them: the binary runs them, and every case says what becomes of them.
//!
//! Cases are data (`cases/*.yaml`, in words of `case.rs`). The same cases run in two places: on
//! `sojourn up`, and on a real control plane with `sojourn node` as its kubelet. Each has a
//! namespace of its own, so they run side by side. What ends and starts whole servers is in `up.rs`.
//!
//! | variable of the environment | meaning                                                          |
//! |-----------------------------|------------------------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl and the programs of a real control plane       |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those                         |
//! | `SOJOURN_PODS_CASES`        | run only cases whose name contains this                          |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]
#![expect(clippy::print_stdout, reason = "what was skipped, and how each case ended")]

mod case;
mod case_cluster;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
mod embedded;
mod expectation;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod kubectl;
mod observer;
#[path = "../../../apiserver/tests/conformance/pick.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod pick;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod real;
mod run;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod suite;
mod survivors;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
mod up;

use std::path::PathBuf;

use crate::case::Side;
use crate::control_plane::ControlPlane;
use crate::embedded::{As, Embedded};
use crate::real::Real;

/// The suites take turns: each wants the whole machine.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The folder with the programs of a control plane; where there is none, this says so.
fn assets(what: &str) -> Option<PathBuf> {
    let assets = ControlPlane::assets();
    if assets.is_none() {
        let required = std::env::var("SOJOURN_REQUIRE_KUBE").is_ok_and(|value| value == "1");
        assert!(!required, "KUBEBUILDER_ASSETS is not set");
        skip::left_to_another_run(format_args!(
            "{what}: KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)"
        ));
    }
    assets
}

async fn embedded(who: As) {
    if let Some(obstacle) = who.obstacle() {
        return skip::left_to_another_run(obstacle);
    }
    let _turn = ONE_AT_A_TIME.lock().await;
    let embedded = Embedded::start(who, assets("cases with kubectl")).await;
    let failed = suite::run(Side::Embedded, embedded.case_cluster()).await;
    embedded.stop();
    assert_eq!(failed, 0, "cases failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_sojourn_up() {
    embedded(As::Ourselves).await;
}

/// Where the suite is run by root, Pods are confined by users of their own; here by namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_an_ordinary_user() {
    embedded(As::Nobody).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_real_control_plane() {
    let Some(assets) = assets("the real control plane") else { return };
    let _turn = ONE_AT_A_TIME.lock().await;
    let real = Real::start(&assets).await;
    let failed = suite::run(Side::Real, real.case_cluster()).await;
    real.stop();
    assert_eq!(failed, 0, "cases failed");
}
