//! Resource quantities: `500m`, `1Gi`, `1e3`. Parsing, comparing and the one canonical spelling.
//!
//! Upstream keeps a quantity's own spelling when it is already in its preferred form and rewrites
//! it otherwise (`1000m` becomes `1`, `1024Ki` becomes `1Mi`); [`Quantity::canonical`] does the same.
//! Values finer than one billionth are rounded up, as upstream rounds them. Amounts of more than
//! 36 significant digits, which no resource has, are refused.

use std::cmp::Ordering;
use std::fmt;

/// The finest unit: 10^-9.
const NANO: i64 = -9;
const MILLI: i64 = -3;
/// Digits that upstream keeps in an `int64` without looking further.
const FAST_DIGITS: usize = 18;
const MAX_DIGITS: usize = 36;
/// The most that a binary quantity can hold.
const MAX_BINARY: u128 = i64::MAX as u128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalExponent,
    BinarySi,
    DecimalSi,
}

/// `digits * 10^scale`, with the notation that it was written in.
#[derive(Clone, Debug)]
pub(crate) struct Quantity {
    negative: bool,
    digits: u128,
    scale: i64,
    format: Format,
    /// Upstream keeps it as an `int64` with a scale. Whatever else it keeps is never an integer to it.
    is_small: bool,
    /// The spelling it came with, where that is kept.
    text: Option<Box<str>>,
}

impl Quantity {
    pub(crate) const ZERO: Self = Self {
        negative: false,
        digits: 0,
        scale: 0,
        format: Format::DecimalSi,
        is_small: true,
        text: None,
    };

