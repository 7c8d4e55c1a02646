//! Where the data is, and what to tell people when it cannot be opened.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use sojourn_apiserver::OpenError;
use sojourn_apiserver::folder::FolderError;

use crate::exit::{Exit, Failure};

/// The folder that was asked for, or else the user's own; absolute, since people will paste it.
pub(super) fn directory(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let directory = asked.or_else(|| default_directory(|name: &str| std::env::var_os(name)));
    let directory = directory.ok_or_else(|| {
        let error =
            anyhow!("cannot tell where to keep data: neither XDG_DATA_HOME nor HOME is set");
        Failure::new(Exit::Usage, error, "Say where: --data DIR.")
    })?;
    std::path::absolute(&directory)
        .with_context(|| format!("cannot tell where {} is", directory.display()))
        .map_err(|error| Failure::new(Exit::Usage, error, "Say where: --data DIR."))
}

/// Where the XDG base directory specification puts a user's data.
fn default_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path is to be ignored, says the specification.
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?;
    Some(data.join("sojourn"))
}

/// Says what to do about a data folder that cannot be opened.
pub(super) fn open_failure(error: OpenError) -> Failure {
    let advice = match &error {
        OpenError::Locked { .. } => {
            "Stop that one first, or use another folder: --data DIR.".to_owned()
        }
        OpenError::Directory { source, .. } => directory_advice(source.kind()).to_owned(),
        OpenError::Folder(error) => folder_advice(error),
        OpenError::Database { .. } => {
            "See that the folder can be written and that the disk has room, then try again."
                .to_owned()
        }
        OpenError::Newer { .. } => {
            "Use the newer version, or another folder: --data DIR.".to_owned()
        }
        OpenError::NoRandomness(_) => {
            "See that /dev/urandom and getrandom(2) work here, then try again.".to_owned()
        }
        OpenError::Damaged { path, .. } => format!(
            "Put a backup in its place (see `sojourn backup --help`), or move {} away to start anew.",
            path.display()
        ),
    };
    Failure::unavailable(error, advice)
}

/// Says what to do about a folder, or a file in it, that cannot or must not be used.
pub(super) fn folder_advice(error: &FolderError) -> String {
    error.kind().map_or_else(|| error.advice(), |kind| directory_advice(kind).to_owned())
}

pub(super) fn folder_failure(error: FolderError) -> Failure {
    let advice = folder_advice(&error);
    Failure::unavailable(error, advice)
}

const fn directory_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => {
            "Let this user write there, or use another folder: --data DIR."
        }
        ErrorKind::ReadOnlyFilesystem => {
            "The file system is read-only. Use another folder: --data DIR."
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "Free some space there, or use another folder: --data DIR."
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "Something that is no folder is in the way. Use another folder: --data DIR."
        }
        _ => "Use another folder: --data DIR.",
    }
}

/// A path as it can be pasted into a shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_kept_where_the_desktop_specification_says() {
        let with = |variables: &'static [(&str, &str)]| {
            default_directory(move |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.local/share/sojourn".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")]), Some("/d/sojourn".into()));
        assert_eq!(
            with(&[("HOME", "/h"), ("XDG_DATA_HOME", "relative")]),
            Some("/h/.local/share/sojourn".into())
        );
    }

    #[test]
    fn paths_are_quoted_when_a_shell_would_split_them() {
        assert_eq!(quoted(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
