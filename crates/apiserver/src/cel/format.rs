//! `'%s has %d'.format([a, b])`: text with clauses that show values.

use super::eval::{Evaluated, Fault};
use super::value::{Text, Val};

const DEFAULT_PRECISION: usize = 6;

/// No more digits than this are of use to anyone.
const MAX_PRECISION: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clause {
    Text,
    Decimal,
    Fixed(Option<usize>),
    Scientific(Option<usize>),
    Binary,
    Hex { upper: bool },
    Octal,
}

impl Clause {
    /// What is said when a value of the named type is given to this clause.
    pub(super) fn refusal(self, type_name: &str) -> String {
        let what = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{what}, was given {type_name}")
    }
}

/// Replaces each clause by what `show` makes of it and of the position of its argument.
pub(super) fn expand(
    text: &str,
    arguments: usize,
    mut show: impl FnMut(Clause, usize) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut next = 0;
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if next >= arguments {
            return Err(format!("index {next} out of range"));
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, length) = read_clause(rest)
            .map_err(|problem| format!("could not parse formatting clause: {problem}"))?;
        let shown =
            show(clause, next).map_err(|problem| format!("error during formatting: {problem}"))?;
        out.push_str(&shown);
        rest = &rest[length..];
        next += 1;
    }
    out.push_str(rest);
    Ok(out)
}

/// A clause after its percent sign, and how long it is.
fn read_clause(text: &str) -> Result<(Clause, usize), String> {
    let mut length = 0;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == after.len() {
            return Err("error while parsing precision: could not find end of precision specifier"
                .to_owned());
        }
        let number: usize = after[..digits].parse().map_err(|_| {
            format!(
                "error while parsing precision: error while converting precision to integer: \
                 strconv.Atoi: parsing {:?}: invalid syntax",
                &after[..digits]
            )
        })?;
        precision = Some(number.min(MAX_PRECISION));
        length = 1 + digits;
    }
    let letter = text[length..].chars().next().unwrap_or_default();
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, length + letter.len_utf8()))
}

/// The function `format` on a string.
pub(super) fn format<'a>(text: &str, arguments: &Val<'a>) -> Evaluated<'a> {
    let Some(list) = arguments.as_list() else { return Err(Fault::no_such_overload()) };
    let mut fault = None;
    let shown = expand(text, list.len(), |clause, index| match list.get(index) {
        Ok(value) => show(clause, &value),
        Err(problem) => {
            let message = problem.to_string();
            fault = Some(problem);
            Err(message)
        }
    });
    match (shown, fault) {
        (_, Some(fault)) => Err(fault),
        (Ok(shown), None) => Ok(Val::Text(Text::from(shown))),
        (Err(message), None) => Err(Fault::new(message)),
    }
}

