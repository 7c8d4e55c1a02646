//! The families, as the program itself lists them, and what each must have.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::cases;
use crate::process::{cargo, print_line, read, run as start};

/// Files and folders that a family has beside its lines in the registries; `NAME` stands for its name.
const PARTS: [&str; 6] = [
    "crates/api/src/NAME.rs",
    "crates/core/src/NAME.rs",
    "crates/operator/src/NAME.rs",
    "docs/NAME.md",
    "examples/NAME",
    "xtask/cases/NAME.txt",
];

/// Checks that every family has all its parts, and a test for every acceptance case.
pub(crate) fn check(root: &Path) -> Result<()> {
    let names = names(root)?;
    let missing: Vec<String> = names.iter().flat_map(|name| missing(root, name)).collect();
    for part in &missing {
        print_line(&format!("error: {part} is missing; every family has one"));
    }
    if !missing.is_empty() {
        bail!("{} parts of families are missing", missing.len());
    }
    names.iter().try_for_each(|name| cases::run(root, name))
}

/// What `sojourn families` lists. The program is built as the tests build it, so that it is built once.
fn names(root: &Path) -> Result<Vec<String>> {
    start(cargo(root).args(["test", "--workspace", "--test", "it", "--no-run"]))?;
    let mut list = std::process::Command::new(root.join("target/debug/sojourn"));
    parse(&read(list.args(["families", "--output", "json"]))?)
}

fn parse(listed: &str) -> Result<Vec<String>> {
    let listed: Value = serde_json::from_str(listed).context("`sojourn families` is no JSON")?;
    let families = listed.as_array().filter(|families| !families.is_empty());
    let families = families.context("`sojourn families` lists none")?;
    let name = |family: &Value| family["name"].as_str().map(str::to_owned);
    families.iter().map(|family| name(family).context("a family without a name")).collect()
}

fn missing(root: &Path, name: &str) -> Vec<String> {
    let parts = PARTS.iter().map(|part| part.replace("NAME", name));
    parts.filter(|part| !root.join(part).exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_read_by_name() {
        let listed = r#"[{"name": "lab", "kinds": []}, {"name": "group"}]"#;
        assert_eq!(parse(listed).expect("two families"), ["lab", "group"]);
        for wrong in ["", "[]", "{}", r#"[{"kinds": []}]"#] {
            parse(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn a_family_without_its_parts_is_told_what_is_missing() {
        let root = crate::process::workspace_root().expect("a workspace");
        assert_eq!(missing(&root, "lab"), [""; 0]);
        let wanted = missing(&root, "nothing-of-this-name");
        assert_eq!(wanted.len(), PARTS.len());
        assert!(wanted.contains(&"docs/nothing-of-this-name.md".to_owned()), "{wanted:?}");
    }
}
