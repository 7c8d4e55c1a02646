//! A checked tree turned into steps that can be carried out: names are resolved to slots, functions
//! to code, patterns are compiled and constants folded.

use regex::Regex;

use super::ast::{Call, Element, Entry, Expr, ExprKind, Fold, Literal};
use super::charge::Charge;
use super::check::{Checked, OLD_SELF, SELF};
use super::convert;
use super::eval::{Evaluated, Fault, Meter};
use super::library::{self, Native};
use super::time::Timestamp;
use super::value::{Text, Val};
use crate::go::regexp;

/// A value that is known before any object is seen.
#[derive(Debug, Clone)]
pub(super) enum Constant {
    Literal(Literal),
    Type(&'static str),
    Timestamp(Timestamp),
    Duration(i64),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

#[derive(Debug)]
pub(super) enum Step {
    Constant(Constant),
    /// Reading a variable costs one unit, except in a branch of a conditional.
    SelfValue {
        cost: u64,
    },
    OldSelf {
        cost: u64,
    },
    Local {
        slot: usize,
        cost: u64,
    },
    Field {
        operand: Box<Self>,
        field: String,
        mode: Access,
    },
    Index {
        operand: Box<Self>,
        index: Box<Self>,
        mode: Access,
    },
    And(Vec<Self>),
    Or(Vec<Self>),
    Conditional(Box<[Self; 3]>),
    List(Vec<(Self, bool)>),
    Map(Vec<(Self, Self, bool)>),
    Fold(Box<FoldPlan>),
    /// `@result + [element]`, done in place.
    Append {
        slot: usize,
        element: Box<Self>,
        list_cost: u64,
    },
    /// `cel.@mapInsert(@result, …)`, done in place.
    Insert {
        slot: usize,
        args: Vec<Self>,
    },
    InConstants {
        needle: Box<Self>,
        haystack: Vec<Constant>,
    },
    OptionalOr {
        left: Box<Self>,
        right: Box<Self>,
        unwraps: bool,
    },
    NotStrictlyFalse(Box<Self>),
    Pattern {
        kind: PatternKind,
        compiled: Option<Regex>,
        charge: Charge,
        args: Vec<Self>,
    },
    Call {
        native: Native,
        charge: Charge,
        args: Vec<Self>,
    },
}

/// How a member is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) kind: AccessKind,
    /// Reaching into something that is not itself reached by name costs one unit more.
    pub(super) cost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessKind {
    Plain,
    /// Gives an optional.
    Optional,
    /// Only asks whether it is there.
    Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternKind {
    Matches,
    Find,
    FindAll,
}

#[derive(Debug)]
pub(super) struct FoldPlan {
    pub(super) range: Step,
    pub(super) two_variables: bool,
    pub(super) init: Step,
    pub(super) condition: Step,
    pub(super) step: Step,
    pub(super) result: Step,
    /// Runs over nothing: the accumulator is a name for `init`.
    pub(super) is_binding: bool,
}

/// The steps of an expression, or why there can be none.
pub(super) fn plan(root: &Expr, checked: &Checked<'_>) -> Result<Step, Fault> {
    Planner { checked, scope: Vec::new() }.step(root)
}

struct Planner<'p, 's> {
    checked: &'p Checked<'s>,
    /// Names of local variables; the position is the slot.
    scope: Vec<String>,
}

impl Planner<'_, '_> {
    fn step(&mut self, expr: &Expr) -> Result<Step, Fault> {
        if let Some(name) = &self.checked.named_types[expr.id] {
            return match runtime_type_name(name) {
                Some(name) => Ok(Step::Constant(Constant::Type(name))),
                None => Err(Fault::new(format!("reference to undefined type: {name}"))),
            };
        }
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Step::Constant(Constant::Literal(literal.clone()))),
            ExprKind::Ident(name) => Ok(self.variable(name)),
            ExprKind::Select { operand, field, test_only } => {
                let operand = self.step(operand)?;
                let kind = if *test_only { AccessKind::Test } else { AccessKind::Plain };
                let mode = access(&operand, kind);
                Ok(Step::Field { operand: Box::new(operand), field: field.clone(), mode })
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Fold(fold) => self.fold(fold),
            ExprKind::Struct { .. } | ExprKind::Broken => Err(Fault::no_such_overload()),
        }
    }

    fn variable(&self, name: &str) -> Step {
        let local = self.scope.iter().rposition(|known| known == name);
        match (local, name.trim_start_matches('.')) {
            (Some(slot), _) => Step::Local { slot, cost: 1 },
            (None, OLD_SELF) => Step::OldSelf { cost: 1 },
            (None, SELF | _) => Step::SelfValue { cost: 1 },
        }
    }

    fn steps<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Result<Vec<Step>, Fault> {
        exprs.into_iter().map(|expr| self.step(expr)).collect()
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Result<Step, Fault> {
        let function = &*call.function;
        let overloads = &self.checked.overloads[expr.id];
        let overload = if let [only] = overloads[..] { only } else { "" };
        if let ("_?._", [operand, field]) = (function, &call.args[..]) {
            let operand = self.step(operand)?;
            let mode = access(&operand, AccessKind::Optional);
            let field = match &field.kind {
                ExprKind::Literal(Literal::Text(name)) => name.clone(),
                _ => return Err(Fault::no_such_overload()),
            };
            return Ok(Step::Field { operand: Box::new(operand), field, mode });
        }
        let mut args = self.steps(call.target.iter().map(|t| &**t).chain(&call.args))?;
        match function {
            "_&&_" => return Ok(Step::And(args)),
            "_||_" => return Ok(Step::Or(args)),
            "_?_:_" => {
                let [condition, yes, no] = take(args)?;
                return Ok(Step::Conditional(Box::new([condition, free(yes), free(no)])));
            }
            "_[_]" | "_[?_]" => {
                let [operand, index] = take(args)?;
                let kind =
                    if function == "_[_]" { AccessKind::Plain } else { AccessKind::Optional };
                let mut mode = access(&operand, kind);
                // An index that is itself read by name has been paid for.
                mode.cost -= u64::from(is_by_name(&index));
                return Ok(Step::Index {
                    operand: Box::new(operand),
                    index: Box::new(index),
                    mode,
                });
            }
            "@not_strictly_false" => {
                let [value] = take(args)?;
                return Ok(Step::NotStrictlyFalse(Box::new(value)));
            }
            "or" | "orValue" => {
                let [left, right] = take(args)?;
                let unwraps = function == "orValue";
                return Ok(Step::OptionalOr {
                    left: Box::new(left),
                    right: Box::new(right),
                    unwraps,
                });
            }
            "@in" if overload == "in_list" => match constant_list(&args) {
                Some([]) => {
                    return Ok(Step::Constant(Constant::Literal(Literal::Bool(false))));
                }
                Some(haystack) if haystack.iter().all(is_hashable) => {
                    let haystack = haystack.to_vec();
                    let needle = Box::new(args.swap_remove(0));
                    return Ok(Step::InConstants { needle, haystack });
                }
                _ => {}
            },
            "matches" | "find" | "findAll" => return pattern_step(function, overload, args),
            "bool" | "bytes" | "double" | "dyn" | "duration" | "int" | "string" | "timestamp"
            | "type" | "uint" => {
                if let [Step::Constant(constant)] = &args[..]
                    && let Some(folded) = fold_conversion(function, constant)?
                {
                    return Ok(Step::Constant(folded));
                }
            }
            _ => {}
        }
        let native = library::native(function).ok_or_else(Fault::no_such_overload)?;
        Ok(Step::Call { native, charge: Charge::of(function, overload), args })
    }

    fn list(&mut self, elements: &[Element]) -> Result<Step, Fault> {
        let mut planned = Vec::with_capacity(elements.len());
        for element in elements {
            planned.push((self.step(&element.value)?, element.optional));
        }
        let constants: Option<Vec<Constant>> = planned
            .iter()
            .map(|(step, optional)| match step {
                Step::Constant(constant) if !optional => Some(constant.clone()),
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(constants) => Step::Constant(Constant::List(constants)),
            None => Step::List(planned),
        })
    }

    fn map(&mut self, entries: &[Entry]) -> Result<Step, Fault> {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.step(&entry.key)?, self.step(&entry.value)?, entry.optional));
        }
        let constants: Option<Vec<(Constant, Constant)>> = planned
            .iter()
            .map(|entry| match entry {
                (Step::Constant(key), Step::Constant(value), false) => {
                    Some((key.clone(), value.clone()))
                }
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(constants) => Step::Constant(Constant::Map(constants)),
            None => Step::Map(planned),
        })
    }

