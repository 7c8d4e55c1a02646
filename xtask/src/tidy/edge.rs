//! What each crate may depend on.
//!
//! Each crate exists because of something that it must be unable to import. The table says what;
//! it holds for dev-dependencies too, since a crate whose tests see everything is soon written to
//! need it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Finding;
use crate::process;

struct CrateRules {
    package: &'static str,
    may_use: &'static [&'static str],
    /// Packages of others that it must not see, by whatever way.
    never: &'static [&'static [&'static str]],
}

const TOKIO: &[&str] = &["tokio"];
const AXUM: &[&str] = &["axum"];
const JSON: &[&str] = &["serde_json"];
const KUBE: &[&str] = &["kube", "kube-core", "kube-derive", "k8s-openapi"];
/// A client of the Kubernetes API; `kube` itself, without its default features, is none.
const CLIENT: &[&str] = &["kube-client", "kube-runtime"];
const SQLITE: &[&str] = &["rusqlite", "libsqlite3-sys"];

const CORE: &str = "sojourn-core";
const API: &str = "sojourn-api";
const DRIVERS: &str = "sojourn-drivers";
const RBAC: &str = "sojourn-rbac";
const APISERVER: &str = "sojourn-apiserver";
const NODE: &str = "sojourn-node";
const OPERATOR: &str = "sojourn-operator";
const WEB: &str = "sojourn-web";

const CRATES: [CrateRules; 11] = [
    CrateRules { package: CORE, may_use: &[], never: &[TOKIO, KUBE, CLIENT, JSON] },
    CrateRules { package: API, may_use: &[CORE], never: &[TOKIO, AXUM, SQLITE, CLIENT] },
    CrateRules { package: DRIVERS, may_use: &[CORE], never: &[CLIENT, SQLITE] },
    CrateRules { package: RBAC, may_use: &[], never: &[TOKIO, CLIENT] },
    CrateRules { package: APISERVER, may_use: &[RBAC], never: &[] },
    CrateRules { package: NODE, may_use: &[], never: &[] },
    CrateRules { package: OPERATOR, may_use: &[CORE, API, DRIVERS, RBAC], never: &[SQLITE] },
    CrateRules { package: WEB, may_use: &[CORE, API], never: &[] },
    CrateRules {
        package: "sojourn-cli",
        may_use: &[CORE, API, DRIVERS, RBAC, APISERVER, NODE, OPERATOR, WEB],
        never: &[],
    },
    CrateRules {
        package: "sojourn-sim",
        may_use: &[CORE, API, DRIVERS, RBAC, APISERVER, NODE, OPERATOR],
        never: &[],
    },
    CrateRules { package: "xtask", may_use: &[], never: &[] },
];

/// The packages of the workspace.
pub(crate) fn packages() -> impl Iterator<Item = &'static str> {
    CRATES.iter().map(|rules| rules.package)
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let metadata =
        process::read(process::cargo(root).args(["metadata", "--format-version=1", "--no-deps"]))?;
    let mut members = members(&serde_json::from_str(&metadata)?, root)?;
    for member in &mut members {
        let path = root.join(&member.manifest);
        member.text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    let mut findings = declared_edges(&members);
    for member in &members {
        if rules(&member.name).is_some_and(|rules| !rules.never.is_empty()) {
            findings.extend(reached_edges(member, &reached(root, &member.name)?));
        }
    }
    Ok(findings)
}

/// A workspace member and what its manifest asks for, of every kind of dependency.
struct Member {
    name: String,
    manifest: PathBuf,
    text: String,
    declared: BTreeSet<String>,
}

impl Member {
    /// The line of the manifest that asks for the package; the first, if none does.
    fn line_of(&self, package: &str) -> usize {
        let asks = |line: &str| {
            let rest = line.trim_start().strip_prefix(package);
            rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        self.text.lines().position(asks).map_or(1, |index| index + 1)
    }
}

fn members(metadata: &Value, root: &Path) -> Result<Vec<Member>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let member = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let dependencies = package["dependencies"].as_array()?;
        Some(Member {
            name: package["name"].as_str()?.to_owned(),
            text: String::new(),
            manifest: manifest.strip_prefix(root).unwrap_or(manifest).to_owned(),
            declared: dependencies
                .iter()
                .filter_map(|each| Some(each["name"].as_str()?.to_owned()))
                .collect(),
        })
    };
    packages.iter().map(|package| member(package).context("a package of another form")).collect()
}

