use std::path::PathBuf;

use super::*;
use crate::process;

/// What a claim stands above, in a Rust file of a family that does not exist.
fn covered(source: &str) -> Vec<Result<String, String>> {
    let claims = claim::find(Path::new("src/x.rs"), source, Language::Rust, "demo");
    claims.into_iter().map(|claim| claim.covers).collect()
}

#[track_caller]
fn assert_covers(source: &str, test: &str) {
    assert_eq!(covered(source), [Ok(test.to_owned())], "{source}");
}

#[track_caller]
fn assert_refused(source: &str) {
    let covered = covered(source);
    assert!(matches!(covered.as_slice(), [Err(why)] if why.starts_with("a claim ")), "{covered:?}");
}

#[test]
fn a_claim_above_a_test_counts() {
    assert_covers("// case: demo A1\n#[test]\nfn one() {}", "one");
    assert_covers("// case: demo A1\n#[tokio::test(start_paused = true)]\nasync fn two() {", "two");
    assert_covers("    // case: demo A1\n    /// Words.\n    #[test]\n    fn three() {", "three");
    assert_covers("// case: demo A1\n#[rustfmt::skip]\n#[test]\nfn four() {}", "four");
    assert_covers(
        "proptest! {\n    // case: demo A1\n    #[test]\n    fn five(x in 0..3) {\n",
        "five",
    );
    assert_covers("#[test]\n// case: demo A1\nfn six() {}", "six");
    assert_covers(
        "// case: demo A1\n#[expect(\n    clippy::x,\n    reason = \"y\"\n)]\n#[test]\nfn seven() {}",
        "seven",
    );
}

#[test]
fn a_claim_above_anything_else_is_refused() {
    assert_refused("// case: demo A1\nfn helper() {}");
    assert_refused("// case: demo A1\n#[derive(Debug)]\nstruct X;\n\n#[test]\nfn one() {}");
    assert_refused("// case: demo A1\nuse std::fmt;\n\n#[test]\nfn one() {}");
    assert_refused("// case: demo A1");
    assert_refused("#[test]\nfn one() {\n    // case: demo A1\n}");
    assert_refused("#[test]\nfn one() {\n    // case: demo A1\n    assert!(true);\n}");
    assert_refused("#[test]\nfn one() { // case: demo A1\n}");
    assert_refused("/// case: demo A1\n#[test]\nfn one() {}");
    assert_refused("// case: demo A1\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn one() {}\n}");
}

#[test]
fn a_claim_above_a_row_of_a_table_in_a_test_counts() {
    let rows = r#"
#[test]
fn table() {
    for (given, expected) in [
        // case: demo A1
        ("7d", 168),
        // case: demo A2
        (
            r"
text at the left
",
            72,
        ),
        // case: demo A3
        Row { given: "x" },
    ] {
        // case: demo A4
        assert_eq!(given, expected);
    }
}
"#;
    let covered = covered(rows);
    assert_eq!(covered.len(), 4);
    for row in &covered[..3] {
        assert_eq!(row.as_deref(), Ok("table"), "{covered:?}");
    }
    assert!(covered[3].is_err(), "the body of the loop is no row");
}

#[test]
fn a_table_outside_of_a_test_is_refused() {
    let in_module = r#"
mod tests {
    #[test]
    fn before() {
        let list = [
            1,
        ];
    }

    const TABLE: [(&str, u32); 1] = [
        // case: demo A1
        ("7d", 168),
    ];
}
"#;
    assert_refused(in_module);
    assert_refused(
        "fn helper() {\n    let rows = [\n        // case: demo A1\n        1,\n    ];\n}",
    );
    let in_test = in_module.replace("    }\n\n    const", "\n        const");
    let in_test = in_test.replace("        // case", "            // case");
    assert_covers(&in_test, "before");
}

