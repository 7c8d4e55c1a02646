use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn faults_read_as_the_api_answers_them() {
    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                        and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                        '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
                         characters, '-', '_' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for (text, expected) in [
        ("a=b,", "found '', expected: identifier after ','".to_owned()),
        ("a=b,,c", "found ',', expected: identifier after ','".to_owned()),
        ("a in", "unable to parse requirement: found '' expected: '('".to_owned()),
        (
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned(),
        ),
        ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        (
            "a!",
            "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"
                .to_owned(),
        ),
        ("=", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a==b==c", "found '==', expected: ',' or 'end of string'".to_owned()),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' \
             operators, the value must be an integer"
                .to_owned(),
        ),
        (
            "a<",
            "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' \
             operators, the value must be an integer"
                .to_owned(),
        ),
        (
            "-a=b",
            format!("unable to parse requirement: <nil>: Invalid value: \"-a\": name part {NAME}"),
        ),
        (
            "a=-b",
            format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE}"),
        ),
        (
            "a notin (x,-y)",
            format!("unable to parse requirement: values[0][a]: Invalid value: \"-y\": {VALUE}"),
        ),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'".to_owned()),
        (
            "/a",
            "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be \
             non-empty"
                .to_owned(),
        ),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
                .to_owned(),
        ),
        ("(", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a=b)", "found ')', expected: ',' or 'end of string'".to_owned()),
        ("a>=1", "unable to parse requirement: found '=', expected: identifier".to_owned()),
        ("a=!b", "unable to parse requirement: found '!', expected: identifier".to_owned()),
    ] {
        assert_eq!(LabelSelector::parse(text).map_err(|e| e.to_string()), Err(expected), "{text}");
    }
}

#[test]
fn requirements_are_all_needed() {
    let labels = json!({"a": "1", "b": "x", "c": "", "in": "notin"});
    let labels = labels.as_object();
    for (text, expected) in [
        ("", true),
        ("a", true),
        ("!a", false),
        ("z", false),
        ("!z", true),
        ("a=1", true),
        ("a==1,b=x", true),
        ("a=2", false),
        ("a!=1", false),
        ("z!=1", true),
        ("b in (x,y)", true),
        ("b notin (x,y)", false),
        ("z notin (x)", true),
        ("z in (x)", false),
        ("c=", true),
        ("c in ()", true),
        ("c in (,)", true),
        ("b in (,y)", false),
        ("a>0,a<2", true),
        ("a>1", false),
        ("b>0", false),
        ("z<5", false),
        (" a = 1 , b in ( x ) ", true),
        ("in=notin", true),
        ("in in (notin)", true),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(labels), expected, "{text}");
    }
    assert!(LabelSelector::parse("!a").unwrap().matches(None));
    assert!(!LabelSelector::parse("a").unwrap().matches(None));
}

#[test]
fn the_api_type_is_read() {
    let labels = json!({"a": "1", "b": "y"});
    let labels = labels.as_object();
    let selector = LabelSelector::from_api(&json!({
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["z", "y"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert!(selector.matches(labels));
    assert_eq!(selector.to_string(), "a=1,b in (y,z),!c");
    assert!(LabelSelector::from_api(&json!({})).unwrap().is_everything());
    let nothing = LabelSelector::from_api(&json!(null)).unwrap();
    assert!(!nothing.matches(labels) && !nothing.is_everything());
    let fault = |operator: &str, values: Value| {
        let selector =
            json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        LabelSelector::from_api(&selector).unwrap_err().to_string()
    };
    assert_eq!(fault("Gt", json!([])), "\"Gt\" is not a valid label selector operator");
    assert_eq!(
        fault("In", json!([])),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        fault("Exists", json!(["x"])),
        "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"
    );
}

#[test]
fn selectors_in_objects_are_checked() {
    let check = |selector: Value, leniency| {
        let mut errors = crate::field::FieldErrors::new();
        validate(&selector, leniency, &Path::new("sel"), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let strict = Leniency::default();
    assert!(check(json!({"matchLabels": {"a": "b"}}), strict).is_empty());
    let errors = check(json!({"matchLabels": {"-": "-"}}), strict);
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("sel.matchLabels: Invalid value: \"-\": name part"));
    let bad = json!({"matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["-"]},
        {"key": "a", "operator": "Gt"},
    ]});
    let errors = check(bad.clone(), strict);
    assert_eq!(
        errors[..2],
        [
            "sel.matchExpressions[0].values: Required value: must be specified when `operator` is \
             'In' or 'NotIn'",
            "sel.matchExpressions[1].values: Forbidden: may not be specified when `operator` is \
             'Exists' or 'DoesNotExist'",
        ]
    );
    assert!(errors[2].starts_with("sel.matchExpressions[1].values[0]: Invalid value: \"-\""));
    assert_eq!(
        errors[3],
        "sel.matchExpressions[2].operator: Invalid value: \"Gt\": not a valid selector operator"
    );
    assert_eq!(check(bad, Leniency { any_value: true, any_operator: true }).len(), 2);
}

proptest! {
    #[test]
    fn any_text_parses_or_is_refused(text in r"[a-c0-2=!(),<> é\x00in-]{0,30}") {
        let _ = LabelSelector::parse(&text);
    }

    #[test]
    fn a_printed_selector_means_the_same(
        text in r"([ab](=|==|!=)[xy]?|!?[ab]|[ab] (in|notin) \((x|y|x,y)?\)|[ab][<>][12])(,[cd]=z)?"
    ) {
        let selector = LabelSelector::parse(&text).unwrap();
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
