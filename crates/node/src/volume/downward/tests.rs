use k8s_openapi::api::core::v1::{
    Container, ObjectFieldSelector, PodSpec, ResourceFieldSelector, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

const ALLOCATABLE: Requests =
    Requests { milli_cpu: 4000, memory: 8 << 30, ephemeral_storage: 100 << 30 };

fn pod() -> Pod {
    let map = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    let limits = BTreeMap::from([("memory".to_owned(), Quantity("100Mi".to_owned()))]);
    let resources =
        Some(ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() });
    Pod {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some("1234".to_owned()),
            labels: map(&[("tier", "front"), ("app", "a\"b\\c\n")]),
            annotations: map(&[("note", "grün\u{1f600}\u{a0}\x07")]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "main".to_owned(),
                resources,
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn field(path: &str, of: &str) -> DownwardAPIVolumeFile {
    let selector = ObjectFieldSelector { field_path: of.to_owned(), ..Default::default() };
    DownwardAPIVolumeFile { path: path.to_owned(), field_ref: Some(selector), ..Default::default() }
}

fn amount(path: &str, container: &str, resource: &str) -> DownwardAPIVolumeFile {
    let selector = ResourceFieldSelector {
        container_name: Some(container.to_owned()),
        resource: resource.to_owned(),
        divisor: Some(Quantity("1Mi".to_owned())),
    };
    let resource_field_ref = Some(selector);
    DownwardAPIVolumeFile { path: path.to_owned(), resource_field_ref, ..Default::default() }
}

#[test]
fn fields_become_files() {
    let items = [
        field("labels", "metadata.labels"),
        field("annotations", "metadata.annotations"),
        field("one", "metadata.labels['tier']"),
        field("none", "metadata.annotations['absent']"),
        field("name", "metadata.name"),
        field("namespace", "metadata.namespace"),
        field("uid", "metadata.uid"),
        amount("memory", "main", "limits.memory"),
        amount("disk", "main", "limits.ephemeral-storage"),
    ];
    let mut contents = Contents::default();
    collect(&mut contents, &items, 0o640, &pod(), ALLOCATABLE).unwrap();
    let expected = [
        ("labels", "app=\"a\\\"b\\\\c\\n\"\ntier=\"front\""),
        ("annotations", "note=\"grün\u{1f600}\\u00a0\\a\""),
        ("one", "front"),
        ("none", ""),
        ("name", "web"),
        ("namespace", "team"),
        ("uid", "1234"),
        ("memory", "100"),
        ("disk", "102400"),
    ];
    assert_eq!(contents.len(), expected.len());
    for (path, text) in expected {
        let file = contents.get(path).unwrap();
        assert_eq!((file.data.as_slice(), file.mode), (text.as_bytes(), 0o640), "{path}");
    }
}

#[test]
fn what_cannot_be_told_is_named() {
    let cases = [
        (field("x", "spec.nodeName"), "unsupported fieldPath: spec.nodeName"),
        (field("x", "status.podIP"), "unsupported fieldPath: status.podIP"),
        (field("x", "metadata.generation"), "unsupported fieldPath: metadata.generation"),
        (amount("x", "other", "limits.cpu"), "container other not found"),
        (amount("x", "main", "limits.gpu"), "unsupported container resource : limits.gpu"),
    ];
    for (item, expected) in cases {
        let collected = collect(&mut Contents::default(), &[item], 0o644, &pod(), ALLOCATABLE);
        assert_eq!(collected.unwrap_err().to_string(), expected);
    }
}

#[test]
fn values_are_quoted_as_go_does() {
    let cases = [
        ("", r#""""#),
        ("plain 'text'", r#""plain 'text'""#),
        ("\t\r\x0b\x0c\x08", r#""\t\r\v\f\b""#),
        ("\x00\x1b\x7f", r#""\x00\x1b\x7f""#),
        ("e\u{301}", "\"e\u{301}\""),
        ("\u{200b}\u{feff}", r#""\u200b\ufeff""#),
        ("\u{e0001}", r#""\U000e0001""#),
    ];
    for (value, expected) in cases {
        let mut out = String::new();
        quote(&mut out, value);
        assert_eq!(out, expected, "{value:?}");
    }
}
