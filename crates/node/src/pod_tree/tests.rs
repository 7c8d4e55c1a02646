use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// A folder that goes away with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("sojourn-beneath-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> fs::File {
        fs::File::open(&self.0).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Folders in each other, deeper than any path may be long.
fn make_deep(top: &Path, depth: usize) {
    fs::create_dir(top).unwrap();
    let mut here = OwnedFd::from(fs::File::open(top).unwrap());
    for _ in 0..depth {
        rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn removes_whatever_it_is() {
    let scratch = Scratch::new("whatever");
    fs::write(scratch.path("outside"), "stays").unwrap();
    fs::create_dir(scratch.path("folder-outside")).unwrap();
    fs::write(scratch.path("folder-outside/file"), "stays").unwrap();
    let inside = scratch.path("tree");
    fs::create_dir_all(inside.join("a/b/c")).unwrap();
    for index in 0..500 {
        fs::write(inside.join(format!("a/b/file-{index}")), "x").unwrap();
    }
    symlink("../folder-outside", inside.join("link")).unwrap();
    symlink("/", inside.join("a/root")).unwrap();
    symlink("..", inside.join("a/up")).unwrap();
    fs::write(scratch.path("file"), "x").unwrap();
    symlink("folder-outside", scratch.path("link")).unwrap();
    let top = scratch.open();
    for name in ["tree", "file", "link", "missing"] {
        remove(top.as_fd(), name).unwrap();
        assert!(fs::symlink_metadata(scratch.path(name)).is_err(), "{name}");
    }
    assert_eq!(fs::read_to_string(scratch.path("outside")).unwrap(), "stays");
    assert_eq!(fs::read_to_string(scratch.path("folder-outside/file")).unwrap(), "stays");
}

#[test]
fn removes_very_deep_trees() {
    let scratch = Scratch::new("deep");
    make_deep(&scratch.path("tree"), 5_000);
    fs::create_dir(scratch.path("tree/.deep-0")).unwrap();
    remove(scratch.open().as_fd(), "tree").unwrap();
    assert!(!scratch.path("tree").exists());
}

/// For root nothing is unreadable; run as another user, this is the interesting test.
#[test]
fn removes_and_measures_unreadable_folders() {
    let scratch = Scratch::new("unreadable");
    for (name, mode) in [("nothing", 0), ("no-write", 0o500), ("no-enter", 0o600)] {
        let folder = scratch.path("tree").join(name);
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), vec![1; 8192]).unwrap();
        fs::set_permissions(folder.join("inner"), Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
    }
    let top = scratch.open();
    let used = usage(top.as_fd(), "tree", 100).unwrap();
    assert_eq!(used.entries, 9);
    assert!(used.bytes >= 3 * 8192, "{used:?}");
    remove(top.as_fd(), "tree").unwrap();
    assert!(!scratch.path("tree").exists());
}

#[test]
fn measures_files_once_and_nothing_elsewhere() {
    let scratch = Scratch::new("measure");
    fs::write(scratch.path("outside"), vec![1; 1 << 20]).unwrap();
    fs::create_dir_all(scratch.path("tree/a/b")).unwrap();
    fs::write(scratch.path("tree/a/file"), vec![1; 64 << 10]).unwrap();
    for index in 0..10 {
        fs::hard_link(scratch.path("tree/a/file"), scratch.path(&format!("tree/a/b/{index}")))
            .unwrap();
    }
    symlink(scratch.path("outside"), scratch.path("tree/link")).unwrap();
    symlink("/usr", scratch.path("tree/usr")).unwrap();
    let sparse = fs::File::create(scratch.path("tree/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let top = scratch.open();
    let used = usage(top.as_fd(), "tree", 1_000).unwrap();
    // a, a/b, a/file and ten more names of it, two links, a file without blocks.
    assert_eq!(used.entries, 16);
    assert!((64 << 10..256 << 10).contains(&used.bytes), "{used:?}");
    assert_eq!(usage(top.as_fd(), "tree/a", 1_000).unwrap().entries, 12);
    assert_eq!(usage(top.as_fd(), "missing", 1_000).unwrap(), Usage::default());
}

#[test]
fn measuring_is_bounded() {
    let scratch = Scratch::new("bounded");
    make_deep(&scratch.path("deep"), 3 * MAX_OPEN_DEPTH);
    fs::create_dir(scratch.path("wide")).unwrap();
    for index in 0..300 {
        fs::write(scratch.path(&format!("wide/{index}")), "x").unwrap();
    }
    let top = scratch.open();
    for name in ["deep", "wide"] {
        assert_eq!(usage(top.as_fd(), name, 100).unwrap().entries, 100, "{name}");
    }
    assert_eq!(usage(top.as_fd(), "deep", 1_000_000).unwrap().entries, 1_000_000);
}

#[test]
fn does_not_enter_what_is_not_beneath() {
    let scratch = Scratch::new("not-beneath");
    fs::create_dir(scratch.path("tree")).unwrap();
    symlink("tree", scratch.path("link")).unwrap();
    let top = fs::File::open(scratch.path("tree")).unwrap();
    for path in ["../tree", "/etc"] {
        assert!(usage(top.as_fd(), path, 10).is_err(), "{path}");
    }
    assert!(usage(scratch.open().as_fd(), "link", 10).is_err());
    assert!(remove(top.as_fd(), "..").is_err());
    assert!(scratch.path("tree").exists());
}
