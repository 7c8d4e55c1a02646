use proptest::prelude::*;

use super::*;

#[test]
fn canonical_spellings() {
    for (given, canonical) in [
        ("0", "0"),
        ("000", "0"),
        ("-", "0"),
        (".", "0"),
        ("1", "1"),
        ("007", "007"),
        ("+1", "+1"),
        ("1000", "1k"),
        ("1200", "1200"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.500", "1.500"),
        ("100m", "100m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1000e3", "1e6"),
        ("12e5", "1200e3"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("100Ki", "100Ki"),
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.1Gi", "107374182400m"),
        ("1Ei", "1Ei"),
        ("9Ei", "9223372036854775807"),
        ("0.0001", "100u"),
        ("1n", "1n"),
        ("0.0000000001", "1n"),
        ("-1Gi", "-1Gi"),
        ("-1500m", "-1500m"),
        ("512", "512"),
        ("0Ki", "0"),
        ("0.5Ki", "512"),
    ] {
        assert_eq!(
            Quantity::parse(given).map(|q| q.canonical()),
            Ok(canonical.to_owned()),
            "{given}"
        );
    }
}

#[test]
fn what_is_no_quantity() {
    for (given, error) in [
        ("", QuantityError::Format),
        ("x", QuantityError::Format),
        ("1x", QuantityError::Format),
        ("1 ", QuantityError::Format),
        ("1KiB", QuantityError::Format),
        ("1K", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1mm", QuantityError::Suffix),
        ("ü", QuantityError::Format),
        ("1e99999999999999999999", QuantityError::Suffix),
    ] {
        assert_eq!(Quantity::parse(given).err(), Some(error), "{given}");
    }
}

#[test]
fn amounts_are_compared_and_not_spellings() {
    let quantity = |text: &str| Quantity::parse(text).expect(text);
    assert_eq!(quantity("1"), quantity("1000m"));
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert!(quantity("1Gi") > quantity("1G"));
    assert!(quantity("-1") < quantity("0"));
    assert_eq!(quantity("0.1n"), quantity("1n"));
    assert_eq!(quantity(".5"), quantity("500m"));
    assert_eq!(quantity("1e3"), quantity("1k"));
    assert!(quantity("1e2000000000") > quantity("9Ei"));
    assert!(quantity("1e-2000000000") > quantity("0"));
    assert_eq!(quantity("1.5").round_up_milli().canonical(), "1500m");
    assert_eq!(quantity("0.0001").round_up_milli().canonical(), "1m");
    assert_eq!(quantity("-0.0001").round_up_milli().canonical(), "-1m");
    assert!(quantity("1500m").has_fraction());
    assert!(!quantity("2000m").has_fraction());
    assert_eq!(quantity("1500m").value(), 2);
    assert_eq!(quantity("1e30").value(), i64::MAX);
    assert_eq!(quantity("1Gi").plus(&quantity("1Gi")).canonical(), "2Gi");
    assert_eq!(quantity("100m").plus(&quantity("900m")).canonical(), "1");
    assert_eq!(quantity("1").plus(&quantity("-3")).canonical(), "-2");
    assert!(quantity("4Mi").is_multiple_of(&quantity("2Mi")));
    assert!(!quantity("3Mi").is_multiple_of(&quantity("2Mi")));
}

/// Integers and floats verified with upstream's package, for CEL.
#[test]
fn amounts_as_integers_and_floats() {
    for (given, int, float) in [
        ("Mi", Some(0), 0.0),
        ("m", None, 0.0),
        ("1Ei", None, 1.152921504606847e18),
        ("1Pi", None, 1.125899906842624e15),
        ("10Ti", Some(10_995_116_277_760), 1.099511627776e13),
        ("1.5Gi", None, 1.610612736e9),
        ("0.1Ki", None, 102.4),
        ("0.0", None, 0.0),
        ("-0", Some(0), 0.0),
        ("1.", Some(1), 1.0),
        ("1.5k", Some(1500), 1500.0),
        ("2000m", None, 2.0),
        ("12E", None, 1.2e19),
        ("-9E", Some(-9_000_000_000_000_000_000), -9e18),
        ("0.3", None, 0.300_000_000_000_000_04),
        ("1e23", None, 1e23),
        ("-0.0000000001", None, -1e-9),
        ("9223372036854775807", None, 9.223372036854776e18),
        ("9223372036854775807Ki", None, 9.223372036854776e18),
        ("10000000000000000000000000000000000000000", None, 1e40),
        ("1e400", None, f64::INFINITY),
    ] {
        let quantity = Quantity::parse(given).expect(given);
        assert_eq!(quantity.as_int(), int, "{given}");
        assert_eq!(quantity.as_approximate_float().to_bits(), float.to_bits(), "{given}");
    }
    assert_eq!(Quantity::from_int(i64::MIN).as_int(), Some(i64::MIN));
}

/// Sums and differences verified with upstream's package, for CEL.
#[test]
fn sums_and_differences() {
    for (a, b, sum, whole_sum, difference, whole_difference) in [
        ("1", "0m", "1", Some(1), "1", Some(1)),
        ("0m", "5", "5", Some(5), "-5", Some(-5)),
        ("1", "500m", "1500m", None, "500m", None),
        ("1500m", "500m", "2", None, "1", None),
        ("1.5Gi", "0.5Gi", "2Gi", None, "1Gi", None),
        ("1", "1Ei", "1152921504606846977", None, "-1152921504606846975", None),
        ("9E", "9E", "18E", None, "0", Some(0)),
        ("1k", "1", "1001", Some(1001), "999", Some(999)),
        ("500m", "-500m", "0", None, "1", None),
        ("10G", "1n", "10000000000000000001n", None, "9999999999999999999n", None),
    ] {
        let quantity = |text: &str| Quantity::parse(text).expect(text);
        let (plus, minus) = (quantity(a).plus(&quantity(b)), quantity(a).minus(&quantity(b)));
        assert_eq!((&*plus.canonical(), plus.as_int()), (sum, whole_sum), "{a} + {b}");
        assert_eq!(
            (&*minus.canonical(), minus.as_int()),
            (difference, whole_difference),
            "{a} - {b}"
        );
    }
    // Too far apart for the digits that are kept; the order is still right.
    let huge = Quantity::parse("1e100").expect("good");
    assert!(huge.plus(&Quantity::from_int(1)) > huge);
    assert!(Quantity::from_int(1).minus(&huge).is_negative());
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,40}|[+-]?[0-9.]{0,50}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = quantity.canonical();
            let _ = quantity.value();
            let _ = quantity.has_fraction();
            let _ = quantity.plus(&quantity);
            let _ = quantity.minus(&Quantity::from_int(1));
            let _ = quantity.as_int();
            let _ = quantity.as_approximate_float();
        }
    }

    #[test]
    fn canonical_is_a_fixed_point(text in "-?[0-9]{1,15}(\\.[0-9]{1,8})?(n|u|m|k|M|G|Ki|Mi|Gi|Ti)?") {
        let quantity = Quantity::parse(&text).expect("well formed");
        let canonical = quantity.canonical();
        let again = Quantity::parse(&canonical).expect("canonical is well formed");
        prop_assert_eq!(again.canonical(), canonical);
        prop_assert_eq!(again, quantity);
    }

    #[test]
    fn order_is_total(a in "-?[0-9]{1,6}(m|k|Ki|Mi)?", b in "-?[0-9]{1,6}(m|k|Ki|Mi)?") {
        let (a, b) = (Quantity::parse(&a).expect("good"), Quantity::parse(&b).expect("good"));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    }
}
