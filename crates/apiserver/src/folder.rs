//! Folders that hold what nobody else may read or change: the data folder above all.
//!
//! Whoever can write to such a folder, or put another in its place, can have us read and overwrite what
//! they choose. So a folder is used only if it is ours alone, and if everybody who can change the way
//! to it is root or ourselves. It is held open, files in it are reached through that descriptor and
//! never through links, and new ones have names that nobody can guess.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Links on the way to a folder, as the kernel bounds them.
const MAX_LINKS: u32 = 40;
/// What others than the owner need to change something.
const OTHERS_WRITE: u32 = 0o022;
const EVERYBODY_WRITES: u32 = 0o002;
/// In such a folder only the owner of an entry can move it or put another in its place.
const STICKY: u32 = 0o1000;
/// Larger than any file that is read here as a whole.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// Why a folder, or a file in it, is not used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} is not safe to use: {why}", path.display())]
    Unsafe { path: PathBuf, why: UnsafeReason },
    #[error(
        "cannot make a name that nobody can guess: the operating system gives no random numbers"
    )]
    NoRandomness,
}

/// How others could make use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeReason {
    #[error("it is a symbolic link")]
    Link,
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it belongs to user {owner}, and this is user {us}")]
    Foreign { owner: u32, us: u32 },
    #[error("others than its owner may write to it (mode {0:03o})")]
    Writable(u32),
    #[error("it has {0} names (hard links), so it is also somewhere else")]
    SeveralNames(u64),
}

impl FolderError {
    /// What to do about it, in whole sentences.
    pub fn advice(&self) -> String {
        match self {
            Self::Io { .. } => {
                "See that the folder is there, can be written and has room.".to_owned()
            }
            Self::NoRandomness => {
                "See that /dev/urandom and getrandom(2) work here, then try again.".to_owned()
            }
            Self::Unsafe { path, why } => match why {
                UnsafeReason::Link => {
                    "Somebody may want another file to be read or overwritten. Name \
                                 the place that it leads to, or move the link away."
                        .to_owned()
                }
                UnsafeReason::NotAFolder => {
                    "Something that is no folder is in the way. Move it away, or \
                                       use another folder: --data DIR."
                        .to_owned()
                }
                UnsafeReason::NotAFile | UnsafeReason::SeveralNames(_) => {
                    "Look who put it there and why, then move it away.".to_owned()
                }
                UnsafeReason::Foreign { .. } => {
                    "Run this as its owner, or use a folder of your own in a \
                                           place of your own: --data DIR."
                        .to_owned()
                }
                UnsafeReason::Writable(_) => format!(
                    "See that nobody has put anything there, then take the right away (chmod go-w \
                     {}), or use another folder: --data DIR.",
                    path.display()
                ),
            },
        }
    }

    /// What the operating system said, if it refused.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::Unsafe { .. } | Self::NoRandomness => None,
        }
    }
}

/// Who may write to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteRule {
    /// Its owner, who is us.
    Ours,
    /// Anybody, as long as nobody but root and us can touch what is ours in it.
    Shared,
}

/// What to do about a folder that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Make,
    Fail,
}

/// A folder that was looked at and is held open.
#[derive(Debug)]
pub struct SafeFolder {
    descriptor: OwnedFd,
    /// Without links: each part was looked at.
    path: PathBuf,
}

