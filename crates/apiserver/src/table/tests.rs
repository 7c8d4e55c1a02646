//! The printers against tables that a kube-apiserver 1.36.3 made of the same objects.

use serde_json::json;

use super::*;

const FIXTURES: &[(&str, &str, &str)] = &[
    ("", "ConfigMap", include_str!("fixtures/configmap.json")),
    ("", "Event", include_str!("fixtures/event.json")),
    ("", "Namespace", include_str!("fixtures/namespace.json")),
    ("", "Node", include_str!("fixtures/node.json")),
    ("", "PersistentVolumeClaim", include_str!("fixtures/persistentvolumeclaim.json")),
    ("", "Pod", include_str!("fixtures/pod.json")),
    ("", "PodTemplate", include_str!("fixtures/podtemplate.json")),
    ("", "Secret", include_str!("fixtures/secret.json")),
    ("", "Service", include_str!("fixtures/service.json")),
    ("", "ServiceAccount", include_str!("fixtures/serviceaccount.json")),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        include_str!("fixtures/customresourcedefinition.json"),
    ),
    ("batch", "Job", include_str!("fixtures/job.json")),
    ("coordination.k8s.io", "Lease", include_str!("fixtures/lease.json")),
    ("events.k8s.io", "Event", include_str!("fixtures/event_v1.json")),
    ("rbac.authorization.k8s.io", "ClusterRole", include_str!("fixtures/clusterrole.json")),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        include_str!("fixtures/clusterrolebinding.json"),
    ),
    ("rbac.authorization.k8s.io", "Role", include_str!("fixtures/role.json")),
    ("rbac.authorization.k8s.io", "RoleBinding", include_str!("fixtures/rolebinding.json")),
];

fn view(now: &str) -> View {
    let now = now.parse().unwrap();
    View { version: MetaVersion::V1, include: Include::Metadata, headers: true, now }
}

fn table(printer: &Printer, view: &View, objects: &[&Object]) -> Value {
    let list = ListMeta::default();
    serde_json::from_slice(&render(printer, view, &list, objects.iter().copied())).unwrap()
}

fn assert_rows(printer: &Printer, fixture: &Value, what: &str) {
    let view = view(fixture.text("now"));
    assert!(!fixture.list("rows").is_empty());
    for expected in fixture.list("rows") {
        let object = expected.at("object").as_object().unwrap();
        let table = table(printer, &view, &[object]);
        let row = &table.list("rows")[0];
        let name = expected.at("object").at("metadata").text("name");
        assert_eq!(row.at("cells"), expected.at("cells"), "{what} {name}");
        assert_eq!(row.get("conditions"), expected.get("conditions"), "{what} {name}");
        assert_eq!(row.list("cells").len(), table.list("columnDefinitions").len());
        assert_eq!(row.at("object").at("metadata"), expected.at("object").at("metadata"));
    }
}

#[test]
fn built_in_kinds_print_as_recorded() {
    for (group, kind, fixture) in FIXTURES {
        let fixture: Value = serde_json::from_str(fixture).unwrap();
        assert_rows(printer(group, kind), &fixture, kind);
    }
}

#[test]
fn custom_kinds_print_as_recorded() {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/widget.json")).unwrap();
    let crd: Value =
        serde_json::from_str(include_str!("fixtures/customresourcedefinition.json")).unwrap();
    let version = &crd.list("rows")[0].at("object").at("spec").list("versions")[0];
    let printer = Printer::custom(version.list("additionalPrinterColumns"));
    assert_rows(&printer, &fixture, "Widget");
    let table = table(&printer, &view(fixture.text("now")), &[]);
    assert_eq!(table.at("columnDefinitions"), fixture.at("columns"));
    assert_eq!(table.at("rows"), &json!([]));
}

