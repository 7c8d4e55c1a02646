//! Checks of constants that types cannot express: patterns, durations, formats, mixed lists.

use super::ast::{Call, Expr, ExprKind, Literal, NodeId, Tree};
use super::check::Checked;
use super::format::{self, Clause};
use super::source::Issues;
use super::time;
use super::typing::Type;
use crate::go::{duration, regexp};

pub(super) fn validate(tree: &Tree, checked: &Checked<'_>) -> Result<(), Issues> {
    let mut validator = Validator { tree, checked, issues: Issues::default() };
    validator.visit(&tree.root, false);
    if validator.issues.is_empty() { Ok(()) } else { Err(validator.issues) }
}

struct Validator<'t, 's> {
    tree: &'t Tree,
    checked: &'t Checked<'s>,
    issues: Issues,
}

impl Validator<'_, '_> {
    fn report(&mut self, node: NodeId, message: impl Into<String>) {
        self.issues.push(self.tree.places[node], message);
    }

    /// Within the arguments of `format` lists may be of mixed types.
    fn visit(&mut self, expr: &Expr, within_format: bool) {
        let mut within_format = within_format;
        match &expr.kind {
            ExprKind::Call(call) => {
                self.constant_argument(call);
                if call.function == "format" {
                    self.format_call(expr.id, call);
                    within_format = true;
                }
            }
            ExprKind::List(elements) if !within_format => {
                let elements = elements.iter().map(|e| (&e.value, e.optional));
                self.homogeneous(elements, true);
            }
            ExprKind::Map(entries) if !within_format => {
                self.homogeneous(entries.iter().map(|e| (&e.key, false)), false);
                self.homogeneous(entries.iter().map(|e| (&e.value, e.optional)), false);
            }
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, within_format);
        }
    }

    fn constant_argument(&mut self, call: &Call) {
        let Some(arg) = call.args.first() else { return };
        let ExprKind::Literal(literal) = &arg.kind else { return };
        let valid = match (&*call.function, literal) {
            ("duration", Literal::Text(text)) => duration::parse(text).is_some(),
            ("duration", Literal::Int(_)) => false,
            ("timestamp", Literal::Text(text)) => time::parse_timestamp(text).is_some(),
            ("timestamp", Literal::Int(seconds)) => time::Timestamp::from_seconds(*seconds).is_ok(),
            ("matches", Literal::Text(text)) => regexp::compile(text).is_ok(),
            _ => true,
        };
        if !valid {
            self.report(arg.id, format!("invalid {} argument", call.function));
        }
    }

    fn homogeneous<'e>(&mut self, parts: impl Iterator<Item = (&'e Expr, bool)>, once: bool) {
        let mut first: Option<Type<'_>> = None;
        for (part, optional) in parts {
            let found = match self.checked.of(part) {
                Type::Optional(inner) if optional => (**inner).clone(),
                other => other.clone(),
            };
            match &first {
                None => first = Some(found),
                Some(wanted) if wanted.same(&found) => {}
                Some(wanted) => {
                    let message = format!("expected type '{wanted}' but found '{found}'");
                    self.report(part.id, message);
                    if once {
                        break;
                    }
                }
            }
        }
    }

    /// `'%d'.format([x])`: with both constant, each clause must suit its argument.
    fn format_call(&mut self, id: NodeId, call: &Call) {
        let Some(target) = &call.target else { return };
        let (ExprKind::Literal(Literal::Text(text)), [arg]) = (&target.kind, &call.args[..]) else {
            return;
        };
        let ExprKind::List(elements) = &arg.kind else { return };
        let mut used = 0;
        let mut culprit = id;
        let outcome = format::expand(text, elements.len(), |clause, index| {
            used = index + 1;
            let value = &elements[index].value;
            match self.unsuitable(clause, value) {
                None => Ok(String::new()),
                Some(node) => {
                    culprit = node;
                    Err(clause.refusal(&self.checked.types[node].short_name()))
                }
            }
        });
        match outcome {
            Err(message) => self.report(culprit, message),
            Ok(_) if elements.len() > used => {
                let message = format!(
                    "too many arguments supplied to string.format (expected {used}, got {})",
                    elements.len()
                );
                self.report(id, message);
            }
            Ok(_) => {}
        }
    }

    /// The part of the argument that the clause cannot show.
    fn unsuitable(&self, clause: Clause, value: &Expr) -> Option<NodeId> {
        let suits = match (clause, self.checked.of(value)) {
            (_, Type::Dyn) => true,
            (Clause::Text, found) => !matches!(
                found,
                Type::Error
                    | Type::Optional(_)
                    | Type::Object(..)
                    | Type::Library(_)
                    | Type::Var(_)
            ),
            (Clause::Decimal | Clause::Octal, found) => matches!(found, Type::Int | Type::Uint),
            (Clause::Fixed(_) | Clause::Scientific(_), found) => {
                matches!(found, Type::Double | Type::Text)
            }
            (Clause::Binary, found) => matches!(found, Type::Int | Type::Uint | Type::Bool),
            (Clause::Hex { .. }, found) => {
                matches!(found, Type::Int | Type::Uint | Type::Text | Type::Bytes)
            }
        };
        if !suits {
            return Some(value.id);
        }
        if clause != Clause::Text {
            return None;
        }
        match &value.kind {
            ExprKind::List(elements) => {
                elements.iter().find_map(|e| self.unsuitable(clause, &e.value))
            }
            ExprKind::Map(entries) => entries.iter().find_map(|e| {
                self.unsuitable(clause, &e.key).or_else(|| self.unsuitable(clause, &e.value))
            }),
            _ => None,
        }
    }
}
