//! Names of entries, and which links may be entries.
//!
//! Whoever unpacks an archive does it with a tool that we do not know, so a name holds nothing that
//! any of them could take for a way out: no backslash, no drive, no control character, nothing that
//! is not UTF-8. What is replaced is replaced by `_`, never removed, so that no `..` can form.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;

/// The longest name that common file systems keep.
const MAX_NAME_BYTES: usize = 255;

/// A name as the folder has it, and as the archive gets it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub raw: CString,
    /// `None` where it is the same.
    pub replaced: Option<String>,
}

impl Named {
    pub(super) fn clean(&self) -> Cow<'_, str> {
        match &self.replaced {
            Some(name) => Cow::Borrowed(name),
            None => self.raw.to_string_lossy(),
        }
    }
}

/// The names of one folder in a fixed order, each with a clean name of its own.
pub(super) fn distinct(mut names: Vec<CString>) -> Vec<Named> {
    names.sort_unstable();
    let mut named: Vec<Named> = names
        .into_iter()
        .map(|raw| {
            let replaced = match clean(raw.as_bytes()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(name) => Some(name),
            };
            Named { raw, replaced }
        })
        .collect();
    if named.iter().all(|name| name.replaced.is_none()) {
        return named;
    }
    // Names that were clean before keep theirs.
    let mut taken: HashSet<String> = named
        .iter()
        .filter(|name| name.replaced.is_none())
        .map(|name| name.clean().into_owned())
        .collect();
    let mut tried: HashMap<String, u32> = HashMap::new();
    for name in named.iter_mut().filter_map(|name| name.replaced.as_mut()) {
        if taken.contains(name.as_str()) {
            let counter = tried.entry(name.clone()).or_insert(1);
            *name = loop {
                *counter += 1;
                let other = with_suffix(name, *counter);
                if !taken.contains(&other) {
                    break other;
                }
            };
        }
        taken.insert(name.clone());
    }
    named
}

/// A name for an entry of our own, beside those of the folder.
pub(super) fn free_beside(wanted: &str, names: &[Named]) -> String {
    let taken = |name: &str| names.iter().any(|other| other.clean() == name);
    if !taken(wanted) {
        return wanted.to_owned();
    }
    (2..)
        .map(|number: u32| with_suffix(wanted, number))
        .find(|name| !taken(name))
        .expect("a folder has fewer names than there are numbers")
}

/// One part of a path as the archive may have it.
fn clean(raw: &[u8]) -> Cow<'_, str> {
    if let Ok(name) = std::str::from_utf8(raw)
        && !name.contains(is_unfit)
        && !has_drive(raw)
    {
        return Cow::Borrowed(name);
    }
    let mut name = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        name.extend(chunk.valid().chars().map(|c| if is_unfit(c) { '_' } else { c }));
        name.extend(chunk.invalid().iter().map(|_| '_'));
    }
    if has_drive(name.as_bytes()) {
        name.replace_range(1..2, "_");
    }
    Cow::Owned(name)
}

/// Separators of some system, characters that control a terminal, and those that make a name look
/// like another (line separators, changes of direction).
pub(super) fn is_unfit(c: char) -> bool {
    c == '\\'
        || c == '/'
        || c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn has_drive(name: &[u8]) -> bool {
    matches!(name, [letter, b':', ..] if letter.is_ascii_alphabetic())
}

fn with_suffix(name: &str, number: u32) -> String {
    let suffix = format!("~{number}");
    let mut end = name.len().min(MAX_NAME_BYTES - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

/// The target of a link that lies `depth` folders below the volume's root, when the link can be kept.
///
/// It is when it is relative and goes up only at its beginning, and not above the root: the folders
/// above a link are real ones, so those steps are what they seem. A step up after another name is
/// not, since that name may be a link itself.
pub(super) fn inner_target(depth: usize, target: &[u8]) -> Option<&str> {
    let target = std::str::from_utf8(target).ok()?;
    if target.is_empty() || has_drive(target.as_bytes()) {
        return None;
    }
    if target.chars().any(|c| c != '/' && is_unfit(c)) || target.starts_with('/') {
        return None;
    }
    let mut ups = 0;
    let mut descended = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if descended => return None,
            ".." => ups += 1,
            _ => descended = true,
        }
    }
    (ups <= depth).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_kept_when_every_step_of_it_stays_inside() {
        for (depth, target, kept) in [
            (0, "a/b", true),
            (0, "./a", true),
            (0, ".", true),
            (2, "../../a", true),
            (1, "../../a", false),
            (0, "..", false),
            (5, "a/..", false),
            (5, "a/./../b", false),
            (5, "/a", false),
            (5, "a\\b", false),
            (5, "C:a", false),
            (5, "a\nb", false),
            (5, "", false),
        ] {
            assert_eq!(inner_target(depth, target.as_bytes()).is_some(), kept, "{target}");
        }
        assert_eq!(inner_target(0, b"a\xff"), None);
    }

    #[test]
    fn names_that_collide_get_a_number_and_stay_short_enough() {
        let long = "ä".repeat(127);
        let names = [b"a\x01".to_vec(), b"a\x02".to_vec(), b"a_".to_vec(), b"a_~2".to_vec()]
            .into_iter()
            .chain([[long.as_bytes(), b"\x01"].concat(), [long.as_bytes(), b"\x02"].concat()])
            .map(|name| CString::new(name).unwrap())
            .collect();
        let named = distinct(names);
        let clean: Vec<_> = named.iter().map(Named::clean).collect();
        let shortened = format!("{}~2", "ä".repeat(126));
        assert_eq!(clean, ["a_~3", "a_~4", "a_", "a_~2", &format!("{long}_"), &shortened]);
        assert!(clean.iter().all(|name| name.len() <= MAX_NAME_BYTES));
    }
}