#[test]
fn custom_kinds_without_columns_have_name_and_age() {
    let printer = Printer::custom(&[]);
    let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let table = table(&printer, &view("2026-01-01T00:05:00Z"), &[object.as_object().unwrap()]);
    assert_eq!(table.list("rows")[0].at("cells"), &json!(["x", "5m"]));
    let columns = table.list("columnDefinitions");
    let names: Vec<&str> = columns.iter().map(|column| column.text("name")).collect();
    assert_eq!(names, ["Name", "Age"]);
    assert!(columns[1].text("description").starts_with("CreationTimestamp is a timestamp"));
}

#[test]
fn columns_end_at_a_bad_path() {
    let printer = Printer::custom(&[
        json!({"name": "A", "type": "string", "jsonPath": ".a"}),
        json!({"name": "B", "type": "string", "jsonPath": ".b["}),
        json!({"name": "C", "type": "string", "jsonPath": ".c"}),
    ]);
    let object = json!({"metadata": {"name": "x"}, "a": "1", "c": "3"});
    let table = table(&printer, &view("2026-01-01T00:05:00Z"), &[object.as_object().unwrap()]);
    assert_eq!(table.list("rows")[0].at("cells"), &json!(["x", "1"]));
}

#[test]
fn rows_carry_what_is_asked_for() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": "x", "resourceVersion": "7"},
    });
    let object = object.as_object().unwrap();
    let printer = printer("", "ConfigMap");
    let mut view = view("2026-01-01T00:00:00Z");
    view.headers = false;
    let carried = |view: &View, object: &Object| {
        let list = ListMeta::of_object(object);
        let table: Value = serde_json::from_slice(&render(printer, view, &list, [object])).unwrap();
        assert_eq!(table.at("columnDefinitions"), &Value::Null);
        assert_eq!(table.at("metadata"), &json!({"resourceVersion": "7"}));
        assert_eq!(table.text("apiVersion"), view.version.api_version());
        table.list("rows")[0].at("object").clone()
    };
    let metadata = |version: &str| json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": {"name": "x", "resourceVersion": "7"}});
    assert_eq!(carried(&view, object), metadata("meta.k8s.io/v1"));
    view.version = MetaVersion::V1beta1;
    assert_eq!(carried(&view, object), metadata("meta.k8s.io/v1beta1"));
    view.include = Include::Object;
    assert_eq!(carried(&view, object), Value::Object(object.clone()));
    view.include = Include::None;
    assert_eq!(carried(&view, object), Value::Null);
    let end = json!({"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}});
    assert_eq!(carried(&view, end.as_object().unwrap()).text("kind"), "PartialObjectMetadata");
}

#[test]
fn a_bookmark_is_a_row_of_an_empty_object() {
    let object = json!({"metadata": {"resourceVersion": "7"}});
    let object = object.as_object().unwrap();
    let view = view("2026-01-01T00:00:00Z");
    for (group, kind, expected) in [
        ("", "ConfigMap", json!(["", 0, "<unknown>"])),
        (
            "",
            "Pod",
            json!(["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]),
        ),
        ("rbac.authorization.k8s.io", "Role", json!(["", "0001-01-01T00:00:00Z"])),
    ] {
        let table = table(printer(group, kind), &view, &[object]);
        assert_eq!(table.list("rows")[0].at("cells"), &expected);
    }
}

#[test]
fn list_metadata_is_carried() {
    let list = ListMeta { resource_version: "9", continue_token: "a\"b", remaining: Some(67) };
    let bytes = render(printer("", "Pod"), &view("2026-01-01T00:00:00Z"), &list, []);
    let table: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        table.at("metadata"),
        &json!({"resourceVersion": "9", "continue": "a\"b", "remainingItemCount": 67})
    );
}

#[test]
fn the_include_parameter_is_checked() {
    assert_eq!(Include::parse(""), Ok(Include::Metadata));
    assert_eq!(Include::parse("None"), Ok(Include::None));
    assert_eq!(
        Include::parse("Foo"),
        Err(
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must \
             be 'Metadata', 'Object', 'None', or empty"
                .to_owned()
        )
    );
}
