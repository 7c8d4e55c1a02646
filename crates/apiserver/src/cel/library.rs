//! The functions that expressions can call.

pub(super) mod format;
mod lists;
pub(super) mod maps;
pub(super) mod net;
mod optionals;
mod quantity;
pub(super) mod semver;
pub(super) mod strings;
mod times;
pub(super) mod url;

use super::convert;
use super::eval::{Evaluated, Fault, Meter};
use super::operators;
use super::value::Val;

/// The code of a function. Arguments may be of any kind: what types promise, `dyn` does not keep.
pub(super) type Native = for<'a> fn(&[Val<'a>], &mut Meter) -> Evaluated<'a>;

/// The code of the function or operator of this name.
pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "!_" => |args, _| match args {
            [Val::Bool(value)] => Ok(Val::Bool(!value)),
            _ => Err(Fault::no_such_overload()),
        },
        "-_" => |args, _| operators::negate(only(args)?),
        "_+_" => |args, meter| {
            let [left, right] = pair(args)?;
            operators::add(left, right, meter)
        },
        "_-_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::subtract(left, right)
        },
        "_*_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::multiply(left, right)
        },
        "_/_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::divide(left, right)
        },
        "_%_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::modulo(left, right)
        },
        "_==_" => |args, meter| {
            let [left, right] = pair(args)?;
            operators::equal(left, right, meter).map(Val::Bool)
        },
        "_!=_" => |args, meter| {
            let [left, right] = pair(args)?;
            operators::equal(left, right, meter).map(|equal| Val::Bool(!equal))
        },
        "_<_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::compare(left, right).map(|order| Val::Bool(order.is_lt()))
        },
        "_<=_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::compare(left, right).map(|order| Val::Bool(order.is_le()))
        },
        "_>_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::compare(left, right).map(|order| Val::Bool(order.is_gt()))
        },
        "_>=_" => |args, _| {
            let [left, right] = pair(args)?;
            operators::compare(left, right).map(|order| Val::Bool(order.is_ge()))
        },
        "@in" => |args, meter| {
            let [value, container] = pair(args)?;
            operators::contains(container, value, meter).map(Val::Bool)
        },
        "size" => |args, _| match only(args)? {
            value @ (Val::Text(_)
            | Val::Bytes(_)
            | Val::List(_)
            | Val::JsonList(..)
            | Val::Map(_)
            | Val::JsonMap(..)) => Ok(Val::Int(i64::try_from(value.size()).unwrap_or(i64::MAX))),
            _ => Err(Fault::no_such_overload()),
        },
        "type" => |args, _| convert::convert("type", only(args)?),
        "bool" => |args, _| convert::convert("bool", only(args)?),
        "bytes" => |args, _| convert::convert("bytes", only(args)?),
        "double" => |args, _| convert::convert("double", only(args)?),
        "dyn" => |args, _| convert::convert("dyn", only(args)?),
        "duration" => |args, _| convert::convert("duration", only(args)?),
        "int" => |args, _| convert::convert("int", only(args)?),
        "string" => |args, _| convert::convert("string", only(args)?),
        "timestamp" => |args, _| convert::convert("timestamp", only(args)?),
        "uint" => |args, _| convert::convert("uint", only(args)?),
        "cel.@mapInsert" => maps::insert_into,
        other => {
            return strings::native(other)
                .or_else(|| lists::native(other))
                .or_else(|| optionals::native(other))
                .or_else(|| times::native(other))
                .or_else(|| net::native(other))
                .or_else(|| url::native(other))
                .or_else(|| quantity::native(other))
                .or_else(|| semver::native(other))
                .or_else(|| comparisons(other))
                .or_else(|| format::native(other));
        }
    };
    Some(found)
}

/// What quantities and versions have in common.
fn comparisons(function: &str) -> Option<Native> {
    fn order(args: &[Val<'_>]) -> Result<std::cmp::Ordering, Fault> {
        match args {
            [Val::Quantity(a), Val::Quantity(b)] => Ok(a.cmp(b)),
            [Val::Semver(a), Val::Semver(b)] => Ok(a.compare(b)),
            _ => Err(Fault::no_such_overload()),
        }
    }
    let found: Native = match function {
        "isGreaterThan" => |args, _| order(args).map(|order| Val::Bool(order.is_gt())),
        "isLessThan" => |args, _| order(args).map(|order| Val::Bool(order.is_lt())),
        "compareTo" => |args, _| order(args).map(|order| Val::Int(order as i64)),
        _ => return None,
    };
    Some(found)
}

fn only<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v Val<'a>, Fault> {
    match args {
        [value] => Ok(value),
        _ => Err(Fault::no_such_overload()),
    }
}

fn pair<'v, 'a>(args: &'v [Val<'a>]) -> Result<[&'v Val<'a>; 2], Fault> {
    match args {
        [left, right] => Ok([left, right]),
        _ => Err(Fault::no_such_overload()),
    }
}

/// The arguments where the first is text.
fn text_first<'v, 'a>(
    args: &'v [Val<'a>],
) -> Result<(&'v super::value::Text<'a>, &'v [Val<'a>]), Fault> {
    match args {
        [Val::Text(text), rest @ ..] => Ok((text, rest)),
        _ => Err(Fault::no_such_overload()),
    }
}
