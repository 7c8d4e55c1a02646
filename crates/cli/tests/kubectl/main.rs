//! A real cluster beside ours: everyday commands of kubectl print the same on the embedded engine, and
//! of two operators one acts (`replicas.rs`).
//!
//! `commands.yaml` says what is run, in order, and in which files the manifests are; `allowed.yaml`
//! says which commands may differ, and why. Both ends start empty and see the same commands, so
//! whatever differs, but for ages, uids, versions and addresses, comes from the engine.
//!
//! | variable of the environment | meaning                                                         |
//! |-----------------------------|-----------------------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl, kube-apiserver, etcd, kube-controller-manager |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those                        |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
mod normalize;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod reference;
mod replicas;
mod side;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod table;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::control_plane::ControlPlane;
use crate::folder::Folder;
use crate::process::Running;
use crate::side::Side;
use crate::table::Table;

/// A control plane wants the whole machine.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The folder with the programs of a control plane; where there is none, this says so.
#[track_caller]
fn assets() -> Option<PathBuf> {
    let assets = ControlPlane::assets();
    if assets.is_none() {
        let required = std::env::var("SOJOURN_REQUIRE_KUBE").is_ok_and(|value| value == "1");
        assert!(!required, "KUBEBUILDER_ASSETS is not set");
        skip::left_to_another_run("KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)");
    }
    assets
}

#[tokio::test(flavor = "multi_thread")]
async fn real_kubectl_prints_the_same_on_both() {
    let Some(assets) = assets() else { return };
    let _turn = ONE_AT_A_TIME.lock().await;
    let table = Table::load();
    let plane = ControlPlane::start(&assets).await.expect("the control plane starts");
    let folder = Folder::new();
    // The real control plane has neither scheduler nor kubelet here.
    let server = Running::up_in_memory(&folder, &["--no-pods", "--no-controllers"]);
    let kubectl = assets.join("kubectl");
    let real = Side::new(&kubectl, &plane.kubeconfig(), &table);
    let ours = Side::new(&kubectl, &server.kubeconfig(), &table);

    let allowed = table.allowed();
    let (mut different, mut needed) = (0, BTreeSet::new());
    for command in &table.commands {
        let (expected, found) = std::thread::scope(|scope| {
            let expected = scope.spawn(|| real.run(command));
            let found = ours.run(command);
            (expected.join().expect("no panic"), found)
        });
        if expected == found {
            continue;
        }
        if allowed.iter().any(|allowed| allowed.run == command.run) {
            needed.insert(&command.run);
        } else {
            different += 1;
            println!("\nkubectl {}\n{}", command.run, expected.difference(&found));
        }
    }
    println!("{} commands, {different} different", table.commands.len());
    assert_eq!(different, 0, "kubectl prints something else on the embedded engine");
    let unneeded: Vec<_> = allowed.iter().filter(|entry| !needed.contains(&entry.run)).collect();
    assert!(unneeded.is_empty(), "allowed.yaml lists what no longer differs: {unneeded:#?}");
}
