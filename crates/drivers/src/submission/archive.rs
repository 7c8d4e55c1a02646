//! A volume as one ZIP archive, read through descriptors.
//!
//! Every open is of one name in a folder that is held open, and follows no link, so what is read
//! lies in the volume even while somebody renames things in it.
//!
//! | in the volume                     | in the archive                                            |
//! |-----------------------------------|-----------------------------------------------------------|
//! | folder, file                      | an entry, with its time and permissions                   |
//! | link to something in the volume   | a link ([`name::inner_target`] says which)                |
//! | any other link                    | left out                                                  |
//! | device, socket, fifo              | left out                                                  |
//! | something that goes away meanwhile| left out                                                  |
//! | something that cannot be read     | an error that names it: a submission is whole or not made |
//! | a block volume                    | the single entry `disk.img`                               |
//!
//! A file has at most the bytes that it had when it was opened. What was left out, renamed or seen
//! changing is told in an entry of its own, [`NOTES`], which is there only when there is something
//! to tell. Entries come in the order of their names, so a volume at rest always gives the same
//! bytes.

mod note;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::name::{self, Named};
use super::zipfile::{Entry, ZipWriter};
use note::Notes;

/// How many folders may lie in one another. Each is held open while what is in it is read.
pub(super) const MAX_DEPTH: usize = 256;

/// How many files, folders and links a volume may have.
pub(super) const MAX_ENTRIES: u64 = 200_000;

/// The entry of a block volume.
pub(super) const DISK: &str = "disk.img";

/// The entry that tells what is not in the archive as it is in the volume.
pub(super) const NOTES: &str = "SUBMISSION-NOTES.txt";

/// A file system's own folder, which only root may read.
const LOST_AND_FOUND: &CStr = c"lost+found";

const READ_BUFFER: usize = 64 * 1024;
const PERMISSIONS: u32 = 0o777;

/// Why a volume cannot be archived.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot open the volume {path:?}")]
    OpenVolume { path: PathBuf, source: io::Error },
    #[error("the volume {path:?} is neither a block device nor a plain file")]
    NotADisk { path: PathBuf },
    #[error("cannot list the folder {path:?} of the volume")]
    List { path: PathBuf, source: io::Error },
    #[error("cannot inspect {path:?} of the volume")]
    Inspect { path: PathBuf, source: io::Error },
    #[error("cannot open {path:?} of the volume")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read {path:?} of the volume")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path:?} of the volume lies deeper than {MAX_DEPTH} folders")]
    TooDeep { path: PathBuf },
    #[error("the volume has more than {limit} files, folders and links")]
    TooMany { limit: u64 },
    #[error("cannot write the archive")]
    Write { source: io::Error },
    /// Whoever took the archive does not want the rest.
    #[error("the archive was not taken to its end")]
    Unwanted,
}

/// What an archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contents {
    /// Files, folders and links of the volume.
    pub entries: u64,
    /// What the volume has and the archive has not.
    pub skipped: u64,
}

/// Where a submission is read from.
#[derive(Debug, Clone)]
pub(super) enum Volume {
    /// A folder.
    Files(PathBuf),
    /// A device, or a plain file that stands for one.
    Disk(PathBuf),
}

/// Writes the whole archive of `volume` to `out`, or as much of it as could be made.
pub(super) fn pack<W: Write>(volume: &Volume, out: W) -> Result<Contents, ArchiveError> {
    match volume {
        Volume::Files(root) => pack_files(root, out, MAX_ENTRIES),
        Volume::Disk(path) => pack_disk(path, out),
    }
}

fn pack_disk<W: Write>(path: &Path, out: W) -> Result<Contents, ArchiveError> {
    let open_failed = |source| ArchiveError::OpenVolume { path: path.to_owned(), source };
    // Opening, not only reading, may wait or act when it is neither of the two.
    let kind = std::fs::metadata(path).map_err(open_failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(ArchiveError::NotADisk { path: path.to_owned() });
    }
    let mut disk = File::open(path).map_err(open_failed)?;
    let metadata = disk.metadata().map_err(open_failed)?;
    // A device says its size only by its end.
    let size = disk.seek(SeekFrom::End(0)).map_err(open_failed)?;
    disk.rewind().map_err(open_failed)?;

    let modified = metadata.is_file().then(|| metadata.mtime());
    let entry = Entry { name: DISK, modified, mode: FileType::RegularFile.as_raw_mode() | 0o644 };
    let mut zip = ZipWriter::new(out);
    let mut buffer = vec![0; READ_BUFFER];
    copy(&mut zip, entry, &mut disk, size, &mut buffer, || path.to_owned())?;
    zip.finish().map_err(writing)?;
    Ok(Contents { entries: 1, skipped: 0 })
}

