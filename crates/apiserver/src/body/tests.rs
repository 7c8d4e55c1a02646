use serde_json::json;

use super::*;

fn duplicates(text: &str) -> Vec<String> {
    parse_json(text.as_bytes()).expect(text).duplicates
}

#[test]
fn json_is_read_as_serde_json_reads_it() {
    let text = r#"{"a":[1,-2,1.5,1.0,18446744073709551615,"é\n",true,null,{}],"b":{"c":[]}}"#;
    let parsed = parse_json(text.as_bytes()).expect("good");
    assert_eq!(parsed.value, serde_json::from_str::<Value>(text).expect("good"));
    assert!(parsed.duplicates.is_empty());
}

#[test]
fn repeated_members_are_told_by_path() {
    assert_eq!(
        duplicates(r#"{"data":{"a":"b"},"data":{"a":"c","a":"d"},"x":[{},{"y":1,"y":2}]}"#),
        [r#"duplicate field "data""#, r#"duplicate field "data.a""#, r#"duplicate field "x[1].y""#]
    );
    let parsed = parse_json(br#"{"a":1,"a":2,"a":3}"#).expect("good");
    assert_eq!(parsed.value, json!({"a": 3}));
    assert_eq!(parsed.duplicates, [r#"duplicate field "a""#]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let parsed = parse_json(b"{\"a\":\"b\xff\"}").expect("good");
    assert_eq!(parsed.value, json!({"a": "b\u{fffd}"}));
}

#[test]
fn depth_is_bounded() {
    let deep = "[".repeat(100_000);
    assert!(parse_json(deep.as_bytes()).is_err());
    assert!(parse_yaml(deep.as_bytes()).is_err());
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    let text = "a: yes\nb: 'yes'\nc: 017\nd: {e: &x [1, 2.5], f: *x}\n<<: {g: ~}\nh: |\n  i\n";
    let parsed = parse_yaml(text.as_bytes()).expect("good");
    assert_eq!(
        parsed.value,
        json!({
            "a": true, "b": "yes", "c": 15, "d": {"e": [1, 2.5], "f": [1, 2.5]}, "g": null,
            "h": "i\n"
        })
    );
    assert!(parsed.duplicates.is_empty());
    assert_eq!(parse_yaml(b"").expect("good").value, Value::Null);
    assert_eq!(parse_yaml(b"---\na: 1\n---\nb: 2\n").expect("good").value, json!({"a": 1}));
    assert_eq!(parse_yaml(br#"{"a":1,"a":2}"#).expect("good").value, json!({"a": 2}));
}

#[test]
fn yaml_errors_say_so() {
    let twice = parse_yaml(b"data:\n  a: b\n  a: c\n").expect("last counts");
    assert_eq!(twice.value, json!({"data": {"a": "c"}}));
    assert_eq!(
        twice.duplicates,
        ["yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"]
    );
    let twice = parse_yaml(br#"{"a":1,"a":2}"#).expect("last counts");
    assert_eq!(
        twice.duplicates,
        ["yaml: unmarshal errors:\n  line 1: key \"a\" already set in map"]
    );
    let error = parse_yaml(b"a: [").expect_err("not closed");
    assert!(error.to_string().starts_with("yaml: "), "{error}");
}

#[test]
fn aliases_do_not_explode() {
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (from, to) in ('a'..'i').zip('b'..='i') {
        let items = vec![format!("*{from}"); 10].join(",");
        bomb.push_str(&format!("{to}: &{to} [{items}]\n"));
    }
    assert!(parse_yaml(bomb.as_bytes()).is_err());
}

#[test]
fn bodies_say_what_they_are() {
    let body = json!({"apiVersion": "v1", "kind": "Pod"});
    assert_eq!(TypeMeta::of(&body), Ok(TypeMeta { api_version: "v1", kind: "Pod" }));
    assert_eq!(TypeMeta::of(&json!({"kind": null})), Ok(TypeMeta::default()));
    assert_eq!(TypeMeta::of(&Value::Null), Ok(TypeMeta::default()));
}

/// Messages of the real server.
#[test]
fn unrecognized_bodies_are_refused_in_upstream_s_words() {
    let refused = |body: &str| {
        let error = match parse_json(body.as_bytes()) {
            Ok(parsed) => TypeMeta::of(&parsed.value).expect_err(body),
            Err(error) => error,
        };
        unrecognized("ConfigMap", &error, body.as_bytes())
    };
    let prefix = "the object provided is unrecognized (must be of type ConfigMap): \
                  couldn't get version/kind; json parse error: ";
    for (body, wanted) in [
        (
            r#"{"apiVersion": 1, "kind": "ConfigMap", "metadata": {}}"#,
            "json: cannot unmarshal number into Go struct field .apiVersion of type string \
             ({\"apiVersion\": 1, \"kind\": \"Con ...)",
        ),
        (
            "[]",
            r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
        ),
        ("", "unexpected end of JSON input (<empty>)"),
        ("{", "unexpected end of JSON input ({)"),
    ] {
        assert_eq!(refused(body), format!("{prefix}{wanted}"), "{body}");
    }
}

#[test]
fn duplicates_within_unknown_members_are_not_told() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let duplicates = texts(&[
        r#"duplicate field "metadata.name""#,
        r#"duplicate field "foo.x""#,
        r#"duplicate field "foo""#,
        r#"duplicate field "food""#,
        r#"duplicate field "foo[1].y""#,
    ]);
    assert_eq!(
        strict_errors(duplicates, texts(&[r#"unknown field "foo""#])),
        [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "food""#,
            r#"unknown field "foo""#
        ]
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = parse_json(&bytes);
        let _ = parse_yaml(&bytes);
    }
}

#[test]
fn a_text_that_stands_for_a_large_value_is_not_read_to_its_end() {
    let maps = format!("{{\"a\":[{}0]}}", "{\"\":0},".repeat(60_000));
    assert_eq!(parse_json(maps.as_bytes()), Err(ParseError::TooLarge(TooLarge)));
    // YAML has the same budget.
    let yaml = format!("a:\n{}", "- b: 0\n".repeat(60_000));
    assert_eq!(parse_yaml(yaml.as_bytes()), Err(ParseError::TooLarge(TooLarge)));
    let text = format!("{{\"a\":\"{}\"}}", "b".repeat(3 << 20));
    assert!(parse_json(text.as_bytes()).is_ok());
}
