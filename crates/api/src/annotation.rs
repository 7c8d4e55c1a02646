//! Annotations that people write, and how they are spoken of.

use kube::core::ObjectMeta;

/// As much of a text as a message repeats, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// What an annotation says, if it is there.
pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(crate) fn says_true(meta: &ObjectMeta, name: &str) -> bool {
    annotation(meta, name) == Some("true")
}

/// Where an annotation stands.
pub(crate) fn path_of(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// That a text is not what it should be and has no effect.
pub(crate) fn ignored(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!("{shown:?} is not {what} and is ignored")
}
