//! `cargo xtask test`: every test that needs nothing but a C compiler, Python, and what can be had
//! for the end-to-end tests.

use std::path::Path;

use anyhow::Result;

use crate::process::{cargo, run, say};
use crate::{packages, world};

/// Builds and runs the tests of all crates: unit, integration and doc tests.
pub(crate) fn all(root: &Path) -> Result<()> {
    packages::ensure_compiler()?;
    packages::ensure_python()?;
    world::ensure(root)?;
    say("test: building (the first build compiles everything and takes some minutes)");
    run(cargo(root).args(["test", "--workspace", "--no-run"]))?;
    say("test: running");
    run(world::require(cargo(root).args(["test", "--workspace"])))
}
