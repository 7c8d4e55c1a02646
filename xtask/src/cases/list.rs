//! The committed list of a family's cases.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) id: String,
    /// A few words for whoever reads the report.
    pub(super) about: String,
    pub(super) applicability: Applicability,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Applicability {
    Applies,
    /// It applies, and nothing covers it before this is there.
    Awaits(String),
    /// Why it cannot apply.
    NotApplicable(String),
}

/// The cases of the family, in the order of its file.
pub(super) fn read(root: &Path, family: &str) -> Result<Vec<Case>> {
    if family.is_empty() || !family.bytes().all(|byte| byte.is_ascii_lowercase()) {
        bail!("`{family}` is not the name of a family");
    }
    let path = Path::new("xtask/cases").join(format!("{family}.txt"));
    let text = std::fs::read_to_string(root.join(&path)).with_context(|| {
        format!("{family} has no list of cases: cannot read {}", path.display())
    })?;
    parse(&text).with_context(|| format!("cannot use {}", path.display()))
}

/// `ID words`, `ID awaits WHAT: words` or `ID n/a: reason` on each line; `#` starts a comment. What is awaited is
/// one word.
pub(super) fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (id, about) = line.split_once(' ').unwrap_or((line, ""));
        let about = about.trim();
        if !is_id(id) {
            bail!("line {number}: `{id}` is not an id, such as D1 or 26");
        }
        if cases.iter().any(|case| case.id == id) {
            bail!("line {number}: {id} is listed twice");
        }
        let (applicability, about) = read_applicability(about);
        if about.is_empty() || applicability == Applicability::NotApplicable(String::new()) {
            bail!("line {number}: {id} needs a few words");
        }
        cases.push(Case { id: id.to_owned(), about: about.to_owned(), applicability });
    }
    Ok(cases)
}

/// Whether a case applies, and the words that are left.
fn read_applicability(about: &str) -> (Applicability, &str) {
    if let Some(reason) = about.strip_prefix("n/a:").map(str::trim) {
        return (Applicability::NotApplicable(reason.to_owned()), about);
    }
    let awaits = about.strip_prefix("awaits ").and_then(|rest| rest.split_once(':'));
    match awaits.filter(|(what, _)| !what.is_empty() && !what.contains(' ')) {
        Some((what, about)) => (Applicability::Awaits(what.to_owned()), about.trim()),
        None => (Applicability::Applies, about),
    }
}

/// Digits, which may have capital letters before them.
fn is_id(word: &str) -> bool {
    let digits = word.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
