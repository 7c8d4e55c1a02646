//! `cargo xtask conformance`: the scenario suite of the embedded API server, with a real control
//! plane beside it.

use std::path::Path;

use anyhow::Result;

use crate::kube_env;
use crate::process::{cargo, run};

/// Compares both engines with the transcripts.
pub(crate) fn check(root: &Path, filter: Option<&str>) -> Result<()> {
    test(root, "gives_the_recorded_answers", filter, &[("SOJOURN_REQUIRE_KUBE", "1")])
}

/// Writes the transcripts anew, with the answers of the real control plane.
pub(crate) fn record(root: &Path, filter: Option<&str>) -> Result<()> {
    test(root, "real_", filter, &[("SOJOURN_CONFORMANCE_RECORD", "1")])
}

fn test(root: &Path, tests: &str, filter: Option<&str>, variables: &[(&str, &str)]) -> Result<()> {
    let assets = kube_env::ensure()?;
    run(cargo(root)
        .args(["test", "--package", "sojourn-apiserver", "--test", "conformance"])
        .args([tests, "--", "--nocapture"])
        .env("KUBEBUILDER_ASSETS", assets)
        .env("SOJOURN_SCENARIOS", filter.unwrap_or_default())
        .envs(variables.iter().copied()))
}
