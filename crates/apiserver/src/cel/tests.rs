//! Rules against answers recorded from the reference implementation.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Rules;
use crate::field::Path;
use crate::json::Access;
use crate::warning::Warnings;

/// Rules, whether kube-apiserver accepts them, what it estimates and measures them to cost, and what
/// it says of an object that they are applied to.
static CORPUS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tests/corpus.json")).expect("the corpus is valid JSON")
});

fn compile(schema: &Value) -> Result<Rules, Vec<String>> {
    Rules::compile(schema, &Path::new(".openAPIV3Schema"))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The name of the type of `self` differs from one compilation to the next.
fn without_type_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("selfType") {
        out.push_str(&rest[..at + 8]);
        rest = rest[at + 8..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What the recorded refusals leave out: the echo of the rule and the advice.
fn shortened(error: &str) -> String {
    let mut error = without_type_numbers(error);
    if let (Some(start), Some(end)) = (error.find("Invalid value: {\"Rule\""), error.find("}: ")) {
        error.replace_range(start..end + 3, "");
    }
    if let Some(advice) = error.find(" (try simpl") {
        error.truncate(advice);
    }
    error.trim_start_matches(".openAPIV3Schema").to_owned()
}

#[test]
fn rules_are_judged_as_by_the_reference() {
    let corpus = &*CORPUS;
    let mut differences = Vec::new();
    for case in corpus.list("cases") {
        let schema = json!({
            "type": "object",
            "properties": corpus["properties"],
            "x-kubernetes-validations": [case["rule"]],
        });
        let rule = case["rule"].text("rule");
        let compiled = compile(&schema);
        let refused: Vec<String> = match &compiled {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(|e| shortened(e)).collect(),
        };
        // Some syntax errors are worded differently here: such rules must only be refused.
        let any_wording = case.flag("any_wording") && !refused.is_empty();
        if refused != texts(&case["refused"]) && !any_wording {
            differences.push(format!("{rule}\n  want {}\n  have {refused:#?}", case["refused"]));
            continue;
        }
        let Ok(rules) = compiled else { continue };
        let estimate = rules.0.as_ref().unwrap().rules[0][0].program.highest_cost;
        if Some(estimate) != case.at("estimate").as_u64() {
            differences.push(format!("{rule}\n  estimate {} / {estimate}", case["estimate"]));
        }
        let mut errors = crate::field::FieldErrors::new();
        rules.validate(&corpus["object"], None, &mut errors, &mut Warnings::default());
        let failed: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if failed != texts(&case["failed"]) {
            differences.push(format!("{rule}\n  want {}\n  have {failed:?}", case["failed"]));
        }
        let cost = measured_cost(&rules, &corpus["object"]);
        if Some(cost) != case.at("cost").as_u64() {
            differences.push(format!("{rule}\n  cost {} / {cost}", case["cost"]));
        }
    }
    assert!(differences.is_empty(), "{}\n{} differ", differences.join("\n"), differences.len());
}

fn measured_cost(rules: &Rules, object: &Value) -> u64 {
    let compiled = rules.0.as_ref().unwrap();
    let this = super::value::Val::from_json(object, &compiled.root);
    let old = Err(super::eval::Fault::Plain("no old object"));
    let rule = &compiled.rules[0][0];
    if rule.program.uses_old_self {
        return 0;
    }
    let mut evaluation = super::eval::Evaluation::new(this, old);
    let _ = evaluation.run(&rule.program.step);
    evaluation.meter.cost
}

/// Schemas with rules, and what kube-apiserver says of them and of objects and updates.
const SCHEMAS: &str = include_str!("tests/schemas.json");

#[test]
fn schemas_and_updates_are_judged_as_by_the_reference() {
    let cases: Value = serde_json::from_str(SCHEMAS).unwrap();
    let mut differences = Vec::new();
    for case in cases.as_array().unwrap() {
        let (mut refused, mut failed) = (Vec::new(), Vec::new());
        match compile(&case["schema"]) {
            Err(errors) => refused = errors.iter().map(|e| without_type_numbers(e)).collect(),
            Ok(rules) => {
                let mut errors = crate::field::FieldErrors::new();
                if let Some(object) = case.get("obj") {
                    rules.validate(object, case.get("old"), &mut errors, &mut Warnings::default());
                }
                failed.extend(errors.iter().map(ToString::to_string));
            }
        }
        refused.sort();
        failed.sort();
        if refused != texts(&case["refused"]) || failed != texts(&case["failed"]) {
            differences.push(format!(
                "{}\n  want {:#} {:#}\n  have {refused:#?} {failed:#?}",
                case["name"], case["refused"], case["failed"]
            ));
        }
    }
    assert!(differences.is_empty(), "{}\n{} differ", differences.join("\n"), differences.len());
}

fn judge(rule: &str) -> Result<Vec<String>, Vec<String>> {
    let corpus = &*CORPUS;
    let schema = json!({
        "type": "object",
        "properties": corpus["properties"],
        "x-kubernetes-validations": [{"rule": rule, "message": "m"}],
    });
    let rules = compile(&schema)?;
    let mut errors = crate::field::FieldErrors::new();
    rules.validate(&corpus["object"], None, &mut errors, &mut Warnings::default());
    Ok(errors.iter().map(ToString::to_string).collect())
}

#[test]
fn failures_of_unchanged_parts_are_warnings() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]},
            "b": {"type": "integer"},
        },
    }}});
    let rules = compile(&schema).unwrap();
    let (mut errors, mut warnings) = (crate::field::FieldErrors::new(), Warnings::default());
    let (new, old) = (json!({"spec": {"a": 1, "b": 2}}), json!({"spec": {"a": 1, "b": 1}}));
    rules.validate(&new, Some(&old), &mut errors, &mut warnings);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(warnings.into_texts(), ["spec.a: Invalid value: 1: failed rule: self > 1"]);
}

