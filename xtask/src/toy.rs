//! `cargo xtask toy`: what adding a family costs, counted on one that is added behind a feature.
//!
//! The family `toy` is its own files and, elsewhere, one line in each registry, one `mod` line beside each of
//! its modules, and its lines in manifests. Whatever else names it is a place that the next family would have
//! to touch, too, and fails here. Then the family is built, and its tests, seeds and end-to-end tests run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::families::{self, PARTS, REGISTRIES};
use crate::process::{cargo, print_line, run as start};
use crate::{cases, test_programs, tidy};

/// The family, and the feature that it is behind.
const NAME: &str = "toy";
/// What is built with it; the other crates follow.
pub(crate) const FEATURES: &str = "sojourn-cli/toy,sojourn-sim/toy";
/// The target of its end-to-end tests.
pub(crate) const WORLD: &str = "toy-world";
/// The unit tests that are run: its own, and those that compare the registries.
const UNIT_TESTS: [&str; 3] = ["toy", "every_family_of_the_api", "no_two"];
/// Folders of its own, beside the parts that every family has.
const OWN_TESTS: &str = "crates/cli/tests/toy";
/// What is about the count, or has kinds of its own making: it is no part of what a family is added to.
const NOT_COUNTED: [&str; 2] = ["xtask/", "crates/apiserver/tests/conformance/"];

/// Counts, builds and tests.
pub(crate) fn run(root: &Path, assets: &Path) -> Result<()> {
    check(root)?;
    test_world(root, assets)
}

/// Counts, and runs everything that needs no control plane.
pub(crate) fn check(root: &Path) -> Result<()> {
    families::check_parts(root, NAME)?;
    print_line(&Count::of_repository(root)?.verdict()?);
    cases::run(root, NAME)?;
    let build = ["--lib", "--bins", "--test", "seeds", "--test", WORLD, "--no-run"];
    start(test(root).args(build))?;
    start(test(root).args(["--lib", "--bins", "--"]).args(UNIT_TESTS))?;
    let mut seeds = test(root);
    seeds.args(["--test", "seeds", "--", "months", "replay", "--nocapture"]);
    start(seeds.env("SOJOURN_SIM_FAMILY", NAME))
}

/// Runs its end-to-end tests, on both engines.
pub(crate) fn test_world(root: &Path, assets: &Path) -> Result<()> {
    start(test_programs::with_kube(test(root).args(["--test", WORLD]), assets))
}

/// `cargo test` with the family. What is built in between is shared with builds without it; the program
/// itself is put elsewhere, because other tests run the one in `target/debug` at the same time.
fn test(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--features", FEATURES]);
    command.env("CARGO_BUILD_BUILD_DIR", root.join("target"));
    command.env("CARGO_TARGET_DIR", root.join("target").join(NAME));
    command
}

/// Where the family is named outside its own files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    /// Files of its own.
    own: usize,
    registries: Vec<PathBuf>,
    modules: Vec<PathBuf>,
    features: Vec<PathBuf>,
    /// Whatever else names it: the file, the line and its number.
    others: Vec<String>,
}

impl Count {
    fn of_repository(root: &Path) -> Result<Self> {
        let mut count = Self::default();
        for path in tidy::files(root)? {
            // What is no text names nothing; what was deleted is still in the index.
            let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
            count.add(&path, &text);
        }
        Ok(count)
    }

    fn add(&mut self, path: &Path, text: &str) {
        let is_prose = path.extension().is_some_and(|end| end == "md");
        if is_own(path) {
            self.own += 1;
        } else if !is_prose && !NOT_COUNTED.iter().any(|folder| path.starts_with(folder)) {
            match path.file_name().and_then(|name| name.to_str()) {
                Some("Cargo.toml") => self.add_manifest(path, text),
                _ => self.add_source(path, text),
            }
        }
    }

    /// A manifest names it in its features, and in the target of its tests.
    fn add_manifest(&mut self, path: &Path, text: &str) {
        let mut section = "";
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let comment = line.starts_with('#');
            match section {
                "[features]" if names(line) => self.features.push(path.to_owned()),
                "[[test]]" => {}
                _ if names(line) && !comment => self.add_other(path, index, line),
                _ => {}
            }
        }
    }

    /// Code names it in `mod` lines and registries alone, each of them for this feature alone.
    fn add_source(&mut self, path: &Path, text: &str) {
        let registry = REGISTRIES.iter().any(|registry| path == Path::new(registry));
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            if !names(line) {
                continue;
            }
            if line.trim() != format!("#[cfg(feature = \"{NAME}\")]") {
                self.add_other(path, index, line);
                continue;
            }
            match lines.next() {
                Some((_, next)) if is_module(next) => self.modules.push(path.to_owned()),
                Some((_, next)) if registry && is_entry(next) => {
                    self.registries.push(path.to_owned());
                }
                _ => self.add_other(path, index, line),
            }
        }
    }

    fn add_other(&mut self, path: &Path, index: usize, line: &str) {
        self.others.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
    }

    /// What was counted, in words; an error, if it is more or less than it should be.
    fn verdict(mut self) -> Result<String> {
        for other in &self.others {
            print_line(&format!("error: {other}"));
        }
        if !self.others.is_empty() {
            bail!("{} more lines to change for a new family", self.others.len());
        }
        expect("registries", &mut self.registries, REGISTRIES.map(PathBuf::from).to_vec())?;
        let modules = PARTS.iter().filter(|part| part.ends_with(".rs")).map(|part| parent(part));
        expect("modules", &mut self.modules, modules.collect::<Result<_>>()?)?;
        let (own, features) = (self.own, self.features.len());
        let (registries, modules) = (self.registries.len(), self.modules.len());
        Ok(format!(
            "{NAME}: {own} files of its own, {registries} registry lines, {modules} mod lines, {features} \
             features; nothing else names it"
        ))
    }
}

