use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::*;

fn map(data: &[(&str, &str)], binary: &[(&str, &[u8])]) -> Known<Arc<ConfigMap>> {
    let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    let binary = binary.iter().map(|(key, data)| ((*key).to_owned(), ByteString(data.to_vec())));
    Known::Is(Arc::new(ConfigMap {
        data: Some(data.collect()),
        binary_data: Some(binary.collect()),
        ..ConfigMap::default()
    }))
}

fn secret(data: &[(&str, &str)]) -> Known<Arc<Secret>> {
    let data =
        data.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().into())));
    Known::Is(Arc::new(Secret { data: Some(data.collect()), ..Secret::default() }))
}

fn item(key: &str, path: &str, mode: Option<i32>) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: path.to_owned(), mode }
}

fn wanted(items: &[KeyToPath], mode: i32, optional: bool) -> ObjectRequest<'_> {
    ObjectRequest { name: "x", items, mode, optional }
}

/// Path, text and mode of every file.
fn shown(contents: &Contents) -> Vec<(String, String, u32)> {
    let text = |file: &File| String::from_utf8_lossy(&file.data).into_owned();
    contents.files().map(|(path, file)| (path.to_owned(), text(file), file.mode)).collect()
}

#[test]
fn keys_become_files() {
    let found = || map(&[("a", "1"), ("b", "2")], &[("c", b"\x01\x02")]);
    let files = |list: &[(&str, &str, u32)]| -> Vec<(String, String, u32)> {
        let owned = |(path, text, mode): &(&str, &str, u32)| {
            ((*path).to_owned(), (*text).to_owned(), *mode)
        };
        list.iter().map(owned).collect()
    };
    let cases = [
        (
            vec![],
            0o644,
            false,
            Ok(files(&[("a", "1", 0o644), ("b", "2", 0o644), ("c", "\x01\x02", 0o644)])),
        ),
        (
            vec![item("b", "deep/er/name", None), item("a", "a", Some(0o400))],
            0o444,
            false,
            Ok(files(&[("a", "1", 0o400), ("deep/er/name", "2", 0o444)])),
        ),
        (
            vec![item("no", "name", None)],
            0o644,
            false,
            Err("configmap references non-existent config key: no"),
        ),
        (vec![item("no", "name", None)], 0o644, true, Ok(vec![])),
        (
            vec![item("a", "../up", None)],
            0o644,
            false,
            Err(r#"invalid path "../up": must not contain '..'"#),
        ),
    ];
    for (items, mode, optional, expected) in cases {
        let mut contents = Contents::default();
        let put = contents.put_config_map(&wanted(&items, mode, optional), found());
        let got = put.map(|()| shown(&contents)).map_err(|error| error.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{items:?}");
    }
}

#[test]
fn secrets_are_for_their_owner_only_whatever_mode_is_asked_for() {
    for (asked, given) in
        [(0o644, 0o600), (0o444, 0o400), (0o777, 0o700), (0o400, 0o400), (0o4755, 0o700)]
    {
        let mut contents = Contents::default();
        contents.put_secret(&wanted(&[], asked, false), secret(&[("key", "v")])).unwrap();
        assert_eq!(shown(&contents), [("key".to_owned(), "v".to_owned(), given)]);
        let items = [item("key", "other", Some(asked))];
        let mut contents = Contents::default();
        contents.put_secret(&wanted(&items, 0o600, false), secret(&[("key", "v")])).unwrap();
        assert_eq!(shown(&contents), [("other".to_owned(), "v".to_owned(), given)]);
    }
}

#[test]
fn what_is_missing_is_said_as_a_kubelet_says_it() {
    let unknown = || Known::Unknown("forbidden".to_owned());
    let cases = [
        (Known::<Arc<Secret>>::Absent, false, Err(r#"secret "x" not found"#)),
        (Known::Absent, true, Ok(())),
        (unknown(), false, Err("forbidden")),
        // It may be there: optional is about absence.
        (unknown(), true, Err("forbidden")),
    ];
    for (found, optional, expected) in cases {
        let put = Contents::default().put_secret(&wanted(&[], 0o644, optional), found);
        assert_eq!(put.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }
    let put = Contents::default().put_config_map(&wanted(&[], 0o644, false), Known::Absent);
    assert_eq!(put.unwrap_err().to_string(), r#"configmap "x" not found"#);
    let items = [item("no", "name", None)];
    let put = Contents::default().put_secret(&wanted(&items, 0o644, false), secret(&[]));
    assert_eq!(put.unwrap_err().to_string(), "references non-existent secret key: no");
    let both = ContentError::combine(vec![
        ContentError::NotFound { kind: "secret", name: "a".to_owned() },
        ContentError::NotFound { kind: "configmap", name: "b".to_owned() },
    ]);
    let words = r#"[secret "a" not found, configmap "b" not found]"#;
    assert_eq!(both.unwrap_err().to_string(), words);
}

#[test]
fn paths_stay_inside() {
    let long = "n".repeat(256);
    let cases = [
        ("a", Some("a")),
        ("a/b/c", Some("a/b/c")),
        ("a//b/./c/", Some("a/b/c")),
        ("./a", Some("a")),
        ("a..b", Some("a..b")),
        ("a/..b", Some("a/..b")),
        ("", None),
        (".", None),
        ("/a", None),
        ("..", None),
        ("a/..", None),
        ("a/../b", None),
        ("..data", None),
        ("./..data/x", None),
        ("a\0b", None),
        (long.as_str(), None),
    ];
    for (path, expected) in cases {
        assert_eq!(clean(path).ok().as_deref(), expected, "{path:?}");
    }
}

#[test]
fn a_volume_is_bounded() {
    let mut contents = Contents::default();
    let half = vec![0; MAX_VOLUME_BYTES / 2];
    contents.put("a", half.clone(), 0o644, Kind::Plain).unwrap();
    contents.put("b", half.clone(), 0o644, Kind::Plain).unwrap();
    // In place of another it does not count twice.
    contents.put("b", half.clone(), 0o644, Kind::Plain).unwrap();
    let more = contents.put("c", vec![0], 0o644, Kind::Plain);
    assert_eq!(more, Err(ContentError::TooLarge));

    let mut contents = Contents::default();
    let mut put = |number: usize| contents.put(&number.to_string(), vec![], 0o644, Kind::Plain);
    assert!((0..MAX_FILES).all(|number| put(number).is_ok()));
    assert_eq!(put(MAX_FILES), Err(ContentError::TooLarge));
}

#[test]
fn nothing_is_a_file_and_a_folder() {
    let mut contents = Contents::default();
    for path in ["a", "ab/c", "a/b"] {
        contents.put(path, vec![], 0o644, Kind::Plain).unwrap();
    }
    let error = contents.finish().unwrap_err();
    assert_eq!(error, ContentError::FileAndFolder { path: "a".to_owned() });
}

#[test]
fn top_names_are_told_once() {
    let mut contents = Contents::default();
    for path in ["b/x", "b/y", "a", "b-c", "c/d/e"] {
        contents.put(path, vec![], 0o644, Kind::Plain).unwrap();
    }
    let mut names: Vec<_> = contents.top_names().collect();
    names.dedup();
    assert_eq!(names, ["a", "b-c", "b", "c"]);
}

#[test]
fn contents_are_not_in_debug_output() {
    let mut contents = Contents::default();
    contents.put("key", b"hunter2".to_vec(), 0o600, Kind::Secret).unwrap();
    assert!(!format!("{contents:?}").contains("hunter2"));
    assert_eq!(BTreeMap::from_iter(contents.files())["key"].data, b"hunter2");
}
