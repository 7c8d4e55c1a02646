//! What a volume made from objects of the API holds: files by path, before they are on disk.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Secret};

use crate::known::Known;

/// Bytes of one volume. An object of the API holds 1 MiB; a projected volume joins a few of them.
const MAX_VOLUME_BYTES: usize = 16 << 20;
/// Files of one volume, as each costs an inode and a directory entry however small it is.
const MAX_FILES: usize = 4096;
/// As the kernel has it, and the API's own checks.
const MAX_NAME_BYTES: usize = 255;
const MAX_PATH_BYTES: usize = 4096;

/// What Kubernetes gives a file whose mode nobody chose.
pub(super) const DEFAULT_MODE: i32 = 0o644;
const PERMISSIONS: u32 = 0o777;
/// All that is left of a mode for something secret: the Pod's user is the only one that reads it.
const OWNER_ONLY: u32 = 0o700;

/// Why the contents of a volume cannot be had: the end of a sentence that names the volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContentError {
    #[error("{kind} {name:?} not found")]
    NotFound { kind: &'static str, name: String },
    #[error("{0}")]
    Unknown(String),
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    #[error("invalid path {path:?}: {why}")]
    BadPath { path: String, why: &'static str },
    #[error("{path:?} would have to be a file and a folder at once")]
    FileAndFolder { path: String },
    #[error("it would hold more than {MAX_VOLUME_BYTES} bytes in at most {MAX_FILES} files")]
    TooLarge,
    #[error("{0}")]
    Field(#[from] crate::plan::downward::DownwardError),
    #[error("{0}")]
    Token(#[from] super::token::TokenError),
    #[error("{0} is not supported here")]
    Unsupported(&'static str),
    #[error("[{}]", join(.0))]
    Several(Vec<Self>),
}

fn join(errors: &[ContentError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl ContentError {
    /// One error as it is, several as Kubernetes lists them.
    pub(super) fn combine(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// Whether the whole machine or only the Pod's user may read a file, as far as its mode goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Secret,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
}

impl fmt::Debug for File {
    /// Without the data: it may be secret, and this may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {:04o}", self.data.len(), self.mode)
    }
}

/// Files by their clean relative paths; no path leads through a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Contents {
    files: BTreeMap<String, File>,
    size: usize,
}

impl Contents {
    /// Adds a file; a later one of the same path wins, as in Kubernetes.
    pub(super) fn put(
        &mut self,
        path: &str,
        data: Vec<u8>,
        mode: i32,
        kind: Kind,
    ) -> Result<(), ContentError> {
        let path = clean(path)?;
        // The API allows 0 to 0777; whatever else is set would be a set-uid bit.
        let mode = mode.cast_unsigned() & PERMISSIONS;
        let mode = if kind == Kind::Secret { mode & OWNER_ONLY } else { mode };
        self.size += data.len();
        if let Some(replaced) = self.files.insert(path, File { data, mode }) {
            self.size -= replaced.data.len();
        }
        if self.size > MAX_VOLUME_BYTES || self.files.len() > MAX_FILES {
            return Err(ContentError::TooLarge);
        }
        Ok(())
    }

    /// Checks what only the whole shows.
    pub(super) fn finish(self) -> Result<Self, ContentError> {
        for path in self.files.keys() {
            for (end, _) in path.match_indices('/') {
                if self.files.contains_key(&path[..end]) {
                    return Err(ContentError::FileAndFolder { path: path[..end].to_owned() });
                }
            }
        }
        Ok(self)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The first parts of all paths, each once: what is seen at the top of the volume.
    pub(super) fn top_names(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.files.keys().filter_map(move |path| {
            let top = path.split('/').next().unwrap_or(path);
            (last.replace(top) != Some(top)).then_some(top)
        })
    }

    /// Tells different contents apart; the key keeps anybody from making two alike.
    pub(super) fn fingerprint(&self, key: &impl BuildHasher) -> u64 {
        key.hash_one(self)
    }

    /// Adds the keys of a ConfigMap: all, or those that `items` names.
    pub(super) fn put_config_map(
        &mut self,
        source: &ObjectRequest<'_>,
        found: Known<Arc<ConfigMap>>,
    ) -> Result<(), ContentError> {
        let Some(map) = source.required("configmap", found)? else { return Ok(()) };
        let texts = map.data.iter().flatten().map(|(key, text)| (key, text.as_bytes()));
        let binaries = map.binary_data.iter().flatten().map(|(key, data)| (key, &data.0[..]));
        let all: BTreeMap<&String, &[u8]> = binaries.chain(texts).collect();
        self.put_keys(source, &all, Kind::Plain, ContentError::NoConfigKey)
    }

    /// Adds the keys of a Secret: all, or those that `items` names.
    pub(super) fn put_secret(
        &mut self,
        source: &ObjectRequest<'_>,
        found: Known<Arc<Secret>>,
    ) -> Result<(), ContentError> {
        let Some(secret) = source.required("secret", found)? else { return Ok(()) };
        let all = secret.data.iter().flatten().map(|(key, data)| (key, &data.0[..])).collect();
        self.put_keys(source, &all, Kind::Secret, ContentError::NoSecretKey)
    }

    fn put_keys(
        &mut self,
        source: &ObjectRequest<'_>,
        all: &BTreeMap<&String, &[u8]>,
        kind: Kind,
        no_key: fn(String) -> ContentError,
    ) -> Result<(), ContentError> {
        if source.items.is_empty() {
            for (key, data) in all {
                self.put(key, data.to_vec(), source.mode, kind)?;
            }
            return Ok(());
        }
        for item in source.items {
            match all.get(&item.key) {
                Some(data) => {
                    let mode = item.mode.unwrap_or(source.mode);
                    self.put(&item.path, data.to_vec(), mode, kind)?;
                }
                None if source.optional => {}
                None => return Err(no_key(item.key.clone())),
            }
        }
        Ok(())
    }
}

/// What a Pod asks for of one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectRequest<'a> {
    pub(super) name: &'a str,
    pub(super) items: &'a [KeyToPath],
    pub(super) mode: i32,
    pub(super) optional: bool,
}

impl ObjectRequest<'_> {
    /// The object; `None` where it may be missing. That it cannot be read is no reason to do
    /// without it.
    fn required<T>(&self, kind: &'static str, found: Known<T>) -> Result<Option<T>, ContentError> {
        match found {
            Known::Is(object) => Ok(Some(object)),
            Known::Unknown(why) => Err(ContentError::Unknown(why)),
            Known::Absent if self.optional => Ok(None),
            Known::Absent => Err(ContentError::NotFound { kind, name: self.name.to_owned() }),
        }
    }
}

/// A path inside the volume without empty and `.` parts; one that leads out of it, or that the
/// volume needs for itself, is refused.
fn clean(path: &str) -> Result<String, ContentError> {
    let bad = |why| Err(ContentError::BadPath { path: path.chars().take(80).collect(), why });
    if path.starts_with('/') {
        return bad("must be relative");
    }
    if path.len() > MAX_PATH_BYTES {
        return bad("must be at most 4096 bytes long");
    }
    if path.contains('\0') {
        return bad("must not hold a zero byte");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() {
        return bad("must not be empty");
    }
    if parts.contains(&"..") {
        return bad("must not contain '..'");
    }
    if parts[0].starts_with("..") {
        return bad("must not start with '..'");
    }
    if parts.iter().any(|part| part.len() > MAX_NAME_BYTES) {
        return bad("names must be at most 255 bytes long");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests;
