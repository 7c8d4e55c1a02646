//! `cargo xtask upstream`: Kubernetes' own conformance specs, unchanged, against `sojourn up`.
//!
//! Of the specs that are marked `[Conformance]`, these need neither a container image nor a kind that
//! the embedded engine leaves out.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::kube_env;
use crate::process::{cargo, print_line, run as start};

/// What the names of the specs match.
const FOCUS: [&str; 20] = [
    "AggregatedDiscovery .* for CRDs",
    "CustomResourceDefinition Watch",
    "CustomResourceDefinition resources",
    "Discovery should validate PreferredVersion",
    "FieldValidation should (create|detect duplicates in a CR|detect unknown metadata fields in both)",
    "dependency circle",
    "Namespaces .* should (apply|patch|ensure that all services)",
    "chunking should return",
    "Table transformation",
    "Watchers",
    "server version",
    "kube-root-ca",
    "ensure a successful TokenReview",
    "lifecycle of a ServiceAccount",
    "update a ServiceAccount",
    "SubjectReview",
    r"\] Events",
    "ConfigMap should (fail|run)",
    "Lease lease API",
    "Secrets should (fail|patch)",
];
/// What needs an image or a kind that is not served.
const SKIP: &str = "AdmissionWebhook|Sample API Server|compacted away|OIDC";
/// How many specs that is in the release that kube-env builds.
const SPECS: usize = 42;
/// How long the server may take to write its kubeconfig.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// All specs, or those of them that match the filter.
pub(crate) fn run(root: &Path, filter: &[String]) -> Result<()> {
    let e2e = kube_env::ensure_e2e()?;
    print_line("upstream: building sojourn");
    start(cargo(root).args(["build", "--workspace", "--bin", "sojourn"]))?;
    let folder = Scratch::new()?;
    let server = Server::start(&root.join("target/debug/sojourn"), &folder.0)?;
    let focus = match filter {
        [] => format!(r"({}).*\[Conformance\]", FOCUS.join("|")),
        words => words.join(" "),
    };
    let mut suite = Command::new(&e2e);
    suite
        .arg("--kubeconfig")
        .arg(&server.kubeconfig)
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=-1"])
        .args(["--ginkgo.v", "--ginkgo.no-color"])
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.skip={SKIP}"))
        .current_dir(&folder.0)
        .stdout(Stdio::piped());
    let mut suite = suite.spawn().with_context(|| format!("cannot start {}", e2e.display()))?;
    let output = suite.stdout.take().context("the suite's output is a pipe")?;
    let mut counts = None;
    for line in BufReader::new(output).lines() {
        let line = line.context("the suite's output")?;
        counts = counts.or_else(|| Counts::parse(&line));
        print_line(&line);
    }
    let status = suite.wait().context("cannot wait for the suite")?;
    let Counts { passed, failed } =
        counts.context("the suite did not say how many specs passed")?;
    print_line(&format!("upstream: {passed} passed, {failed} failed"));
    let wanted = if filter.is_empty() { SPECS } else { 1 };
    if !status.success() || failed > 0 || passed < wanted {
        bail!("{passed} specs passed and {failed} failed, where {wanted} should pass");
    }
    Ok(())
}

/// How many specs passed and failed.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Counts {
    /// From the last line of a suite: `SUCCESS! -- 42 Passed | 0 Failed | 0 Pending | 7000 Skipped`.
    fn parse(line: &str) -> Option<Self> {
        let (_, listed) = line.split_once("! -- ")?;
        let count = |word: &str| {
            let part = listed.split(" | ").find_map(|part| part.strip_suffix(word))?;
            part.trim().parse().ok()
        };
        Some(Self { passed: count("Passed")?, failed: count("Failed")? })
    }
}

/// A folder that goes with us.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sojourn-upstream-{}", std::process::id()));
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            print_line(&format!("upstream: cannot remove {}: {error}", self.0.display()));
        }
    }
}

/// `sojourn up` on free ports.
struct Server {
    process: Child,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("data");
        let log = std::fs::File::create(folder.join("up.log")).context("cannot create a log")?;
        let process = Command::new(program)
            .args(["up", "--listen", "127.0.0.1:0", "--no-web", "--data"])
            .arg(&data)
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Self { process, kubeconfig: data.join("kubeconfig") };
        let started = Instant::now();
        while !server.kubeconfig.is_file() {
            if let Some(status) = server.process.try_wait().context("cannot ask after sojourn")? {
                let log = std::fs::read_to_string(folder.join("up.log")).unwrap_or_default();
                bail!("sojourn up ended at once: {status}\n{log}");
            }
            if started.elapsed() > START_TIMEOUT {
                bail!("sojourn up wrote no kubeconfig within {START_TIMEOUT:?}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_suite_is_read() {
        let line = "SUCCESS! -- 42 Passed | 0 Failed | 0 Pending | 7042 Skipped";
        assert_eq!(Counts::parse(line), Some(Counts { passed: 42, failed: 0 }));
        let line = "FAIL! -- 40 Passed | 2 Failed | 0 Pending | 7042 Skipped";
        assert_eq!(Counts::parse(line), Some(Counts { passed: 40, failed: 2 }));
        assert_eq!(Counts::parse("Ran 42 of 7084 Specs in 180.000 seconds"), None);
    }
}