#[test]
fn ids_are_separated_by_commas_and_other_families_are_left_alone() {
    let source = "// case: demo A1, B22,C3\n#[test]\nfn one() {}\n// case: other A1\nfn two() {}";
    let claims = claim::find(Path::new("src/x.rs"), source, Language::Rust, "demo");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].ids, ["A1", "B22", "C3"]);
    assert_eq!(claims[0].line, 1);
}

#[test]
fn yaml_and_python_cases_count() {
    for (language, source, expected) in [
        (Language::Yaml, "# case: demo A1\n- name: \"a pod\"\n", Some("a pod")),
        (Language::Yaml, "- steps:\n    # case: demo A1\n    # more\n    - name: b", Some("b")),
        (Language::Yaml, "# case: demo A1\n- steps: []\n", None),
        (Language::Yaml, "# case: demo A1\nname: x\n", None),
        (Language::Python, "# case: demo A1\ndef test_mail(server):\n", Some("test_mail")),
        (Language::Python, "# case: demo A1\nasync def test_mail():\n", Some("test_mail")),
        (Language::Python, "# case: demo A1\ndef helper():\n", None),
    ] {
        let claims = claim::find(Path::new("x"), source, language, "demo");
        let covers = claims.iter().map(|claim| claim.covers.as_deref().ok());
        assert_eq!(covers.collect::<Vec<_>>(), [expected], "{source}");
    }
}

#[test]
fn claims_are_looked_for_in_rust_and_in_files_of_tests() {
    for (path, expected) in [
        ("crates/core/src/lab.rs", Some(Language::Rust)),
        ("crates/cli/tests/lab/cases/mail.yaml", Some(Language::Yaml)),
        ("crates/cli/tests/lab/smtp.py", Some(Language::Python)),
        ("examples/lab/tenant.yaml", None),
        ("docs/lab.md", None),
        ("Makefile", None),
    ] {
        assert_eq!(Language::of(Path::new(path)), expected, "{path}");
    }
}

