use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn quantities_are_read_as_kubernetes_reads_them() {
    const KI: u64 = 1 << 10;
    for (text, in_milli, in_whole) in [
        ("0", 0, 0),
        ("1", 1_000, 1),
        ("+1", 1_000, 1),
        ("007", 7_000, 7),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("5.", 5_000, 5),
        ("1.5", 1_500, 2),
        ("100m", 100, 1),
        ("1500m", 1_500, 2),
        ("0.0001", 1, 1),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("2500000n", 3, 1),
        ("1k", 1_000_000, 1_000),
        ("1M", 1_000_000_000, 1_000_000),
        ("2G", 2_000_000_000_000, 2_000_000_000),
        ("1T", 1_000_000_000_000_000, 1_000_000_000_000),
        ("1P", 1_000_000_000_000_000_000, 1_000_000_000_000_000),
        ("1E", u64::MAX, 1_000_000_000_000_000_000),
        ("1Ki", 1_000 * KI, KI),
        ("128Mi", 128_000 * KI * KI, 128 * KI * KI),
        ("1.5Gi", 1_500 * KI * KI * KI, 3 * KI * KI * KI / 2),
        ("0.1Ki", 102_400, 103),
        ("1Ti", 1_000 * KI * KI * KI * KI, KI * KI * KI * KI),
        ("1Pi", 1_000 << 50, 1 << 50),
        ("1Ei", u64::MAX, 1 << 60),
        ("16Ei", u64::MAX, u64::MAX),
        ("1e3", 1_000_000, 1_000),
        ("1E3", 1_000_000, 1_000),
        ("12E+2", 1_200_000, 1_200),
        ("1e-3", 1, 1),
        ("1500e-3", 1_500, 2),
        ("1e100", u64::MAX, u64::MAX),
        ("1e-100", 1, 1),
        ("0e100", 0, 0),
        ("18446744073709551615", u64::MAX, u64::MAX),
        ("18446744073709551616", u64::MAX, u64::MAX),
        ("100000000000000000000000n", 100_000_000_000_000_000, 100_000_000_000_000),
        ("100000000000000000000001n", 100_000_000_000_000_001, 100_000_000_000_001),
        ("0.000000000000000000000000000001", 1, 1),
        ("1.000000000000000000000000000000", 1_000, 1),
    ] {
        assert_eq!((milli(text), whole(text)), (Ok(in_milli), Ok(in_whole)), "{text}");
    }
}

#[test]
fn what_is_no_amount_is_refused() {
    for text in [
        "",
        "-1",
        "-0.5",
        ".",
        "1.2.3",
        "m",
        "1mm",
        "1 Gi",
        "1gi",
        "1K",
        "1ki",
        "1e",
        "1e1.5",
        "1e99999999999",
        "0x10",
        "NaN",
        "1Gib",
        "\u{661}",
        "1\u{b5}",
        " 1",
        "1 ",
    ] {
        assert!(milli(text).is_err(), "{text:?}");
        assert!(whole(text).is_err(), "{text:?}");
    }
    assert_eq!(
        whole("lots").expect_err("no number").to_string(),
        "\"lots\" is not an amount: write a number and perhaps a suffix, as in 500m, 2, 128Mi, 1e9"
    );
}

proptest! {
    #[test]
    fn nothing_makes_reading_panic(text in "[-+0-9.eEnumkKMGTPi]{0,60}") {
        let _ = (milli(&text), whole(&text));
    }

    #[test]
    fn whole_numbers_are_exact(number in 0..=u64::MAX / 1024) {
        prop_assert_eq!(whole(&number.to_string()), Ok(number));
        prop_assert_eq!(whole(&format!("{number}Ki")), Ok(number * 1024));
        prop_assert_eq!(milli(&format!("{number}m")), Ok(number));
        prop_assert_eq!(whole(&format!("{number}m")), Ok(number.div_ceil(1000)));
    }
}

fn spec(value: serde_json::Value) -> PodSpec {
    serde_json::from_value(value).expect("a PodSpec")
}

fn container(name: &str, requests: &serde_json::Value) -> serde_json::Value {
    json!({"name": name, "resources": {"requests": requests, "limits": requests}})
}

