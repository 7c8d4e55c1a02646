//! Values that may be absent.

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::{Native, only};

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "optional.of" => |args, _| Ok(Val::some(only(args)?.clone())),
        "optional.ofNonZeroValue" => |args, _| {
            let value = only(args)?;
            Ok(if is_zero(value) { Val::Optional(None) } else { Val::some(value.clone()) })
        },
        "optional.none" => |_, _| Ok(Val::Optional(None)),
        "value" => |args, _| match only(args)? {
            Val::Optional(Some(inner)) => Ok((**inner).clone()),
            Val::Optional(None) => Err(Fault::Plain("optional.none() dereference")),
            _ => Err(Fault::no_such_overload()),
        },
        "hasValue" => |args, _| match only(args)? {
            Val::Optional(inner) => Ok(Val::Bool(inner.is_some())),
            _ => Err(Fault::no_such_overload()),
        },
        "first" => |args, _| element(only(args)?, |_| 0),
        "last" => |args, _| element(only(args)?, |length| length - 1),
        "optional.unwrap" | "unwrapOpt" => |args, meter| {
            let list = only(args)?.as_list().ok_or_else(Fault::no_such_overload)?;
            meter.work(list.len())?;
            let mut items = Vec::new();
            for item in list.iter() {
                match item? {
                    Val::Optional(inner) => items.extend(inner.map(|inner| (*inner).clone())),
                    other => {
                        return Err(Fault::new(format!("value {} is not optional", other.shown())));
                    }
                }
            }
            Ok(Val::list(items))
        },
        _ => return None,
    };
    Some(found)
}

fn element<'a>(list: &Val<'a>, position: impl Fn(usize) -> usize) -> Evaluated<'a> {
    let list = list.as_list().ok_or_else(Fault::no_such_overload)?;
    match list.len() {
        0 => Ok(Val::Optional(None)),
        length => Ok(Val::some(list.get(position(length))?)),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(flag) => !flag,
        Val::Int(number) | Val::Duration(number) => *number == 0,
        Val::Uint(number) => *number == 0,
        Val::Double(number) => *number == 0.0,
        Val::Text(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Optional(inner) => inner.is_none(),
        Val::List(list) => list.items.is_empty(),
        Val::Map(map) => map.is_empty(),
        _ => false,
    }
}
