//! Compiles the validation rules of a schema, or says what is wrong with them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::check;
use super::estimate;
use super::field_path;
use super::literals;
use super::parser;
use super::plan::{self, Step};
use super::schema::{MAX_REQUEST_BYTES, Node, Shape};
use super::source::Issues;
use super::typing::Type;
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::go;
use crate::json::Access;

/// The highest cost that one rule may be estimated at, over all values it applies to.
const MAX_RULE_COST: u64 = 10_000_000;
/// The highest cost of all rules of a schema together.
const MAX_SCHEMA_COST: u64 = 100_000_000;

/// Schemas nested deeper than this are not looked at; JSON from outside cannot be.
const MAX_DEPTH: usize = 128;

const EXTENSION: &str = "x-kubernetes-validations";

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) step: Step,
    pub(super) uses_old_self: bool,
    pub(super) highest_cost: u64,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Program,
    pub(super) message_program: Option<Program>,
    pub(super) message: String,
    pub(super) source: String,
    pub(super) reason: FieldErrorKind,
    /// Where a failure is reported, relative to the rule's position; may be empty.
    pub(super) field_path: String,
    pub(super) optional_old_self: bool,
}

/// The rules of a schema, by the ordinal of the position they are declared at.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) root: Node,
    pub(super) rules: Vec<Vec<Rule>>,
    /// How many rules are declared at places with lower ordinals.
    pub(super) before: Vec<usize>,
}

impl Compiled {
    /// Whether any rule applies at this position or below.
    pub(super) fn concerns(&self, node: &Node) -> bool {
        self.before[node.ordinal] < self.before[node.last + 1]
    }
}

/// Whether any rule is declared, so that schemas without rules cost nothing.
pub(super) fn has_rules(schema: &Value) -> bool {
    fn within(schema: &Value, depth: usize) -> bool {
        depth < MAX_DEPTH
            && schema.is_object()
            && (!schema.list(EXTENSION).is_empty()
                || within(schema.at("items"), depth + 1)
                || within(schema.at("additionalProperties"), depth + 1)
                || schema.entries("properties").any(|(_, schema)| within(schema, depth + 1)))
    }
    within(schema, 0)
}

pub(super) fn compile(schema: &Value, path: &Path<'_>) -> Result<Compiled, FieldErrors> {
    let root = Node::resource(schema);
    let count = root.last + 1;
    let mut compiler = Compiler {
        rules: std::iter::repeat_with(Vec::new).take(count).collect(),
        schema_errors: FieldErrors::new(),
        rule_errors: FieldErrors::new(),
        total_cost: 0,
        most_expensive: Vec::new(),
        self_type: self_type_name(),
    };
    let position = SchemaPosition {
        schema,
        node: &root,
        cardinality: Some(1),
        uncorrelatable: None,
        depth: 0,
    };
    compiler.visit(&position, path);
    compiler.check_total(path);
    let Compiler { rules, mut schema_errors, rule_errors, .. } = compiler;
    schema_errors.extend(rule_errors);
    if !schema_errors.is_empty() {
        return Err(schema_errors);
    }
    let mut before = vec![0];
    for rules in &rules {
        before.push(before.last().copied().unwrap_or_default() + rules.len());
    }
    Ok(Compiled { root, rules, before })
}

/// Changes with every compilation, lest rules come to depend on it.
#[expect(
    clippy::disallowed_methods,
    reason = "upstream names it by the time, so that nobody relies on it"
)]
fn self_type_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("selfType{}", now.subsec_nanos())
}

/// A position in the schema and what its ancestors say about it.
struct SchemaPosition<'s, 'p> {
    schema: &'s Value,
    node: &'s Node,
    /// How often values can occur here; `None` if nothing bounds it.
    cardinality: Option<u64>,
    /// The outermost ancestor whose elements cannot be told apart across versions.
    uncorrelatable: Option<&'p Path<'p>>,
    depth: usize,
}

impl<'s, 'p> SchemaPosition<'s, 'p> {
    fn child(
        &self,
        schema: &'s Value,
        node: &'s Node,
        uncorrelatable: Option<&'p Path<'p>>,
    ) -> Self {
        let multiplier = match self.schema.text("type") {
            "object" if !self.schema.at("additionalProperties").is_null() => {
                bound(self.schema.at("maxProperties"))
            }
            "array" => bound(self.schema.at("maxItems")),
            _ => Some(1),
        };
        let cardinality =
            self.cardinality.zip(multiplier).map(|(own, times)| own.saturating_mul(times));
        Self { schema, node, cardinality, uncorrelatable, depth: self.depth + 1 }
    }
}

fn bound(value: &Value) -> Option<u64> {
    value.as_i64().map(|v| u64::try_from(v).unwrap_or_default())
}

