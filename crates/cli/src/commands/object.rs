//! Objects of any kind on stdout, and how people name several of them.

use anyhow::anyhow;
use serde_json::{Value, json};

use super::table;
use crate::args::ObjectOutput;
use crate::exit::{Exit, Failure};

/// What somebody typed: a word for kinds, and the names of objects; none of those means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) word: String,
    pub(super) names: Vec<String>,
}

/// Reads `KIND/NAME …`, or `KIND[,KIND…] [NAME…]`.
pub(super) fn selections(typed: &[String]) -> Result<Vec<Selection>, Failure> {
    let usage = |problem: String| {
        let advice = "Write KIND/NAME, as often as wanted, or a kind and names, such as pods web.";
        Failure::new(Exit::Usage, anyhow!(problem), advice)
    };
    if let Some(bad) = typed.iter().find(|word| word.is_empty()) {
        return Err(usage(format!("{bad:?} names nothing")));
    }
    if typed.iter().any(|word| word.contains('/')) {
        let mut selections: Vec<Selection> = Vec::new();
        for word in typed {
            let (kind, name) = match word.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() => (kind, name),
                _ => return Err(usage(format!("{word} is no KIND/NAME, and others are"))),
            };
            match selections.iter_mut().find(|selection| selection.word == kind) {
                Some(selection) => selection.names.push(name.to_owned()),
                None => selections
                    .push(Selection { word: kind.to_owned(), names: vec![name.to_owned()] }),
            }
        }
        return Ok(selections);
    }
    let Some((kinds, names)) = typed.split_first() else {
        return Err(usage("nothing is named".to_owned()));
    };
    let words = kinds.split(',').filter(|word| !word.is_empty());
    let selection = |word: &str| Selection { word: word.to_owned(), names: names.to_vec() };
    Ok(words.map(selection).collect())
}

/// Writes objects for programs: one as it is if it alone was asked for, else a List.
pub(super) fn write(
    objects: &[(String, Value)],
    output: ObjectOutput,
    single: bool,
) -> Result<(), Failure> {
    if output == ObjectOutput::Name {
        for (name, _) in objects {
            table::write(&format!("{name}\n"));
        }
        return Ok(());
    }
    let mut all: Vec<Value> = objects.iter().map(|(_, object)| object.clone()).collect();
    all.iter_mut().for_each(without_managers);
    let value = match (single, all.len()) {
        (true, 1) => all.remove(0),
        _ => json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": all,
        }),
    };
    match output {
        ObjectOutput::Json => table::json(&value),
        ObjectOutput::Yaml | ObjectOutput::Name => table::yaml(&value),
    }
}

/// Who set which field is half of a small object, and for the server alone.
pub(super) fn without_managers(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
        let typed: Vec<String> = typed.iter().map(|word| (*word).to_owned()).collect();
        let read = selections(&typed).map_err(|failure| failure.error.to_string())?;
        Ok(read.into_iter().map(|one| (one.word, one.names)).collect())
    }

    #[test]
    fn objects_are_named_as_with_kubectl() {
        let one = |word: &str, names: &[&str]| {
            (word.to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read(&["pods"]), Ok(vec![one("pods", &[])]));
        assert_eq!(read(&["pods", "a", "b"]), Ok(vec![one("pods", &["a", "b"])]));
        assert_eq!(read(&["pods,secrets"]), Ok(vec![one("pods", &[]), one("secrets", &[])]));
        assert_eq!(
            read(&["pod/a", "secret/b", "pod/c"]),
            Ok(vec![one("pod", &["a", "c"]), one("secret", &["b"])])
        );
        for typed in [&["pod/a", "b"][..], &["pod/"], &["/a"], &[""], &["b", "pod/a"]] {
            assert!(read(typed).is_err(), "{typed:?}");
        }
    }
}
