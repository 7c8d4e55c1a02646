//! Objects as files have them: YAML or JSON, one or many in a file, files in folders.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// A manifest is a few kilobytes; the API takes 3 MiB of one object.
const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 10_000;
const MAX_FOLDER_DEPTH: usize = 32;
/// A List of Lists is nobody's intention, but allowed.
const MAX_LIST_DEPTH: usize = 8;
/// What counts as a manifest in a folder.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// One object, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manifest {
    /// The file, and which of its documents.
    pub(super) source: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) value: Value,
}

/// Everything in these files and folders, in order. All of it is read before anything is done with it.
pub(super) fn read_all(paths: &[PathBuf], recursive: bool) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            read_one("stdin", io::stdin().lock(), &mut manifests)?;
            continue;
        }
        let mut files = Vec::new();
        collect(path, recursive, &mut files)?;
        for file in files {
            let name = file.display().to_string();
            let opened = File::open(&file).map_err(|error| unreadable(&file, &error))?;
            read_one(&name, opened, &mut manifests)?;
        }
    }
    if manifests.is_empty() {
        let advice = "Name files with manifests, or folders with *.yaml, *.yml or *.json; folders in \
                      folders: -R.";
        return Err(Failure::new(
            Exit::Usage,
            anyhow!("there is no object in what was named"),
            advice,
        ));
    }
    Ok(manifests)
}

/// The file itself, or what is in the folder, by name.
fn collect(path: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.is_dir() {
        return collect_folder(path, recursive, MAX_FOLDER_DEPTH, files);
    }
    files.push(path.to_owned());
    Ok(())
}

fn collect_folder(
    folder: &Path,
    recursive: bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let too_much = |what: &str| {
        let error = anyhow!("{} has {what}", folder.display());
        Failure::new(Exit::Usage, error, "Name the folders that are meant one by one.")
    };
    if depth == 0 {
        return Err(too_much("folders in folders without end"));
    }
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| unreadable(folder, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A folder behind a link may be one that this is in.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && recursive {
            collect_folder(&path, recursive, depth - 1, files)?;
        } else if is_manifest(&path) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(too_much("too many files"));
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
        && fs::metadata(path).is_ok_and(|found| found.is_file())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        kind => kind.to_string(),
    };
    let error = anyhow!("cannot read {}: {why}", path.display());
    Failure::new(Exit::Usage, error, "Say which file or folder: -f FILE.")
}

/// The objects of one file.
fn read_one(name: &str, file: impl Read, manifests: &mut Vec<Manifest>) -> Result<(), Failure> {
    let usage = |error, advice: &str| Failure::new(Exit::Usage, error, advice);
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    let read = read.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::InvalidData => "it is no text".to_owned(),
            kind => kind.to_string(),
        };
        usage(anyhow!("cannot read {name}: {why}"), "Manifests are YAML or JSON, in UTF-8.")
    })?;
    if read as u64 > MAX_FILE_BYTES {
        let error = anyhow!("{name} has more than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(usage(error, "Split it into several files."));
    }
    let documents = parse(&text)
        .with_context(|| format!("cannot read {name}"))
        .map_err(|error| usage(error, "Manifests are YAML or JSON."))?;
    for (number, document) in (1..).zip(documents) {
        let source = format!("{name}, document {number}");
        add(&source, document, MAX_LIST_DEPTH, manifests)
            .map_err(|error| usage(error, "Every object has an apiVersion, a kind and a name."))?;
    }
    Ok(())
}

