//! Quantities of resources: `100m`, `1.5Gi`, `1e3`.

use std::cmp::Ordering;

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::{Native, only, text_first};

const NANOS: i128 = 1_000_000_000;

/// Amounts beyond this many decimal digits before the point are cut off there: more than any
/// resource has, and room to add and subtract.
const MAX_DIGITS: i64 = 28;

/// An amount in billionths, which is as fine as quantities get.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Quantity {
    nanos: i128,
    /// Written with a fraction or a fractional unit: such an amount is never taken for an integer.
    is_fractional: bool,
}

impl Quantity {
    pub(in super::super) fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    fn from_int(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, is_fractional: false }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            is_fractional: self.is_fractional || other.is_fractional,
        }
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: other.nanos.saturating_neg(), ..other })
    }

    fn as_int(self) -> Option<i64> {
        if self.is_fractional || self.nanos % NANOS != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANOS).ok()
    }

    #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
    fn as_float(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    pub(in super::super) fn parse(text: &str) -> Result<Self, Fault> {
        const FORMAT: Fault = Fault::Plain(
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        );
        const NUMERIC: Fault = Fault::Plain("unable to parse numeric part of quantity");
        if text.is_empty() {
            return Err(FORMAT);
        }
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() && !suffix.is_empty() {
            let known = suffix.bytes().all(|b| b"eEinumkKMGTP+-0123456789".contains(&b));
            return Err(if known { NUMERIC } else { FORMAT });
        }
        let unit = Unit::parse(suffix)?;
        let nanos = unit.nanos(whole, fraction).ok_or(NUMERIC)?;
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            is_fractional: !fraction.is_empty() && unit.decimals() < fraction.len() as i64
                || unit.decimals() < 0,
        })
    }
}

/// What the digits are multiplied by.
enum Unit {
    PowerOfTen(i64),
    PowerOfTwo(u32),
}