fn show(clause: Clause, value: &Val<'_>) -> Result<String, String> {
    let refused = || clause.refusal(value.type_name());
    match clause {
        Clause::Text => show_text(value).ok_or_else(refused),
        Clause::Decimal => match value {
            Val::Int(number) => Ok(number.to_string()),
            Val::Uint(number) => Ok(number.to_string()),
            _ => Err(refused()),
        },
        Clause::Octal => match value {
            Val::Int(number) => Ok(signed(*number, |n| format!("{n:o}"))),
            Val::Uint(number) => Ok(format!("{number:o}")),
            _ => Err(refused()),
        },
        Clause::Binary => match value {
            Val::Int(number) => Ok(signed(*number, |n| format!("{n:b}"))),
            Val::Uint(number) => Ok(format!("{number:b}")),
            Val::Bool(flag) => Ok(u8::from(*flag).to_string()),
            _ => Err(refused()),
        },
        Clause::Hex { upper } => {
            let hex = match value {
                Val::Int(number) => signed(*number, |n| format!("{n:x}")),
                Val::Uint(number) => format!("{number:x}"),
                Val::Text(text) => hex::encode(text.as_bytes()),
                Val::Bytes(bytes) => hex::encode(bytes),
                _ => return Err(refused()),
            };
            Ok(if upper { hex.to_uppercase() } else { hex })
        }
        Clause::Fixed(precision) => {
            let number = real(value).ok_or_else(refused)?;
            Ok(fixed(number, precision.unwrap_or(DEFAULT_PRECISION)))
        }
        // The reference takes the precision for a width here, and always shows six digits.
        Clause::Scientific(_) => Ok(scientific(real(value).ok_or_else(refused)?)),
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn real(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn not_finite(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("NaN")
    } else if number.is_infinite() {
        Some(if number > 0.0 { "∞" } else { "-∞" })
    } else {
        None
    }
}

/// With thousands separated, as in American English.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(special) = not_finite(number) {
        return special.to_owned();
    }
    let plain = format!("{number:.precision$}");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", &*plain),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

/// `1.052032×10⁰³`.
fn scientific(number: f64) -> String {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if let Some(special) = not_finite(number) {
        return special.to_owned();
    }
    let plain = format!("{number:.6e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mut shown = format!("{mantissa}×10");
    if exponent < 0 {
        shown.push('⁻');
    }
    for digit in format!("{:02}", exponent.unsigned_abs()).bytes() {
        shown.push(SUPERSCRIPTS[usize::from(digit - b'0')]);
    }
    shown
}

/// A value as `%s` shows it; `None` if it cannot be shown.
fn show_text(value: &Val<'_>) -> Option<String> {
    if let Some(list) = value.as_list() {
        let mut items = Vec::with_capacity(list.len());
        for index in 0..list.len() {
            items.push(show_nested(&list.get(index).ok()?)?);
        }
        return Some(format!("[{}]", items.join(", ")));
    }
    if let Some(map) = value.as_map() {
        let mut entries = Vec::new();
        for key in map.keys() {
            let member = map.find(&key).ok()??;
            entries.push((show_nested(&key)?, show_nested(&member)?));
        }
        entries.sort();
        let shown: Vec<String> = entries.iter().map(|(k, v)| format!("{k}:{v}")).collect();
        return Some(format!("{{{}}}", shown.join(", ")));
    }
    match value {
        Val::Null => Some("null".to_owned()),
        other => super::convert::to_text(other).ok(),
    }
}

/// A value within a list or map: strings and times are quoted there.
fn show_nested(value: &Val<'_>) -> Option<String> {
    let quoted = |text: &str| crate::go::quote(text);
    match value {
        Val::Text(text) => Some(quoted(text)),
        Val::Bytes(bytes) => Some(format!("b{}", quoted(&String::from_utf8_lossy(bytes)))),
        Val::Double(number) => Some(match not_finite(*number) {
            Some(_) => quoted(&crate::go::float(*number)),
            None => format!("{number:.6}"),
        }),
        Val::Timestamp(time) => Some(format!("timestamp({})", quoted(&time.to_string()))),
        Val::Duration(nanos) => {
            Some(format!("duration({})", quoted(&super::time::duration_text(*nanos))))
        }
        other => show_text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_show_values_as_the_reference_does() {
        for (clause, value, expected) in [
            (Clause::Fixed(Some(2)), Val::Double(-1_234_567.891), "-1,234,567.89"),
            (Clause::Fixed(None), Val::Double(0.5), "0.500000"),
            (Clause::Scientific(None), Val::Double(1052.032), "1.052032×10⁰³"),
            (Clause::Hex { upper: true }, Val::Int(-255), "-FF"),
            (Clause::Hex { upper: false }, Val::Text("Hi".into()), "4869"),
            (Clause::Binary, Val::Bool(true), "1"),
            (Clause::Octal, Val::Int(8), "10"),
        ] {
            assert_eq!(show(clause, &value).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn bad_formats_are_refused() {
        let show = |_: Clause, _: usize| Ok("x".to_owned());
        assert_eq!(expand("100%% %s", 1, show).as_deref(), Ok("100% x"));
        assert_eq!(expand("%s", 0, show).unwrap_err(), "index 0 out of range");
        assert_eq!(expand("a%", 1, show).unwrap_err(), "unexpected end of string");
        assert_eq!(
            expand("%é", 1, show).unwrap_err(),
            "could not parse formatting clause: unrecognized formatting clause \"é\""
        );
        assert!(expand("%.f", 1, show).is_err());
        assert!(expand("%.3", 1, show).is_err());
    }
}
