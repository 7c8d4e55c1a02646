//! The JSONPath of printer columns and selectable fields, compiled once and read many times.
//!
//! It is the dialect of Kubernetes' own clients, quirks included: `['a.b']` means `.a.b`, a dot in a
//! key is written `\.`, `[]` is the first item, and a filter that compares values of different
//! types makes the whole path yield nothing.

mod parse;
pub(crate) mod print;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::Value;

use crate::json::Object;

/// Why a path cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonPathError {
    #[error("unclosed action")]
    UnclosedAction,
    #[error("unrecognized character in action: U+{:04X} '{}'", u32::from(*.0), .0)]
    UnrecognizedCharacter(char),
    #[error("invalid multiple recursive descent")]
    MultipleRecursiveDescent,
    #[error("cannot parse number {0}")]
    Number(String),
    #[error("unterminated array")]
    UnterminatedArray,
    #[error("invalid array index {0}")]
    ArrayIndex(String),
    #[error("array index {0} is not a number")]
    ArrayIndexNumber(String),
    #[error("unterminated filter")]
    UnterminatedFilter,
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    #[error("unquote string {0} error invalid syntax")]
    Quote(String),
    #[error("filters and unions are nested too deeply")]
    TooDeep,
}

/// A compiled path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(Box<str>),
    /// `.*`: every member or item.
    Wildcard,
    /// `..`: the value and everything in it.
    Recursive,
    Slice(Slice),
    Filter(Box<Filter>),
    Union(Vec<Vec<Self>>),
    /// A quoted string, number or boolean: stands for itself whatever the input.
    Literal(Value),
    /// A bare word, which means something only in templates.
    Identifier,
}

#[derive(Debug, Clone, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// The end was not written: `[n]` rather than `[n:m]`.
    end_derived: bool,
    step: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Compare(Comparison, Vec<Step>),
    /// An operator that nothing understands, such as `=<`; found out when it is used.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// The path does not apply to this value; it then yields nothing at all.
struct Inapplicable;

/// A value on the way. The root is an object without a [`Value`] around it.
#[derive(Clone, Copy)]
enum Item<'a> {
    Root(&'a Object),
    Value(&'a Value),
}

impl JsonPath {
    /// Compiles a path as it stands in a CRD, without the braces of a template.
    pub(crate) fn parse(path: &str) -> Result<Self, JsonPathError> {
        Ok(Self { steps: parse::path(path)? })
    }

    /// The first value that the path finds. A `null` found is a value.
    pub(crate) fn first<'a>(&'a self, root: &'a Object) -> Option<&'a Value> {
        if let Some((Step::Field(first), rest)) = self.steps.split_first()
            && rest.iter().all(|s| matches!(s, Step::Field(_)))
        {
            // Nearly every path is this; it needs no list of candidates.
            let mut value = root.get(&**first)?;
            for step in rest {
                let Step::Field(name) = step else { return None };
                value = value.get(&**name)?;
            }
            return Some(value);
        }
        let found = walk(vec![Item::Root(root)], &self.steps).ok()?;
        found.first()?.value()
    }

    /// Every value that the path finds.
    pub(crate) fn find<'a>(&'a self, root: &'a Value) -> Vec<&'a Value> {
        let found = walk(vec![Item::Value(root)], &self.steps).unwrap_or_default();
        found.into_iter().filter_map(Item::value).collect()
    }
}

impl<'a> Item<'a> {
    fn member(self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Root(object) => object.get(name),
            Self::Value(value) => value.get(name),
        }
    }

    fn children(self, out: &mut Vec<Self>) {
        match self {
            Self::Root(object) => out.extend(object.values().map(Item::Value)),
            Self::Value(Value::Object(object)) => out.extend(object.values().map(Item::Value)),
            Self::Value(Value::Array(list)) => out.extend(list.iter().map(Item::Value)),
            Self::Value(_) => {}
        }
    }

    /// The value and everything below it, outermost first; empty things are left out.
    fn descend(self, out: &mut Vec<Self>) {
        let mut children = Vec::new();
        self.children(&mut children);
        let has_content = matches!(self, Self::Value(Value::String(text)) if !text.is_empty());
        if children.is_empty() && !has_content {
            return;
        }
        out.push(self);
        for child in children {
            child.descend(out);
        }
    }

    fn value(self) -> Option<&'a Value> {
        match self {
            Self::Root(_) => None,
            Self::Value(value) => Some(value),
        }
    }

    fn is_null(self) -> bool {
        matches!(self, Self::Value(Value::Null))
    }
}