    /// Slots are taken in the order accumulator, first variable, second variable.
    fn fold(&mut self, fold: &Fold) -> Result<Step, Fault> {
        let range = self.step(&fold.range)?;
        let init = self.step(&fold.init)?;
        let outer = self.scope.len();
        self.scope.push(fold.accumulator.clone());
        self.scope.push(fold.var.clone());
        self.scope.extend(fold.var2.clone());
        let condition = self.step(&fold.condition)?;
        let step = in_place(self.step(&fold.step)?, outer, &fold.step);
        self.scope.truncate(outer + 1);
        let result = self.step(&fold.result)?;
        self.scope.truncate(outer);
        Ok(Step::Fold(Box::new(FoldPlan {
            range,
            two_variables: fold.var2.is_some(),
            init,
            condition,
            step,
            result,
            is_binding: fold.is_binding(),
        })))
    }
}

fn take<const N: usize>(args: Vec<Step>) -> Result<[Step; N], Fault> {
    args.try_into().map_err(|_| Fault::no_such_overload())
}

fn access(operand: &Step, kind: AccessKind) -> Access {
    let own = u64::from(kind != AccessKind::Test);
    Access { kind, cost: own + u64::from(!is_by_name(operand)) }
}

fn is_by_name(step: &Step) -> bool {
    matches!(
        step,
        Step::SelfValue { .. }
            | Step::OldSelf { .. }
            | Step::Local { .. }
            | Step::Field { .. }
            | Step::Index { .. }
            | Step::Conditional(_)
    )
}

