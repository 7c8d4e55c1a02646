//! Functions on lists, and on lists as sets.

use std::cmp::Ordering;

use super::super::convert::as_int;
use super::super::eval::{Evaluated, Fault, Meter};
use super::super::operators;
use super::super::schema::{Format, Shape};
use super::super::value::{List, Val};
use super::{Native, only, pair, strings};

/// Lists within lists are flattened no deeper than this.
const MAX_FLATTEN_DEPTH: i64 = 200;

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "isSorted" => |args, _| {
            let items = items(only(args)?)?;
            for window in items.windows(2) {
                if operators::compare(&window[0], &window[1])?.is_gt() {
                    return Ok(Val::Bool(false));
                }
            }
            Ok(Val::Bool(true))
        },
        "sum" => sum,
        "min" => |args, _| extreme(only(args)?, Ordering::Greater, "min called on empty list"),
        "max" => |args, _| extreme(only(args)?, Ordering::Less, "max called on empty list"),
        "indexOf" => |args, meter| index_of(args, meter, false),
        "lastIndexOf" => |args, meter| index_of(args, meter, true),
        "slice" => slice,
        "flatten" => |args, meter| {
            let depth = match args {
                [_] => 1,
                [_, depth] => as_int(depth)?,
                _ => return Err(Fault::no_such_overload()),
            };
            if depth < 0 {
                return Err(Fault::Plain("level must be non-negative"));
            }
            let mut flat = Vec::new();
            flatten(&list(&args[0])?, depth.min(MAX_FLATTEN_DEPTH), &mut flat, meter)?;
            Ok(Val::list(flat))
        },
        "sort" => |args, meter| {
            let items = items(only(args)?)?;
            sort_by(&items, &items, meter)
        },
        "@sortByAssociatedKeys" => |args, meter| {
            let [list, keys] = pair(args)?;
            sort_by(&items(list)?, &items(keys)?, meter)
        },
        "reverse" => |args, _| {
            let mut items = items(only(args)?)?;
            items.reverse();
            Ok(Val::list(items))
        },
        "distinct" => distinct,
        "lists.range" => |args, meter| {
            let count = as_int(only(args)?)?.max(0);
            if u64::try_from(count).unwrap_or_default() > meter.left() {
                return Err(Fault::OverBudget);
            }
            Ok(Val::list((0..count).map(Val::Int).collect()))
        },
        "sets.contains" => |args, meter| {
            let [all, some] = pair(args)?;
            includes(all, some, meter).map(Val::Bool)
        },
        "sets.equivalent" => |args, meter| {
            let [a, b] = pair(args)?;
            Ok(Val::Bool(includes(a, b, meter)? && includes(b, a, meter)?))
        },
        "sets.intersects" => |args, meter| {
            let [a, b] = pair(args)?;
            for item in list(a)?.iter() {
                match operators::contains(b, &item?, meter) {
                    Ok(true) => return Ok(Val::Bool(true)),
                    Err(Fault::OverBudget) => return Err(Fault::OverBudget),
                    _ => {}
                }
            }
            Ok(Val::Bool(false))
        },
        _ => return None,
    };
    Some(found)
}

fn list<'v, 'a>(value: &'v Val<'a>) -> Result<List<'v, 'a>, Fault> {
    value.as_list().ok_or_else(Fault::no_such_overload)
}

fn items<'a>(value: &Val<'a>) -> Result<Vec<Val<'a>>, Fault> {
    list(value)?.iter().collect()
}

fn sum<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let value = only(args)?;
    let mut total: Option<Val<'a>> = None;
    for item in list(value)?.iter() {
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => operators::add(&total, &item, meter)?,
        });
    }
    Ok(total.unwrap_or_else(|| zero_of(value)))
}

