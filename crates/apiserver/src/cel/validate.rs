//! Applies compiled rules to an object.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::eval::{Evaluated, Evaluation, Fault};
use super::rules::{Compiled, Rule};
use super::schema::{ListKind, Node, Shape};
use super::value::Val;
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path, go_value};
use crate::warning::Warnings;

/// What all rules of one object may cost together.
const MAX_OBJECT_COST: u64 = 10_000_000;

/// Longer messages made by a messageExpression are not used.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The budget is spent; nothing more is evaluated.
struct Exhausted;

pub(super) fn validate(
    compiled: &Compiled,
    new: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
    warnings: &mut Warnings,
) {
    let mut run = Run { compiled, budget: MAX_OBJECT_COST, errors, warnings };
    let pair = old.map(|old| Pair { new, old, node: &compiled.root });
    let correlation = Correlation { pair, parent: None, same: Cell::new(None) };
    // Running out of budget is reported where it happens.
    let _ = run.visit(&compiled.root, new, old, &Path::root(), &correlation);
}

/// A value and what it was before the update.
#[derive(Clone, Copy)]
struct Pair<'a> {
    new: &'a Value,
    old: &'a Value,
    node: &'a Node,
}

/// Which earlier value corresponds to the one at hand. Where none does, the nearest ancestor's
/// counts.
struct Correlation<'a, 'p> {
    pair: Option<Pair<'a>>,
    parent: Option<&'p Self>,
    same: Cell<Option<bool>>,
}

impl<'a> Correlation<'a, '_> {
    /// Whether nothing changed here, so that a failure is no fault of this update.
    fn is_unchanged(&self) -> bool {
        if let Some(same) = self.same.get() {
            return same;
        }
        let same = match (self.pair, self.parent) {
            (Some(pair), _) => unchanged(pair.new, pair.old, pair.node),
            (None, Some(parent)) => parent.is_unchanged(),
            (None, None) => false,
        };
        self.same.set(Some(same));
        same
    }

    fn member(&self, name: &str) -> Option<Pair<'a>> {
        let pair = self.pair?;
        let node = match &pair.node.shape {
            Shape::Object { properties } => properties.get(name)?,
            Shape::Map { values } => values,
            _ => return None,
        };
        Some(Pair { new: pair.new.get(name)?, old: pair.old.get(name)?, node })
    }
}

/// Equality where lists by key may change their order.
fn unchanged(new: &Value, old: &Value, node: &Node) -> bool {
    match (new, old, &node.shape) {
        (Value::Object(new), Value::Object(old), Shape::Object { properties }) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| {
                    // What the schema does not describe cannot be told to be the same.
                    match (old.get(key), properties.get(key)) {
                        (Some(before), Some(node)) if !node.is_implied => {
                            unchanged(value, before, node)
                        }
                        _ => false,
                    }
                })
        }
        (Value::Object(new), Value::Object(old), Shape::Map { values }) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| {
                    old.get(key).is_some_and(|before| unchanged(value, before, values))
                })
        }
        (
            Value::Array(new),
            Value::Array(old),
            Shape::List { items, kind: ListKind::Map(keys) },
        ) => {
            let before = by_key(old, keys);
            new.len() == old.len()
                && new.iter().all(|item| {
                    let counterpart = before.get(&key_of(item, keys));
                    counterpart.is_some_and(|before| unchanged(item, before, items))
                })
        }
        _ => new == old,
    }
}

fn key_of(item: &Value, keys: &[String]) -> String {
    let parts: Vec<String> = keys.iter().map(|key| item[key.as_str()].to_string()).collect();
    parts.join(",")
}

fn by_key<'a>(items: &'a [Value], keys: &[String]) -> BTreeMap<String, &'a Value> {
    items.iter().rev().map(|item| (key_of(item, keys), item)).collect()
}

