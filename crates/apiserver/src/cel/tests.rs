//! Rules against answers recorded from the reference implementation.

use serde_json::{Value, json};

use super::Rules;
use crate::field::Path;
use crate::json::Access;

/// Rules, whether kube-apiserver accepts them, what it estimates and measures them to cost, and what
/// it says of an object that they are applied to.
const CORPUS: &str = include_str!("tests/corpus.json");

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
    let corpus: Value = serde_json::from_str(CORPUS).unwrap();
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
        if refused != texts(&case["refused"]) {
            differences.push(format!("{rule}\n  want {}\n  have {refused:#?}", case["refused"]));
            continue;
        }
        let Ok(rules) = compiled else { continue };
        let estimate = rules.0.as_ref().unwrap().rules[0][0].program.highest_cost;
        if Some(estimate) != case.at("estimate").as_u64() {
            differences.push(format!("{rule}\n  estimate {} / {estimate}", case["estimate"]));
        }
        let mut errors = Vec::new();
        rules.validate(&corpus["object"], None, &mut errors, &mut Vec::new());
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