/// The sum of no elements, for lists whose elements the schema describes.
fn zero_of<'a>(list: &Val<'a>) -> Val<'a> {
    let Val::JsonList(_, node) = list else { return Val::Int(0) };
    let Shape::List { items, .. } = &node.shape else { return Val::Int(0) };
    match items.shape {
        Shape::Number => Val::Double(0.0),
        Shape::Text(Format::Duration) => Val::Duration(0),
        _ => Val::Int(0),
    }
}

fn extreme<'a>(value: &Val<'a>, worse: Ordering, empty: &'static str) -> Evaluated<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list(value)?.iter() {
        let item = item?;
        match &best {
            Some(held) if operators::compare(held, &item)? != worse => {}
            _ => best = Some(item),
        }
    }
    best.ok_or(Fault::Plain(empty))
}

fn index_of<'a>(args: &[Val<'a>], meter: &mut Meter, last: bool) -> Evaluated<'a> {
    let [first, wanted, ..] = args else { return Err(Fault::no_such_overload()) };
    let Some(list) = first.as_list() else { return strings::index_of(args, meter, last) };
    let mut positions: Vec<usize> = (0..list.len()).collect();
    if last {
        positions.reverse();
    }
    for position in positions {
        let item = list.get(position)?;
        match operators::equal(&item, wanted, meter) {
            Ok(true) => return Ok(Val::Int(i64::try_from(position).unwrap_or(i64::MAX))),
            Err(Fault::OverBudget) => return Err(Fault::OverBudget),
            _ => {}
        }
    }
    Ok(Val::Int(-1))
}

fn slice<'a>(args: &[Val<'a>], _: &mut Meter) -> Evaluated<'a> {
    let [value, start, end] = args else { return Err(Fault::no_such_overload()) };
    let (list, start, end) = (list(value)?, as_int(start)?, as_int(end)?);
    let wrong = |why: &str| Fault::new(format!("cannot slice({start}, {end}), {why}"));
    if start < 0 || end < 0 {
        return Err(wrong("negative indexes not supported"));
    }
    if start > end {
        return Err(wrong("start index must be less than or equal to end index"));
    }
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(wrong("list is too short"));
    };
    if list.len() < to {
        return Err(wrong(&format!("list is length {}", list.len())));
    }
    let items = (from..to).map(|index| list.get(index));
    Ok(Val::list(items.collect::<Result<_, _>>()?))
}

fn flatten<'a>(
    list: &List<'_, 'a>,
    depth: i64,
    flat: &mut Vec<Val<'a>>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    meter.work(list.len() + 1)?;
    for item in list.iter() {
        let item = item?;
        match item.as_list() {
            Some(inner) if depth > 0 => flatten(&inner, depth - 1, flat, meter)?,
            _ => flat.push(item),
        }
    }
    Ok(())
}

fn sort_by<'a>(items: &[Val<'a>], keys: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    if items.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    meter.work(items.len().saturating_mul(8))?;
    if let Some(first) = keys.first() {
        if operators::compare(first, first).is_err() {
            return Err(Fault::Plain("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(Fault::Plain("list elements must have the same type"));
        }
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| total_order(&keys[*a], &keys[*b]));
    Ok(Val::list(order.into_iter().map(|index| items[index].clone()).collect()))
}

/// An order even among values that are not a number: sorting must not depend on luck.
fn total_order(a: &Val<'_>, b: &Val<'_>) -> Ordering {
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.total_cmp(b),
        _ => operators::compare(a, b).unwrap_or(Ordering::Equal),
    }
}

fn distinct<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let mut unique: Vec<Val<'a>> = Vec::new();
    'items: for item in items(only(args)?)? {
        for known in &unique {
            match operators::equal(&item, known, meter) {
                Ok(true) => continue 'items,
                Err(Fault::OverBudget) => return Err(Fault::OverBudget),
                _ => {}
            }
        }
        unique.push(item);
    }
    Ok(Val::list(unique))
}

fn includes(all: &Val<'_>, some: &Val<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    for item in list(some)?.iter() {
        if !operators::contains(all, &item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
