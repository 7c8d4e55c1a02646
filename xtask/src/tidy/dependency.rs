//! What others' packages must be: from the registry, under a licence that fits ours, in one version
//! where that is up to us, and used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Finding;
use crate::process;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences under which a part of a program under Apache-2.0 may be. MPL-2.0 asks for the source of
/// its own files alone.
const LICENCES: [&str; 9] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that are there in several versions because of others' requirements. Another one is worth
/// a look before it is compiled twice by everybody.
const SEVERAL_VERSIONS: [&str; 9] = [
    "base64",
    "bitflags",
    "getrandom",
    "hashbrown",
    "nom",
    "rand_core",
    "syn",
    "synstructure",
    "tower-http",
];

pub(super) fn check(root: &Path, sources: &[(PathBuf, String)]) -> Result<Vec<Finding>> {
    // What is locked for other systems is not downloaded there, and not looked at.
    let host = process::read(std::process::Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let metadata = process::read(process::cargo(root).args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        host,
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut findings = origins(packages);
    findings.extend(versions(packages));
    findings.extend(unused(packages, root, sources));
    Ok(findings)
}

fn lock(text: String) -> Finding {
    Finding::error(Path::new("Cargo.lock"), 1, text)
}

/// Packages from elsewhere than the registry, and those whose licence does not fit.
fn origins(packages: &[Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        // Ours have no source.
        let Some(source) = package["source"].as_str() else { continue };
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        if source != REGISTRY {
            findings.push(lock(format!("`{name}` comes from {source}, not from crates.io")));
        }
        let licence = text(package, "license");
        if !is_allowed(licence) {
            findings.push(lock(format!(
                "`{name}` is under `{licence}`, which is not in the list of \
                 xtask/src/tidy/dependency.rs"
            )));
        }
    }
    findings
}

/// Whether an SPDX expression can be met with the licences of the list alone.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut allowed = all_of(words);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        // Both sides are read, whatever the first is.
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut allowed = one(words);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut &[&str]) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let allowed = any_of(words);
            let [")", rest @ ..] = *words else { return false };
            *words = rest;
            allowed
        }
        [licence, "WITH", _, rest @ ..] | [licence, rest @ ..] => {
            *words = rest;
            // An exception only ever permits more; `+` means that version or a later one.
            LICENCES.contains(&licence.trim_end_matches('+'))
        }
        [] => false,
    }
}

fn versions(packages: &[Value]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(text(package, "name")).or_default().insert(text(package, "version"));
    }
    let mut findings = Vec::new();
    for (name, versions) in &versions {
        let several = versions.len() > 1;
        if several && !SEVERAL_VERSIONS.contains(name) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            findings.push(lock(format!(
                "`{name}` is compiled in the versions {}; `cargo tree -d` says for whom",
                versions.join(" and ")
            )));
        }
    }
    for name in SEVERAL_VERSIONS {
        if versions.get(name).is_none_or(|versions| versions.len() < 2) {
            findings.push(lock(format!(
                "`{name}` is there once by now: take it off the list in \
                 xtask/src/tidy/dependency.rs"
            )));
        }
    }
    findings
}

/// Dependencies of ours that no source of the crate names.
fn unused(packages: &[Value], root: &Path, sources: &[(PathBuf, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        let manifest = Path::new(text(package, "manifest_path"));
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let folder = manifest.parent().unwrap_or(Path::new(""));
        let own: Vec<&str> = sources
            .iter()
            .filter(|(path, _)| path.starts_with(folder))
            .map(|(_, text)| text.as_str())
            .collect();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["rename"].as_str().unwrap_or_else(|| text(dependency, "name"));
            let identifier = name.replace('-', "_");
            let package = text(package, "name");
            if !own.iter().any(|text| names(text, &identifier)) {
                let text = format!("`{package}` asks for `{name}` and does not use it");
                findings.push(Finding::error(manifest, 1, text));
            }
        }
    }
    findings
}

/// Whether a text has the word.
fn names(text: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_allowed_if_one_way_to_meet_it_is() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("MPL-2.0+", true),
            ("(MIT", false),
            ("MIT Apache-2.0", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn what_is_not_from_the_registry_is_refused() {
        let package = |source: &str, license: &str| json!({"name": "one", "version": "1.0.0", "source": source, "license": license});
        let found = |package: Value| origins(&[package]).len();
        assert_eq!(found(package(REGISTRY, "MIT")), 0);
        assert_eq!(found(package("git+https://example.com/one", "MIT")), 1);
        assert_eq!(found(package(REGISTRY, "GPL-3.0")), 1);
        assert_eq!(found(json!({"name": "ours", "version": "1.0.0"})), 0, "ours have no source");
    }

    #[test]
    fn another_version_of_a_package_is_noticed_and_so_is_its_end() {
        let package = |name: &str, version: &str| json!({"name": name, "version": version});
        let mut packages: Vec<Value> = SEVERAL_VERSIONS
            .iter()
            .flat_map(|name| [package(name, "1.0.0"), package(name, "2.0.0")])
            .collect();
        assert_eq!(versions(&packages).len(), 0);
        packages.extend([package("serde", "1.0.0"), package("serde", "2.0.0")]);
        assert!(versions(&packages)[0].text.starts_with("`serde` is compiled in the versions 1"));
        let once: Vec<Value> = SEVERAL_VERSIONS.iter().map(|name| package(name, "1.0.0")).collect();
        assert_eq!(versions(&once).len(), SEVERAL_VERSIONS.len());
    }

    #[test]
    fn a_dependency_that_nothing_names_is_found() {
        let packages = [json!({
            "name": "ours", "manifest_path": "/top/crates/ours/Cargo.toml",
            "dependencies": [{"name": "serde-json"}, {"name": "tokio"}],
        })];
        let sources = [
            (PathBuf::from("crates/ours/src/lib.rs"), "use serde_json::json; // tokio_util".into()),
            (PathBuf::from("crates/other/src/lib.rs"), "use tokio::time;".into()),
        ];
        let found = unused(&packages, Path::new("/top"), &sources);
        let texts: Vec<_> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts, ["`ours` asks for `tokio` and does not use it"]);
    }
}
