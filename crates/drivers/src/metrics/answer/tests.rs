use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

#[test]
fn a_matrix_is_read_with_labels_and_samples() {
    let answer = read(
        br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"up","b":"2","a":"1","none":""},
             "values":[[1435781430.781,"1"],[1435781445.781,"NaN"],[1435781460.781,"+Inf"]]},
            {"metric":{},"values":[],"histograms":[[1,{"count":"60"}]]}]},
            "warnings":["a store is away","PromQL info: metric might not be a counter"],
            "infos":["more"]}"#,
    )
    .unwrap();
    let [up, other] = &answer.series[..] else { panic!("two series: {answer:?}") };
    let labels: Vec<_> = up.labels.iter().collect();
    assert_eq!(labels, [("__name__", "up"), ("a", "1"), ("b", "2"), ("none", "")]);
    assert_eq!(
        (up.labels.get("a"), up.labels.get("none"), up.labels.get("c")),
        (Some("1"), None, None)
    );
    assert_eq!(up.samples[0], (at(1_435_781_430_781), 1.0));
    assert!(up.samples[1].1.is_nan() && up.samples[2].1.is_infinite());
    assert_eq!(other.samples, []);
    assert_eq!(answer.warnings, ["a store is away"], "a remark makes nothing less whole");
}

#[test]
fn a_vector_and_a_scalar_have_one_sample_each() {
    let vector = br#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"job":"x"},"value":[10.5,"3"]}]}}"#;
    assert_eq!(read(vector).unwrap().series[0].samples, [(at(10_500), 3.0)]);
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[10,"0.5"]}}"#;
    assert_eq!(read(scalar).unwrap().series[0].samples, [(at(10_000), 0.5)]);
}

#[test]
fn an_error_keeps_its_words_and_says_whether_less_would_do() {
    let error = |kind: &str, sanitized: &str| {
        let body = format!(r#"{{"status":"error","errorType":"{kind}","error":"{sanitized}"}}"#);
        read(body.as_bytes()).unwrap_err()
    };
    assert_eq!(
        error("bad_data", "parse error"),
        NoAnswer::Refused("bad_data: parse error".to_owned())
    );
    for (kind, sanitized) in [
        (
            "execution",
            "query processing would load too many samples into memory in query execution",
        ),
        ("bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing"),
        ("timeout", "query timed out in expression evaluation"),
    ] {
        assert_eq!(error(kind, sanitized), NoAnswer::TooMuch(format!("{kind}: {sanitized}")));
    }
}

#[test]
fn garbage_is_an_error_in_words() {
    for (body, sanitized) in [
        ("", "EOF while parsing"),
        ("<html>\u{1}Bad gateway", r#"it begins with "<html> Bad gateway""#),
        ("[]", "invalid"),
        (r#"{"status":"fine"}"#, r#"its status is "fine""#),
        (r#"{"status":"success"}"#, "it has no data"),
        (r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#, "it is a text"),
        (r#"{"status":"success","data":{"resultType":"cube","result":[]}}"#, "unknown variant"),
        (
            r#"{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}"#,
            r#""x" is not a value"#,
        ),
        (
            r#"{"status":"success","data":{"resultType":"scalar","result":[1e300,"1"]}}"#,
            "is not a time",
        ),
        (
            r#"{"status":"success","data":{"resultType":"matrix","result":[
                {"values":[[2,"1"],[1,"1"]]}]}}"#,
            "not in order",
        ),
    ] {
        match read(body.as_bytes()) {
            Err(NoAnswer::Garbled(why)) => assert!(why.contains(sanitized), "{body}: {why}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&body).is_err());
    }

    #[test]
    fn no_answer_makes_it_panic(time in any::<f64>(), value in ".{0,10}") {
        let body = serde_json::json!({
            "status": "success",
            "data": { "resultType": "scalar", "result": [time, value] },
        });
        let _ = read(body.to_string().as_bytes());
    }
}