    /// A whole amount that was computed and not read.
    pub(crate) const fn from_int(amount: i64) -> Self {
        Self {
            negative: amount < 0,
            digits: amount.unsigned_abs() as u128,
            format: Format::DecimalExponent,
            ..Self::ZERO
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = QuantityParts::split(text)?;
        let (base, exponent, format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(fast) = parts.small(text, base, exponent, format) {
            return Ok(fast);
        }
        parts.exact(base, exponent, format)
    }

    /// The spelling that the API gives back.
    pub(crate) fn canonical(&self) -> String {
        if let Some(text) = &self.text {
            return text.to_string();
        }
        if self.digits == 0 {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if self.format == Format::BinarySi
            && let Some(mut amount) = self.whole()
            && amount >= 1024
        {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let mut power = 0;
            while amount % 1024 == 0 && power + 1 < SUFFIXES.len() {
                amount /= 1024;
                power += 1;
            }
            return format!("{sign}{amount}{}", SUFFIXES[power]);
        }
        let (mut digits, mut scale) = (self.digits, self.scale);
        while digits % 10 == 0 {
            digits /= 10;
            scale += 1;
        }
        while scale % 3 != 0 {
            digits = digits.saturating_mul(10);
            scale -= 1;
        }
        let suffix = match (self.format, scale) {
            (Format::DecimalExponent, 0) => String::new(),
            (Format::DecimalExponent, scale) => format!("e{scale}"),
            (_, -9) => "n".to_owned(),
            (_, -6) => "u".to_owned(),
            (_, -3) => "m".to_owned(),
            (_, 3) => "k".to_owned(),
            (_, 6) => "M".to_owned(),
            (_, 9) => "G".to_owned(),
            (_, 12) => "T".to_owned(),
            (_, 15) => "P".to_owned(),
            (_, 18) => "E".to_owned(),
            _ => String::new(),
        };
        format!("{sign}{digits}{suffix}")
    }

    /// Rounds up (away from zero) to thousandths: what the API does to every resource amount.
    #[must_use]
    pub(crate) fn round_up_milli(mut self) -> Self {
        if self.scale < MILLI {
            self.rescale_up(MILLI);
            self.text = None;
        }
        self
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.digits == 0
    }

    pub(crate) const fn is_negative(&self) -> bool {
        self.negative && self.digits != 0
    }

    pub(crate) const fn is_positive(&self) -> bool {
        !self.negative && self.digits != 0
    }

    /// Whether, to the thousandth, this is not a whole number.
    pub(crate) fn has_fraction(&self) -> bool {
        self.clone().round_up_milli().whole().is_none()
    }

    /// The amount rounded up to a whole number.
    pub(crate) fn value(&self) -> i64 {
        let mut rounded = self.clone();
        rounded.rescale_up(0);
        let magnitude = rounded.whole().and_then(|whole| i64::try_from(whole).ok());
        let magnitude = magnitude.unwrap_or(i64::MAX);
        if self.negative { -magnitude } else { magnitude }
    }

    /// Whether this is a positive whole multiple of `unit`.
    pub(crate) fn is_multiple_of(&self, unit: &Self) -> bool {
        match (self.whole(), unit.whole()) {
            (Some(amount), Some(unit)) => {
                !self.negative && unit != 0 && amount.is_multiple_of(unit)
            }
            _ => false,
        }
    }

    /// The amount as upstream's `AsInt64` gives it: only what was written without fractional digits or
    /// units and is small. `2000m` is none.
    pub(crate) fn as_int(&self) -> Option<i64> {
        if !self.is_small || self.scale < 0 {
            return None;
        }
        let magnitude = if self.digits == 0 { 0 } else { self.whole()? };
        let signed = i128::try_from(magnitude).ok()? * if self.negative { -1 } else { 1 };
        i64::try_from(signed).ok()
    }

    /// The amount as upstream's `AsApproximateFloat64` gives it, with its errors: `0.3` is 3 times 0.1.
    #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
    pub(crate) fn as_approximate_float(&self) -> f64 {
        let magnitude = self.digits as f64 * float_power_of_ten(self.scale);
        if self.is_negative() { -magnitude } else { magnitude }
    }

    /// -1, 0 or 1.
    pub(crate) const fn signum(&self) -> i64 {
        match (self.digits, self.negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        }
    }

    /// The sum; it keeps this quantity's notation, or the other's if this is zero.
    #[must_use]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let is_small = self.is_small && other.is_small;
        if is_small && (self.is_zero() || other.is_zero()) {
            let kept = if other.is_zero() { self } else { other };
            return Self { format, text: None, ..kept.clone() };
        }
        // Where the two are too far apart, what is finer than the digits that are kept is rounded up.
        let scale = self.scale.min(other.scale).max(self.finest()).max(other.finest());
        let (a, b) = (self.at_scale(scale), other.at_scale(scale));
        let (negative, digits) = if self.negative == other.negative {
            (self.negative, a.saturating_add(b))
        } else if a >= b {
            (self.negative, a - b)
        } else {
            (other.negative, b - a)
        };
        let is_small = is_small && [a, b, digits].iter().all(|part| i64::try_from(*part).is_ok());
        Self { negative, digits, scale, format, is_small, text: None }
    }

    #[must_use]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.plus(&Self { negative: !other.negative, ..other.clone() })
    }

    /// The finest scale at which the digits that are kept hold this amount.
    fn finest(&self) -> i64 {
        match self.digits.checked_ilog10() {
            Some(last) => self.scale + i64::from(last) + 1 - MAX_DIGITS as i64,
            None => i64::MIN,
        }
    }

    fn at_scale(&self, scale: i64) -> u128 {
        if self.scale >= scale {
            return self.aligned(scale);
        }
        let mut coarser = self.clone();
        coarser.rescale_up(scale);
        coarser.digits
    }

    fn aligned(&self, scale: i64) -> u128 {
        power_of_ten(self.scale - scale)
            .and_then(|factor| self.digits.checked_mul(factor))
            .unwrap_or(if self.digits == 0 { 0 } else { u128::MAX })
    }

    /// The magnitude, if it is a whole number that can be written out.
    fn whole(&self) -> Option<u128> {
        if self.scale >= 0 {
            return self.digits.checked_mul(power_of_ten(self.scale)?);
        }
        let divisor = power_of_ten(-self.scale)?;
        self.digits.is_multiple_of(divisor).then(|| self.digits / divisor)
    }

    fn rescale_up(&mut self, scale: i64) {
        if self.scale >= scale {
            return;
        }
        self.digits = match power_of_ten(scale - self.scale) {
            Some(divisor) => self.digits.div_ceil(divisor),
            None => u128::from(self.digits != 0),
        };
        self.scale = scale;
    }
}

fn power_of_ten(exponent: i64) -> Option<u128> {
    10u128.checked_pow(u32::try_from(exponent).ok()?)
}

/// As Go's `math.Pow10` composes it.
fn float_power_of_ten(exponent: i64) -> f64 {
    let power = |exponent: i64| format!("1e{exponent}").parse().unwrap_or(f64::INFINITY);
    match exponent {
        ..0 => power(exponent),
        0..=308 => power(exponent / 32 * 32) * power(exponent % 32),
        _ => f64::INFINITY,
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        let ordering = compare_magnitudes(self, other);
        if self.is_negative() { ordering.reverse() } else { ordering }
    }
}

fn compare_magnitudes(a: &Quantity, b: &Quantity) -> Ordering {
    if a.digits == 0 || b.digits == 0 {
        return a.digits.cmp(&b.digits);
    }
    // Of the same length in decimal digits, so aligning the finer one cannot overflow.
    let length = |q: &Quantity| i64::from(q.digits.ilog10()) + q.scale;
    length(a).cmp(&length(b)).then_with(|| {
        let scale = a.scale.min(b.scale);
        a.aligned(scale).cmp(&b.aligned(scale))
    })
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

/// A quantity's text, taken apart. Leading zeros of the number are gone.
struct QuantityParts<'a> {
    negative: bool,
    num: &'a str,
    denom: &'a str,
    suffix: &'a str,
}

impl<'a> QuantityParts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let rest = rest.trim_start_matches('0');
        let (num, rest) = split_while(rest, |b| b.is_ascii_digit());
        let (denom, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_while(rest, |b| b.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, rest) = split_while(suffix, |b| b"eEinumkKMGTP".contains(&b));
        let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if !split_while(rest, |b| b.is_ascii_digit()).1.is_empty() {
            return Err(QuantityError::Format);
        }
        Ok(Self { negative, num: if num.is_empty() { "0" } else { num }, denom, suffix })
    }