/// Whether these are the files in which there is one line.
fn expect(what: &str, found: &mut [PathBuf], mut expected: Vec<PathBuf>) -> Result<()> {
    found.sort();
    expected.sort();
    if found != expected {
        bail!("{NAME} has a line in these {what}: {found:?}, and not in these: {expected:?}");
    }
    Ok(())
}

fn names(line: &str) -> bool {
    line.to_ascii_lowercase().contains(NAME)
}

/// A part of the family, or in a folder of one.
fn is_own(path: &Path) -> bool {
    let parts = PARTS.iter().map(|part| PathBuf::from(part.replace("NAME", NAME)));
    let mut own = parts.chain([PathBuf::from(OWN_TESTS)]);
    own.any(|part| path.starts_with(&part) || path.starts_with(part.with_extension("")))
}

/// The file that says that a module is there.
fn parent(part: &str) -> Result<PathBuf> {
    let folder = Path::new(part).parent().context("a part is in a folder")?;
    let is_root = folder.ends_with("src");
    Ok(if is_root { folder.join("lib.rs") } else { folder.with_extension("rs") })
}

fn is_module(line: &str) -> bool {
    let line = line.trim();
    line.strip_prefix("pub ").unwrap_or(line) == format!("mod {NAME};")
}

/// One entry of a list.
fn is_entry(line: &str) -> bool {
    names(line) && line.ends_with(',') && line.matches(',').count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &str, text: &str) -> Count {
        let mut count = Count::default();
        count.add(Path::new(path), text);
        count
    }

    const GUARD: &str = "#[cfg(feature = \"toy\")]\n";

    #[test]
    fn the_repository_names_it_nowhere_else() {
        let root = crate::process::workspace_root().expect("a workspace");
        let count = Count::of_repository(&root).expect("it can be read");
        let words = count.verdict().expect("as few lines as there can be");
        assert!(words.contains("5 registry lines, 6 mod lines, 5 features"), "{words}");
    }

    #[test]
    fn a_module_and_an_entry_are_counted_where_they_may_be() {
        let module = format!("mod lab;\n{GUARD}pub mod toy;\n");
        assert_eq!(counted("crates/core/src/lib.rs", &module).modules.len(), 1);
        let entry =
            format!("const FAMILIES: &[F] = &[\n    &Lab,\n    {GUARD}    &toy::Toys,\n];\n");
        assert_eq!(counted("crates/sim/src/family.rs", &entry).registries.len(), 1);
        let elsewhere = counted("crates/sim/src/lib.rs", &entry);
        assert_eq!(elsewhere.others, ["crates/sim/src/lib.rs:3: #[cfg(feature = \"toy\")]"]);
    }

    #[test]
    fn whatever_else_names_it_is_told_with_its_line() {
        for code in ["mod toy;", "use crate::toy::Toy;", "// Toys, too.", "\"toy.yaml\" => 1,"] {
            let found = counted("crates/api/src/name.rs", &format!("// Names.\n{code}\n"));
            assert_eq!(found.others, [format!("crates/api/src/name.rs:2: {code}")]);
        }
        let guarded = format!("{GUARD}fn played() {{}}\n");
        assert_eq!(counted("crates/api/src/name.rs", &guarded).others.len(), 1);
        let two = format!("{GUARD}    &toy::Toys, &toy::More,\n");
        assert_eq!(
            counted("crates/sim/src/family.rs", &two).others.len(),
            1,
            "one line, one entry"
        );
        assert!(counted("crates/api/src/name.rs", "mod toy;").verdict().is_err());
        assert!(Count::default().verdict().is_err(), "it must be registered");
    }

    #[test]
    fn its_own_files_prose_and_what_counts_may_say_what_they_like() {
        for path in
            ["crates/core/src/toy.rs", "crates/sim/src/toy/checker.rs", "examples/toy/toy.yaml"]
        {
            assert_eq!(counted(path, "toy"), Count { own: 1, ..Count::default() }, "{path}");
        }
        for path in ["CONTRIBUTING.md", "docs/adding-a-family.md", "xtask/src/toy.rs"] {
            assert_eq!(counted(path, "toy"), Count::default(), "{path}");
        }
        assert_eq!(counted("crates/toybox/src/lib.rs", "mod toy;").others.len(), 1);
    }

    #[test]
    fn a_manifest_has_its_feature_and_its_tests() {
        let good = "[features]\ntoy = []\n\n[[test]]\nname = \"toy-world\"\n";
        let found = counted("crates/cli/Cargo.toml", good);
        assert_eq!((found.features.len(), found.others.len()), (1, 0));
        let bad = counted("crates/cli/Cargo.toml", "[dependencies]\ntoy = \"1\"\n");
        assert_eq!(bad.others, ["crates/cli/Cargo.toml:2: toy = \"1\""]);
    }
}
