//! Carries out the steps of an expression, counting what they cost.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use super::charge::{self, Charge};
use super::convert::as_text;
use super::library::{self, maps};
use super::operators;
use super::plan::{Access, AccessKind, FoldPlan, PatternKind, Step};
use super::time::TimeError;
use super::value::{OwnedList, Val};
use crate::go::regexp::{self, PatternError};

/// The cost one evaluation may have.
pub(super) const MAX_CALL_COST: u64 = 1_000_000;

/// Elementary operations (characters or values looked at) one evaluation may take. Costs do not
/// account for everything, comparing large objects for one; this does.
const MAX_WORK: u64 = 100_000_000;

/// Why an evaluation has no value.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Message(Rc<str>),
    Plain(&'static str),
    /// Unlike the others this is not absorbed by `||` and `&&`: evaluation stops.
    OverBudget,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Message(Rc::from(message.into()))
    }

    pub(super) const fn no_such_overload() -> Self {
        Self::Plain("no such overload")
    }

    pub(super) fn is_overload(&self) -> bool {
        match self {
            Self::Message(message) => message.starts_with("no such overload"),
            Self::Plain(message) => message.starts_with("no such overload"),
            Self::OverBudget => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(message),
            Self::Plain(message) => f.write_str(message),
            Self::OverBudget => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl From<TimeError> for Fault {
    fn from(error: TimeError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<PatternError> for Fault {
    fn from(error: PatternError) -> Self {
        Self::new(error.to_string())
    }
}

pub(super) type Evaluated<'a> = Result<Val<'a>, Fault>;

/// Counts what an evaluation costs, and stops it when it costs too much.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) cost: u64,
    limit: u64,
    work: u64,
}

impl Meter {
    pub(super) const fn new() -> Self {
        Self { cost: 0, limit: MAX_CALL_COST, work: 0 }
    }

    pub(super) const fn unlimited() -> Self {
        Self { cost: 0, limit: u64::MAX, work: 0 }
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        self.work(1)?;
        if self.cost > self.limit { Err(Fault::OverBudget) } else { Ok(()) }
    }

    /// Accounts for work that costs nothing in the reference's units.
    pub(super) fn work(&mut self, amount: usize) -> Result<(), Fault> {
        self.work = self.work.saturating_add(amount as u64);
        if self.work > MAX_WORK { Err(Fault::OverBudget) } else { Ok(()) }
    }

    /// What may still be spent.
    pub(super) const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.cost)
    }
}

/// The variables and the meter of one evaluation.
#[derive(Debug)]
pub(super) struct Evaluation<'a> {
    pub(super) this: Evaluated<'a>,
    pub(super) old: Evaluated<'a>,
    pub(super) meter: Meter,
    locals: Vec<Evaluated<'a>>,
}

impl<'a> Evaluation<'a> {
    pub(super) const fn new(this: Evaluated<'a>, old: Evaluated<'a>) -> Self {
        Self { this, old, meter: Meter::new(), locals: Vec::new() }
    }

