//! Floats as text.

use std::ops::Range;

/// `%v` and `%g`: the shortest digits that read back the same, with an exponent from a million on.
pub(crate) fn float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    with_exponent_outside(float, -4..6, 2)
}

/// A float in JSON, where exponents come later and negative ones have no leading zero.
pub(crate) fn json_float(float: f64) -> String {
    with_exponent_outside(float, -6..21, 1)
}

/// A float as the json-iterator writes it: as in JSON, but exponents have two digits.
pub(crate) fn json_iterator_float(float: f64) -> String {
    with_exponent_outside(float, -6..21, 2)
}

fn with_exponent_outside(float: f64, plain: Range<i32>, digits: usize) -> String {
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if plain.contains(&exponent) || float == 0.0 {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:0digits$}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_go_prints_them() {
        for (number, text) in [
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.0, "-2"),
            (0.0, "0"),
            (1e21, "1e+21"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn floats_in_json_have_short_exponents() {
        for (number, text) in [
            (1.0, "1"),
            (0.0, "0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (2.5e-12, "2.5e-12"),
        ] {
            assert_eq!(json_float(number), text);
        }
        for (number, text) in [(1e-7, "1e-07"), (-2.5e-12, "-2.5e-12"), (1e21, "1e+21"), (2.0, "2")]
        {
            assert_eq!(json_iterator_float(number), text);
        }
    }
}
