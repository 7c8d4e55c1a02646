//! `cargo xtask test`: every test that needs nothing but a C compiler and Python.

use std::path::Path;

use anyhow::Result;

use crate::packages;
use crate::process::{cargo, run, say};

/// Builds and runs the tests of all crates: unit, integration and doc tests.
pub(crate) fn all(root: &Path) -> Result<()> {
    packages::ensure_compiler()?;
    packages::ensure_python()?;
    say("test: building (the first build compiles everything and takes some minutes)");
    run(cargo(root).args(["test", "--workspace", "--no-run"]))?;
    say("test: running");
    run(cargo(root).args(["test", "--workspace"]))
}