#[test]
fn zones_without_a_database_fail_rather_than_pass() {
    let failed = judge("self.ts.getHours('America/New_York') == 7").unwrap();
    assert!(failed[0].contains("unknown time zone America/New_York"), "{failed:?}");
}

/// Everything that walks a tree recurses; the deepest trees must fit the stack of a thread.
#[test]
fn deep_expressions_are_refused_or_evaluated() {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for depth in [10, 60, 100, 130, 200, 249, 390, 1000, 20_000] {
        for source in [
            nested("(", "true", ")", depth),
            nested("[", "1", "]", depth) + ".size() == 1",
            nested("{'a':", "1", "}", depth) + ".size() == 1",
            nested("true ? (", "true", ") : false", depth),
            nested("[1].all(x, ", "true", ")", depth),
            nested("[1].map(x, ", "1", ")", depth) + ".size() == 1",
            nested("[1].exists_one(x, ", "true", ")", depth),
            nested("!(", "true", ")", depth) + " || true",
            nested("size([", "1", "]) + size([1])", depth) + " > 0",
            format!("1{} > 0", " + 1".repeat(depth)),
            format!("true{}", " && true".repeat(depth)),
            format!("{{}}{} == 1", ".a".repeat(depth)),
            format!("'a'{} == 'a'", ".trim()".repeat(depth)),
            format!("[1]{} == [1]", ".map(x, {x: x})".repeat(depth)),
            format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(depth)),
            format!("[1]{}.size() == 1", ".sortBy(x, x)".repeat(depth)),
            "!".repeat(depth) + "true || true",
            "-".repeat(depth) + "1 < 2",
        ] {
            let _ = judge(&source);
        }
    }
}

