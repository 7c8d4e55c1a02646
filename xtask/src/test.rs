//! `cargo xtask test`: every test that needs nothing but a C compiler, Python and Prometheus.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, print_line, run, run_and_read_lines};
use crate::timing::TestTimes;
use crate::{packages, test_programs};

/// In the target folder: a line for everything that was not tested.
const SKIPS: &str = "target/skips.txt";
/// How a line begins that fails a run of `ci`.
const SKIPPED: &str = "skipped";

/// Builds and runs the tests of all crates: unit, integration and doc tests. Says what was skipped,
/// which is nothing under CI.
pub(crate) fn all(root: &Path) -> Result<()> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        return whole(root);
    }
    // What needs it says that it was skipped, where it cannot be had.
    if let Err(error) = test_programs::ensure_prometheus(root) {
        print_line(&format!("test: without Prometheus: {error:#}"));
    }
    run_all(root, None).map(drop)
}

/// The same, and nothing may be skipped, nor any external program be missing.
pub(crate) fn whole(root: &Path) -> Result<()> {
    test_programs::ensure_prometheus(root)?;
    match run_all(root, Some(("SOJOURN_REQUIRE_WORLD", "1")))? {
        0 => Ok(()),
        count => bail!("{count} tests were skipped, wholly or in part"),
    }
}

/// How many were skipped although no other run makes up for it.
fn run_all(root: &Path, environment: Option<(&str, &str)>) -> Result<usize> {
    packages::ensure_compiler()?;
    packages::ensure_python()?;
    print_line("test: building (the first build compiles everything and takes some minutes)");
    run(cargo(root).args(["test", "--workspace", "--no-run"]))?;
    print_line("test: running");
    let skips = root.join(SKIPS);
    std::fs::write(&skips, "")
        // Some tests run as an ordinary user, too.
        .and_then(|()| std::fs::set_permissions(&skips, Permissions::from_mode(0o666)))
        .with_context(|| format!("cannot write {}", skips.display()))?;
    let mut tests = cargo(root);
    tests.args(["test", "--workspace"]).env("SOJOURN_SKIPS", &skips).envs(environment);
    let mut times = TestTimes::default();
    run_and_read_lines(&mut tests, |line| times.observe(line))?;
    if let Some(slowest) = times.slowest() {
        print_line(&slowest);
    }
    let text = std::fs::read_to_string(&skips)
        .with_context(|| format!("cannot read {}", skips.display()))?;
    let (words, count) = summary(&text);
    print_line(&words);
    Ok(count)
}

/// What was not tested, in words, and how much of it is a skip.
fn summary(lines: &str) -> (String, usize) {
    let skipped = lines.lines().filter(|line| line.starts_with(SKIPPED)).count();
    let others = lines.lines().count() - skipped;
    let mut words = format!("test: {skipped} skipped, {others} left to another run");
    for line in lines.lines() {
        words.push_str("\n  ");
        words.push_str(line);
    }
    (words, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_and_named() {
        assert_eq!(summary(""), ("test: 0 skipped, 0 left to another run".to_owned(), 0));
        let lines = "skipped: a (x.rs:1): no perl\nleft to another run: b (x.rs:2): no kubectl\n\
                     skipped in part: c (x.rs:3): no IPv6\n";
        let (words, count) = summary(lines);
        assert_eq!(count, 2);
        assert!(
            words.starts_with("test: 2 skipped, 1 left to another run\n  skipped: a"),
            "{words}"
        );
        assert!(words.contains("no kubectl"), "{words}");
    }
}
