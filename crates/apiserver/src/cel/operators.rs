//! What the operators do: arithmetic, comparison, equality, membership.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;

use super::eval::{Evaluated, Fault, Meter};
use super::schema::{ListKind, Shape};
use super::value::{List, Map, OwnedList, Val};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";
const DURATION_OVERFLOW: &str = INT_OVERFLOW;

fn no_overload<T>() -> Result<T, Fault> {
    Err(Fault::no_such_overload())
}

pub(super) fn add<'a>(left: &Val<'a>, right: &Val<'a>, meter: &mut Meter) -> Evaluated<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => {
            Val::Int(a.checked_add(*b).ok_or(Fault::Plain(INT_OVERFLOW))?)
        }
        (Val::Uint(a), Val::Uint(b)) => {
            Val::Uint(a.checked_add(*b).ok_or(Fault::Plain(UINT_OVERFLOW))?)
        }
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::Text(a), Val::Text(b)) => {
            meter.work(a.len() + b.len())?;
            Val::text([&**a, &**b].concat())
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter.work(a.len() + b.len())?;
            Val::Bytes(Rc::from([&**a, &**b].concat()))
        }
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(a.checked_add(*b).ok_or(Fault::Plain(DURATION_OVERFLOW))?)
        }
        (Val::Timestamp(time), Val::Duration(nanos))
        | (Val::Duration(nanos), Val::Timestamp(time)) => {
            Val::Timestamp(time.plus(i128::from(*nanos))?)
        }
        _ => match (left.as_list(), right.as_list()) {
            (Some(a), Some(b)) => return concatenate(&a, &b, meter),
            _ => return no_overload(),
        },
    })
}

/// Lists are joined; sets are united; lists by key are merged, the right side winning.
fn concatenate<'a>(a: &List<'_, 'a>, b: &List<'_, 'a>, meter: &mut Meter) -> Evaluated<'a> {
    meter.work(a.len() + b.len())?;
    let mut items: Vec<Val<'a>> = a.iter().collect::<Result<_, _>>()?;
    let kind = a.kind();
    match kind {
        None | Some(ListKind::Atomic) => {
            for item in b.iter() {
                items.push(item?);
            }
        }
        Some(ListKind::Set) => {
            let mut known: BTreeSet<String> = items.iter().map(identity).collect();
            for item in b.iter() {
                let item = item?;
                if known.insert(identity(&item)) {
                    items.push(item);
                }
            }
        }
        Some(ListKind::Map(keys)) => {
            let mut places: BTreeMap<String, usize> = BTreeMap::new();
            for (index, item) in items.iter().enumerate() {
                places.insert(key_identity(item, keys), index);
            }
            for item in b.iter() {
                let item = item?;
                match places.get(&key_identity(&item, keys)) {
                    Some(&index) if index < items.len() => items[index] = item,
                    _ => items.push(item),
                }
            }
        }
    }
    Ok(Val::List(Rc::new(OwnedList { items, kind })))
}

/// A text that is the same for equal scalars and only for those.
fn identity(value: &Val<'_>) -> String {
    match value {
        Val::JsonMap(map, _) => Value::Object((*map).clone()).to_string(),
        Val::JsonList(items, _) => Value::Array(items.to_vec()).to_string(),
        other => format!("{}:{}", other.type_name(), other.shown()),
    }
}

fn key_identity(value: &Val<'_>, keys: &[String]) -> String {
    let mut identity = String::new();
    for key in keys {
        let part = match value {
            Val::JsonMap(map, _) => map.get(key).map(Value::to_string),
            other => other
                .as_map()
                .and_then(|map| map.field(key).ok().flatten())
                .map(|value| value.shown()),
        };
        identity.push_str(&part.unwrap_or_default());
        identity.push('\u{0}');
    }
    identity
}

