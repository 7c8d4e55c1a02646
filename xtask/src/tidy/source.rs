//! What no Rust file may hold: unfinished code, tests that do not run, silenced lints without a
//! reason, and modules with names that say nothing.

use std::path::{Component, Path};

use super::Finding;
use super::mask::{code_only, is_word};

/// Names under which anything could be put, so that everything is.
const BANNED_MODULES: [&str; 9] =
    ["common", "helper", "helpers", "manager", "misc", "mod", "types", "util", "utils"];

const BANNED_MACROS: [(&str, &str); 3] = [
    ("todo!", "finish it, or take it out"),
    ("unimplemented!", "finish it, or return an error that says what is not supported"),
    ("dbg!", "take it out, or make it a tracing event"),
];

/// What constants are not called, and how bounds are called here.
const BANNED_CONSTANTS: [(&str, &str); 6] = [
    ("MOST_", "MAX_"),
    ("LONGEST_", "MAX_"),
    ("LARGEST_", "MAX_"),
    ("LEAST_", "MIN_"),
    ("SMALLEST_", "MIN_"),
    ("PATIENCE", "…_TIMEOUT"),
];

pub(super) fn check(path: &Path, source: &str) -> Vec<Finding> {
    let code = code_only(source);
    let mut findings = path_names(path);
    findings.extend(modules(path, &code));
    findings.extend(constants(path, &code));
    findings.extend(macros(path, &code));
    findings.extend(attributes(path, &code));
    findings
}

fn path_names(path: &Path) -> Vec<Finding> {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let names = folders.map(Component::as_os_str).chain(path.file_stem());
    let banned = names.filter_map(|name| BANNED_MODULES.iter().find(|banned| name == **banned));
    banned.map(|name| Finding::error(path, 1, name_advice(name))).collect()
}

fn modules(path: &Path, code: &str) -> Vec<Finding> {
    let declared = words(code, "mod").filter_map(|at| {
        let rest = code[at + "mod".len()..].trim_start();
        let name = &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()];
        BANNED_MODULES.contains(&name).then(|| (at, name_advice(name)))
    });
    declared.map(|(at, advice)| Finding::error(path, line_of(code, at), advice)).collect()
}

fn constants(path: &Path, code: &str) -> Vec<Finding> {
    let declared = words(code, "const").filter_map(|at| {
        let name = code[at + "const".len()..].trim_start();
        let (banned, instead) =
            BANNED_CONSTANTS.iter().find(|(banned, _)| name.starts_with(banned))?;
        let advice = format!("a constant named `{banned}…`; bounds are called `{instead}` here");
        Some(Finding::error(path, line_of(code, at), advice))
    });
    declared.collect()
}

fn name_advice(name: &str) -> String {
    match name {
        "mod" => "mod.rs; call the file after its module and put it beside the folder".to_owned(),
        _ => format!("a module named `{name}`; name it after what it holds"),
    }
}

fn macros(path: &Path, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, advice) in BANNED_MACROS {
        for at in words(code, name.trim_end_matches('!')) {
            if code[at..].starts_with(name) {
                findings.push(Finding::error(
                    path,
                    line_of(code, at),
                    format!("`{name}`; {advice}"),
                ));
            }
        }
    }
    findings
}

fn attributes(path: &Path, code: &str) -> Vec<Finding> {
    let starts = code.match_indices('#').filter_map(|(at, _)| {
        let after = code[at + 1..].strip_prefix('!').unwrap_or(&code[at + 1..]).trim_start();
        after.starts_with('[').then(|| (at, bracketed(after)))
    });
    let mut findings = Vec::new();
    for (at, attribute) in starts {
        let line = line_of(code, at);
        for lint_level in ["allow", "expect"] {
            for start in words(attribute, lint_level) {
                let arguments = attribute[start + lint_level.len()..].trim_start();
                if arguments.starts_with('(') && !has_reason(bracketed(arguments)) {
                    findings.push(Finding::error(
                        path,
                        line,
                        format!(
                            "`{lint_level}` without a reason; add `reason = \"…\"`, or mend it"
                        ),
                    ));
                }
            }
        }
        if is_ignore(attribute) {
            let advice = "`#[ignore]`; a test runs or is not there. One that needs something the \
                          machine may lack says so when it runs";
            findings.push(Finding::error(path, line, advice));
        }
    }
    findings
}

