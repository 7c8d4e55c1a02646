//! Parts of moments and durations.

use jiff::civil::DateTime;

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::Native;

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "getFullYear" => |args, _| part(args, |t| t.year().into(), None),
        "getMonth" => |args, _| part(args, |t| i64::from(t.month()) - 1, None),
        "getDayOfYear" => |args, _| part(args, |t| i64::from(t.day_of_year()) - 1, None),
        "getDayOfMonth" => |args, _| part(args, |t| i64::from(t.day()) - 1, None),
        "getDate" => |args, _| part(args, |t| t.day().into(), None),
        "getDayOfWeek" => {
            |args, _| part(args, |t| t.weekday().to_sunday_zero_offset().into(), None)
        }
        "getHours" => |args, _| part(args, |t| t.hour().into(), Some(3_600_000_000_000)),
        "getMinutes" => |args, _| part(args, |t| t.minute().into(), Some(60_000_000_000)),
        "getSeconds" => |args, _| part(args, |t| t.second().into(), Some(1_000_000_000)),
        "getMilliseconds" => {
            |args, _| part(args, |t| i64::from(t.subsec_nanosecond()) / 1_000_000, Some(1_000_000))
        }
        _ => return None,
    };
    Some(found)
}

/// A part of a moment, or how many units of so many nanoseconds a duration has.
fn part<'a>(
    args: &[Val<'a>],
    of_time: impl Fn(DateTime) -> i64,
    unit: Option<i64>,
) -> Evaluated<'a> {
    match (args, unit) {
        ([Val::Timestamp(time)], _) => Ok(Val::Int(of_time(time.in_utc()))),
        ([Val::Timestamp(time), Val::Text(zone)], _) => Ok(Val::Int(of_time(time.in_zone(zone)?))),
        ([Val::Duration(nanos)], Some(unit)) => Ok(Val::Int(nanos / unit)),
        _ => Err(Fault::no_such_overload()),
    }
}