    /// The common case: few digits, no rounding. Only here is the given spelling kept.
    fn small(&self, text: &str, base: u8, exponent: i32, format: Format) -> Option<Quantity> {
        let length = self.num.len() + self.denom.len();
        let exponent = i64::from(exponent);
        let (digits, scale, keep) = if base == 10 {
            let scale = exponent - i64::try_from(self.denom.len()).ok()?;
            if length > FAST_DIGITS || scale < NANO {
                return None;
            }
            let digits = self.digits()?;
            let ends_in_thousand = format!("{}{}", self.num, self.denom).ends_with("000");
            let keep = scale % 3 == 0 && !ends_in_thousand && !self.num.starts_with('0');
            (digits, scale, keep)
        } else {
            let precision = 14 - i64::try_from(length).ok()? - exponent * 3 / 10;
            if !self.denom.is_empty() || precision < 0 {
                return None;
            }
            let amount = self.digits()?;
            (amount << exponent, 0, amount & 7 != 0)
        };
        Some(Quantity {
            negative: self.negative,
            digits,
            scale,
            format,
            is_small: true,
            text: (keep || text == "0").then(|| text.into()),
        })
    }

    /// The rest: many digits, binary fractions, values finer than the finest unit.
    fn exact(
        &self,
        base: u8,
        exponent: i32,
        mut format: Format,
    ) -> Result<Quantity, QuantityError> {
        let exponent = i64::from(exponent);
        let places = i64::try_from(self.denom.len()).map_err(|_| QuantityError::Numeric)?;
        let mut quantity =
            Quantity { negative: self.negative, format, is_small: false, ..Quantity::ZERO };
        if base == 10 {
            // Digits finer than the finest unit only say whether to round up.
            let all: String = [self.num, self.denom].concat();
            let scale = exponent - places;
            let spare = usize::try_from(NANO - scale).unwrap_or(0).min(all.len());
            let (kept, cut) = all.split_at(all.len() - spare);
            let mut kept = kept.trim_start_matches('0');
            let mut scale = if spare > 0 { NANO } else { scale };
            if kept.len() > MAX_DIGITS {
                let significant = kept.trim_end_matches('0');
                scale += i64::try_from(kept.len() - significant.len()).unwrap_or(0);
                kept = significant;
            }
            if kept.len() > MAX_DIGITS {
                return Err(QuantityError::Numeric);
            }
            let sticky = cut.bytes().any(|b| b != b'0');
            let digits: u128 = if kept.is_empty() {
                0
            } else {
                kept.parse().map_err(|_| QuantityError::Numeric)?
            };
            quantity.digits = digits + u128::from(sticky);
            quantity.scale = scale;
            return Ok(quantity);
        }
        // At most 18 places matter: 2^60 of them still fit, and finer ones only round up.
        let (places, cut) = self.denom.split_at(self.denom.len().min(FAST_DIGITS));
        let overflow = self.num.len() > 19;
        let whole: u128 =
            if overflow { MAX_BINARY } else { self.num.parse().unwrap_or(MAX_BINARY) };
        let fraction: u128 = if places.is_empty() { 0 } else { places.parse().unwrap_or(0) };
        let unit = power_of_ten(i64::try_from(places.len()).unwrap_or(0)).unwrap_or(1);
        let sticky = cut.bytes().any(|b| b != b'0');
        let whole = whole.saturating_mul(1 << exponent);
        let shifted = fraction << exponent;
        let nanos = (shifted % unit * 1_000_000_000).div_ceil(unit) + u128::from(sticky);
        let whole = whole.saturating_add(shifted / unit);
        if whole >= MAX_BINARY {
            quantity.digits = MAX_BINARY;
            return Ok(quantity);
        }
        quantity.digits = whole * 1_000_000_000 + nanos;
        quantity.scale = NANO;
        if quantity.digits < 1_000_000_000 {
            format = Format::DecimalSi;
        }
        // As many places as were written, up to the finest: upstream's floats depend on them.
        let written = -i64::try_from(places.len()).unwrap_or(0);
        if written > NANO {
            quantity.digits /= power_of_ten(written - NANO).unwrap_or(1);
            quantity.scale = written;
        }
        quantity.format = format;
        Ok(quantity)
    }

    fn digits(&self) -> Option<u128> {
        let mut value = 0u128;
        for byte in self.num.bytes().chain(self.denom.bytes()) {
            value = value.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
        }
        Some(value)
    }
}

fn split_while(text: &str, accept: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|b| !accept(b)).unwrap_or(text.len());
    // Everything accepted is ASCII, so the cut is on a character boundary.
    text.split_at(end)
}

fn interpret(suffix: &str) -> Option<(u8, i32, Format)> {
    let decimal = |exponent| Some((10, exponent, Format::DecimalSi));
    let binary = |exponent| Some((2, exponent, Format::BinarySi));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            Some((10, i32::try_from(exponent.parse::<i64>().ok()?).ok()?, Format::DecimalExponent))
        }
    }
}

#[cfg(test)]
mod tests;
