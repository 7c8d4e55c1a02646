//! Macros: calls that stand for a larger expression, mostly for a loop.

use std::borrow::Cow;

use super::ast::{ACCUMULATOR, Element, Expr, ExprKind, Fold, Literal, NodeId};
use super::parser::{Abandoned, Parser};

/// Older name of the accumulator, which user variables must still not take.
const RESERVED_ACCUMULATOR: &str = "__result__";

const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

pub(super) enum Expansion {
    Expanded(Expr),
    NotAMacro { target: Option<Expr>, args: Vec<Expr> },
    Misused { node: NodeId, message: Cow<'static, str> },
}

type Expanded = Result<Expansion, Abandoned>;

/// Expands a call if it is a macro, by its name, number of arguments and style.
pub(super) fn expand(
    parser: &mut Parser<'_>,
    at: usize,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expanded {
    let mut build = Build { parser, at };
    match (function, target, args.len()) {
        ("has", None, 1) => build.has(args),
        ("all" | "exists" | "exists_one", Some(target), 2 | 3) | ("existsOne", Some(target), 3) => {
            build.quantifier(function, target, args)
        }
        ("map", Some(target), 2 | 3) => build.map(target, args),
        ("filter", Some(target), 2) => build.filter(target, args),
        ("transformList", Some(target), 3 | 4) => build.transform_list(target, args),
        ("transformMap" | "transformMapEntry", Some(target), 3 | 4) => {
            build.transform_map(function == "transformMap", target, args)
        }
        ("optMap" | "optFlatMap", Some(target), 2) => {
            build.optional_map(function == "optMap", target, args)
        }
        ("sortBy", Some(target), 2) => build.sort_by(target, args),
        (_, target, _) => Ok(Expansion::NotAMacro { target, args }),
    }
}

/// Names of one or two loop variables.
type Variables = (String, Option<String>);

struct Build<'p, 's> {
    parser: &'p mut Parser<'s>,
    at: usize,
}

impl Build<'_, '_> {
    fn node(&mut self, kind: ExprKind) -> Result<Expr, Abandoned> {
        self.parser.node(self.at, kind)
    }

    fn literal(&mut self, literal: Literal) -> Result<Expr, Abandoned> {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Result<Expr, Abandoned> {
        self.node(ExprKind::Ident(name.to_owned()))
    }

    fn accumulated(&mut self) -> Result<Expr, Abandoned> {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Result<Expr, Abandoned> {
        self.parser.call(self.at, function, None, args)
    }

    fn list(&mut self, values: Vec<Expr>) -> Result<Expr, Abandoned> {
        let elements = values.into_iter().map(|value| Element { value, optional: false });
        self.node(ExprKind::List(elements.collect()))
    }

    fn fold(&mut self, fold: Fold) -> Expanded {
        Ok(Expansion::Expanded(self.node(ExprKind::Fold(Box::new(fold)))?))
    }

    /// `filter ? step : accumulator`, or the step itself where nothing is filtered.
    fn step_if(&mut self, filter: Option<Expr>, step: Expr) -> Result<Expr, Abandoned> {
        let Some(filter) = filter else { return Ok(step) };
        let unchanged = self.accumulated()?;
        self.call("_?_:_", vec![filter, step, unchanged])
    }

    fn has(&mut self, mut args: Vec<Expr>) -> Expanded {
        let Some(arg) = args.pop() else {
            return Ok(Expansion::NotAMacro { target: None, args });
        };
        let ExprKind::Select { operand, field, test_only: false } = arg.kind else {
            return Ok(Expansion::Misused {
                node: arg.id,
                message: "invalid argument to has() macro".into(),
            });
        };
        let test = self.node(ExprKind::Select { operand, field, test_only: true })?;
        Ok(Expansion::Expanded(test))
    }

    fn quantifier(&mut self, function: &str, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let predicate = args.pop();
        let (var, var2) = match variables(&args, "argument must be a simple name") {
            Ok(names) => names,
            Err(misused) => return Ok(misused),
        };
        let Some(predicate) = predicate else {
            return Ok(Expansion::NotAMacro { target: Some(target), args });
        };
        let (init, condition, step, result);
        match function {
            "all" => {
                init = self.literal(Literal::Bool(true))?;
                let so_far = self.accumulated()?;
                condition = self.call("@not_strictly_false", vec![so_far])?;
                let so_far = self.accumulated()?;
                step = self.call("_&&_", vec![so_far, predicate])?;
                result = self.accumulated()?;
            }
            "exists" => {
                init = self.literal(Literal::Bool(false))?;
                let so_far = self.accumulated()?;
                let not_yet = self.call("!_", vec![so_far])?;
                condition = self.call("@not_strictly_false", vec![not_yet])?;
                let so_far = self.accumulated()?;
                step = self.call("_||_", vec![so_far, predicate])?;
                result = self.accumulated()?;
            }
            _ => {
                init = self.literal(Literal::Int(0))?;
                condition = self.literal(Literal::Bool(true))?;
                let one = self.literal(Literal::Int(1))?;
                let so_far = self.accumulated()?;
                let more = self.call("_+_", vec![so_far, one])?;
                step = self.step_if(Some(predicate), more)?;
                let one = self.literal(Literal::Int(1))?;
                let so_far = self.accumulated()?;
                result = self.call("_==_", vec![so_far, one])?;
            }
        }
        let accumulator = ACCUMULATOR.to_owned();
        self.fold(Fold { range: target, var, var2, accumulator, init, condition, step, result })
    }

    /// A loop that starts from an empty list and appends.
    fn collect(
        &mut self,
        (var, var2): Variables,
        range: Expr,
        filter: Option<Expr>,
        element: Expr,
    ) -> Result<Expr, Abandoned> {
        let init = self.list(Vec::new())?;
        let condition = self.literal(Literal::Bool(true))?;
        let so_far = self.accumulated()?;
        let element = self.list(vec![element])?;
        let step = self.call("_+_", vec![so_far, element])?;
        let step = self.step_if(filter, step)?;
        let result = self.accumulated()?;
        let accumulator = ACCUMULATOR.to_owned();
        let fold = Fold { range, var, var2, accumulator, init, condition, step, result };
        self.node(ExprKind::Fold(Box::new(fold)))
    }

    fn map(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        let names = match variables(&args[..1], "argument is not an identifier") {
            Ok(names) => names,
            Err(misused) => return Ok(misused),
        };
        let (filter, element) = filter_and_last(args, 1);
        let Some(element) = element else {
            return Ok(Expansion::NotAMacro { target: Some(target), args: Vec::new() });
        };
        Ok(Expansion::Expanded(self.collect(names, target, filter, element)?))
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let names = match variables(&args[..1], "argument is not an identifier") {
            Ok(names) => names,
            Err(misused) => return Ok(misused),
        };
        let filter = args.pop();
        let element = args.remove(0);
        Ok(Expansion::Expanded(self.collect(names, target, filter, element)?))
    }

    fn transform_list(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        let names = match variables(&args[..2], "argument must be a simple name") {
            Ok(names) => names,
            Err(misused) => return Ok(misused),
        };
        let (filter, element) = filter_and_last(args, 2);
        let Some(element) = element else {
            return Ok(Expansion::NotAMacro { target: Some(target), args: Vec::new() });
        };
        Ok(Expansion::Expanded(self.collect(names, target, filter, element)?))
    }

    fn transform_map(&mut self, keeps_key: bool, target: Expr, args: Vec<Expr>) -> Expanded {
        let (var, var2) = match variables(&args[..2], "argument must be a simple name") {
            Ok(names) => names,
            Err(misused) => return Ok(misused),
        };
        let (filter, value) = filter_and_last(args, 2);
        let init = self.node(ExprKind::Map(Vec::new()))?;
        let condition = self.literal(Literal::Bool(true))?;
        let mut inserted = vec![self.accumulated()?];
        if keeps_key {
            inserted.push(self.ident(&var)?);
        }
        inserted.extend(value);
        let step = self.call("cel.@mapInsert", inserted)?;
        let step = self.step_if(filter, step)?;
        let result = self.accumulated()?;
        let accumulator = ACCUMULATOR.to_owned();
        self.fold(Fold { range: target, var, var2, accumulator, init, condition, step, result })
    }

    /// A loop over nothing whose accumulator is the named value.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Result<Expr, Abandoned> {
        let fold = Fold {
            range: self.list(Vec::new())?,
            var: UNUSED.to_owned(),
            var2: None,
            accumulator: name.to_owned(),
            init: value,
            condition: self.literal(Literal::Bool(false))?,
            step: self.ident(name)?,
            result,
        };
        self.node(ExprKind::Fold(Box::new(fold)))
    }

    fn optional_map(&mut self, wraps: bool, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let message = if wraps {
            "optMap() variable name must be a simple identifier"
        } else {
            "optFlatMap() variable name must be a simple identifier"
        };
        let ExprKind::Ident(name) = &args[0].kind else {
            return Ok(Expansion::Misused { node: args[0].id, message: message.into() });
        };
        let name = name.clone();
        let mapped = args.remove(1);
        let again = self.parser.copy(&target)?;
        let present = self.parser.call(self.at, "hasValue", Some(target), Vec::new())?;
        let value = self.parser.call(self.at, "value", Some(again), Vec::new())?;
        let mut some = self.bind(&name, value, mapped)?;
        if wraps {
            some = self.call("optional.of", vec![some])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        Ok(Expansion::Expanded(self.call("_?_:_", vec![present, some, none])?))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. })
        {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call \
                           or select expression";
            return Ok(Expansion::Misused { node: target.id, message: message.into() });
        }
        let input = self.ident(SORT_INPUT)?;
        let keys = match self.map(input, args)? {
            Expansion::Expanded(keys) => keys,
            other => return Ok(other),
        };
        let input = self.ident(SORT_INPUT)?;
        let sorted = self.parser.call(self.at, "@sortByAssociatedKeys", Some(input), vec![keys])?;
        Ok(Expansion::Expanded(self.bind(SORT_INPUT, target, sorted)?))
    }
}

/// The loop variables that the leading arguments name.
fn variables(args: &[Expr], not_a_name: &'static str) -> Result<Variables, Expansion> {
    let mut names = Vec::with_capacity(args.len());
    for arg in args {
        let ExprKind::Ident(name) = &arg.kind else {
            return Err(Expansion::Misused { node: arg.id, message: not_a_name.into() });
        };
        if name == RESERVED_ACCUMULATOR {
            let message = "iteration variable overwrites accumulator variable";
            return Err(Expansion::Misused { node: arg.id, message: message.into() });
        }
        if names.contains(name) {
            let message = format!("duplicate variable name: {name}").into();
            return Err(Expansion::Misused { node: arg.id, message });
        }
        names.push(name.clone());
    }
    let mut names = names.into_iter();
    Ok((names.next().unwrap_or_default(), names.next()))
}

/// What follows the variables: perhaps a filter, then the transformation.
fn filter_and_last(args: Vec<Expr>, variables: usize) -> (Option<Expr>, Option<Expr>) {
    let mut rest: Vec<Expr> = args.into_iter().skip(variables).collect();
    let last = rest.pop();
    (rest.pop(), last)
}
