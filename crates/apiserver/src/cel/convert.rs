//! Conversions between types: `int('5')`, `string(1.5)`, `duration('1h')`.

use std::rc::Rc;

use super::eval::{Evaluated, Fault};
use super::time::{self, Timestamp};
use super::value::{Text, Val};

fn unconvertible(value: &Val<'_>, to: &str) -> Fault {
    Fault::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

/// Applies the conversion function of this name.
pub(super) fn convert<'a>(function: &str, value: &Val<'a>) -> Evaluated<'a> {
    match function {
        "bool" => to_bool(value),
        "bytes" => to_bytes(value),
        "double" => to_double(value),
        "duration" => to_duration(value),
        "int" => to_int(value),
        "string" => to_text(value).map(Val::text),
        "timestamp" => to_timestamp(value),
        "uint" => to_uint(value),
        "dyn" => Ok(value.clone()),
        "type" => Ok(Val::Type(value.type_name())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_bool<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Bool(flag) => Ok(Val::Bool(*flag)),
        Val::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(unconvertible(value, "bool")),
        },
        _ => Err(unconvertible(value, "bool")),
    }
}

fn to_bytes<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Bytes(bytes) => Ok(Val::Bytes(Rc::clone(bytes))),
        Val::Text(text) => Ok(Val::Bytes(Rc::from(text.as_bytes()))),
        _ => Err(unconvertible(value, "bytes")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "conversion to double rounds")]
fn to_double<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Double(number) => Ok(Val::Double(*number)),
        Val::Int(number) => Ok(Val::Double(*number as f64)),
        Val::Uint(number) => Ok(Val::Double(*number as f64)),
        Val::Text(text) => {
            let plain = text.trim_start_matches(['+', '-']);
            let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                || matches!(&*plain.to_lowercase(), "inf" | "infinity" | "nan");
            match text.parse() {
                Ok(number) if is_number => Ok(Val::Double(number)),
                _ => Err(unconvertible(value, "double")),
            }
        }
        _ => Err(unconvertible(value, "double")),
    }
}

fn to_duration<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let parsed = match value {
        Val::Duration(nanos) => Some(*nanos),
        Val::Text(text) => crate::go::duration::parse(text),
        _ => None,
    };
    parsed.map(Val::Duration).ok_or_else(|| unconvertible(value, "google.protobuf.Duration"))
}

fn to_timestamp<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let parsed = match value {
        Val::Timestamp(time) => Some(*time),
        Val::Int(seconds) => return Ok(Val::Timestamp(Timestamp::from_seconds(*seconds)?)),
        Val::Text(text) => time::parse_timestamp(text),
        _ => None,
    };
    parsed.map(Val::Timestamp).ok_or_else(|| unconvertible(value, "google.protobuf.Timestamp"))
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn to_int<'a>(value: &Val<'a>) -> Evaluated<'a> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let overflow = || Fault::new("integer overflow");
    match value {
        Val::Int(number) => Ok(Val::Int(*number)),
        Val::Uint(number) => i64::try_from(*number).map(Val::Int).map_err(|_| overflow()),
        Val::Double(number) if *number > -LIMIT && *number < LIMIT => Ok(Val::Int(*number as i64)),
        Val::Double(_) => Err(overflow()),
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        Val::Timestamp(time) => Ok(Val::Int(time.seconds())),
        Val::Text(text) => text.parse().map(Val::Int).map_err(|_| unconvertible(value, "int")),
        _ => Err(unconvertible(value, "int")),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
#[expect(clippy::cast_sign_loss, reason = "the sign is checked")]
fn to_uint<'a>(value: &Val<'a>) -> Evaluated<'a> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    let overflow = || Fault::new("unsigned integer overflow");
    match value {
        Val::Uint(number) => Ok(Val::Uint(*number)),
        Val::Int(number) => u64::try_from(*number).map(Val::Uint).map_err(|_| overflow()),
        Val::Double(number) if *number >= 0.0 && *number < LIMIT => Ok(Val::Uint(*number as u64)),
        Val::Double(_) => Err(overflow()),
        Val::Text(text) if !text.starts_with('+') => {
            text.parse().map(Val::Uint).map_err(|_| unconvertible(value, "uint"))
        }
        _ => Err(unconvertible(value, "uint")),
    }
}

pub(super) fn to_text(value: &Val<'_>) -> Result<String, Fault> {
    Ok(match value {
        Val::Text(text) => text.to_string(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => crate::go::float(*number),
        Val::Bytes(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| Fault::new("invalid UTF-8 in bytes, cannot convert to string"))?
            .to_owned(),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => time::duration_text(*nanos),
        Val::Type(name) => (*name).to_owned(),
        Val::Ip(address) => address.to_string(),
        Val::Cidr(cidr) => cidr.to_string(),
        other => return Err(unconvertible(other, "string")),
    })
}

/// Text for a value that is known to be text already.
pub(super) fn as_text<'v, 'a>(value: &'v Val<'a>) -> Result<&'v Text<'a>, Fault> {
    match value {
        Val::Text(text) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn as_int(value: &Val<'_>) -> Result<i64, Fault> {
    match value {
        Val::Int(number) => Ok(*number),
        _ => Err(Fault::no_such_overload()),
    }
}