struct Compiler {
    rules: Vec<Vec<Rule>>,
    schema_errors: FieldErrors,
    rule_errors: FieldErrors,
    total_cost: u64,
    most_expensive: Vec<(String, u64)>,
    self_type: String,
}

impl Compiler {
    fn visit(&mut self, position: &SchemaPosition<'_, '_>, path: &Path<'_>) {
        if position.depth >= MAX_DEPTH {
            return;
        }
        let errors_before = self.schema_errors.len();
        self.visit_children(position, path);
        let declared = position.schema.list(EXTENSION);
        if declared.is_empty() {
            return;
        }
        let extension = path.field(EXTENSION);
        for (index, rule) in declared.iter().enumerate() {
            self.check_shape(position.schema, rule, &extension.index(index));
        }
        if self.schema_errors.len() > errors_before {
            return;
        }
        if !position.node.exposed {
            self.rule_errors.push(FieldError::internal(
                &extension,
                "internal error: failed to construct type information for \
                 x-kubernetes-validations rules: unable to convert structural schema to CEL \
                 declarations",
            ));
            return;
        }
        for (index, rule) in declared.iter().enumerate() {
            self.compile_rule(position, rule, &extension.index(index));
        }
    }

    fn visit_children(&mut self, position: &SchemaPosition<'_, '_>, path: &Path<'_>) {
        match &position.node.shape {
            Shape::Map { values } => {
                let schema = position.schema.at("additionalProperties");
                let child = position.child(schema, values, position.uncorrelatable);
                self.visit(&child, &path.field("additionalProperties"));
            }
            Shape::Object { properties } => {
                let base = path.field("properties");
                for (name, schema) in position.schema.entries("properties") {
                    if let Some(node) = properties.get(name) {
                        let child = position.child(schema, node, position.uncorrelatable);
                        self.visit(&child, &base.key(name));
                    }
                }
            }
            Shape::List { items, .. } => {
                let by_key = position.schema.text("x-kubernetes-list-type") == "map";
                let uncorrelatable = match position.uncorrelatable {
                    None if !by_key => Some(path),
                    outer => outer,
                };
                let child = position.child(position.schema.at("items"), items, uncorrelatable);
                self.visit(&child, &path.field("items"));
            }
            _ => {}
        }
    }