impl SafeFolder {
    /// A folder of ours alone, made with its parents if it is missing.
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        Self::enter(path, WriteRule::Ours, IfMissing::Make)
    }

    /// A folder of ours alone that is there.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        Self::enter(path, WriteRule::Ours, IfMissing::Fail)
    }

    /// A folder that others may use, too, such as `/tmp`: what is ours in it stays ours.
    pub fn open_shared(path: &Path) -> Result<Self, FolderError> {
        Self::enter(path, WriteRule::Shared, IfMissing::Fail)
    }

    /// Goes down from the root, one part at a time, and looks at each through its descriptor: what
    /// was looked at is what is used.
    fn enter(path: &Path, rule: WriteRule, missing: IfMissing) -> Result<Self, FolderError> {
        // What a file without a folder in its path is in.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let path = std::path::absolute(path).map_err(|source| failed(path, source))?;
        let mut rest = parts(&path);
        let mut links = 0;
        let mut at = root()?;
        while let Some(name) = rest.pop_front() {
            at.check(WriteRule::Shared)?;
            if name == ".." {
                at = at.parent()?;
                continue;
            }
            let step = at.path.join(&name);
            let found = match rustix::fs::statat(&at.descriptor, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) if missing == IfMissing::Make => {
                    match rustix::fs::mkdirat(&at.descriptor, &name, Mode::RWXU) {
                        // Somebody was faster, and is looked at like anybody else.
                        Ok(()) | Err(Errno::EXIST) => None,
                        Err(error) => return Err(failed(&step, error)),
                    }
                }
                found => Some(found.map_err(|error| failed(&step, error))?),
            };
            let is_link = found.is_some_and(|found| kind(&found) == FileType::Symlink);
            if let Some(found) = found.filter(|_| is_link) {
                // A link on the way is whoever's it is; the folder itself is none.
                if rest.is_empty() {
                    return Err(unsafe_at(&step, UnsafeReason::Link));
                }
                check_owner(&step, &found, WriteRule::Shared)?;
                links += 1;
                if links > MAX_LINKS {
                    return Err(failed(&step, Errno::LOOP));
                }
                let target = rustix::fs::readlinkat(&at.descriptor, &name, Vec::new())
                    .map_err(|error| failed(&step, error))?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = root()?;
                }
                let mut next = parts(&target);
                next.append(&mut rest);
                rest = next;
                continue;
            }
            // The last one is read, and written to disk; the others are only passed through.
            let access = if rest.is_empty() { OFlags::RDONLY } else { OFlags::PATH };
            at =
                Self { descriptor: open_folder(&at.descriptor, &name, access, &step)?, path: step };
        }
        at.check(rule)?;
        Ok(at)
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn parent(&self) -> Result<Self, FolderError> {
        let path = self.path.parent().unwrap_or(Path::new("/")).to_owned();
        let descriptor = open_folder(&self.descriptor, OsStr::new(".."), OFlags::RDONLY, &path)?;
        Ok(Self { descriptor, path })
    }

    fn check(&self, rule: WriteRule) -> Result<(), FolderError> {
        let found =
            rustix::fs::fstat(&self.descriptor).map_err(|error| failed(&self.path, error))?;
        check_owner(&self.path, &found, rule)?;
        let mode = found.st_mode & 0o7777;
        let is_open = match rule {
            WriteRule::Ours => mode & OTHERS_WRITE != 0,
            // By the convention of those who make accounts, the group with our number is ours alone.
            WriteRule::Shared if found.st_gid == 0 || found.st_gid == geteuid().as_raw() => {
                mode & EVERYBODY_WRITES != 0 && mode & STICKY == 0
            }
            WriteRule::Shared => mode & OTHERS_WRITE != 0 && mode & STICKY == 0,
        };
        if is_open { Err(unsafe_at(&self.path, UnsafeReason::Writable(mode))) } else { Ok(()) }
    }

    /// A folder in this one, of ours alone, made if it is missing.
    pub fn subfolder(&self, name: &str) -> Result<Self, FolderError> {
        let path = self.path.join(name);
        match rustix::fs::mkdirat(&self.descriptor, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&path, error)),
        }
        let descriptor = open_folder(&self.descriptor, OsStr::new(name), OFlags::RDONLY, &path)?;
        let folder = Self { descriptor, path };
        folder.check(WriteRule::Ours)?;
        Ok(folder)
    }

    /// A new folder in this one, under a name that nobody can guess.
    pub fn new_subfolder(&self, prefix: &str) -> Result<Self, FolderError> {
        let name = format!("{prefix}{}", random_text()?);
        let path = self.path.join(&name);
        rustix::fs::mkdirat(&self.descriptor, &name, Mode::RWXU)
            .map_err(|error| failed(&path, error))?;
        self.subfolder(&name)
    }

    /// Lets everybody enter it and see what is in it.
    pub fn let_others_read(&self) -> Result<(), FolderError> {
        rustix::fs::fchmod(&self.descriptor, Mode::from_raw_mode(0o755))
            .map_err(|error| failed(&self.path, error))
    }

    /// Sees that nothing is in a file's place but a file of ours alone. Says whether there is one.
    pub fn check_file(&self, name: &str) -> Result<bool, FolderError> {
        let path = self.path.join(name);
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(failed(&path, error)),
            Ok(found) => check_file(&path, &found).map(|()| true),
        }
    }

    /// How long a file is; nothing, if there is none.
    pub(crate) fn length(&self, name: &str) -> Option<u64> {
        let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        check_file(&self.path.join(name), &found).ok()?;
        u64::try_from(found.st_size).ok()
    }

    /// Opens a file that is there; nothing, if there is none.
    fn open_file(&self, name: &str, access: OFlags) -> Result<Option<File>, FolderError> {
        let path = self.path.join(name);
        // Whoever left a FIFO here must not make us wait for its other end.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(unsafe_at(&path, UnsafeReason::Link)),
            // A FIFO that nobody reads, a socket, a folder.
            Err(Errno::NXIO | Errno::ISDIR) => {
                return Err(unsafe_at(&path, UnsafeReason::NotAFile));
            }
            file => file.map_err(|error| failed(&path, error))?,
        };
        let found = rustix::fs::fstat(&file).map_err(|error| failed(&path, error))?;
        check_file(&path, &found)?;
        Ok(Some(File::from(file)))
    }

    /// A file of ours alone, made if it is missing, to read and to write.
    pub(crate) fn open_or_create(&self, name: &str) -> Result<File, FolderError> {
        loop {
            if let Some(file) = self.open_file(name, OFlags::RDWR)? {
                return Ok(file);
            }
            match self.create_new(name) {
                Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => {}
                made => return made,
            }
        }
    }

    /// A new file that its owner alone can read.
    pub fn create_new(&self, name: &str) -> Result<File, FolderError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|error| failed(&self.path.join(name), error))
    }

    /// What a file says; nothing, if there is none.
    pub fn read(&self, name: &str) -> Result<Option<String>, FolderError> {
        let Some(file) = self.open_file(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = String::new();
        file.take(MAX_TEXT_BYTES)
            .read_to_string(&mut text)
            .map_err(|source| failed(&self.path.join(name), source))?;
        Ok(Some(text))
    }

    /// Puts a file of ours alone in place of another, as a whole or not at all.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        self.check_file(name)?;
        let fresh = unguessable(name)?;
        let path = self.path.join(name);
        let written = self.create_new(&fresh).and_then(|mut file| {
            file.write_all(bytes)
                .and_then(|()| file.sync_all())
                .map_err(|source| failed(&path, source))?;
            self.rename(&fresh, name)
        });
        if written.is_err() {
            // What counts is the first error; a file that was never made cannot be removed.
            drop(self.remove(&fresh));
        }
        written
    }

    /// Gives a file another name, in place of whatever has it.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FolderError> {
        rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to)
            .map_err(|error| failed(&self.path.join(to), error))
    }

    /// Gives a file a name that nothing has yet.
    pub(crate) fn rename_new(&self, from: &str, to: &OsStr) -> Result<(), FolderError> {
        let path = self.path.join(to);
        let (here, flags) = (&self.descriptor, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(here, from, here, to, flags) {
            // Some file systems cannot tell; then there is a moment in which somebody could be faster.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                if rustix::fs::statat(here, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    return Err(failed(&path, Errno::EXIST));
                }
                rustix::fs::renameat(here, from, here, to).map_err(|error| failed(&path, error))
            }
            renamed => renamed.map_err(|error| failed(&path, error)),
        }
    }

    /// A second name in this folder for the file at `from`.
    pub fn link(&self, from: &Path, name: &str) -> Result<(), FolderError> {
        rustix::fs::linkat(rustix::fs::CWD, from, &self.descriptor, name, AtFlags::empty())
            .map_err(|error| failed(&self.path.join(name), error))
    }

    /// Removes a file or a link. What is not there is removed already.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(&self.path.join(name), error)),
        }
    }

    /// Makes names that were given durable.
    pub(crate) fn sync(&self) -> Result<(), FolderError> {
        rustix::fs::fsync(&self.descriptor).map_err(|error| failed(&self.path, error))
    }
}

