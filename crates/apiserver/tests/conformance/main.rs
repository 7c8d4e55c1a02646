//! Conformance: the embedded engine gives the answers of a real kube-apiserver.
//!
//! `scenarios/` says what to ask, `transcripts/` holds what a real server of the pinned version
//! answered, normalised. The engine is compared with the transcripts, in process and over TLS; a
//! real control plane, where its binaries are at hand, proves that the transcripts still hold.
//!
//! | variable of the environment  | meaning                                                    |
//! |------------------------------|------------------------------------------------------------|
//! | `SOJOURN_SCENARIOS`          | run only scenarios and topics whose name contains this      |
//! | `KUBEBUILDER_ASSETS`         | folder of kube-apiserver, etcd and kube-controller-manager  |
//! | `SOJOURN_REQUIRE_KUBE`       | `1`: fail rather than skip without those                    |
//! | `SOJOURN_CONFORMANCE_RECORD` | `1`: write the transcripts instead of comparing             |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod compare;
mod control_plane;
mod crd;
mod embedded;
mod identity;
mod merge;
mod normalize;
mod pick;
mod run;
mod scenario;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod suite;
mod target;
mod transcript;
mod variable;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use crate::control_plane::ControlPlane;
use crate::embedded::Embedded;
use crate::suite::Suite;

#[test]
fn scenarios_and_transcripts_name_the_same() {
    let written: BTreeMap<String, BTreeSet<String>> = scenario::load()
        .into_iter()
        .map(|topic| {
            let names = topic.scenarios.into_iter().map(|scenario| scenario.name).collect();
            (topic.name, names)
        })
        .collect();
    let recorded: BTreeMap<String, BTreeSet<String>> = transcript::topics()
        .into_iter()
        .map(|topic| {
            let names = transcript::load(&topic).into_keys().collect();
            (topic, names)
        })
        .collect();
    assert_eq!(written, recorded, "cargo xtask conformance record");
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_in_process_gives_the_recorded_answers() {
    let engine = Embedded::start().await;
    let answers = Suite::load().run(engine.in_process()).await;
    println!("{}", answers.compare(compare::allowed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_over_tls_gives_the_recorded_answers() {
    let engine = Embedded::start().await;
    let answers = Suite::load().run(engine.over_tls().await).await;
    println!("{}", answers.compare(compare::allowed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn real_server_gives_the_recorded_answers() {
    let set = |name| std::env::var(name).is_ok_and(|value| value == "1");
    let Some(assets) = ControlPlane::assets() else {
        assert!(!set("SOJOURN_REQUIRE_KUBE"), "KUBEBUILDER_ASSETS is not set");
        return skip::left_to_another_run("KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)");
    };
    let plane = ControlPlane::start(&assets).await.expect("the control plane starts");
    let target = plane.target().await.expect("the control plane answers");
    let answers = Suite::load().run(target).await;
    answers.must_be_as_written();
    let recording = set("SOJOURN_CONFORMANCE_RECORD");
    println!("{}", if recording { answers.record() } else { answers.compare(Vec::new()) });
}
