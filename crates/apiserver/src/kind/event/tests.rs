use serde_json::json;

use super::*;

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("no object: {other}"),
    }
}

/// A good Event of `events.k8s.io/v1`, with changes; `null` removes a member.
fn event(changes: Value) -> Object {
    let mut event = object(json!({
        "metadata": {"name": "x", "namespace": "ns1"},
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "regarding": {"namespace": "ns1", "kind": "Pod", "name": "p"},
        "reason": "r", "action": "a", "type": "Normal", "note": "n",
        "reportingController": "a/b", "reportingInstance": "x",
    }));
    for (member, value) in object(changes) {
        crate::kind::set_or_remove(&mut event, &member, Some(value).filter(|v| !v.is_null()));
    }
    event
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn faults(kind: &dyn Kind, obj: &Object) -> Vec<String> {
    let mut errors = crate::field::FieldErrors::new();
    kind.validate(obj, &mut errors);
    texts(&errors)
}

#[test]
fn the_new_group_is_strict() {
    const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
                        must start and end with an alphanumeric character (e.g. 'MyName',  or \
                        'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let long = "x".repeat(129);
    let bad_name = |value: &str| format!("reportingController: Invalid value: \"{value}\": {NAME}");
    let cases: Vec<(Value, Vec<String>)> = vec![
        (json!({}), vec![]),
        (json!({"eventTime": null}), vec!["eventTime: Required value".into()]),
        (
            json!({"reportingController": null}),
            vec![
                "reportingController: Required value".into(),
                "reportingController: Invalid value: \"\": name part must be non-empty".into(),
                bad_name(""),
            ],
        ),
        (json!({"reportingController": "a b"}), vec![bad_name("a b")]),
        (json!({"reportingInstance": null}), vec!["reportingInstance: Required value".into()]),
        (
            json!({"reportingInstance": long}),
            vec!["reportingInstance: Invalid value: \"\": can have at most 128 characters".into()],
        ),
        (json!({"action": null}), vec!["action: Required value".into()]),
        (json!({"reason": null}), vec!["reason: Required value".into()]),
        (
            json!({"reason": long}),
            vec!["reason: Invalid value: \"\": can have at most 128 characters".into()],
        ),
        (
            json!({"note": "x".repeat(1025)}),
            vec!["message: Invalid value: \"\": can have at most 1024 characters".into()],
        ),
        (json!({"type": "Foo"}), vec!["type: Invalid value: \"\": has invalid value: Foo".into()]),
        (json!({"type": null}), vec!["type: Invalid value: \"\": has invalid value: ".into()]),
        (
            json!({
                "deprecatedCount": 2, "deprecatedSource": {"component": "c"},
                "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
            }),
            vec![
                "firstTimestamp: Invalid value: \"\": needs to be unset".into(),
                "lastTimestamp: Invalid value: \"\": needs to be unset".into(),
                "count: Invalid value: \"\": needs to be unset".into(),
                "source: Invalid value: \"\": needs to be unset".into(),
            ],
        ),
        (
            json!({"series": {"count": 1}}),
            vec![
                "series.count: Invalid value: \"\": should be at least 2".into(),
                "series.lastObservedTime: Required value".into(),
            ],
        ),
        (
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
            vec![],
        ),
        (json!({"regarding": {"namespace": "other"}}), vec![]),
        (
            json!({"regarding": {"kind": "Node"}}),
            vec![
                "involvedObject.namespace: Invalid value: \"\": does not match event.namespace"
                    .into(),
            ],
        ),
        (json!({"regarding": {"kind": "Node"}, "metadata": {"namespace": "kube-system"}}), vec![]),
    ];
    for (changes, expected) in cases {
        assert_eq!(faults(&Event, &event(changes.clone())), expected, "{changes}");
    }
}

#[test]
fn the_old_group_is_lenient() {
    let core = |value: Value| faults(&CoreEvent, &object(value));
    let in_ns1 = json!({"name": "x", "namespace": "ns1"});
    let good = json!({"metadata": in_ns1, "involvedObject": {"namespace": "ns1"}, "type": "Foo"});
    assert!(core(good).is_empty());
    assert!(core(json!({"metadata": {"namespace": "default"}})).is_empty());
    for involved in ["o", ""] {
        assert_eq!(
            core(json!({"metadata": in_ns1, "involvedObject": {"namespace": involved}})),
            [format!(
                "involvedObject.namespace: Invalid value: \"{involved}\": does not match \
                 event.namespace"
            )]
        );
    }
    let new_style = core(json!({
        "metadata": in_ns1, "involvedObject": {"namespace": "ns1"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "",
    }));
    assert_eq!(new_style[0], "reportingComponent: Required value");
    assert_eq!(
        new_style[3..],
        ["reportingInstance: Required value", "action: Required value", "reason: Required value"]
    );
}

#[test]
fn only_the_series_of_a_new_event_changes() {
    let update = |new: &Object, old: &Object| {
        let mut errors = crate::field::FieldErrors::new();
        Event.validate_update(new, old, &mut errors);
        texts(&errors)
    };
    let old = event(json!({}));
    assert!(update(&old, &old).is_empty());
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    assert!(update(&event(series), &old).is_empty());
    assert_eq!(update(&event(json!({"series": {"count": 1}})), &old).len(), 2);
    let changed = event(json!({
        "note": "z", "reason": "q", "type": "Warning", "action": "z",
        "reportingController": "a/z", "reportingInstance": "zz", "regarding": {"namespace": "ns1"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "related": {"name": "x"}, "deprecatedCount": 3,
        "deprecatedSource": {"component": "q"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    }));
    let reference = |namespace: &str, name: &str| {
        format!(
            "{{\"Kind\":\"\",\"Namespace\":\"{namespace}\",\"Name\":\"{name}\",\"UID\":\"\",\
             \"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}}"
        )
    };
    assert_eq!(
        update(&changed, &old),
        [
            format!("involvedObject: Invalid value: {}: field is immutable", reference("ns1", "")),
            "reason: Invalid value: \"q\": field is immutable".to_owned(),
            "message: Invalid value: \"z\": field is immutable".to_owned(),
            "source: Invalid value: {\"Component\":\"q\",\"Host\":\"\"}: field is immutable"
                .to_owned(),
            "firstTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable"
                .to_owned(),
            "count: Invalid value: 3: field is immutable".to_owned(),
            "reason: Invalid value: \"q\": field is immutable".to_owned(),
            "type: Invalid value: \"Warning\": field is immutable".to_owned(),
            "eventTime: Invalid value: \"2026-01-01T00:00:00.000000Z\": field is immutable"
                .to_owned(),
            "action: Invalid value: \"z\": field is immutable".to_owned(),
            format!("related: Invalid value: {}: field is immutable", reference("", "x")),
            "reportingController: Invalid value: \"a/z\": field is immutable".to_owned(),
            "reportingInstance: Invalid value: \"zz\": field is immutable".to_owned(),
        ]
    );
    // The old group lets everything change.
    let (mut new, mut old) = (changed, old);
    to_core(&mut new);
    to_core(&mut old);
    let mut errors = crate::field::FieldErrors::new();
    CoreEvent.validate_update(&new, &old, &mut errors);
    assert!(errors.is_empty());
}

#[test]
fn the_forms_turn_into_each_other() {
    // Each pair was served by one kube-apiserver for one Event.
    for (core, new) in [
        (
            json!({
                "apiVersion": "v1", "metadata": {"name": "e1"},
                "involvedObject": {"kind": "Pod", "fieldPath": "spec.containers{a}"},
                "reason": "Pulled", "message": "  hello\n",
                "source": {"component": "kubelet", "host": "n1"},
                "firstTimestamp": "2026-11-15T18:16:50Z", "lastTimestamp": "2026-11-15T21:11:50Z",
                "count": 4, "type": "Normal", "eventTime": null, "reportingComponent": "",
                "reportingInstance": "",
            }),
            json!({
                "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e1"}, "eventTime": null,
                "reason": "Pulled", "regarding": {"kind": "Pod", "fieldPath": "spec.containers{a}"},
                "note": "  hello\n", "type": "Normal",
                "deprecatedSource": {"component": "kubelet", "host": "n1"},
                "deprecatedFirstTimestamp": "2026-11-15T18:16:50Z",
                "deprecatedLastTimestamp": "2026-11-15T21:11:50Z", "deprecatedCount": 4,
            }),
        ),
        (
            json!({
                "apiVersion": "v1", "metadata": {"name": "e4"},
                "involvedObject": {"kind": "Pod", "name": "q"}, "reason": "R",
                "message": "the note", "source": {}, "firstTimestamp": null, "lastTimestamp": null,
                "type": "Warning", "eventTime": "2026-11-08T21:16:50.014999Z",
                "series": {"count": 9, "lastObservedTime": "2026-11-15T21:15:20.014999Z"},
                "action": "A", "reportingComponent": "ex.dev/c", "reportingInstance": "c-1",
            }),
            json!({
                "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e4"},
                "eventTime": "2026-11-08T21:16:50.014999Z",
                "series": {"count": 9, "lastObservedTime": "2026-11-15T21:15:20.014999Z"},
                "reportingController": "ex.dev/c", "reportingInstance": "c-1", "action": "A",
                "reason": "R", "regarding": {"kind": "Pod", "name": "q"}, "note": "the note",
                "type": "Warning", "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
                "deprecatedLastTimestamp": null,
            }),
        ),
    ] {
        let mut served = object(core.clone());
        from_core(&mut served);
        assert_eq!(Value::Object(served), new);
        let mut stored = object(new);
        to_core(&mut stored);
        assert_eq!(Value::Object(stored), core);
    }
}

#[test]
fn both_forms_are_selected_by_the_same_values() {
    let new = event(json!({}));
    let mut core = new.clone();
    to_core(&mut core);
    let fields = CoreEvent.selectable_fields().iter().zip(Event.selectable_fields());
    for (core_label, new_label) in fields {
        let value = CoreEvent.selectable_field(&core, core_label);
        assert_eq!(value, Event.selectable_field(&new, new_label));
        assert_eq!(value, Event.selectable_field(&core, new_label));
    }
    assert_eq!(CoreEvent.selectable_field(&core, "involvedObject.name"), "p");
    assert_eq!(CoreEvent.selectable_field(&core, "source"), "a/b");
    assert_eq!(CoreEvent.selectable_field(&core, "type"), "Normal");
    core.insert("source".to_owned(), json!({"component": "kubelet"}));
    assert_eq!(CoreEvent.selectable_field(&core, "source"), "kubelet");
}