struct Run<'a, 'e> {
    compiled: &'a Compiled,
    budget: u64,
    errors: &'e mut FieldErrors,
    warnings: &'e mut Warnings,
}

impl<'a> Run<'a, '_> {
    fn visit(
        &mut self,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
        path: &Path<'_>,
        correlation: &Correlation<'a, '_>,
    ) -> Result<(), Exhausted> {
        if new.is_null() || !self.compiled.concerns(node) {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.apply(node, new, old, path, correlation)?;
        match (new, &node.shape) {
            (Value::Object(members), Shape::Object { properties }) => {
                for (name, value) in members {
                    let Some(child) = properties.get(name) else { continue };
                    // The fields that are the same for all versions of a kind never ratchet.
                    let is_type =
                        correlation.parent.is_none() && matches!(&**name, "apiVersion" | "kind");
                    let below = Correlation {
                        pair: if is_type { None } else { correlation.member(name) },
                        parent: (!is_type).then_some(correlation),
                        same: Cell::new(None),
                    };
                    let before = old.and_then(|old| old.get(name));
                    self.visit(child, value, before, &path.field(name), &below)?;
                }
            }
            (Value::Object(members), Shape::Map { values }) => {
                for (name, value) in members {
                    let below = Correlation {
                        pair: correlation.member(name),
                        parent: Some(correlation),
                        same: Cell::new(None),
                    };
                    let before = old.and_then(|old| old.get(name));
                    self.visit(values, value, before, &path.key(name), &below)?;
                }
            }
            (Value::Array(elements), Shape::List { items, kind }) => {
                let before = match (kind, old) {
                    (ListKind::Map(keys), Some(Value::Array(old))) => Some(by_key(old, keys)),
                    _ => None,
                };
                for (index, value) in elements.iter().enumerate() {
                    let earlier = match (kind, &before) {
                        (ListKind::Map(keys), Some(before)) => {
                            before.get(&key_of(value, keys)).copied()
                        }
                        _ => None,
                    };
                    let pair = correlation.pair.and(earlier).map(|old| Pair {
                        new: value,
                        old,
                        node: items,
                    });
                    let below =
                        Correlation { pair, parent: Some(correlation), same: Cell::new(None) };
                    self.visit(items, value, earlier, &path.index(index), &below)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(
        &mut self,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
        path: &Path<'_>,
        correlation: &Correlation<'a, '_>,
    ) -> Result<(), Exhausted> {
        let rules: &'a [Rule] = &self.compiled.rules[node.ordinal];
        if rules.is_empty() {
            return Ok(());
        }
        if self.budget == 0 {
            return Err(self.out_of_budget(node, path));
        }
        for rule in rules {
            if rule.program.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            self.apply_rule(rule, node, new, old, path, correlation)?;
        }
        Ok(())
    }

    fn apply_rule(
        &mut self,
        rule: &'a Rule,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
        path: &Path<'_>,
        correlation: &Correlation<'a, '_>,
    ) -> Result<(), Exhausted> {
        let variables = || -> Evaluation<'a> {
            let before: Evaluated<'a> = match (old, rule.optional_old_self) {
                (Some(old), true) => Val::from_json(old, node).map(Val::some),
                (Some(old), false) => Val::from_json(old, node),
                (None, true) => Ok(Val::Optional(None)),
                (None, false) => Err(Fault::Plain("no such attribute(s): oldSelf")),
            };
            Evaluation::new(Val::from_json(new, node), before)
        };
        let mut evaluation = variables();
        let outcome = evaluation.run(&rule.program.step);
        self.spend(evaluation.meter.cost, node, path)?;
        let failure = match outcome {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => None,
            Err(fault) => Some(fault),
        };
        if let Some(fault) = failure {
            return self.report_fault(&fault, rule, node, path);
        }
        let own_message = if rule.message.is_empty() { &rule.source } else { &rule.message };
        let at = reported_path(path, &rule.field_path);
        let mut detail = match rule.message.is_empty() {
            true => format!("failed rule: {own_message}"),
            false => own_message.clone(),
        };
        if let Some(program) = &rule.message_program {
            let mut evaluation = variables();
            let outcome = evaluation.run(&program.step);
            let cost = evaluation.meter.cost;
            if cost > self.budget {
                let detail = "messageExpression evaluation failed due to running out of cost \
                              budget, no further validation rules will be run";
                let value = crate::go::quote(&node.type_name);
                self.add(
                    rule,
                    correlation,
                    error(FieldErrorKind::Invalid, at, Some(value), detail),
                );
                return Err(Exhausted);
            }
            self.budget -= cost;
            match outcome {
                Ok(Val::Text(text)) if is_usable(&text) => text.trim().clone_into(&mut detail),
                Err(Fault::OverBudget) => {
                    let detail = "no further validation rules will be run due to call cost exceeds \
                                  limit for messageExpression";
                    let value = crate::go::quote(&node.type_name);
                    let error = error(FieldErrorKind::Invalid, at, Some(value), detail);
                    self.add(rule, correlation, error);
                    return Err(Exhausted);
                }
                // A message that cannot be made gives way to the fixed one.
                _ => {}
            }
        }
        let value = match (&*node.type_name, rule.reason) {
            ("object" | "array", _) => None,
            (_, FieldErrorKind::Forbidden | FieldErrorKind::Required) => None,
            _ => Some(go_value(new)),
        };
        let detail = if rule.reason == FieldErrorKind::Duplicate { String::new() } else { detail };
        self.add(rule, correlation, error(rule.reason, at, value, detail));
        Ok(())
    }

    /// A failure of what the update did not touch is only warned about.
    fn add(&mut self, rule: &Rule, correlation: &Correlation<'_, '_>, error: FieldError) {
        if !rule.program.uses_old_self && correlation.is_unchanged() {
            self.warnings.push(error.to_string());
        } else {
            self.errors.push(error);
        }
    }

    fn report_fault(
        &mut self,
        fault: &Fault,
        rule: &Rule,
        node: &Node,
        path: &Path<'_>,
    ) -> Result<(), Exhausted> {
        let name = if rule.message.is_empty() { &rule.source } else { &rule.message };
        let detail = match fault {
            Fault::OverBudget => format!(
                "'{fault}': no further validation rules will be run due to call cost exceeds limit \
                 for rule: {name}"
            ),
            _ if fault.is_overload() => format!(
                "'{fault}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {name}"
            ),
            _ => format!("{fault} evaluating rule: {name}"),
        };
        self.errors.push(FieldError::invalid_text(path, &node.type_name, detail));
        if matches!(fault, Fault::OverBudget) { Err(Exhausted) } else { Ok(()) }
    }

    fn spend(&mut self, cost: u64, node: &Node, path: &Path<'_>) -> Result<(), Exhausted> {
        if cost > self.budget {
            return Err(self.out_of_budget(node, path));
        }
        self.budget -= cost;
        Ok(())
    }

    fn out_of_budget(&mut self, node: &Node, path: &Path<'_>) -> Exhausted {
        let detail = "validation failed due to running out of cost budget, no further validation \
                      rules will be run";
        self.errors.push(FieldError::invalid_text(path, &node.type_name, detail));
        Exhausted
    }
}

fn error(
    kind: FieldErrorKind,
    path: String,
    value: Option<String>,
    detail: impl Into<String>,
) -> FieldError {
    FieldError { kind, path, value, detail: detail.into() }
}

fn reported_path(path: &Path<'_>, below: &str) -> String {
    if below.is_empty() { path.to_string() } else { path.field(below).to_string() }
}

/// Messages must be short, on one line, and say something.
fn is_usable(message: &str) -> bool {
    let trimmed = message.trim();
    !trimmed.is_empty() && trimmed.len() <= MAX_MESSAGE_BYTES && !trimmed.contains('\n')
}