/// A branch of a conditional, whose variable is then read for nothing.
fn free(branch: Step) -> Step {
    match branch {
        Step::SelfValue { .. } => Step::SelfValue { cost: 0 },
        Step::OldSelf { .. } => Step::OldSelf { cost: 0 },
        Step::Local { slot, .. } => Step::Local { slot, cost: 0 },
        Step::Field { operand, field, mode } => {
            Step::Field { operand: Box::new(free(*operand)), field, mode }
        }
        Step::Index { operand, index, mode } => {
            Step::Index { operand: Box::new(free(*operand)), index, mode }
        }
        other => other,
    }
}

/// Turns a step that copies the accumulator to add to it into one that adds in place.
fn in_place(step: Step, slot: usize, expr: &Expr) -> Step {
    let ExprKind::Call(call) = &expr.kind else { return step };
    let accumulates = |arg: Option<&Expr>| matches!(arg.map(|a| &a.kind), Some(ExprKind::Ident(name)) if name == super::ast::ACCUMULATOR);
    match (&*call.function, step) {
        ("_?_:_", Step::Conditional(branches)) => {
            let [condition, yes, no] = *branches;
            let yes = match call.args.get(1) {
                Some(expr) => in_place(yes, slot, expr),
                None => yes,
            };
            Step::Conditional(Box::new([condition, yes, no]))
        }
        ("_+_", Step::Call { native, charge, mut args }) => {
            let appends = accumulates(call.args.first()) && args.len() == 2;
            match args.pop() {
                Some(Step::List(mut elements))
                    if appends && elements.len() == 1 && !elements[0].1 =>
                {
                    let element = Box::new(elements.remove(0).0);
                    Step::Append { slot, element, list_cost: super::charge::LIST }
                }
                Some(Step::Constant(Constant::List(mut items))) if appends && items.len() == 1 => {
                    let element = Box::new(Step::Constant(items.remove(0)));
                    Step::Append { slot, element, list_cost: 0 }
                }
                last => {
                    args.extend(last);
                    Step::Call { native, charge, args }
                }
            }
        }
        ("cel.@mapInsert", Step::Call { mut args, .. }) if accumulates(call.args.first()) => {
            args.remove(0);
            Step::Insert { slot, args }
        }
        (_, step) => step,
    }
}