fn has_reason(arguments: &str) -> bool {
    words(arguments, "reason")
        .any(|at| arguments[at + "reason".len()..].trim_start().starts_with('='))
}

/// `[ignore]`, `[ignore = "…"]`, or `ignore` as what `cfg_attr` adds.
fn is_ignore(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches('[').trim_start();
    words(inside, "ignore").any(|at| at == 0 || inside.starts_with("cfg_attr"))
}

/// From an opening bracket to the one that closes it (or to the end, if none does).
fn bracketed(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &text[..=at];
                }
            }
            _ => {}
        }
    }
    text
}

/// Where the word stands by itself: not within a longer one, and not called as a method.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).map(|before| code.as_bytes()[before]);
        let after = code.as_bytes().get(at + word.len());
        !before.is_some_and(|byte| is_word(byte) || byte == b'.')
            && !after.is_some_and(|byte| is_word(*byte))
    })
}

fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a file of that name: line and the start of the text.
    fn found(path: &str, source: &str) -> Vec<String> {
        let findings = check(Path::new(path), source);
        findings.iter().map(|finding| format!("{} {}", finding.line, finding.text)).collect()
    }

    #[track_caller]
    fn assert_found(source: &str, expected: &[&str]) {
        let found = found("crates/core/src/lab.rs", source);
        assert_eq!(found.len(), expected.len(), "{source}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{source}: {found} is not {expected}");
        }
    }

    #[test]
    fn unfinished_code_is_found_in_code_only() {
        assert_found("fn f() {\n    todo!()\n}", &["2 `todo!`"]);
        assert_found("unimplemented!(\"later\")", &["1 `unimplemented!`"]);
        assert_found("let x = dbg!(y);\nlet z = std::dbg!(y);", &["1 `dbg!`", "2 `dbg!`"]);
        assert_found("// todo!()\nlet s = \"dbg!(x)\"; my_todo!(); todo();", &[]);
    }

    #[test]
    fn lints_are_silenced_with_a_reason_only() {
        assert_found("#[allow(dead_code)]\nfn f() {}", &["1 `allow` without"]);
        assert_found("\n#![expect(clippy::exit)]", &["2 `expect` without"]);
        assert_found("#[expect(\n    clippy::exit,\n    reason = \"last\"\n)]", &[]);
        assert_found("#[allow(dead_code, reason=\"shown\")]", &[]);
        assert_found("#[cfg_attr(test, allow(dead_code))]", &["1 `allow` without"]);
        assert_found("#[cfg_attr(test, expect(dead_code, reason = \"in tests\"))]", &[]);
        assert_found("#[doc = \"allow(x)\"]\n#[clap(allow_hyphen_values = true)]", &[]);
        assert_found("let x = y.expect(\"it is there\"); // #[allow(x)]", &[]);
        assert_found("#[allow(reason_free)]", &["1 `allow` without"]);
    }

    #[test]
    fn bounds_have_the_names_that_people_look_for() {
        assert_found("const MOST_ROWS: usize = 1;", &["1 a constant named `MOST_…`"]);
        assert_found("\npub(crate) const PATIENCE: u8 = 1;", &["2 a constant named `PATIENCE…`"]);
        assert_found("const MAX_ROWS: usize = 1; let x: *const u8;", &[]);
    }

    #[test]
    fn tests_are_not_ignored() {
        assert_found("#[test]\n#[ignore]\nfn f() {}", &["2 `#[ignore]`"]);
        assert_found("#[ignore = \"slow\"]", &["1 `#[ignore]`"]);
        assert_found("#[cfg_attr(miri, ignore)]", &["1 `#[ignore]`"]);
        assert_found("#[serde(default)] // #[ignore]\nlet ignore = 1;", &[]);
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        for path in [
            "crates/core/src/utils.rs",
            "crates/core/src/helpers/time.rs",
            "crates/core/tests/common/clock.rs",
            "crates/core/src/lab/mod.rs",
            "crates/api/src/types.rs",
        ] {
            assert_eq!(found(path, "").len(), 1, "{path}");
        }
        for path in
            ["crates/core/src/time.rs", "crates/core/src/model.rs", "src/typed/type_name.rs"]
        {
            assert_eq!(found(path, ""), Vec::<String>::new(), "{path}");
        }
        assert_found(
            "pub(crate) mod utils;\nmod misc {}\nmod miscellany;",
            &["1 a module named `utils`", "2 a module named `misc`"],
        );
    }
}