impl Unit {
    fn parse(suffix: &str) -> Result<Self, Fault> {
        const SUFFIX: Fault = Fault::Plain("unable to parse quantity's suffix");
        const FORMAT: Fault = Fault::Plain(
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        );
        Ok(match suffix {
            "" => Self::PowerOfTen(0),
            "n" => Self::PowerOfTen(-9),
            "u" => Self::PowerOfTen(-6),
            "m" => Self::PowerOfTen(-3),
            "k" => Self::PowerOfTen(3),
            "M" => Self::PowerOfTen(6),
            "G" => Self::PowerOfTen(9),
            "T" => Self::PowerOfTen(12),
            "P" => Self::PowerOfTen(15),
            "E" => Self::PowerOfTen(18),
            "Ki" => Self::PowerOfTwo(10),
            "Mi" => Self::PowerOfTwo(20),
            "Gi" => Self::PowerOfTwo(30),
            "Ti" => Self::PowerOfTwo(40),
            "Pi" => Self::PowerOfTwo(50),
            "Ei" => Self::PowerOfTwo(60),
            _ => {
                let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
                let number = letters.strip_prefix(['+', '-']).unwrap_or(letters);
                if !number.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(FORMAT);
                }
                let exponent = suffix.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
                Self::PowerOfTen(exponent.parse().map_err(|_| SUFFIX)?)
            }
        })
    }

    const fn decimals(&self) -> i64 {
        match self {
            Self::PowerOfTen(exponent) => *exponent,
            Self::PowerOfTwo(_) => 0,
        }
    }

    /// The amount in billionths; what is finer is rounded up.
    fn nanos(&self, whole: &str, fraction: &str) -> Option<i128> {
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0');
        if significant.is_empty() {
            return Some(0);
        }
        let length = i64::try_from(significant.len()).ok()?;
        let places = i64::try_from(fraction.len()).ok()?;
        // The power of ten that the digits, read as an integer, are to be multiplied by.
        let scale = self.decimals().saturating_sub(places).saturating_add(9);
        let largest = 10_i128.pow(u32::try_from(MAX_DIGITS + 9).ok()?);
        if length.saturating_add(scale) > MAX_DIGITS + 9 {
            return Some(largest);
        }
        let factor = match self {
            Self::PowerOfTen(_) => 1,
            Self::PowerOfTwo(exponent) => 1_i128 << exponent,
        };
        if scale >= 0 {
            let number: i128 = significant.parse().ok()?;
            let power = 10_i128.checked_pow(u32::try_from(scale).ok()?)?;
            let scaled = number.checked_mul(power).and_then(|n| n.checked_mul(factor));
            return Some(scaled.unwrap_or(largest).min(largest));
        }
        // Digits that count for less than a billionth only say whether to round up.
        let dropped = usize::try_from(scale.unsigned_abs()).ok()?;
        if factor == 1 {
            let (kept, rest) = significant.split_at(significant.len().saturating_sub(dropped));
            let number: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
            let rounds = rest.bytes().any(|b| b != b'0') || kept.is_empty();
            return Some(number + i128::from(rounds));
        }
        let kept = significant.get(..significant.len().min(20))?;
        let number: i128 = kept.parse().ok()?;
        let lost = i64::try_from(significant.len() - kept.len()).ok()?;
        let power = 10_i128.checked_pow(u32::try_from(-scale - lost).ok()?)?;
        let product = number.checked_mul(factor)?;
        Some(product / power + i128::from(product % power != 0 || lost > 0))
    }
}

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "quantity" => |args, _| Ok(Val::Quantity(Quantity::parse(text_first(args)?.0)?)),
        "isQuantity" => |args, _| Ok(Val::Bool(Quantity::parse(text_first(args)?.0).is_ok())),
        "sign" => |args, _| Ok(Val::Int(i64::try_from(own(args)?.nanos.signum()).unwrap_or(0))),
        "isInteger" => |args, _| Ok(Val::Bool(own(args)?.as_int().is_some())),
        "asInteger" => |args, _| {
            let value = own(args)?.as_int();
            value.map(Val::Int).ok_or(Fault::Plain("cannot convert value to integer"))
        },
        "asApproximateFloat" => |args, _| Ok(Val::Double(own(args)?.as_float())),
        "add" => |args, _| combine(args, Quantity::plus),
        "sub" => |args, _| combine(args, Quantity::minus),
        _ => return None,
    };
    Some(found)
}

fn own(args: &[Val<'_>]) -> Result<Quantity, Fault> {
    match only(args)? {
        Val::Quantity(quantity) => Ok(*quantity),
        _ => Err(Fault::no_such_overload()),
    }
}

fn combine<'a>(args: &[Val<'a>], with: fn(Quantity, Quantity) -> Quantity) -> Evaluated<'a> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(Val::Quantity(with(*a, *b))),
        [Val::Quantity(a), Val::Int(b)] => Ok(Val::Quantity(with(*a, Quantity::from_int(*b)))),
        _ => Err(Fault::no_such_overload()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_compare_across_units() {
        for (a, order, b) in [
            ("200M", Ordering::Equal, "0.2G"),
            ("50M", Ordering::Less, "50Mi"),
            ("1.5Gi", Ordering::Equal, "1536Mi"),
            ("1e3", Ordering::Equal, "1k"),
            ("0.1n", Ordering::Equal, "1n"),
            ("-1", Ordering::Less, "0"),
            ("1000m", Ordering::Equal, "1"),
            ("1e100", Ordering::Greater, "1Ei"),
            ("1.", Ordering::Equal, "1"),
            (".5", Ordering::Equal, "500m"),
        ] {
            let (a, b) = (Quantity::parse(a).unwrap(), Quantity::parse(b).unwrap());
            assert_eq!(a.cmp(&b), order, "{a:?} {b:?}");
        }
        for wrong in ["", "Mi", "1Zi", "1 Gi", "x", "1e", "10 "] {
            assert!(Quantity::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Quantity::parse("50k").unwrap().as_int(), Some(50_000));
        assert_eq!(Quantity::parse("1.5k").unwrap().as_int(), Some(1_500));
        assert_eq!(Quantity::parse("1500m").unwrap().as_int(), None);
    }
}
