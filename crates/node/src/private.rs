//! Files and folders of the node's own, which no Pod and nobody else may have put there.
//!
//! A Pod's own folders are another matter: see `beneath`.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// What others than the owner need to change something.
const OTHERS_WRITE: u32 = 0o022;

/// A folder of ours alone, made with its parents if it is missing.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let is_there = fs::symlink_metadata(path).is_ok();
    if !is_there {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        // With O_DIRECTORY, a link is no folder to the kernel.
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(refused("it is a symbolic link, or no folder at all"));
        }
        opened => opened?,
    };
    check_owner(&rustix::fs::fstat(&folder)?)
}

/// A file of ours alone to read and write, made if it is missing. Never through a link, and without
/// waiting for the other end of a FIFO.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    loop {
        match open(path, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
}

fn open(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(refused("it is a symbolic link")),
        Err(Errno::NXIO | Errno::ISDIR) => return Err(refused("it is not a regular file")),
        opened => opened?,
    };
    let found = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(refused("it is not a regular file"));
    }
    if found.st_nlink > 1 {
        return Err(refused("it has several names (hard links)"));
    }
    check_owner(&found)?;
    Ok(File::from(file))
}

fn create_new(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Flags with which nothing of the node's own is opened through a link, or waits for the other end of
/// a FIFO.
pub(crate) const NO_LINK: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// What a file of ours alone holds, up to `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OFlags::RDONLY)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file of ours alone in place of whatever has its name, as a whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, false)
}

/// The same, also when the machine fails.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, true)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn put(path: &Path, bytes: &[u8], durably: bool) -> io::Result<()> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let fresh = path.with_extension(format!("new-{:016x}", u64::from_ne_bytes(random)));
    let written = create_new(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        if durably {
            file.sync_all()?;
        }
        fs::rename(&fresh, path)
    });
    if written.is_err() {
        // What counts is the first error; a file that was never made cannot be removed.
        drop(fs::remove_file(&fresh));
    }
    written
}

fn check_owner(found: &Stat) -> io::Result<()> {
    let us = geteuid().as_raw();
    if found.st_uid != us {
        let why = format!("it belongs to user {}, and this is user {us}", found.st_uid);
        return Err(refused(&why));
    }
    let mode = found.st_mode & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        let why = format!("others than its owner may write to it (mode {mode:03o})");
        return Err(refused(&why));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("it is not safe to use: {why}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::path::PathBuf;

    use super::*;

    /// A folder for one test, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("sojourn-private-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            folder(&path).expect("a new folder");
            Self(path)
        }

        fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            // Left-over files in the temporary folder harm nobody.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[track_caller]
    fn assert_refused<T: std::fmt::Debug>(result: io::Result<T>, why: &str) {
        let error = result.expect_err("not safe");
        assert!(error.to_string().contains(why), "no `{why}` in: {error}");
    }

    #[test]
    fn a_folder_that_is_not_ours_alone_is_refused() {
        let scratch = Scratch::new("folder");
        let data = scratch.join("data");
        folder(&data).expect("made");
        folder(&data).expect("it is there");
        symlink(&data, scratch.join("link")).expect("a link");
        assert_refused(folder(&scratch.join("link")), "symbolic link");
        symlink(scratch.join("absent"), scratch.join("dangling")).expect("a link");
        assert_refused(folder(&scratch.join("dangling")), "symbolic link");
        assert!(!scratch.join("absent").exists());
        fs::set_permissions(&data, fs::Permissions::from_mode(0o770)).expect("ours");
        assert_refused(folder(&data), "mode 770");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("ours");
        folder(&data).expect("others may look");
        if chown(&data, Some(4321), None).is_err() {
            return crate::skip::left_to_another_run("only root can give folders away");
        }
        assert_refused(folder(&data), "belongs to user 4321");
    }

    #[test]
    fn traps_in_the_place_of_files_are_not_stepped_into() {
        let scratch = Scratch::new("traps");
        let victim = scratch.join("victim");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, scratch.join("link")).expect("a link");
        fs::hard_link(&victim, scratch.join("second")).expect("a second name");
        let fifo = scratch.join("fifo");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).expect("a FIFO");
        for (name, why) in
            [("link", "symbolic link"), ("second", "several names"), ("fifo", "regular file")]
        {
            assert_refused(open_or_create(&scratch.join(name)), why);
            assert_refused(read(&scratch.join(name), 100), why);
            // What is written takes the trap's place.
            write(&scratch.join(name), b"ours").expect("written");
            assert_eq!(read(&scratch.join(name), 100).expect("a file by now"), b"ours");
        }
        assert_eq!(fs::read_to_string(&victim).expect("still there"), "precious");
        let left = fs::read_dir(&scratch.0).expect("a folder").count();
        assert_eq!(left, 4, "nothing unfinished is left");
    }
}