pub(super) fn subtract<'a>(left: &Val<'a>, right: &Val<'a>) -> Evaluated<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => {
            Val::Int(a.checked_sub(*b).ok_or(Fault::Plain(INT_OVERFLOW))?)
        }
        (Val::Uint(a), Val::Uint(b)) => {
            Val::Uint(a.checked_sub(*b).ok_or(Fault::Plain(UINT_OVERFLOW))?)
        }
        (Val::Double(a), Val::Double(b)) => Val::Double(a - b),
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(a.checked_sub(*b).ok_or(Fault::Plain(DURATION_OVERFLOW))?)
        }
        (Val::Timestamp(time), Val::Duration(nanos)) => {
            Val::Timestamp(time.plus(-i128::from(*nanos))?)
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => Val::Duration(a.since(*b)?),
        _ => return no_overload(),
    })
}

pub(super) fn multiply<'a>(left: &Val<'a>, right: &Val<'a>) -> Evaluated<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => {
            Val::Int(a.checked_mul(*b).ok_or(Fault::Plain(INT_OVERFLOW))?)
        }
        (Val::Uint(a), Val::Uint(b)) => {
            Val::Uint(a.checked_mul(*b).ok_or(Fault::Plain(UINT_OVERFLOW))?)
        }
        (Val::Double(a), Val::Double(b)) => Val::Double(a * b),
        _ => return no_overload(),
    })
}

pub(super) fn divide<'a>(left: &Val<'a>, right: &Val<'a>) -> Evaluated<'a> {
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => {
            return Err(Fault::Plain("division by zero"));
        }
        (Val::Int(a), Val::Int(b)) => {
            Val::Int(a.checked_div(*b).ok_or(Fault::Plain(INT_OVERFLOW))?)
        }
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a / b),
        (Val::Double(a), Val::Double(b)) => Val::Double(a / b),
        _ => return no_overload(),
    })
}

pub(super) fn modulo<'a>(left: &Val<'a>, right: &Val<'a>) -> Evaluated<'a> {
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => {
            return Err(Fault::Plain("modulus by zero"));
        }
        (Val::Int(a), Val::Int(b)) => {
            Val::Int(a.checked_rem(*b).ok_or(Fault::Plain(INT_OVERFLOW))?)
        }
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a % b),
        _ => return no_overload(),
    })
}

pub(super) fn negate<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(match value {
        Val::Int(a) => Val::Int(a.checked_neg().ok_or(Fault::Plain(INT_OVERFLOW))?),
        Val::Double(a) => Val::Double(-a),
        Val::Duration(a) => Val::Duration(a.checked_neg().ok_or(Fault::Plain(DURATION_OVERFLOW))?),
        _ => return no_overload(),
    })
}

pub(super) fn compare(left: &Val<'_>, right: &Val<'_>) -> Result<Ordering, Fault> {
    const UNORDERED: Fault = Fault::Plain("NaN values cannot be ordered");
    Ok(match (left, right) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Timestamp(a), Val::Timestamp(b)) => a.nanos().cmp(&b.nanos()),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        _ => {
            return compare_numbers(left, right)
                .ok_or_else(Fault::no_such_overload)?
                .ok_or(UNORDERED);
        }
    })
}

/// `None` if these are not numbers; `Some(None)` if one is not a number in the other sense.
fn compare_numbers(left: &Val<'_>, right: &Val<'_>) -> Option<Option<Ordering>> {
    let whole = |value: &Val<'_>| match value {
        Val::Int(a) => Some(i128::from(*a)),
        Val::Uint(a) => Some(i128::from(*a)),
        _ => None,
    };
    Some(match (left, right) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), other) => compare_mixed(whole(other)?, *a).map(Ordering::reverse),
        (other, Val::Double(b)) => compare_mixed(whole(other)?, *b),
        _ => Some(whole(left)?.cmp(&whole(right)?)),
    })
}