    pub(super) fn run(&mut self, step: &'a Step) -> Evaluated<'a> {
        match step {
            Step::Constant(constant) => constant.value(&mut self.meter),
            Step::SelfValue { cost } => {
                self.meter.charge(*cost)?;
                self.this.clone()
            }
            Step::OldSelf { cost } => {
                self.meter.charge(*cost)?;
                self.old.clone()
            }
            Step::Local { slot, cost } => {
                self.meter.charge(*cost)?;
                self.locals[*slot].clone()
            }
            Step::Field { operand, field, mode } => self.field(operand, field, *mode),
            Step::Index { operand, index, mode } => self.index(operand, index, *mode),
            Step::And(terms) => self.logical(terms, false),
            Step::Or(terms) => self.logical(terms, true),
            Step::Conditional(branches) => self.conditional(branches),
            Step::List(elements) => self.list(elements),
            Step::Map(entries) => self.map(entries),
            Step::Fold(fold) => self.fold(fold),
            Step::Append { slot, element, list_cost } => self.append(*slot, element, *list_cost),
            Step::Insert { slot, args } => self.insert(*slot, args),
            Step::InConstants { needle, haystack } => self.in_constants(needle, haystack),
            Step::OptionalOr { left, right, unwraps } => self.optional_or(left, right, *unwraps),
            Step::NotStrictlyFalse(value) => self.not_strictly_false(value),
            Step::Pattern { kind, compiled, charge, args } => {
                self.pattern(*kind, compiled.as_ref(), *charge, args)
            }
            Step::Call { native, charge, args } => {
                let args = self.arguments(args, *charge)?;
                let result = native(&args, &mut self.meter);
                self.charge_call(*charge, &args, result)
            }
        }
    }

    /// The values of the arguments. Where one has none the call still costs what it would.
    fn arguments(&mut self, steps: &'a [Step], charge: Charge) -> Result<Vec<Val<'a>>, Fault> {
        let mut values = Vec::with_capacity(steps.len());
        let mut fault = None;
        for step in steps {
            match self.run(step) {
                Ok(value) => values.push(value),
                Err(Fault::OverBudget) => return Err(Fault::OverBudget),
                Err(other) if steps.len() > 2 => return Err(other),
                Err(other) => {
                    values.push(Val::Null);
                    fault = fault.or(Some(other));
                }
            }
        }
        match fault {
            None => Ok(values),
            Some(fault) => {
                self.meter.charge(charge.cost(&values, &Val::Null))?;
                Err(fault)
            }
        }
    }

    /// Charges for a call, whether it succeeded or not.
    fn charge_call(
        &mut self,
        charge: Charge,
        args: &[Val<'a>],
        result: Evaluated<'a>,
    ) -> Evaluated<'a> {
        let cost = match &result {
            Ok(value) => charge.cost(args, value),
            Err(Fault::OverBudget) => return Err(Fault::OverBudget),
            Err(_) => charge.cost(args, &Val::Null),
        };
        self.meter.charge(cost)?;
        result
    }

    fn field(&mut self, operand: &'a Step, field: &'a str, mode: Access) -> Evaluated<'a> {
        let operand = self.run(operand)?;
        let missing = || Fault::new(format!("no such key: {field}"));
        self.access(&operand, mode, missing, |value| match value.as_map() {
            Some(map) => map.field(field),
            None if mode.kind == AccessKind::Plain => Err(missing()),
            None => Ok(None),
        })
    }

    fn index(&mut self, operand: &'a Step, index: &'a Step, mode: Access) -> Evaluated<'a> {
        let operand = self.run(operand)?;
        let index = self.run(index)?;
        let is_list = match &operand {
            Val::Optional(Some(inner)) => inner.as_list().is_some(),
            other => other.as_list().is_some(),
        };
        let missing = || {
            let what = if is_list { "index out of bounds" } else { "no such key" };
            Fault::new(format!("{what}: {}", index.shown()))
        };
        self.access(&operand, mode, missing, |value| {
            if let Some(map) = value.as_map() {
                return map.find(&index);
            }
            let Some(list) = value.as_list() else { return Err(missing()) };
            match position(&index)? {
                Some(position) if position < list.len() => list.get(position).map(Some),
                _ => Ok(None),
            }
        })
    }

    /// Reaches into a value, or into what an optional holds.
    fn access(
        &mut self,
        operand: &Val<'a>,
        Access { kind, cost }: Access,
        missing: impl Fn() -> Fault,
        find: impl Fn(&Val<'a>) -> Result<Option<Val<'a>>, Fault>,
    ) -> Evaluated<'a> {
        let (target, was_optional) = match operand {
            Val::Optional(None) if kind == AccessKind::Test => return Ok(Val::Bool(false)),
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => (&**inner, true),
            other => (other, false),
        };
        let found = find(target);
        // What is merely not there costs nothing where that is no fault.
        let is_lenient = was_optional || kind == AccessKind::Optional;
        if !(is_lenient && matches!(found, Ok(None))) {
            self.meter.charge(cost)?;
        }
        let found = found?;
        match kind {
            AccessKind::Test => Ok(Val::Bool(found.is_some())),
            AccessKind::Plain if !was_optional => found.ok_or_else(missing),
            AccessKind::Plain | AccessKind::Optional => {
                Ok(found.map_or(Val::Optional(None), Val::some))
            }
        }
    }