fn constant_list(args: &[Step]) -> Option<&[Constant]> {
    match args {
        [_, Step::Constant(Constant::List(items))] => Some(items),
        _ => None,
    }
}

fn is_hashable(constant: &Constant) -> bool {
    matches!(constant, Constant::Literal(literal) if !matches!(literal, Literal::Bytes(_)))
}

fn pattern_step(function: &str, overload: &'static str, args: Vec<Step>) -> Result<Step, Fault> {
    let kind = match function {
        "matches" => PatternKind::Matches,
        "find" => PatternKind::Find,
        _ => PatternKind::FindAll,
    };
    let compiled = match args.get(1) {
        Some(Step::Constant(Constant::Literal(Literal::Text(text)))) => {
            Some(regexp::compile(text)?)
        }
        _ => None,
    };
    Ok(Step::Pattern { kind, compiled, charge: Charge::of(function, overload), args })
}

/// The value of a conversion of a constant, if it is one that can be kept.
fn fold_conversion(function: &str, constant: &Constant) -> Result<Option<Constant>, Fault> {
    let value = constant.value(&mut Meter::unlimited())?;
    Ok(match convert::convert(function, &value)? {
        Val::Bool(flag) => Some(Constant::Literal(Literal::Bool(flag))),
        Val::Int(number) => Some(Constant::Literal(Literal::Int(number))),
        Val::Uint(number) => Some(Constant::Literal(Literal::Uint(number))),
        Val::Double(number) => Some(Constant::Literal(Literal::Double(number))),
        Val::Text(text) => Some(Constant::Literal(Literal::Text(text.to_string()))),
        Val::Bytes(bytes) => Some(Constant::Literal(Literal::Bytes(bytes.to_vec()))),
        Val::Duration(nanos) => Some(Constant::Duration(nanos)),
        Val::Timestamp(time) => Some(Constant::Timestamp(time)),
        Val::Type(name) => Some(Constant::Type(name)),
        _ => None,
    })
}

impl Constant {
    pub(super) fn value<'a>(&'a self, meter: &mut Meter) -> Evaluated<'a> {
        Ok(match self {
            Self::Literal(literal) => match literal {
                Literal::Null => Val::Null,
                Literal::Bool(flag) => Val::Bool(*flag),
                Literal::Int(number) => Val::Int(*number),
                Literal::Uint(number) => Val::Uint(*number),
                Literal::Double(number) => Val::Double(*number),
                Literal::Text(text) => Val::Text(Text::Borrowed(text)),
                Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
            },
            Self::Type(name) => Val::Type(name),
            Self::Timestamp(time) => Val::Timestamp(*time),
            Self::Duration(nanos) => Val::Duration(*nanos),
            Self::List(items) => {
                meter.work(items.len())?;
                let items = items.iter().map(|item| item.value(meter));
                Val::list(items.collect::<Result<_, _>>()?)
            }
            Self::Map(entries) => {
                meter.work(entries.len())?;
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    pairs.push((key.value(meter)?, value.value(meter)?));
                }
                library::maps::from_pairs(pairs)?
            }
        })
    }
}

/// The name that values of a type give for it. Some names that check have no type behind them.
fn runtime_type_name(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 15] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "net.IP",
        "net.CIDR",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
    ];
    NAMES.iter().find(|known| **known == name.trim_start_matches('.')).copied()
}
