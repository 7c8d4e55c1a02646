//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! | check          | refuses                                                                     |
//! |----------------|-----------------------------------------------------------------------------|
//! | `edge`         | a dependency that the table of crates does not have                         |
//! | `dependency`   | packages of another source, licence or second version; dependencies nobody uses |
//! | `fuzz_lock`    | a lock of the package for fuzzing that does not fit its dependencies        |
//! | `length`       | Rust files over 800 lines (1500 for tests)                                  |
//! | `source`       | `todo!`, `#[ignore]`, silenced lints without reason, names like `utils`     |
//! | `machine_path` | absolute paths of somebody's machine, in any text                           |
//! | `leftover`     | what editors and patches leave behind: `.orig`, `.rej`, `.bak`, `~`         |

mod dependency;
mod edge;
mod fuzz_lock;
mod length;
mod machine_path;
mod mask;
mod source;

pub(crate) use self::edge::packages;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{self, print_line};

/// One thing to change, and where.
struct Finding {
    path: PathBuf,
    line: usize,
    severity: Severity,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

impl Finding {
    fn error(path: &Path, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, severity: Severity::Error, text: text.into() }
    }

    fn warning(path: &Path, line: usize, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.severity, self.text)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Checks the workspace; an error when anything but a warning was found.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut findings = edge::check(root)?;
    let files = files(root)?;
    let mut sources = Vec::new();
    for path in &files {
        if let Some(text) = text(&root.join(path))? {
            findings.extend(check_file(path, &text));
            if is_rust(path) {
                sources.push((path.clone(), text));
            }
        }
    }
    findings.extend(dependency::check(root, &sources)?);
    findings.extend(fuzz_lock::check(root));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        print_line(&finding.to_string());
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        bail!("tidy: {errors} to mend");
    }
    print_line(&format!("tidy: {} files, {} warnings", files.len(), findings.len()));
    Ok(())
}

fn check_file(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = machine_path::check(path, text);
    findings.extend(leftover(path));
    if is_rust(path) {
        findings.extend(length::check(path, text));
        findings.extend(source::check(path, text));
    }
    findings
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// A file that some tool wrote beside the real one.
fn leftover(path: &Path) -> Option<Finding> {
    let name = path.file_name()?.to_str()?;
    let left = ["~", ".orig", ".rej", ".bak", ".swp"].iter().any(|end| name.ends_with(end));
    left.then(|| Finding::error(path, 1, "left behind by some tool; delete it"))
}

/// The files of the repository, those about to be committed included, from its root.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = process::read(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    Ok(listed.split_terminator('\0').map(PathBuf::from).collect())
}

/// The file's text; nothing if it is not text, or was deleted and the index does not know it yet.
fn text(path: &Path) -> Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_files_get_every_check_and_others_the_one_for_text() {
        let text = concat!("dbg!(1); // ", "/root", "/x\n");
        let found: Vec<_> =
            check_file(Path::new("src/lab.rs"), text).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[1],
            "src/lab.rs:1: error: `dbg!`; take it out, or make it a tracing event"
        );
        assert_eq!(check_file(Path::new("notes.md"), text).len(), 1);
        assert_eq!(check_file(Path::new("src/lab.rs.orig"), "").len(), 1);
    }
}