#[test]
fn a_list_is_read_and_checked() {
    let cases = list::parse(
        "# words\n\nD1 days become hours\nAB12 n/a: no such thing here\nZ3 awaits clouds: a region\n\
         Z4 awaits a driver that has a state: none",
    );
    let cases = cases.expect("it is right");
    assert_eq!(cases[0].id, "D1");
    assert_eq!(cases[0].about, "days become hours");
    assert_eq!(cases[0].applicability, Applicability::Applies);
    assert_eq!(
        cases[1].applicability,
        Applicability::NotApplicable("no such thing here".to_owned())
    );
    assert_eq!(cases[2].about, "a region");
    assert_eq!(cases[2].applicability, Applicability::Awaits("clouds".to_owned()));
    assert_eq!(cases[3].applicability, Applicability::Applies, "words of its own");
    for (text, expected) in [
        ("d1 x", "line 1: `d1` is not an id, such as D1 or 26"),
        ("D x", "line 1: `D` is not an id, such as D1 or 26"),
        ("D1 x\nD1 y", "line 2: D1 is listed twice"),
        ("D1", "line 1: D1 needs a few words"),
        ("D1 n/a:", "line 1: D1 needs a few words"),
        ("D1 awaits clouds:", "line 1: D1 needs a few words"),
    ] {
        let error = list::parse(text).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_family_without_a_list_is_named() {
    let root = process::workspace_root().expect("tests run in the workspace");
    let error = list::read(&root, "nothing").expect_err("there is no such family");
    assert!(error.to_string().starts_with("nothing has no list of cases"), "{error}");
    assert!(list::read(&root, "../lab").is_err());
}

#[test]
fn the_lab_family_has_98_cases() {
    let root = process::workspace_root().expect("tests run in the workspace");
    assert_eq!(list::read(&root, "lab").expect("it is committed").len(), 98);
}

fn claim(line: usize, ids: &[&str], covers: Result<&str, &str>) -> Claim {
    Claim {
        path: PathBuf::from("src/x.rs"),
        line,
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        covers: covers.map(str::to_owned).map_err(str::to_owned),
    }
}

#[test]
fn the_report_says_where_and_ends_with_the_sum() {
    let listed = list::parse("D1 days\nD2 hours\nD3 n/a: no\nD4 letters").expect("it is right");
    let claims = [claim(3, &["D1", "D2"], Ok("one")), claim(9, &["D1"], Ok("two"))];
    let report = Report::new("demo", &listed, &claims);
    assert_eq!(
        report.text,
        "D1   days\n     src/x.rs:3 one\n     src/x.rs:9 two\n\
         D2   hours\n     src/x.rs:3 one\n\
         D3   not applicable: no\n\
         D4   letters\n     MISSING\n\
         demo: 2 covered, 1 not applicable, 1 missing of 4\n"
    );
    assert_eq!(report.missing, 1);
    assert!(report.wrong.is_empty());
}

#[test]
fn what_awaits_something_is_neither_missing_nor_inapplicable() {
    let listed = list::parse("D1 days\nD2 awaits clouds: hours").expect("it is right");
    let report = Report::new("demo", &listed, &[claim(3, &["D1"], Ok("one"))]);
    assert_eq!(
        report.text,
        "D1   days\n     src/x.rs:3 one\n\
         D2   hours\n     awaits clouds\n\
         demo: 1 covered, 1 awaiting what is not here yet, 0 not applicable, 0 missing of 2\n"
    );
    assert_eq!((report.missing, report.wrong), (0, Vec::new()));
    let too_early = Report::new("demo", &listed, &[claim(3, &["D1", "D2"], Ok("one"))]);
    assert_eq!(
        too_early.wrong,
        ["src/x.rs:3: D2 is listed as awaiting clouds: it is covered, so take that away"]
    );
}

#[test]
fn wrong_claims_are_reported_and_cover_nothing() {
    let listed = list::parse("D1 days\nD3 n/a: no").expect("it is right");
    let claims = [
        claim(1, &["D9"], Ok("one")),
        claim(2, &["D3"], Ok("one")),
        claim(3, &["D1"], Err("a claim stands elsewhere")),
    ];
    let report = Report::new("demo", &listed, &claims);
    assert_eq!(
        report.wrong,
        [
            "src/x.rs:1: demo has no case `D9`",
            "src/x.rs:2: D3 is listed as not applicable: no",
            "src/x.rs:3: a claim stands elsewhere",
        ]
    );
    assert!(report.text.ends_with("demo: 0 covered, 1 not applicable, 1 missing of 2\n"));
}

#[test]
fn how_many_cases_there_are_and_how_many_do_not_count_is_pinned() {
    let listed = |all: usize, awaiting: usize, none: usize| -> Vec<Case> {
        let applicability = |number| {
            if number < none {
                Applicability::NotApplicable("because".to_owned())
            } else if number < none + awaiting {
                Applicability::Awaits("clouds".to_owned())
            } else {
                Applicability::Applies
            }
        };
        let case = |number: usize| Case {
            id: number.to_string(),
            about: String::new(),
            applicability: applicability(number),
        };
        (0..all).map(case).collect()
    };
    assert_eq!(pinned("group", &listed(93, 0, 22)), None);
    assert_eq!(pinned("lab", &listed(98, 0, 0)), None);
    assert_eq!(pinned("cluster", &listed(103, 12, 11)), None);
    for (all, awaiting, none) in [(93, 0, 23), (92, 0, 22), (94, 0, 22), (93, 1, 22)] {
        let wrong = pinned("group", &listed(all, awaiting, none)).expect("it is wrong");
        let promised = "must have 93 cases, 0 of them awaiting, 22 not applicable";
        assert!(wrong.contains(promised), "{wrong}");
    }
    assert_eq!(pinned("demo", &listed(3, 1, 1)), None, "nobody promised anything");
}