    /// `&&` and `||`: the deciding value wins over faults, wherever it stands.
    fn logical(&mut self, terms: &'a [Step], decides: bool) -> Evaluated<'a> {
        let mut fault = None;
        for term in terms {
            match self.run(term) {
                Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => fault = fault.or(Some(Fault::no_such_overload())),
                Err(Fault::OverBudget) => return Err(Fault::OverBudget),
                Err(other) => fault = fault.or(Some(other)),
            }
        }
        fault.map_or(Ok(Val::Bool(!decides)), Err)
    }

    fn conditional(&mut self, [condition, yes, no]: &'a [Step; 3]) -> Evaluated<'a> {
        match self.run(condition)? {
            Val::Bool(true) => self.run(yes),
            Val::Bool(false) => self.run(no),
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn list(&mut self, elements: &'a [(Step, bool)]) -> Evaluated<'a> {
        self.meter.charge(charge::LIST)?;
        let mut items = Vec::with_capacity(elements.len());
        for (step, is_optional) in elements {
            match self.run(step)? {
                Val::Optional(inner) if *is_optional => {
                    items.extend(inner.map(|inner| (*inner).clone()));
                }
                _ if *is_optional => {
                    return Err(Fault::Plain(
                        "cannot initialize optional list element from non-optional value",
                    ));
                }
                value => items.push(value),
            }
        }
        Ok(Val::list(items))
    }

    fn map(&mut self, entries: &'a [(Step, Step, bool)]) -> Evaluated<'a> {
        self.meter.charge(charge::MAP)?;
        let mut pairs = Vec::with_capacity(entries.len());
        for (key, value, is_optional) in entries {
            let key = self.run(key)?;
            match self.run(value)? {
                Val::Optional(None) if *is_optional => {}
                Val::Optional(Some(inner)) if *is_optional => pairs.push((key, (*inner).clone())),
                _ if *is_optional => {
                    return Err(Fault::Plain(
                        "cannot initialize optional entry from non-optional value",
                    ));
                }
                value => pairs.push((key, value)),
            }
        }
        maps::from_pairs(pairs)
    }

    fn fold(&mut self, fold: &'a FoldPlan) -> Evaluated<'a> {
        let range = self.run(&fold.range)?;
        let base = self.locals.len();
        let init = self.run(&fold.init);
        if matches!(init, Err(Fault::OverBudget)) {
            return init;
        }
        self.locals.push(init);
        let looped = if fold.is_binding { Ok(()) } else { self.iterate(fold, &range, base) };
        self.locals.truncate(base + 1);
        let result = looped.and_then(|()| self.run(&fold.result));
        self.locals.truncate(base);
        result
    }

    fn iterate(&mut self, fold: &'a FoldPlan, range: &Val<'a>, base: usize) -> Result<(), Fault> {
        if let Some(list) = range.as_list() {
            for index in 0..list.len() {
                let element = list.get(index);
                let (first, second) = if fold.two_variables {
                    let position = i64::try_from(index).unwrap_or(i64::MAX);
                    (Ok(Val::Int(position)), Some(element))
                } else {
                    (element, None)
                };
                if !self.iteration(fold, base, first, second)? {
                    break;
                }
            }
            return Ok(());
        }
        let Some(map) = range.as_map() else { return Err(Fault::no_such_overload()) };
        for key in map.keys() {
            let member = fold
                .two_variables
                .then(|| map.find(&key).and_then(|found| found.ok_or(Fault::Plain("no such key"))));
            if !self.iteration(fold, base, Ok(key), member)? {
                break;
            }
        }
        Ok(())
    }

    /// One round of a loop; `false` if the loop is over.
    fn iteration(
        &mut self,
        fold: &'a FoldPlan,
        base: usize,
        first: Evaluated<'a>,
        second: Option<Evaluated<'a>>,
    ) -> Result<bool, Fault> {
        self.meter.work(1)?;
        self.locals.truncate(base + 1);
        self.locals.push(first);
        self.locals.extend(second);
        match self.run(&fold.condition) {
            Ok(Val::Bool(false)) => return Ok(false),
            Err(Fault::OverBudget) => return Err(Fault::OverBudget),
            _ => {}
        }
        let next = self.run(&fold.step);
        if matches!(next, Err(Fault::OverBudget)) {
            return Err(Fault::OverBudget);
        }
        self.locals[base] = next;
        Ok(true)
    }

    /// Takes the accumulator out of its slot, so that it can be changed without a copy.
    fn accumulated(&mut self, slot: usize) -> Evaluated<'a> {
        std::mem::replace(&mut self.locals[slot], Ok(Val::Null))
    }

    fn append(&mut self, slot: usize, element: &'a Step, list_cost: u64) -> Evaluated<'a> {
        // Reading the accumulator, making the list and adding it.
        self.meter.charge(1 + list_cost + 1)?;
        let accumulated = self.accumulated(slot)?;
        let element = self.run(element)?;
        match accumulated {
            Val::List(mut list) => {
                match Rc::get_mut(&mut list) {
                    Some(list) => list.items.push(element),
                    None => {
                        self.meter.work(list.items.len())?;
                        let mut items = list.items.clone();
                        items.push(element);
                        list = Rc::new(OwnedList { items, kind: list.kind });
                    }
                }
                Ok(Val::List(list))
            }
            other => operators::add(&other, &Val::list(vec![element]), &mut self.meter),
        }
    }

    fn insert(&mut self, slot: usize, args: &'a [Step]) -> Evaluated<'a> {
        self.meter.charge(2)?;
        let accumulated = self.accumulated(slot)?;
        let args: Vec<Val<'a>> =
            args.iter().map(|step| self.run(step)).collect::<Result<_, _>>()?;
        let Val::Map(mut map) = accumulated else { return Err(Fault::no_such_overload()) };
        if Rc::get_mut(&mut map).is_none() {
            self.meter.work(map.len())?;
        }
        maps::insert(Rc::make_mut(&mut map), &args)?;
        Ok(Val::Map(map))
    }

    fn in_constants(
        &mut self,
        needle: &'a Step,
        haystack: &'a [super::plan::Constant],
    ) -> Evaluated<'a> {
        let needle = self.run(needle)?;
        for candidate in haystack {
            let candidate = candidate.value(&mut self.meter)?;
            if operators::equal(&candidate, &needle, &mut self.meter)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }

    fn optional_or(&mut self, left: &'a Step, right: &'a Step, unwraps: bool) -> Evaluated<'a> {
        match self.run(left)? {
            Val::Optional(None) => self.run(right),
            Val::Optional(Some(inner)) if unwraps => Ok((*inner).clone()),
            other => Ok(other),
        }
    }

    fn not_strictly_false(&mut self, value: &'a Step) -> Evaluated<'a> {
        let value = match self.run(value) {
            Err(Fault::OverBudget) => return Err(Fault::OverBudget),
            Ok(Val::Bool(value)) => value,
            _ => true,
        };
        self.meter.charge(1)?;
        Ok(Val::Bool(value))
    }

    fn pattern(
        &mut self,
        kind: PatternKind,
        compiled: Option<&regex::Regex>,
        charge: Charge,
        args: &'a [Step],
    ) -> Evaluated<'a> {
        let args = self.arguments(args, charge)?;
        let result = self.search(kind, compiled, &args);
        self.charge_call(charge, &args, result)
    }

    fn search(
        &mut self,
        kind: PatternKind,
        compiled: Option<&regex::Regex>,
        args: &[Val<'a>],
    ) -> Evaluated<'a> {
        let text = as_text(args.first().ok_or_else(Fault::no_such_overload)?)?;
        self.meter.work(text.len())?;
        let regex = match compiled {
            Some(regex) => Cow::Borrowed(regex),
            None => {
                let source = as_text(args.get(1).ok_or_else(Fault::no_such_overload)?)?;
                self.meter.work(source.len().saturating_mul(100))?;
                Cow::Owned(regexp::compile(source)?)
            }
        };
        Ok(match kind {
            PatternKind::Matches => Val::Bool(regex.is_match(text)),
            PatternKind::Find => library::strings::slice_of(text, regex.find(text)),
            PatternKind::FindAll => {
                let most = match args.get(2) {
                    None => usize::MAX,
                    Some(Val::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
                    Some(_) => return Err(Fault::no_such_overload()),
                };
                let found = regex.find_iter(text).take(most);
                Val::list(found.map(|m| library::strings::slice_of(text, Some(m))).collect())
            }
        })
    }
}

/// An index as a position; `None` if it is out of any range.
fn position(index: &Val<'_>) -> Result<Option<usize>, Fault> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and bounded just above")]
    match index {
        Val::Int(index) => Ok(usize::try_from(*index).ok()),
        Val::Uint(index) => Ok(usize::try_from(*index).ok()),
        Val::Double(index) if index.fract() == 0.0 && index.abs() < 1e15 => {
            Ok(usize::try_from(*index as i64).ok())
        }
        other => Err(Fault::new(format!("unsupported index value {} in list", other.shown()))),
    }
}