#[test]
fn evaluation_stops_at_its_budget() {
    let items: Vec<i64> = vec![0; 2000];
    let schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "maxItems": 2000, "items": {"type": "integer"}},
        "big": {"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "integer"}},
        }},
    }, "x-kubernetes-validations": [
        {"rule": "self.l.all(x, self.big == self.big)"},
    ]});
    // Comparing objects costs nothing in the reference's units, however large they are.
    let big = json!({"a": vec![0; 100_000]});
    let rules = compile(&schema).unwrap();
    let mut errors = crate::field::FieldErrors::new();
    rules.validate(&json!({"l": items, "big": big}), None, &mut errors, &mut Warnings::default());
    let shown = errors[0].to_string();
    assert!(shown.contains("operation cancelled: actual cost limit exceeded"), "{shown}");
}

mod properties {
    use proptest::prelude::*;

    use super::judge;

    /// Pieces of the language, so that the source is more than noise.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            proptest::sample::select(vec![
                "self",
                ".i",
                ".s",
                ".l",
                ".m",
                ".o",
                ".?x",
                "[0]",
                "[?'k']",
                "(",
                ")",
                "[",
                "]",
                "{",
                "}",
                "'a'",
                "1",
                "1.5",
                "2u",
                "b'x'",
                "null",
                "true",
                "==",
                "!=",
                "<",
                ">=",
                "+",
                "-",
                "*",
                "/",
                "%",
                "&&",
                "||",
                "!",
                "?",
                ":",
                ",",
                " in ",
                ".all(x, ",
                ".map(y, ",
                ".filter(z, ",
                ".exists(i, v, ",
                "x",
                "y",
                "v",
                ".size()",
                "has(",
                ".optMap(q, ",
                "q",
                "optional.of(",
                ".orValue(",
                "duration('1h')",
                "type(",
                "string",
                ".matches('a+')",
                ".format([",
                "'%s %d %f'",
                ".split(',')",
                ".join()",
                "lists.range(",
                ".sort()",
                ".flatten()",
                "quantity('1Gi')",
                "ip('::1')",
                "dyn(",
                ".transformMap(k, v, ",
                "k",
                "int(",
                "0x",
                "9223372036854775807",
                "\"",
                "'",
                "\\",
            ])
            .prop_map(str::to_owned),
            "\\PC{0,3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn garbage_is_refused_or_evaluated_but_never_panics(
            pieces in proptest::collection::vec(piece(), 0..14)
        ) {
            let _ = judge(&pieces.concat());
        }

        #[test]
        fn any_text_is_handled(text in "\\PC{0,40}") {
            let _ = judge(&text);
        }

        #[test]
        fn any_pattern_is_handled(pattern in "[\\[\\](){}*+?|^$\\\\a-c0-3.,:dDwsQE-]{0,12}") {
            let _ = crate::go::regexp::compile(&pattern);
        }

        #[test]
        fn any_value_is_handled(text in "\\PC{0,12}") {
            let quoted = serde_json::to_string(&text).unwrap();
            for function in ["quantity", "ip", "cidr", "url", "semver", "duration", "timestamp"] {
                let _ = judge(&format!("type({function}(dyn({quoted}))) == string"));
            }
        }

        #[test]
        fn any_text_is_cut_at_characters(text in "\\PC{0,6}", part in "\\PC{0,2}", index in -1..9i64) {
            let (text, part) = (
                serde_json::to_string(&text).unwrap(),
                serde_json::to_string(&part).unwrap(),
            );
            for call in [
                format!("charAt({index})"),
                format!("substring({index})"),
                format!("substring(0, {index})"),
                format!("indexOf({part}, {index})"),
                format!("lastIndexOf({part}, {index})"),
                format!("lastIndexOf({part})"),
                format!("replace({part}, 'é', {index})"),
                format!("split({part}, {index})"),
                format!("format([{part}])"),
                format!("find({part})"),
                format!("matches({part})"),
            ] {
                let _ = judge(&format!("dyn({text}).{call} == dyn(1)"));
            }
        }
    }
}