fn sidecar(name: &str, requests: &serde_json::Value) -> serde_json::Value {
    let mut container = container(name, requests);
    container["restartPolicy"] = json!("Always");
    container
}

#[test]
fn pods_are_summed_as_the_scheduler_does() {
    let cpu = |amount: &str| json!({"cpu": amount});
    for (case, spec, expected) in [
        ("nothing is asked for", json!({"containers": [{"name": "a"}]}), 0),
        (
            "containers are added",
            json!({"containers": [container("a", &cpu("1")), container("b", &cpu("250m"))]}),
            1_250,
        ),
        (
            "an init container that needs more counts alone",
            json!({
                "containers": [container("a", &cpu("1"))],
                "initContainers": [container("i", &cpu("3")), container("j", &cpu("2"))],
            }),
            3_000,
        ),
        (
            "one that needs less does not count",
            json!({
                "containers": [container("a", &cpu("1")), container("b", &cpu("1"))],
                "initContainers": [container("i", &cpu("1500m"))],
            }),
            2_000,
        ),
        (
            "sidecars run beside the containers",
            json!({
                "containers": [container("a", &cpu("1"))],
                "initContainers": [sidecar("s", &cpu("500m")), sidecar("t", &cpu("500m"))],
            }),
            2_000,
        ),
        (
            "sidecars run beside the init containers that follow",
            json!({
                "containers": [container("a", &cpu("1"))],
                "initContainers": [
                    container("i", &cpu("2")),
                    sidecar("s", &cpu("1")),
                    container("j", &cpu("2")),
                ],
            }),
            3_000,
        ),
        (
            "overhead is added",
            json!({"containers": [container("a", &cpu("1"))], "overhead": {"cpu": "100m"}}),
            1_100,
        ),
        (
            "the Pod's own figure replaces the sum",
            json!({
                "containers": [container("a", &cpu("1"))],
                "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}},
                "overhead": {"cpu": "100m"},
            }),
            4_100,
        ),
    ] {
        let spec = self::spec(spec);
        assert_eq!(requests(&spec).milli_cpu, expected, "{case}");
        let limit = (expected > 0).then_some(expected);
        assert_eq!(limits(&spec).milli_cpu, limit, "{case}");
    }
}

#[test]
fn every_resource_is_summed() {
    let all =
        json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2G", "hugepages-2Mi": "4Mi"});
    let spec = spec(json!({"containers": [container("a", &all), container("b", &all)]}));
    assert_eq!(
        requests(&spec),
        Requests { milli_cpu: 2_000, memory: 2 << 30, ephemeral_storage: 4_000_000_000 }
    );
    assert_eq!(
        limits(&spec),
        Limits {
            milli_cpu: Some(2_000),
            memory: Some(2 << 30),
            ephemeral_storage: Some(4_000_000_000)
        }
    );
}

#[test]
fn a_pod_has_a_limit_only_if_every_container_has_one() {
    let some = json!({"memory": "1Mi"});
    for (case, spec, expected) in [
        ("one without", json!({"containers": [container("a", &some), {"name": "b"}]}), None),
        (
            "an init container without",
            json!({
                "containers": [container("a", &some)],
                "initContainers": [{"name": "i"}],
            }),
            None,
        ),
        (
            "a limit of 0 is none",
            json!({"containers": [container("a", &json!({"memory": "0"}))]}),
            None,
        ),
        (
            "the Pod's own",
            json!({
                "containers": [{"name": "a"}],
                "resources": {"limits": {"memory": "3Mi"}},
                "overhead": {"memory": "1Mi"},
            }),
            Some(4 << 20),
        ),
        ("no containers", json!({"containers": []}), None),
    ] {
        assert_eq!(limits(&self::spec(spec)).memory, expected, "{case}");
    }
}

#[test]
fn sums_saturate() {
    let huge = json!({"memory": "15Ei"});
    let spec = spec(json!({"containers": [container("a", &huge), container("b", &huge)]}));
    assert_eq!(requests(&spec).memory, u64::MAX);
    assert_eq!(limits(&spec).memory, Some(u64::MAX));
    let nonsense = self::spec(json!({"containers": [container("a", &json!({"cpu": "many"}))]}));
    assert_eq!(requests(&nonsense).milli_cpu, u64::MAX);
}