fn compare_mixed(whole: i128, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    // Every integer is less than 2^65, which doubles hold exactly.
    const BEYOND: f64 = 36_893_488_147_419_103_232.0;
    if real >= BEYOND {
        return Some(Ordering::Less);
    }
    if real <= -BEYOND {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "within range, checked above")]
    let floor = real.floor() as i128;
    Some(match whole.cmp(&floor) {
        Ordering::Equal if real.fract() != 0.0 => Ordering::Less,
        ordering => ordering,
    })
}

pub(super) fn equal(left: &Val<'_>, right: &Val<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    meter.work(1)?;
    if let (Some(a), Some(b)) = (left.as_list(), right.as_list()) {
        return equal_lists(&a, &b, meter);
    }
    if let (Some(a), Some(b)) = (left.as_map(), right.as_map()) {
        return equal_maps(&a, &b, meter);
    }
    Ok(match (left, right) {
        (Val::Null, other) | (other, Val::Null) => matches!(other, Val::Null),
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => {
            meter.work(a.len().min(b.len()))?;
            **a == **b
        }
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a == b,
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Semver(a), Val::Semver(b)) => a.compare(b) == Ordering::Equal,
        (Val::Format(a), Val::Format(b)) => std::ptr::eq(*a, *b),
        (Val::Preserved(a), Val::Preserved(b)) => a == b,
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => return equal(a, b, meter),
            (a, b) => a.is_none() && b.is_none(),
        },
        // Data of the object compared with something else entirely is a mistake in the rule.
        (Val::JsonList(..) | Val::JsonMap(..), _) => return no_overload(),
        _ => matches!(compare_numbers(left, right), Some(Some(Ordering::Equal))),
    })
}

fn equal_lists(a: &List<'_, '_>, b: &List<'_, '_>, meter: &mut Meter) -> Result<bool, Fault> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.work(a.len())?;
    match a.kind() {
        None | Some(ListKind::Atomic) => {
            for (x, y) in a.iter().zip(b.iter()) {
                if !equal(&x?, &y?, meter)? {
                    return Ok(false);
                }
            }
        }
        Some(ListKind::Set) => {
            let mut known = BTreeSet::new();
            for item in a.iter() {
                known.insert(identity(&item?));
            }
            for item in b.iter() {
                if !known.contains(&identity(&item?)) {
                    return Ok(false);
                }
            }
        }
        Some(ListKind::Map(keys)) => {
            let mut known = BTreeMap::new();
            for item in a.iter() {
                let item = item?;
                known.insert(key_identity(&item, keys), item);
            }
            for item in b.iter() {
                let item = item?;
                let Some(counterpart) = known.get(&key_identity(&item, keys)) else {
                    return Ok(false);
                };
                if !equal(counterpart, &item, meter)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn equal_maps(a: &Map<'_, '_>, b: &Map<'_, '_>, meter: &mut Meter) -> Result<bool, Fault> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.work(a.len())?;
    for key in a.keys() {
        match (a.find(&key)?, b.find(&key)?) {
            (Some(x), Some(y)) => {
                if !equal(&x, &y, meter)? {
                    return Ok(false);
                }
            }
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    // What the schema does not describe still counts, where both sides have it.
    if let (Map::Json(a, node), Map::Json(b, _)) = (a, b)
        && let Shape::Object { properties } = &node.shape
    {
        for (key, value) in a.iter().filter(|(key, _)| !properties.contains_key(*key)) {
            if b.get(key).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// `x in container`.
pub(super) fn contains(
    container: &Val<'_>,
    value: &Val<'_>,
    meter: &mut Meter,
) -> Result<bool, Fault> {
    if let Some(map) = container.as_map() {
        return Ok(map.find(value)?.is_some());
    }
    let Some(list) = container.as_list() else { return no_overload() };
    let mut fault = None;
    for item in list.iter() {
        match item.and_then(|item| equal(&item, value, meter)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(Fault::OverBudget) => return Err(Fault::OverBudget),
            Err(_) => fault = Some(Fault::no_such_overload()),
        }
    }
    fault.map_or(Ok(false), Err)
}
