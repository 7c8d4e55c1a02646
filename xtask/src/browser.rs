//! `cargo xtask browser`: the pages that people see, in a real Chromium.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::packages;
use crate::process::{cargo, run};

/// Runs the tests, or those with the filter in their name. They fail, rather than skip, without a
/// browser.
pub(crate) fn test(root: &Path, filter: &[String]) -> Result<()> {
    packages::ensure_chromium().context("the tests of pages need a browser")?;
    let mut command = cargo(root);
    // With the features of the whole workspace, so that what the tests built is used again.
    command.args(["test", "--workspace", "--test", "browser", "--"]).args(filter);
    run(command.env("SOJOURN_REQUIRE_BROWSER", "1"))
}
