//! Which programs there are, and whether they may be run.
//!
//! A program does whatever this process may do. So it is run only if nobody but root and whoever runs this
//! process can change it, put another in its place, or lead elsewhere on the way to it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// What the files of programs begin with.
const PREFIX: &str = "sojourn-provider-";
/// The longest NAME of a program.
const MAX_NAME_BYTES: usize = 63;
/// More programs are not run.
const MAX_PROGRAMS: usize = 64;
/// What others than the owner need to change something.
const OTHERS_WRITE: u32 = 0o022;
/// In such a folder only the owner of an entry can put another in its place.
const STICKY: u32 = 0o1000;
const ANY_EXECUTE: u32 = 0o111;

/// Why a folder of programs, or one of them, is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot look at {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not safe to use: {why}", path.display())]
    Unsafe { path: PathBuf, why: UnsafeReason },
    #[error("{} is not called {PREFIX}NAME, with a NAME of a-z, 0-9 and dashes", path.display())]
    Name { path: PathBuf },
    #[error("there are more than {MAX_PROGRAMS} programs in {}", path.display())]
    TooMany { path: PathBuf },
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
    #[error("it cannot be executed (mode {0:03o})")]
    NotExecutable(u32),
    #[error("it belongs to user {owner}, and this is user {us}")]
    Foreign { owner: u32, us: u32 },
    #[error("others than its owner may write to it (mode {0:03o})")]
    Writable(u32),
}

impl FolderError {
    fn of(path: &Path, why: UnsafeReason) -> Self {
        Self::Unsafe { path: path.to_owned(), why }
    }

    /// What to do about it, in whole sentences.
    pub fn advice(&self) -> String {
        match self {
            Self::Io { .. } => "See that it is there and can be read.".to_owned(),
            Self::Name { .. } => format!("Call it {PREFIX}NAME, as templates call the provider."),
            Self::TooMany { .. } => "Leave those that are in use.".to_owned(),
            Self::Unsafe { path, why } => match why {
                UnsafeReason::Link => {
                    "Put the program itself there, or name the folder that the link leads to."
                        .to_owned()
                }
                UnsafeReason::NotAFolder | UnsafeReason::NotAFile => {
                    "Look who put it there and why, then move it away.".to_owned()
                }
                UnsafeReason::NotExecutable(_) => format!("chmod +x {}", path.display()),
                UnsafeReason::Foreign { .. } => {
                    "It must belong to root or to whoever runs this: chown it, once you have seen \
                     what it does."
                        .to_owned()
                }
                UnsafeReason::Writable(_) => format!(
                    "See that nobody has put anything there, then take the right away: chmod go-w {}",
                    path.display()
                ),
            },
        }
    }
}

/// A program that may be run. It is looked at again before each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    folder: PathBuf,
}

impl Program {
    /// The program at a path.
    pub fn at(path: &Path) -> Result<Self, FolderError> {
        let name = path.file_name().and_then(|file| file.to_str()).and_then(name_in);
        let name = name.ok_or_else(|| FolderError::Name { path: path.to_owned() })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = checked_folder(folder)?;
        let program = Self { name: name.to_owned(), folder };
        program.check()?;
        Ok(program)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join(format!("{PREFIX}{}", self.name))
    }

    /// Whether it may be run still.
    pub(super) fn check(&self) -> Result<(), FolderError> {
        check_way(&self.folder)?;
        let path = self.path();
        let found = look(&path)?;
        if found.is_symlink() {
            return Err(FolderError::of(&path, UnsafeReason::Link));
        }
        if !found.is_file() {
            return Err(FolderError::of(&path, UnsafeReason::NotAFile));
        }
        check_owner(&path, &found)?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            return Err(FolderError::of(&path, UnsafeReason::Writable(mode)));
        }
        if mode & ANY_EXECUTE == 0 {
            return Err(FolderError::of(&path, UnsafeReason::NotExecutable(mode)));
        }
        Ok(())
    }
}

/// The programs of a folder. One that may not be run is an error: whoever put it there expects it to be.
pub(super) fn programs(folder: &Path) -> Result<Vec<Program>, FolderError> {
    let error = |source| FolderError::Io { path: folder.to_owned(), source };
    let checked = checked_folder(folder)?;
    let mut programs = Vec::new();
    for entry in checked.read_dir().map_err(error)? {
        let file = entry.map_err(error)?.file_name();
        // Other files are the programs' own.
        let Some(rest) = file.to_str().and_then(|file| file.strip_prefix(PREFIX)) else { continue };
        // So are settings that lie beside a program.
        if rest.contains('.') && look(&checked.join(&file))?.mode() & ANY_EXECUTE == 0 {
            continue;
        }
        if programs.len() == MAX_PROGRAMS {
            return Err(FolderError::TooMany { path: folder.to_owned() });
        }
        programs.push(Program::at(&checked.join(&file))?);
    }
    programs.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// The NAME in a file's name.
fn name_in(file: &str) -> Option<&str> {
    let name = file.strip_prefix(PREFIX)?;
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(known);
    good.then_some(name)
}

/// The folder without links on the way to it, if it is safe.
fn checked_folder(folder: &Path) -> Result<PathBuf, FolderError> {
    let found = look(folder)?;
    if found.is_symlink() {
        return Err(FolderError::of(folder, UnsafeReason::Link));
    }
    let error = |source| FolderError::Io { path: folder.to_owned(), source };
    let whole = folder.canonicalize().map_err(error)?;
    check_way(&whole)?;
    Ok(whole)
}

/// Whether only root and ourselves can change what is in a folder, and lead elsewhere on the way to it.
fn check_way(folder: &Path) -> Result<(), FolderError> {
    for path in folder.ancestors() {
        let found = look(path)?;
        if found.is_symlink() {
            return Err(FolderError::of(path, UnsafeReason::Link));
        }
        if !found.is_dir() {
            return Err(FolderError::of(path, UnsafeReason::NotAFolder));
        }
        check_owner(path, &found)?;
        let mode = found.mode() & 0o7777;
        let shared = path != folder && mode & STICKY != 0;
        if mode & OTHERS_WRITE != 0 && !shared {
            return Err(FolderError::of(path, UnsafeReason::Writable(mode)));
        }
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), FolderError> {
    let (owner, us) = (found.uid(), geteuid().as_raw());
    if owner == 0 || owner == us {
        return Ok(());
    }
    Err(FolderError::of(path, UnsafeReason::Foreign { owner, us }))
}

fn look(path: &Path) -> Result<Metadata, FolderError> {
    path.symlink_metadata().map_err(|source| FolderError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
