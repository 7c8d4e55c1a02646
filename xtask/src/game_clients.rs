//! Programs of the tests of game servers that use Agones' own clients.
//!
//! What they are made of goes into `target/game-clients`, at the versions of their lock files. Where Node.js or
//! `protoc` is neither there nor can be installed, that program is not made, and its test says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::packages;
use crate::process::{cargo, print_line, run};
use crate::test_programs::remove;

const SOURCE: &str = "crates/cli/tests/game/clients";
const INSTALLED: &str = "target/game-clients";
/// What npm goes by.
const NODE_FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Makes all that can be made on this machine.
pub(crate) fn ensure(root: &Path) -> Result<()> {
    packages::ensure_python()?;
    if packages::ensure_node()? {
        install_node_packages(root)?;
    } else {
        print_line("skipped: Agones' client for Node.js; install nodejs and npm");
    }
    if packages::ensure_protoc()? {
        build_rust(root)?;
    } else {
        print_line("skipped: Agones' client for Rust; install protobuf-compiler");
    }
    Ok(())
}

/// Everything anew when the lock file changes; no scripts of packages are run.
fn install_node_packages(root: &Path) -> Result<()> {
    let (source, folder) = (root.join(SOURCE).join("node"), root.join(INSTALLED).join("node"));
    let lock = source.join("package-lock.json");
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    // Written last: a folder with the right one is whole.
    let done = folder.join("installed.json");
    if fs::read(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    print_line(&format!("test: installing packages of npm into {INSTALLED}"));
    remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for file in NODE_FILES {
        fs::copy(source.join(file), folder.join(file))
            .with_context(|| format!("cannot copy {file} into {}", folder.display()))?;
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]);
    run(install.current_dir(&folder))?;
    fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
}

fn build_rust(root: &Path) -> Result<()> {
    let manifest = root.join(SOURCE).join("rust/Cargo.toml");
    let target = root.join(INSTALLED).join("rust");
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest);
    run(build.arg("--target-dir").arg(target))
}