/// The documents of a text; empty ones are left out.
fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with('{') {
        let documents: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(documents) = documents {
            return Ok(documents);
        }
    }
    // As the API reads YAML.
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| anyhow!("{}", error.without_snippet()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Adds an object, or what is in a List.
fn add(
    source: &str,
    value: Value,
    depth: usize,
    manifests: &mut Vec<Manifest>,
) -> anyhow::Result<()> {
    let text = |pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let missing = |what: &str| anyhow!("{source} has no {what}");
    let api_version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
    let kind = text("/kind").ok_or_else(|| missing("kind"))?;
    if let (Some(of), Some(Value::Array(items))) = (kind.strip_suffix("List"), value.get("items")) {
        anyhow::ensure!(depth > 0, "{source} has Lists in Lists without end");
        for item in items {
            let mut item = item.clone();
            // The items of a list that the API gave do not say what they are: the list does.
            if let (false, Value::Object(fields)) = (of.is_empty(), &mut item) {
                fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                fields.entry("kind").or_insert_with(|| of.into());
            }
            add(source, item, depth - 1, manifests)?;
        }
        return Ok(());
    }
    let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?;
    let namespace = text("/metadata/namespace");
    manifests.push(Manifest {
        source: source.to_owned(),
        api_version,
        kind,
        name,
        namespace,
        value,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Manifest>, String> {
        let mut manifests = Vec::new();
        match read_one("FILE", text.as_bytes(), &mut manifests) {
            Ok(()) => Ok(manifests),
            Err(failure) => Err(format!("{:#}", failure.error)),
        }
    }

    fn names(manifests: &[Manifest]) -> Vec<String> {
        manifests
            .iter()
            .map(|one| format!("{} {}/{}", one.api_version, one.kind, one.name))
            .collect()
    }

    #[test]
    fn every_document_of_a_file_is_an_object() {
        let text = "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\n\
                    apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: b, namespace: lab}\n---\n";
        let read = read(text).expect("manifests");
        assert_eq!(names(&read), ["v1 ConfigMap/a", "example.com/v1 CronTab/b"]);
        assert_eq!(
            (read[0].namespace.as_deref(), read[1].namespace.as_deref()),
            (None, Some("lab"))
        );
        assert_eq!(read[1].source, "FILE, document 2");
    }

    #[test]
    fn json_and_lists_are_read_too() {
        let text = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "b"}}]}
        ]} {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}"#;
        let read = read(text).expect("manifests");
        assert_eq!(names(&read), ["v1 Secret/a", "v1 ConfigMap/b", "v1 Pod/c"]);
    }

    /// Not every kind that ends so is a list.
    #[test]
    fn an_object_that_is_called_a_list_is_an_object() {
        let read = read("{apiVersion: example.com/v1, kind: AllowList, metadata: {name: a}}");
        assert_eq!(names(&read.expect("manifests")), ["example.com/v1 AllowList/a"]);
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for (text, words) in [
            ("kind: Pod", "FILE, document 1 has no apiVersion"),
            ("apiVersion: v1", "FILE, document 1 has no kind"),
            ("{apiVersion: v1, kind: Pod}", "FILE, document 1 has no metadata.name"),
            ("just words", "FILE, document 1 has no apiVersion"),
            ("a: [", "cannot read FILE: "),
            ("a: 1\na: 2", "cannot read FILE: "),
            ("{\"a\": ", "cannot read FILE: "),
        ] {
            let refused = read(text).expect_err("it is no object");
            assert!(refused.starts_with(words), "{text}: {refused}");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
        let large = io::repeat(b'#');
        let refused = read_one("FILE", large, &mut Vec::new()).expect_err("too large");
        assert_eq!(refused.error.to_string(), "FILE has more than 16 MiB");
    }

    #[test]
    fn a_folder_is_read_by_name_and_its_folders_on_demand() {
        let parent = std::env::temp_dir().join(format!("sojourn-manifest-{}", std::process::id()));
        let write = |name: &str| {
            let path = parent.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            let named = name.replace(['/', '.', '_'], "-");
            fs::write(path, format!("{{apiVersion: v1, kind: A, metadata: {{name: x{named}}}}}"))
                .expect("written");
        };
        ["b.yaml", "a.json", "c.yml", "notes.txt", "aa/z.yaml"].into_iter().for_each(write);
        let found = |recursive| {
            let all = read_all(std::slice::from_ref(&parent), recursive).expect("manifests");
            all.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(found(false), ["xa-json", "xb-yaml", "xc-yml"]);
        assert_eq!(found(true), ["xa-json", "xaa-z-yaml", "xb-yaml", "xc-yml"]);
        let one = read_all(&[parent.join("notes.txt")], false).expect("whoever names it means it");
        assert_eq!(one.len(), 1);
        let empty = parent.join("empty");
        fs::create_dir(&empty).expect("made");
        let refused = read_all(&[empty], true).expect_err("nothing is in it");
        assert_eq!(refused.exit, Exit::Usage);
        fs::remove_dir_all(&parent).expect("removed");
        let gone = read_all(&[parent], false).expect_err("it is gone");
        assert!(gone.error.to_string().ends_with("there is no such file or folder"));
    }
}