/// Everything that is linked into the package, with the features that it alone asks for. The graph
/// of `cargo metadata` would not do: there, a feature that one member wants is on for all.
fn reached(root: &Path, package: &str) -> Result<BTreeSet<String>> {
    let tree = process::read(process::cargo(root).args([
        "tree",
        "--package",
        package,
        "--edges=normal,build",
        "--prefix=none",
        "--format={p}",
    ]))?;
    Ok(tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn rules(package: &str) -> Option<&'static CrateRules> {
    CRATES.iter().find(|rules| rules.package == package)
}

fn declared_edges(members: &[Member]) -> Vec<Finding> {
    let ours: BTreeMap<&str, &Member> =
        members.iter().map(|member| (member.name.as_str(), member)).collect();
    let mut findings = Vec::new();
    for member in members {
        let mut report = |line, text| findings.push(Finding::error(&member.manifest, line, text));
        let Some(rules) = rules(&member.name) else {
            report(
                1,
                format!(
                    "`{}` is not in the table of crates; give it its row in xtask/src/tidy/edge.rs",
                    member.name
                ),
            );
            continue;
        };
        for dependency in &member.declared {
            let name = dependency.as_str();
            if ours.contains_key(name) && !rules.may_use.contains(&name) {
                report(
                    member.line_of(name),
                    format!(
                        "`{}` must not depend on `{name}`, not even in tests; it may use {}",
                        member.name,
                        list(rules.may_use)
                    ),
                );
            } else if is_never(rules, name) {
                report(
                    member.line_of(name),
                    format!(
                        "`{}` must never see `{name}`; do that in a crate that may",
                        member.name
                    ),
                );
            }
        }
    }
    findings
}

/// Forbidden packages that come by way of others.
fn reached_edges(member: &Member, reached: &BTreeSet<String>) -> Vec<Finding> {
    let forbidden = reached.iter().filter(|name| {
        rules(&member.name).is_some_and(|rules| is_never(rules, name))
            && !member.declared.contains(*name)
    });
    let finding = |name: &String| {
        let text = format!(
            "`{0}` must never see `{name}`; `cargo tree -p {0} -e normal,build -i {name}` shows the way",
            member.name
        );
        Finding::error(&member.manifest, 1, text)
    };
    forbidden.map(finding).collect()
}

fn is_never(rules: &CrateRules, package: &str) -> bool {
    rules.never.iter().any(|group| group.contains(&package))
}

fn list(packages: &[&str]) -> String {
    if packages.is_empty() { "none of ours".to_owned() } else { packages.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, dependencies: &[&str]) -> Member {
        let declared: Vec<Value> =
            dependencies.iter().map(|name| json!({ "name": name })).collect();
        let metadata = json!({ "packages": [{
            "name": name,
            "manifest_path": format!("/top/crates/{name}/Cargo.toml"),
            "dependencies": declared,
        }] });
        members(&metadata, Path::new("/top")).expect("well-formed").remove(0)
    }

    /// What is found when, of all crates, this one has dependencies.
    fn texts(name: &str, dependencies: &[&str]) -> Vec<String> {
        let others = CRATES.iter().filter(|rules| rules.package != name);
        let mut members: Vec<_> = others.map(|rules| member(rules.package, &[])).collect();
        members.push(member(name, dependencies));
        declared_edges(&members).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn edges_between_crates_are_those_of_the_table() {
        assert_eq!(texts("sojourn-apiserver", &["sojourn-rbac"]), Vec::<String>::new());
        assert_eq!(texts("sojourn-web", &["sojourn-core"]), Vec::<String>::new());
        for (name, dependency) in [
            ("sojourn-core", "sojourn-api"),
            ("sojourn-apiserver", "sojourn-core"),
            ("sojourn-node", "sojourn-core"),
            ("sojourn-operator", "sojourn-apiserver"),
            ("sojourn-cli", "sojourn-sim"),
            ("sojourn-sim", "sojourn-web"),
            ("xtask", "sojourn-core"),
        ] {
            let found = texts(name, &[dependency]);
            let expected = format!("`{name}` must not depend on `{dependency}`");
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_crate_outside_the_table_is_refused() {
        let found = texts("sojourn-tools", &[]);
        assert!(found.len() == 1 && found[0].contains("not in the table"), "{found:?}");
    }

    #[test]
    fn forbidden_packages_are_found_where_declared() {
        for (name, dependency) in [
            ("sojourn-core", "tokio"),
            ("sojourn-core", "serde_json"),
            ("sojourn-api", "axum"),
            ("sojourn-drivers", "rusqlite"),
            ("sojourn-rbac", "tokio"),
        ] {
            let found = texts(name, &[dependency]);
            let expected = format!("`{name}` must never see `{dependency}`");
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{name}: {found:?}");
        }
        assert_eq!(texts("sojourn-rbac", &["serde_json"]), Vec::<String>::new());
        assert_eq!(texts("sojourn-api", &["sojourn-core", "kube"]), Vec::<String>::new());
    }

    #[test]
    fn forbidden_packages_are_found_behind_others_once() {
        let reached: BTreeSet<String> =
            ["kube", "kube-client", "tokio", "serde_json"].map(str::to_owned).into();
        let found = reached_edges(&member("sojourn-api", &["kube", "tokio"]), &reached);
        let texts: Vec<_> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts.len(), 1, "tokio is declared and reported there: {texts:?}");
        assert!(texts[0].starts_with("`sojourn-api` must never see `kube-client`; `cargo tree -p"));
    }

    #[test]
    fn findings_point_at_the_line_of_the_manifest() {
        let text = "[package]\n[dependencies]\ntokio-rustls = \"1\"\ntokio.workspace = true\n";
        let member = Member { text: text.to_owned(), ..member("sojourn-core", &["tokio"]) };
        assert_eq!(member.line_of("serde_json"), 1);
        let lines: Vec<_> = declared_edges(&[member]).iter().map(|each| each.line).collect();
        assert_eq!(lines, [4]);
    }

    #[test]
    fn every_row_of_the_table_uses_rows_of_the_table() {
        for used in CRATES.iter().flat_map(|rules| rules.may_use) {
            assert!(rules(used).is_some(), "{used}");
        }
    }
}