    /// What can be wrong with a rule apart from its expressions.
    fn check_shape(&mut self, schema: &Value, rule: &Value, path: &Path<'_>) {
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (rule.text("rule").trim(), rule.text("message"));
        let errors = &mut self.schema_errors;
        if source.is_empty() {
            errors.push(FieldError::required(&path.field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid_text(&path.field("message"), message, detail));
        } else if breaks(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid_text(&path.field("message"), message, detail));
        } else if breaks(source) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&path.field("message"), detail));
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&path.field("messageExpression"), detail));
        }
        let reason = rule.at("reason");
        if reason.as_str().is_some_and(|reason| !REASONS.contains(&reason)) {
            errors.push(FieldError::not_supported(&path.field("reason"), reason, &REASONS));
        }
        let field = rule.text("fieldPath");
        if field.is_empty() {
            return;
        }
        let at = path.field("fieldPath");
        if field.trim().is_empty() {
            errors.push(FieldError::invalid_text(&at, field, "must be non-empty if specified"));
        }
        if breaks(field) {
            errors.push(FieldError::invalid_text(&at, field, "must not contain line breaks"));
        }
        if field_path::normalize(field, schema).is_none() {
            errors.push(FieldError::invalid_text(&at, field, "must be a valid path"));
        }
    }

    fn compile_rule(&mut self, position: &SchemaPosition<'_, '_>, rule: &Value, path: &Path<'_>) {
        let optional_old_self = rule.flag("optionalOldSelf");
        let compile = |source: &str, wanted: &Type<'_>| {
            compile_expression(source, position.node, &self.self_type, optional_old_self, wanted)
        };
        let program = compile(rule.text("rule"), &Type::Bool);
        // Nothing more is said about a rule whose expression is wrong.
        let message_program = match (&program, rule.text("messageExpression")) {
            (Ok(_), expression) if !expression.is_empty() => Some(compile(expression, &Type::Text)),
            _ => None,
        };
        let occurrences = position
            .cardinality
            .unwrap_or_else(|| MAX_REQUEST_BYTES / (position.node.min_size + 1));
        let rule_path = path.field("rule");
        let highest = program.as_ref().map_or(0, |program| program.highest_cost);
        self.observe_cost(&rule_path, highest.saturating_mul(occurrences), "estimated rule cost");
        if let Err(failure) = &program {
            let detail = failure.detail("");
            self.rule_errors.push(FieldError::invalid_raw(&rule_path, shown(rule), detail));
        }
        let message_path = path.field("messageExpression");
        match &message_program {
            Some(Err(failure)) => {
                let detail = failure.detail("messageExpression ");
                self.rule_errors.push(FieldError::invalid_raw(&message_path, shown(rule), detail));
            }
            Some(Ok(message)) => {
                let name = "estimated messageExpression cost";
                self.observe_cost(&message_path, message.highest_cost, name);
            }
            None => {}
        }
        if program.as_ref().is_ok_and(|program| program.uses_old_self) {
            if let Some(ancestor) = position.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {ancestor}"
                );
                let error = FieldError::invalid_text(&rule_path, rule.text("rule"), detail);
                self.rule_errors.push(error);
            }
        } else if let Some(flag) = rule.get("optionalOldSelf").filter(|flag| !flag.is_null()) {
            let detail = "may not be set if oldSelf is not used in rule";
            let error = FieldError::invalid(&path.field("optionalOldSelf"), flag, detail);
            self.rule_errors.push(error);
        }
        let Ok(program) = program else { return };
        let field_path = field_path::normalize(rule.text("fieldPath"), position.schema);
        self.rules[position.node.ordinal].push(Rule {
            program,
            message_program: message_program.and_then(Result::ok),
            message: rule.text("message").trim().to_owned(),
            source: rule.text("rule").trim().to_owned(),
            reason: match rule.text("reason") {
                "FieldValueForbidden" => FieldErrorKind::Forbidden,
                "FieldValueRequired" => FieldErrorKind::Required,
                "FieldValueDuplicate" => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            field_path: field_path.unwrap_or_default(),
            optional_old_self,
        });
    }

    fn observe_cost(&mut self, path: &Path<'_>, cost: u64, name: &str) {
        if cost > MAX_RULE_COST {
            let detail = over_budget(name, cost, MAX_RULE_COST);
            self.rule_errors.push(FieldError::forbidden(path, detail));
        }
        self.total_cost = self.total_cost.saturating_add(cost);
        if cost >= MAX_SCHEMA_COST / 100 {
            self.most_expensive.push((path.to_string(), cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(4);
        }
    }

    fn check_total(&mut self, path: &Path<'_>) {
        if self.total_cost <= MAX_SCHEMA_COST {
            return;
        }
        for (path, _) in std::mem::take(&mut self.most_expensive) {
            self.rule_errors.push(FieldError {
                kind: FieldErrorKind::Forbidden,
                path,
                value: None,
                detail: "contributed to estimated rule cost total exceeding cost limit for entire \
                         OpenAPIv3 schema"
                    .to_owned(),
            });
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = over_budget(name, self.total_cost, MAX_SCHEMA_COST);
        self.rule_errors.push(FieldError::forbidden(path, detail));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor to show")]
fn over_budget(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Why an expression did not compile.
enum Failure {
    Source(String),
    ResultType(&'static str),
    Program(String),
}

impl Failure {
    fn detail(&self, prefix: &str) -> String {
        match self {
            Self::Source(report) => format!("{prefix}compilation failed: {report}"),
            Self::ResultType(wanted) if prefix.is_empty() => {
                format!("cel expression must evaluate to a {wanted}")
            }
            Self::ResultType(wanted) => format!("{prefix}must evaluate to a {wanted}"),
            Self::Program(problem) if prefix.is_empty() => {
                format!("program instantiation failed: {problem}")
            }
            Self::Program(problem) => format!("{prefix}instantiation failed: {problem}"),
        }
    }
}

fn compile_expression(
    source: &str,
    node: &Node,
    self_type_name: &str,
    optional_old_self: bool,
    wanted: &Type<'_>,
) -> Result<Program, Failure> {
    let report = |issues: Issues| Failure::Source(issues.render(source));
    let mut tree = parser::parse(source).map_err(report)?;
    let self_type = node.type_at(self_type_name);
    let old_type =
        if optional_old_self { Type::optional(self_type.clone()) } else { self_type.clone() };
    let checked = check::check(&mut tree, self_type, old_type).map_err(report)?;
    literals::validate(&tree, &checked).map_err(report)?;
    if !checked.of(&tree.root).same(wanted) {
        let name = if matches!(wanted, Type::Bool) { "bool" } else { "string" };
        return Err(Failure::ResultType(name));
    }
    let step =
        plan::plan(&tree.root, &checked).map_err(|fault| Failure::Program(fault.to_string()))?;
    let highest_cost = estimate::highest_cost(&tree.root, &checked, node);
    Ok(Program { step, uses_old_self: checked.uses_old_self, highest_cost })
}

/// A rule as upstream shows it: its Go structure in JSON, escaped as for a web page.
fn shown(rule: &Value) -> String {
    let text = |key: &str| go::json_string(rule.text(key));
    let reason = match rule.at("reason").as_str() {
        Some(reason) => go::json_string(reason),
        None => "null".to_owned(),
    };
    let optional = rule.at("optionalOldSelf");
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\
         \"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        text("fieldPath"),
    )
}
