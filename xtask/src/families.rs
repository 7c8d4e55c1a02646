//! The families, as the program itself lists them, and what each must have.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::cases;
use crate::process::{cargo, print_line, read, run as start};

/// Files and folders that a family has beside its lines in the registries; `NAME` stands for its name.
pub(crate) const PARTS: [&str; 9] = [
    "crates/api/src/NAME.rs",
    "crates/cli/src/commands/family_commands/NAME.rs",
    "crates/core/src/NAME.rs",
    "crates/operator/src/NAME.rs",
    "crates/operator/src/admission/NAME.rs",
    "crates/sim/src/NAME.rs",
    "docs/NAME.md",
    "examples/NAME",
    "xtask/cases/NAME.txt",
];

/// The registries: a family is one line in each.
pub(crate) const REGISTRIES: [&str; 5] = [
    "crates/api/src/family.rs",
    "crates/cli/src/commands/family_commands.rs",
    "crates/operator/src/admission.rs",
    "crates/operator/src/family.rs",
    "crates/sim/src/family.rs",
];
/// The document that leads through them.
const WALK: &str = "docs/adding-a-family.md";
/// How a registry begins.
const REGISTRY: &str = "const FAMILIES: ";

/// Checks that every family has all its parts, and a test for every acceptance case.
pub(crate) fn check(root: &Path) -> Result<()> {
    let names = names(root)?;
    names.iter().try_for_each(|name| check_parts(root, name))?;
    check_registries(root, names.len())?;
    names.iter().try_for_each(|name| cases::run(root, name))
}

/// Checks that a family has all its parts.
pub(crate) fn check_parts(root: &Path, name: &str) -> Result<()> {
    let missing = missing(root, name);
    for part in &missing {
        print_line(&format!("error: {part} is missing; every family has one"));
    }
    if !missing.is_empty() {
        bail!("{} parts of {name} are missing", missing.len());
    }
    Ok(())
}

/// Checks that there is no other registry, that each has one line for each family, and that the document
/// for whoever adds one names it.
fn check_registries(root: &Path, families: usize) -> Result<()> {
    let walk = read_text(&root.join(WALK))?;
    for registry in REGISTRIES {
        let code = read_text(&root.join(registry))?;
        match entries(&code) {
            Some(listed) if listed == families => {}
            Some(listed) => bail!("{registry} lists {listed} families, there are {families}"),
            None => bail!("{registry} has no `{REGISTRY}`"),
        }
        if !walk.contains(&format!("`{registry}`")) {
            bail!("{WALK} does not name {registry}");
        }
    }
    let mut others = Vec::new();
    find_registries(&root.join("crates"), &mut others)?;
    let known = |file: &PathBuf| REGISTRIES.iter().any(|registry| root.join(registry) == *file);
    match others.iter().find(|file| !known(file)) {
        Some(other) => bail!("{} is another registry; list it in {WALK}", other.display()),
        None => Ok(()),
    }
}

/// How many entries the registry in this code has, but for those that are behind a feature: these are no
/// families of the program as it is released.
fn entries(code: &str) -> Option<usize> {
    let (_, rest) = code.split_once(REGISTRY)?;
    let (_, list) = rest.split_once("= &[")?;
    let (list, _) = list.split_once("];")?;
    let counts = |entry: &&str| !entry.trim().is_empty() && !entry.trim().starts_with("#[cfg(");
    Some(list.split(',').filter(counts).count())
}

fn find_registries(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let listed =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in listed {
        let path = entry?.path();
        if path.is_dir() {
            find_registries(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "rs")
            && read_text(&path)?.contains(REGISTRY)
        {
            found.push(path);
        }
    }
    Ok(())
}

fn read_text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
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
    fn every_registry_has_a_line_for_each_family_and_is_in_the_walk() {
        let root = crate::process::workspace_root().expect("a workspace");
        check_registries(&root, 5).expect("five families");
        let wrong = check_registries(&root, 6).expect_err("there are five").to_string();
        assert_eq!(wrong, "crates/api/src/family.rs lists 5 families, there are 6");
        assert_eq!(entries("pub const FAMILIES: &[X] = &[\n    a,\n    b,\n];"), Some(2));
        let featured = "const FAMILIES: &[X] = &[\n    a,\n    #[cfg(feature = \"b\")]\n    b,\n];";
        assert_eq!(entries(featured), Some(1), "what is behind a feature is in no release");
        assert_eq!(entries("let families = [];"), None);
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
