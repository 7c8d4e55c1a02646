//! The external programs of the end-to-end tests, which run beside the binary.
//!
//! Python packages go into `target/python`, at the versions that the tests ask for. Prometheus is
//! Debian's: the system's own where it is installed, else its package unpacked into
//! `target/prometheus`, so that nothing is installed and no service is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, print_line, run};
use crate::{game_clients, packages};

/// The target of the lab's tests.
pub(crate) const LAB: &str = "lab-world";
/// The target of the groups' tests. They need kubectl and a control plane, and nothing else.
pub(crate) const GROUP: &str = "group-world";
/// The target of the tests of sessions. They need the same.
pub(crate) const ACCESS: &str = "access-world";
/// The target of the tests of game servers. They need the same, and Agones' clients.
pub(crate) const GAME: &str = "game-world";
/// The target of the tests of clusters. They need the same as those of groups.
pub(crate) const CLUSTER: &str = "cluster-world";
/// So many scenarios play side by side, however few cores there are: mostly they wait for time to
/// pass.
const TEST_THREADS: &str = "6";
/// What the tests ask for.
const REQUIREMENTS: &str = "crates/cli/tests/lab/requirements.txt";
const SYSTEM_PROMETHEUS: &str = "/usr/bin/prometheus";
/// For each look at a package index; then pip tries again.
const PIP_TIMEOUT_SECONDS: &str = "60";

/// Makes sure that the tests find everything.
fn ensure(root: &Path) -> Result<()> {
    ensure_packages(root).context("the end-to-end tests need Python packages")?;
    ensure_prometheus(root).context("the end-to-end tests need Prometheus")
}

/// Runs the end-to-end tests of the lab, or those with the filter in their name. They fail, rather
/// than skip, where something is missing; those with `real_` in their name need a control plane.
pub(crate) fn test_lab(root: &Path, filter: &[String]) -> Result<()> {
    ensure(root)?;
    run(suite(root, LAB).args(filter))
}

/// All of them, with a control plane.
pub(crate) fn test_lab_with_kube(root: &Path, assets: &Path) -> Result<()> {
    ensure(root)?;
    run(with_kube(&mut suite(root, LAB), assets))
}

/// Runs the end-to-end tests of groups, or those with the filter in their name.
pub(crate) fn test_group(root: &Path, assets: &Path, filter: &[String]) -> Result<()> {
    run(with_kube(&mut suite(root, GROUP), assets).args(filter))
}

/// Runs the end-to-end tests of sessions, or those with the filter in their name.
pub(crate) fn test_access(root: &Path, assets: &Path, filter: &[String]) -> Result<()> {
    run(with_kube(&mut suite(root, ACCESS), assets).args(filter))
}

/// Runs the end-to-end tests of game servers, or those with the filter in their name.
pub(crate) fn test_game(root: &Path, assets: &Path, filter: &[String]) -> Result<()> {
    game_clients::ensure(root).context("the tests of game servers need Agones' clients")?;
    run(with_kube(&mut suite(root, GAME), assets).args(filter))
}

/// Runs the end-to-end tests of clusters, or those with the filter in their name.
pub(crate) fn test_cluster(root: &Path, assets: &Path, filter: &[String]) -> Result<()> {
    run(with_kube(&mut suite(root, CLUSTER), assets).args(filter))
}

fn suite(root: &Path, target: &str) -> Command {
    let mut command = cargo(root);
    // With the features of the whole workspace, so that what the other tests built is used again.
    command.args(["test", "--workspace", "--test", target, "--", "--test-threads", TEST_THREADS]);
    command.env("SOJOURN_REQUIRE_WORLD", "1");
    command
}

pub(crate) fn with_kube<'a>(command: &'a mut Command, assets: &Path) -> &'a mut Command {
    command.env("KUBEBUILDER_ASSETS", assets).env("SOJOURN_REQUIRE_KUBE", "1")
}

/// An environment of Python with what the tests ask for; it is made anew when that changes.
fn ensure_packages(root: &Path) -> Result<()> {
    let wanted = fs::read(root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    let environment = root.join("target/python");
    // Written last: an environment with the right one is whole.
    let done = environment.join("requirements.txt");
    if fs::read(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    packages::ensure_venv()?;
    print_line("test: installing Python packages into target/python");
    remove(&environment)?;
    run(Command::new(packages::PYTHON).args(["-m", "venv"]).arg(&environment))?;
    run(Command::new(environment.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--timeout", PIP_TIMEOUT_SECONDS, "--requirement"])
        .arg(root.join(REQUIREMENTS)))?;
    fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
}

pub(crate) fn ensure_prometheus(root: &Path) -> Result<()> {
    let unpacked = root.join("target/prometheus");
    if Path::new(SYSTEM_PROMETHEUS).exists() || unpacked.join("usr/bin/prometheus").exists() {
        return Ok(());
    }
    if !packages::can_unpack() {
        bail!("install the package `prometheus`; {SYSTEM_PROMETHEUS} is not there");
    }
    print_line("test: unpacking Debian's prometheus into target/prometheus");
    let loading = root.join("target/prometheus.new");
    remove(&loading)?;
    fs::create_dir_all(&loading).with_context(|| format!("cannot make {}", loading.display()))?;
    packages::download("prometheus", &loading)?;
    let package = only_package(&loading)?;
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&loading))?;
    fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))?;
    remove(&unpacked)?;
    fs::rename(&loading, &unpacked).with_context(|| format!("cannot rename {}", loading.display()))
}

/// The package that was downloaded into a folder.
fn only_package(folder: &Path) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("apt-get downloaded no package into {}", folder.display())
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
