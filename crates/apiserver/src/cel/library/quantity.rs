//! Quantities of resources: `100m`, `1.5Gi`, `1e3`.

use std::rc::Rc;

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::{Native, only, text_first};
use crate::go::quantity::{Quantity, QuantityError};

impl From<QuantityError> for Fault {
    fn from(error: QuantityError) -> Self {
        Self::new(error.to_string())
    }
}

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "quantity" => |args, _| Ok(give(Quantity::parse(text_first(args)?.0)?)),
        "isQuantity" => |args, _| Ok(Val::Bool(Quantity::parse(text_first(args)?.0).is_ok())),
        "sign" => |args, _| Ok(Val::Int(own(args)?.signum())),
        "isInteger" => |args, _| Ok(Val::Bool(own(args)?.as_int().is_some())),
        "asInteger" => |args, _| {
            let value = own(args)?.as_int();
            value.map(Val::Int).ok_or(Fault::Plain("cannot convert value to integer"))
        },
        "asApproximateFloat" => |args, _| Ok(Val::Double(own(args)?.as_approximate_float())),
        "add" => |args, _| combine(args, Quantity::plus),
        "sub" => |args, _| combine(args, Quantity::minus),
        _ => return None,
    };
    Some(found)
}

fn give<'a>(quantity: Quantity) -> Val<'a> {
    Val::Quantity(Rc::new(quantity))
}

fn own<'v>(args: &'v [Val<'_>]) -> Result<&'v Quantity, Fault> {
    match only(args)? {
        Val::Quantity(quantity) => Ok(quantity),
        _ => Err(Fault::no_such_overload()),
    }
}

fn combine<'a>(args: &[Val<'a>], with: fn(&Quantity, &Quantity) -> Quantity) -> Evaluated<'a> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(give(with(a, b))),
        [Val::Quantity(a), Val::Int(b)] => Ok(give(with(a, &Quantity::from_int(*b)))),
        _ => Err(Fault::no_such_overload()),
    }
}
