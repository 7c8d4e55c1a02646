//! Comments that claim a case, and the test that each stands above.
//!
//! Rust is read by its lines, not parsed: the repository is formatted, so what encloses a line is
//! above it and further left. (Rust within a string would be taken for Rust.)

use std::path::{Path, PathBuf};

/// One comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) path: PathBuf,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) ids: Vec<String>,
    /// The test below, or why the claim does not count.
    pub(super) covers: Result<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Yaml,
    Python,
}

impl Language {
    /// Nothing for files in which no claim is looked for: YAML and Python only tests may make.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let of_tests = path.components().any(|folder| folder.as_os_str() == "tests");
        match path.extension()?.to_str()? {
            "rs" => Some(Self::Rust),
            "yaml" | "yml" if of_tests => Some(Self::Yaml),
            "py" if of_tests => Some(Self::Python),
            _ => None,
        }
    }

    fn comment(self) -> &'static str {
        match self {
            Self::Rust => "//",
            Self::Yaml | Self::Python => "#",
        }
    }
}

/// The claims of the family in a file.
pub(super) fn find(path: &Path, source: &str, language: Language, family: &str) -> Vec<Claim> {
    let opening = format!("{} case: {family} ", language.comment());
    let lines: Vec<&str> = source.lines().collect();
    let mut claims = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, ids)) = line.split_once(&opening) else { continue };
        let ids: Vec<String> = ids.split(',').map(|id| id.trim().to_owned()).collect();
        let covers = if before.trim().is_empty() {
            test_below(&lines, index, language)
        } else {
            Err(format!("a claim is a line of its own: `{opening}ID`"))
        };
        claims.push(Claim { path: path.to_owned(), line: index + 1, ids, covers });
    }
    claims
}

fn test_below(lines: &[&str], claim: usize, language: Language) -> Result<String, String> {
    match language {
        Language::Rust => rust_test(lines, claim),
        Language::Yaml => {
            let name = first_below(lines, claim, "#").and_then(|line| line.strip_prefix("- name:"));
            let name = name.map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
            name.ok_or_else(|| {
                "a claim stands above a case, which starts with `- name:`".to_owned()
            })
        }
        Language::Python => {
            let test = first_below(lines, claim, "#").filter(|line| line.contains("def test_"));
            let name = test.and_then(function_name);
            name.ok_or_else(|| "a claim stands above a function `test_…`".to_owned())
        }
    }
}

/// The first line below that is neither empty nor a comment, without its indentation.
fn first_below<'a>(lines: &[&'a str], line: usize, comment: &str) -> Option<&'a str> {
    let mut below = lines[line + 1..].iter().map(|line| line.trim());
    below.find(|line| !line.is_empty() && !line.starts_with(comment))
}

fn rust_test(lines: &[&str], claim: usize) -> Result<String, String> {
    const WHERE: &str = "a claim stands above a test or above a row of a table in one";
    let next = first_below(lines, claim, "//").unwrap_or_default();
    if next.starts_with("#[") || function_name(next).is_some() {
        return test_function(&lines[attributes_above(lines, claim)..])
            .ok_or_else(|| WHERE.to_owned());
    }
    if next.is_empty() || next.starts_with([')', ']', '}']) {
        return Err(WHERE.to_owned());
    }
    row_of(lines, claim).ok_or_else(|| WHERE.to_owned())
}

/// The name of the function that these lines start with, comments and attributes before it
/// included, if one of those makes it a test.
fn test_function(lines: &[&str]) -> Option<String> {
    let mut is_test = false;
    for line in lines.iter().map(|line| line.trim()) {
        if let Some(name) = function_name(line) {
            return is_test.then_some(name);
        }
        is_test |= is_test_attribute(line);
        // An attribute may go on over several lines, so only what cannot be one ends the search.
        if is_item(line) || line.ends_with(['{', '}', ';']) {
            return None;
        }
    }
    None
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`.
fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.strip_prefix("#[") else { return false };
    let path = attribute.split(['(', ']']).next().unwrap_or_default().trim();
    path == "test" || path.ends_with("::test")
}

/// The test that encloses the line, if the line is within a list there.
fn row_of(lines: &[&str], row: usize) -> Option<String> {
    let mut within_list = false;
    let mut limit = indentation(lines[row]);
    for (index, line) in lines[..row].iter().enumerate().rev() {
        if line.trim().is_empty() || indentation(line) >= limit {
            continue;
        }
        if function_name(line.trim()).is_some() {
            limit = indentation(line);
            if let Some(name) = test_function(&lines[attributes_above(lines, index)..]) {
                return within_list.then_some(name);
            }
        } else if is_item(line.trim()) || line.trim() == "] {" {
            // What follows a list, as the body of a loop over it, is not in the list.
            limit = indentation(line);
        }
        within_list |= line.trim_end().ends_with('[');
    }
    None
}

/// Where the comments and attributes of the function begin.
fn attributes_above(lines: &[&str], function: usize) -> usize {
    let own = |line: &&&str| {
        let line = line.trim();
        line.starts_with("#[") || line.starts_with("//") || line == ")]"
    };
    function - lines[..function].iter().rev().take_while(own).count()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a constant, module or such starts here: what is in it is not in the function above it.
fn is_item(line: &str) -> bool {
    const KEYWORDS: [&str; 8] =
        ["const", "enum", "impl", "macro_rules!", "mod", "static", "struct", "trait"];
    let line = without_visibility(line);
    KEYWORDS.iter().any(|keyword| line.split([' ', '<']).next() == Some(keyword))
}

/// `f` of `pub(crate) async fn f<T>(`, and of Python's `def f(`.
fn function_name(line: &str) -> Option<String> {
    let mut words = without_visibility(line).split(' ');
    let keyword = words.find(|word| !["async", "const", "unsafe"].contains(word))?;
    if !["fn", "def"].contains(&keyword) {
        return None;
    }
    let name = words.next()?.split(['(', '<']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(line, |(_, rest)| rest),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => line,
    }
}
