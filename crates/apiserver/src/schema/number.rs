//! Numbers as Go sees them: a JSON number is an `int64` if it is written as one and fits, else a
//! `float64`.

use serde_json::Value;

use super::check::{Finding, ValuePath};
use super::format::Format;
use crate::go;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Self> {
        let number = value.as_number()?;
        number.as_i64().map(Self::Int).or_else(|| number.as_f64().map(Self::Float))
    }

    #[expect(clippy::cast_precision_loss, reason = "upstream compares through float64 too")]
    const fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// The integer that it is, if it is one.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            Self::Float(float) => whole_i64(float),
        }
    }

    /// As Go's `%v` prints it.
    pub(super) fn text(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => go::float(float),
        }
    }

    /// Whether it is in the range of the type, judged by its decimal spelling as upstream does.
    fn fits(self, integer: bool, format: Option<Format>) -> bool {
        if !integer {
            let fits_single = |f: f64| f.abs() <= f64::from(f32::MAX) + SINGLE_ROUNDING;
            return format != Some(Format::Float) || fits_single(self.as_f64());
        }
        let Some(int) = self.whole() else {
            return false;
        };
        format != Some(Format::Int32) || i32::try_from(int).is_ok()
    }
}

/// Half a unit in the last place of the largest 32-bit float: up to there a value rounds to it.
const SINGLE_ROUNDING: f64 = 1.014_120_480_182_583_5e31;

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole_i64(float: f64) -> Option<i64> {
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (float.fract() == 0.0 && in_range).then_some(float as i64)
}

/// Whether JSON Schema would call this float an integer. Upstream allows for rounding.
pub(super) fn is_json_integer(float: f64) -> bool {
    const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !float.is_finite() || float.abs() > MAX_SAFE_INTEGER {
        return false;
    }
    let whole = float.trunc();
    if float == whole {
        return true;
    }
    // Upstream truncates to an unsigned integer, so only positive numbers get the tolerance.
    if float < 0.0 || whole == 0.0 {
        return false;
    }
    (float - whole).abs() / (float + whole) < EPSILON
}

/// The bounds of a numeric schema.
#[derive(Debug, Default)]
pub(super) struct NumberLimits {
    pub(super) integer: bool,
    pub(super) number: bool,
    pub(super) format: Option<Format>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
}

impl NumberLimits {
    pub(super) fn has_limits(&self) -> bool {
        self.integer
            || self.format.is_some()
            || self.maximum.is_some()
            || self.minimum.is_some()
            || self.multiple_of.is_some()
    }

    /// Reports what is wrong with the number, in upstream's order.
    pub(super) fn check(
        &self,
        value: Number,
        path: &ValuePath<'_>,
        report: &mut dyn FnMut(&dyn Fn() -> Finding),
    ) {
        if !value.fits(self.integer, self.format) {
            report(&|| self.out_of_range("Checked", path));
        }
        if let Some(factor) = self.multiple_of {
            self.check_multiple(value, factor, path, report);
        }
        if let Some(minimum) = self.minimum {
            self.check_minimum(value, minimum, path, report);
        }
        if let Some(maximum) = self.maximum {
            self.check_maximum(value, maximum, path, report);
        }
    }

    fn out_of_range(&self, what: &str, path: &ValuePath<'_>) -> Finding {
        let type_name = match (self.integer, self.number) {
            (true, _) => "integer",
            (_, true) => "number",
            _ => "",
        };
        let format = match self.format {
            Some(Format::Int32) => "with format int32",
            Some(Format::Int64) => "with format int64",
            Some(Format::Float) => "with format float",
            Some(Format::Double) => "with format double",
            _ => "(default format)",
        };
        Finding::without_path(format!(
            "{what} value must be of type {type_name} {format} in {path}"
        ))
    }

    /// A bound that is itself out of the type's range is reported, and then compared as a float.
    fn bound_fits(
        &self,
        bound: f64,
        what: &str,
        path: &ValuePath<'_>,
        report: &mut dyn FnMut(&dyn Fn() -> Finding),
    ) -> bool {
        let fits = Number::Float(bound).fits(self.integer, self.format);
        if !fits {
            report(&|| self.out_of_range(what, path));
        }
        fits
    }

    fn check_multiple(
        &self,
        value: Number,
        factor: f64,
        path: &ValuePath<'_>,
        report: &mut dyn FnMut(&dyn Fn() -> Finding),
    ) {
        let native = self.bound_fits(factor, "MultipleOf", path, report);
        let (shown, positive, divides) = match value {
            Number::Int(int) if native => {
                let factor = truncated(factor);
                let divides = factor != 0 && int.wrapping_rem(factor) == 0;
                (Number::Int(factor), factor > 0, divides)
            }
            value => {
                let value = value.as_f64();
                let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (Number::Float(factor), factor > 0.0, is_json_integer(quotient))
            }
        };
        let shown = shown.text();
        if !positive {
            report(&|| {
                let text =
                    format!("factor MultipleOf declared for {path} must be positive: {shown}");
                Finding::invalid_raw(path, shown.clone(), text)
            });
        } else if !divides {
            report(&|| {
                let text = format!("{path} in body should be a multiple of {shown}");
                Finding::invalid_raw(path, value.text(), text)
            });
        }
    }

    fn check_minimum(
        &self,
        value: Number,
        minimum: f64,
        path: &ValuePath<'_>,
        report: &mut dyn FnMut(&dyn Fn() -> Finding),
    ) {
        let native = self.bound_fits(minimum, "Minimum boundary", path, report);
        let (bound, below, equal) = compare(value, minimum, native);
        if below || (equal && self.exclusive_minimum) {
            let relation =
                if self.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            report(&|| {
                let text = format!("{path} in body should be {relation} {}", bound.text());
                Finding::invalid_raw(path, value.text(), text)
            });
        }
    }

    fn check_maximum(
        &self,
        value: Number,
        maximum: f64,
        path: &ValuePath<'_>,
        report: &mut dyn FnMut(&dyn Fn() -> Finding),
    ) {
        let native = self.bound_fits(maximum, "Maximum boundary", path, report);
        let (bound, below, equal) = compare(value, maximum, native);
        let above = !below && !equal;
        if above || (equal && self.exclusive_maximum) {
            let relation =
                if self.exclusive_maximum { "less than" } else { "less than or equal to" };
            report(&|| {
                let text = format!("{path} in body should be {relation} {}", bound.text());
                Finding::invalid_raw(path, value.text(), text)
            });
        }
    }
}

/// The bound as it takes part in the comparison, whether the value is below it, and whether equal.
/// An integer is compared with the integer part of the bound, as upstream does.
#[expect(clippy::float_cmp, reason = "upstream compares exactly")]
fn compare(value: Number, bound: f64, native: bool) -> (Number, bool, bool) {
    match value {
        Number::Int(int) if native => {
            let bound = truncated(bound);
            (Number::Int(bound), int < bound, int == bound)
        }
        value => {
            let float = value.as_f64();
            (Number::Float(bound), float < bound, float == bound)
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "Go converts the same way")]
const fn truncated(float: f64) -> i64 {
    float as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_floats_are_integers() {
        assert!(is_json_integer(1.0));
        assert!(is_json_integer(-3.0));
        assert!(!is_json_integer(1.5));
        assert!(!is_json_integer(-1.5));
        assert!(!is_json_integer(1e16));
        assert!(is_json_integer(3.000_000_000_1));
    }
}
