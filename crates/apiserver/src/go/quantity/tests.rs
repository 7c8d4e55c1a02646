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

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,40}|[+-]?[0-9.]{0,50}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = quantity.canonical();
            let _ = quantity.value();
            let _ = quantity.has_fraction();
            let _ = quantity.plus(&quantity);
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
