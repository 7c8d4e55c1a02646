//! `cargo xtask worst-body`: the worst body of every kind at the server's limit, in optimised code.

use std::path::Path;

use anyhow::Result;

use crate::process::{cargo, print_line, run as start};

/// The largest body that the server reads.
const BYTES: &str = "3145728";

/// Every list of every kind in every way, or those with the filter in their name (`Pod spec.volumes`).
pub(crate) fn run(root: &Path, filter: &[String]) -> Result<()> {
    let test = || {
        let mut command = cargo(root);
        command.args(["test", "--profile", "simulation", "--package", "sojourn-apiserver"]);
        command.args(["--test", "engine"]);
        command
    };
    print_line("worst-body: building (optimised; the first build takes some minutes)");
    start(test().arg("--no-run"))?;
    print_line("worst-body: sending bodies of 3 MiB");
    let mut command = test();
    command.args(["--", "worst_body", "--nocapture", "--test-threads", "1"]);
    command.env("SOJOURN_WORST_BODY_BYTES", BYTES);
    command.env("SOJOURN_WORST_BODY_FILTER", filter.join(" "));
    start(&mut command)
}