fn walk<'a>(input: Vec<Item<'a>>, steps: &'a [Step]) -> Result<Vec<Item<'a>>, Inapplicable> {
    steps.iter().try_fold(input, |items, step| take(&items, step))
}

fn take<'a>(input: &[Item<'a>], step: &'a Step) -> Result<Vec<Item<'a>>, Inapplicable> {
    let mut out = Vec::new();
    match step {
        Step::Field(name) => {
            out.extend(input.iter().filter_map(|item| item.member(name)).map(Item::Value));
        }
        Step::Wildcard => input.iter().for_each(|item| item.children(&mut out)),
        Step::Recursive => input.iter().for_each(|item| item.descend(&mut out)),
        Step::Slice(slice) => {
            for item in input.iter().filter(|item| !item.is_null()) {
                let list = item.value().and_then(Value::as_array).ok_or(Inapplicable)?;
                out.extend(slice.of(list)?.map(Item::Value));
            }
        }
        Step::Filter(filter) => {
            for item in input {
                let list = item.value().and_then(Value::as_array).ok_or(Inapplicable)?;
                for candidate in list {
                    if filter.passes(candidate)? {
                        out.push(Item::Value(candidate));
                    }
                }
            }
        }
        Step::Union(branches) => {
            for branch in branches {
                out.extend(walk(input.to_vec(), branch)?);
            }
        }
        // A quoted string is there once, even where there is no input.
        Step::Literal(text @ Value::String(_)) => out.push(Item::Value(text)),
        Step::Literal(value) => out.extend(input.iter().map(|_| Item::Value(value))),
        Step::Identifier => return Err(Inapplicable),
    }
    Ok(out)
}

impl Slice {
    fn of<'a>(
        &self,
        list: &'a [Value],
    ) -> Result<std::iter::StepBy<std::slice::Iter<'a, Value>>, Inapplicable> {
        let len = i64::try_from(list.len()).map_err(|_| Inapplicable)?;
        let mut start = self.start.unwrap_or(0);
        if start < 0 {
            start = start.saturating_add(len);
        }
        let mut end = self.end.unwrap_or(len);
        if end < 0 || (end == 0 && self.end_derived) {
            end = end.saturating_add(len);
        }
        let range = if start == end {
            0..0
        } else {
            if start < 0 || start >= len || end < 0 || end > len || start > end {
                return Err(Inapplicable);
            }
            let index = |i: i64| usize::try_from(i).map_err(|_| Inapplicable);
            index(start)?..index(end)?
        };
        let step = match self.step {
            None => 1,
            Some(step) => usize::try_from(step).ok().filter(|s| *s > 0).ok_or(Inapplicable)?,
        };
        Ok(list[range].iter().step_by(step))
    }
}

impl Filter {
    fn passes(&self, candidate: &Value) -> Result<bool, Inapplicable> {
        let left = walk(vec![Item::Value(candidate)], &self.left);
        let (comparison, right) = match &self.test {
            // Upstream counts a left side that does not apply as there.
            Test::Exists => return Ok(left.map_or(true, |found| !found.is_empty())),
            Test::Unknown => return Err(Inapplicable),
            Test::Compare(comparison, right) => (comparison, right),
        };
        let left = left?;
        let Some(left) = only(&left)? else {
            return Ok(false);
        };
        let right = walk(vec![Item::Value(candidate)], right)?;
        let Some(right) = only(&right)? else {
            return Ok(false);
        };
        comparison.holds(left, right)
    }
}

fn only<'a>(found: &[Item<'a>]) -> Result<Option<&'a Value>, Inapplicable> {
    match found {
        [] => Ok(None),
        [one] => one.value().map(Some).ok_or(Inapplicable),
        _ => Err(Inapplicable),
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Inapplicable> {
        let order = match (left, right) {
            (Value::Bool(a), Value::Bool(b)) => {
                return match self {
                    Self::Equal => Ok(a == b),
                    Self::NotEqual => Ok(a != b),
                    _ => Err(Inapplicable),
                };
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(_), Value::Number(_)) => {
                match (print::as_int(left), print::as_int(right)) {
                    (Some(a), Some(b)) => Some(a.cmp(&b)),
                    // An integer and a fraction are of different types and do not compare.
                    (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
                    _ => return Err(Inapplicable),
                }
            }
            _ => return Err(Inapplicable),
        };
        Ok(match self {
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::GreaterOrEqual => order != Some(Ordering::Less),
            Self::Greater => order == Some(Ordering::Greater),
        })
    }
}