fn pack_files<W: Write>(root: &Path, out: W, limit: u64) -> Result<Contents, ArchiveError> {
    // The root itself is named by whoever ordered this; a link there is theirs.
    let folder =
        rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| ArchiveError::OpenVolume {
                path: root.to_owned(),
                source: errno.into(),
            })?;
    let mut walk = Walk {
        zip: ZipWriter::new(out),
        real: PathBuf::new(),
        clean: String::new(),
        buffer: vec![0; READ_BUFFER],
        limit,
        listed: 0,
        entries: 0,
        notes: Notes::default(),
    };
    let names = walk.list(folder.as_fd())?;
    let notes_name = name::free_beside(NOTES, &names);
    let mut open = vec![Folder { descriptor: folder, clean_length: 0, names: names.into_iter() }];
    while let Some(depth) = open.len().checked_sub(1) {
        let folder = &mut open[depth];
        let Some(named) = folder.names.next() else {
            open.pop();
            walk.real.pop();
            continue;
        };
        walk.clean.truncate(folder.clean_length);
        walk.clean.push_str(&named.clean());
        walk.real.push(OsStr::from_bytes(named.raw.as_bytes()));
        if named.replaced.is_some() {
            walk.notes.renamed(&walk.real, &walk.clean);
        }
        match walk.visit(folder.descriptor.as_fd(), &named.raw, depth)? {
            Some(inner) => open.push(inner),
            None => _ = walk.real.pop(),
        }
    }
    walk.finish(&notes_name)
}

/// A folder that is being read: what is left of its names.
struct Folder {
    descriptor: OwnedFd,
    /// How much of [`Walk::clean`] names the folder.
    clean_length: usize,
    names: std::vec::IntoIter<Named>,
}

struct Walk<W> {
    zip: ZipWriter<W>,
    /// Where the walk is, below the root, as the volume has it.
    real: PathBuf,
    /// The same as the archive has it.
    clean: String,
    buffer: Vec<u8>,
    /// How many names may be listed.
    limit: u64,
    listed: u64,
    entries: u64,
    notes: Notes,
}

