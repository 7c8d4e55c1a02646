use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn sample() -> Object {
    let Value::Object(object) = json!({
        "metadata": {"annotations": {"x.y/z": "anno"}},
        "spec": {
            "color": "red", "n": 2, "half": 0.5, "nul": null, "on": true,
            "tags": ["a", "b", "c"], "empty": [], "a": {"b": {"c": "deep"}},
        },
        "status": {"conditions": [
            {"type": "Other", "status": "False", "n": 1},
            {"type": "Ready", "status": "True", "n": 5, "on": true},
        ]},
    }) else {
        unreachable!("an object literal")
    };
    object
}

fn find(path: &str) -> Option<Value> {
    JsonPath::parse(path).unwrap().first(&sample()).cloned()
}

#[test]
fn paths_find_the_first_value() {
    for (path, expected) in [
        (".spec.color", Some(json!("red"))),
        (".spec.missing", None),
        (".spec.color.deeper", None),
        (".spec.nul", Some(json!(null))),
        (".spec.nul.deeper", None),
        (".spec.tags[0]", Some(json!("a"))),
        (".spec.tags[]", Some(json!("a"))),
        (".spec.tags[-1]", Some(json!("c"))),
        (".spec.tags[-1:]", Some(json!("c"))),
        (".spec.tags[1:]", Some(json!("b"))),
        (".spec.tags[1:1]", None),
        (".spec.tags[0:3:2]", Some(json!("a"))),
        (".spec.tags[0:3:0]", None),
        (".spec.tags[3]", None),
        (".spec.tags[*]", Some(json!("a"))),
        (".spec.tags[1,0]", Some(json!("b"))),
        (".spec.tags", Some(json!(["a", "b", "c"]))),
        (".spec.empty[0]", None),
        (".spec.color[0]", None),
        (".spec['color']", Some(json!("red"))),
        (".spec['a.b'].c", Some(json!("deep"))),
        (".spec['color','n']", Some(json!("red"))),
        (r".metadata.annotations.x\.y/z", Some(json!("anno"))),
        (r".metadata.annotations['x\.y/z']", Some(json!("anno"))),
        (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
        (".status.conditions[?(@.type=='Ready')].status", Some(json!("True"))),
        (".status.conditions[?(@.type == 'Ready')].status", Some(json!("True"))),
        (".status.conditions[?(@.type!='Ready')].status", Some(json!("False"))),
        (".status.conditions[?(@.n>1)].status", Some(json!("True"))),
        (".status.conditions[?(@.n<=1)].status", Some(json!("False"))),
        (".status.conditions[?(@.n>=5)].status", Some(json!("True"))),
        (".status.conditions[?(@.on)].type", Some(json!("Ready"))),
        (".status.conditions[?(@.on==true)].type", Some(json!("Ready"))),
        (".status.conditions[?(@.n==1.5)].type", None),
        (".status.conditions[?(@.n=='1')].type", None),
        (".status.conditions[?(@.n=<1)].type", None),
        (".status.conditions[?(type=='x')].type", None),
        (".spec[?(@.x==1)]", None),
        ("..color", Some(json!("red"))),
        (".spec.a..c", Some(json!("deep"))),
        (".spec.a.*.c", Some(json!("deep"))),
        (".", None),
        (".spec.color}{.spec.n", Some(json!("red"))),
        ("$.spec.n", Some(json!(2))),
    ] {
        assert_eq!(find(path), expected, "{path}");
    }
}

#[test]
fn paths_find_every_value() {
    let root = Value::Object(sample());
    let path = |path: &str| JsonPath::parse(path).unwrap();
    assert_eq!(path(".spec.tags[*]").find(&root), [&json!("a"), &json!("b"), &json!("c")]);
    assert_eq!(path(".status.conditions[*].n").find(&root), [&json!(1), &json!(5)]);
    assert!(path(".spec.none[*]").find(&root).is_empty());
    assert!(path(".spec.color[*]").find(&root).is_empty());
}

#[test]
fn bad_paths_are_refused() {
    for (path, error) in [
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
        (".a[-]", "array index - is not a number"),
        (".a[?(@.b", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        (".a[?('b)]", "unterminated filter"),
        (".a....b", "invalid multiple recursive descent"),
        ("# a", "unrecognized character in action: U+0023 '#'"),
        ("'a", "unterminated quoted string"),
        (r"'\q'", r"unquote string '\q' error invalid syntax"),
        (".a\nb", "unclosed action"),
        ("-", "cannot parse number -"),
        (".a}{.b[", "unterminated array"),
    ] {
        assert_eq!(
            JsonPath::parse(path).map_err(|e| e.to_string()),
            Err(error.to_owned()),
            "{path}"
        );
    }
}

proptest! {
    #[test]
    fn no_path_panics(path in r#"[.\[\]?()@$'",:*{}\\=<>! a-c0-3é-]{0,40}"#) {
        if let Ok(path) = JsonPath::parse(&path) {
            path.first(&sample());
        }
    }
}