/// A name for a file that will get `name` once it is whole.
pub fn unguessable(name: &str) -> Result<String, FolderError> {
    Ok(format!(".{name}.{}", random_text()?))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
fn random_text() -> Result<String, FolderError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| FolderError::NoRandomness)?;
    Ok(hex::encode(bytes))
}

fn root() -> Result<SafeFolder, FolderError> {
    let path = PathBuf::from("/");
    let descriptor = open_folder(rustix::fs::CWD, path.as_os_str(), OFlags::RDONLY, &path)?;
    Ok(SafeFolder { descriptor, path })
}

fn open_folder(
    parent: impl rustix::fd::AsFd,
    name: &OsStr,
    access: OFlags,
    path: &Path,
) -> Result<OwnedFd, FolderError> {
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::LOOP) => Err(unsafe_at(path, UnsafeReason::Link)),
        Err(Errno::NOTDIR) => Err(unsafe_at(path, UnsafeReason::NotAFolder)),
        opened => opened.map_err(|error| failed(path, error)),
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn check_owner(path: &Path, found: &Stat, rule: WriteRule) -> Result<(), FolderError> {
    let (owner, us) = (found.st_uid, geteuid().as_raw());
    let is_trusted = owner == us || (rule == WriteRule::Shared && owner == 0);
    if is_trusted { Ok(()) } else { Err(unsafe_at(path, UnsafeReason::Foreign { owner, us })) }
}

#[allow(clippy::useless_conversion, reason = "the count of names is narrower on other machines")]
fn check_file(path: &Path, found: &Stat) -> Result<(), FolderError> {
    match kind(found) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(unsafe_at(path, UnsafeReason::Link)),
        _ => return Err(unsafe_at(path, UnsafeReason::NotAFile)),
    }
    check_owner(path, found, WriteRule::Ours)?;
    let mode = found.st_mode & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Err(unsafe_at(path, UnsafeReason::Writable(mode)));
    }
    match u64::from(found.st_nlink) {
        names @ 2.. => Err(unsafe_at(path, UnsafeReason::SeveralNames(names))),
        _ => Ok(()),
    }
}

fn unsafe_at(path: &Path, why: UnsafeReason) -> FolderError {
    FolderError::Unsafe { path: path.to_owned(), why }
}

fn failed(path: &Path, source: impl Into<std::io::Error>) -> FolderError {
    FolderError::Io { path: path.to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests;