impl<W: Write> Walk<W> {
    /// Archives what `name` is, and opens it when it is a folder.
    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        depth: usize,
    ) -> Result<Option<Folder>, ArchiveError> {
        let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return self.leave_out("it went away"),
            Err(errno) => {
                return Err(ArchiveError::Inspect { path: self.path(), source: errno.into() });
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.visit_folder(folder, name, &stat, depth),
            FileType::RegularFile => self.visit_file(folder, name),
            FileType::Symlink => self.visit_link(folder, name, &stat, depth),
            FileType::Socket => self.leave_out("it is a socket"),
            FileType::Fifo => self.leave_out("it is a fifo"),
            FileType::CharacterDevice | FileType::BlockDevice => self.leave_out("it is a device"),
            FileType::Unknown => self.leave_out("it is of an unknown kind"),
        }
    }

    fn visit_folder(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        depth: usize,
    ) -> Result<Option<Folder>, ArchiveError> {
        if depth + 1 >= MAX_DEPTH {
            return Err(ArchiveError::TooDeep { path: self.path() });
        }
        let inner = match open_inside(folder, name, OFlags::DIRECTORY) {
            Ok(inner) => inner,
            Err(Errno::ACCESS) if depth == 0 && name == LOST_AND_FOUND => {
                return self.leave_out("it belongs to the file system");
            }
            Err(errno) => return self.not_opened(errno),
        };
        self.clean.push('/');
        self.put_stored(stat, &[])?;
        let names = self.list(inner.as_fd())?;
        Ok(Some(Folder {
            descriptor: inner,
            clean_length: self.clean.len(),
            names: names.into_iter(),
        }))
    }

    fn visit_file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<Option<Folder>, ArchiveError> {
        let file = match open_inside(folder, name, OFlags::empty()) {
            Ok(file) => file,
            Err(errno) => return self.not_opened(errno),
        };
        let before = self.inspect(&file)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return self.leave_out("it became something else");
        }
        let size = u64::try_from(before.st_size).unwrap_or(0);
        let mut file = File::from(file);
        if size == 0 {
            self.put_stored(&before, &[])?;
        } else {
            let entry = entry_of(&self.clean, &before);
            copy(&mut self.zip, entry, &mut file, size, &mut self.buffer, || self.real.clone())?;
            self.entries += 1;
        }
        let after = self.inspect(&file)?;
        if moment(&before) != moment(&after) {
            self.notes.changed(&self.clean);
        }
        Ok(None)
    }

    fn visit_link(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        depth: usize,
    ) -> Result<Option<Folder>, ArchiveError> {
        let target = match readlinkat(folder, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => return self.leave_out("it became something else"),
            Err(errno) => {
                return Err(ArchiveError::Read { path: self.path(), source: errno.into() });
            }
        };
        match name::inner_target(depth, target.as_bytes()) {
            Some(target) => self.put_stored(stat, target.as_bytes()).map(|()| None),
            None => self.leave_out("it is a link that may lead out of the volume"),
        }
    }

    /// The names in a folder, each of which counts against the bound at once.
    fn list(&mut self, folder: BorrowedFd<'_>) -> Result<Vec<Named>, ArchiveError> {
        let failed = |errno: Errno, path: &Path| ArchiveError::List {
            path: path.to_owned(),
            source: errno.into(),
        };
        let listing = Dir::read_from(folder).map_err(|errno| failed(errno, &self.real))?;
        let mut names: Vec<CString> = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|errno| failed(errno, &self.real))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.listed += 1;
            if self.listed > self.limit {
                return Err(ArchiveError::TooMany { limit: self.limit });
            }
            names.push(name.to_owned());
        }
        Ok(name::distinct(names))
    }

    fn put_stored(&mut self, stat: &Stat, data: &[u8]) -> Result<(), ArchiveError> {
        self.zip.stored(entry_of(&self.clean, stat), data).map_err(writing)?;
        self.entries += 1;
        Ok(())
    }

    fn inspect(&self, file: impl AsFd) -> Result<Stat, ArchiveError> {
        fstat(file)
            .map_err(|errno| ArchiveError::Inspect { path: self.path(), source: errno.into() })
    }

    fn not_opened(&mut self, errno: Errno) -> Result<Option<Folder>, ArchiveError> {
        match errno {
            Errno::NOENT => self.leave_out("it went away"),
            // A link, or something that is no folder, took its place.
            Errno::LOOP | Errno::NOTDIR => self.leave_out("it became something else"),
            errno => Err(ArchiveError::Open { path: self.path(), source: errno.into() }),
        }
    }

    fn leave_out(&mut self, why: &'static str) -> Result<Option<Folder>, ArchiveError> {
        self.notes.left_out(&self.clean, why);
        Ok(None)
    }

    fn path(&self) -> PathBuf {
        self.real.clone()
    }

    fn finish(mut self, notes_name: &str) -> Result<Contents, ArchiveError> {
        let skipped = self.notes.skipped();
        if let Some(text) = self.notes.text() {
            let mode = FileType::RegularFile.as_raw_mode() | 0o644;
            let entry = Entry { name: notes_name, modified: None, mode };
            self.zip.stored(entry, text.as_bytes()).map_err(writing)?;
        }
        self.zip.finish().map_err(writing)?;
        Ok(Contents { entries: self.entries, skipped })
    }
}

/// Opens a name of a folder for reading, unless it is a link. Nothing that somebody puts there
/// meanwhile makes this wait.
fn open_inside(folder: BorrowedFd<'_>, name: &CStr, kind: OFlags) -> Result<OwnedFd, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags | kind, Mode::empty())
}

fn copy<W: Write>(
    zip: &mut ZipWriter<W>,
    entry: Entry<'_>,
    from: &mut File,
    size: u64,
    buffer: &mut [u8],
    path: impl Fn() -> PathBuf,
) -> Result<(), ArchiveError> {
    let mut file = zip.file(entry, size).map_err(writing)?;
    let mut from = from.take(size);
    loop {
        let read = match from.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(ArchiveError::Read { path: path(), source }),
        };
        file.write(&buffer[..read]).map_err(writing)?;
    }
    file.finish().map_err(writing)
}

fn entry_of<'a>(name: &'a str, stat: &Stat) -> Entry<'a> {
    let kind = FileType::from_raw_mode(stat.st_mode).as_raw_mode();
    Entry { name, modified: Some(stat.st_mtime), mode: kind | (stat.st_mode & PERMISSIONS) }
}

/// What changes when somebody writes to a file.
fn moment(stat: &Stat) -> (i64, i64, u64) {
    #[expect(
        clippy::useless_conversion,
        reason = "the width of nanoseconds differs between platforms"
    )]
    let nanoseconds = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    (stat.st_size, stat.st_mtime, nanoseconds)
}

fn writing(source: io::Error) -> ArchiveError {
    if source.kind() == io::ErrorKind::BrokenPipe {
        ArchiveError::Unwanted
    } else {
        ArchiveError::Write { source }
    }
}
