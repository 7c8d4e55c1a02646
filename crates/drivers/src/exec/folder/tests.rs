use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder of a test, gone with it.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir();
        let path = path.join(format!("sojourn-programs-{}-{count}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        chmod(&path, 0o755);
        Self(path)
    }

    fn program(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, "#!/bin/false\n").expect("a file");
        chmod(&path, mode);
        path
    }

    fn names(&self) -> Result<Vec<String>, FolderError> {
        programs(&self.0).map(|all| all.into_iter().map(|one| one.name).collect())
    }

    /// Why the folder as a whole is refused, or one of its programs.
    fn refused(&self) -> UnsafeReason {
        match self.names() {
            Err(FolderError::Unsafe { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn programs_are_found_by_their_names() {
    let folder = TestFolder::new();
    folder.program("sojourn-provider-b", 0o755);
    folder.program("sojourn-provider-a-1", 0o700);
    folder.program("sojourn-provider-a-1.json", 0o600);
    folder.program("README", 0o644);
    assert_eq!(folder.names().expect("good"), ["a-1", "b"]);
    let program = Program::at(&folder.0.join("sojourn-provider-b")).expect("good");
    assert_eq!(program.path(), folder.0.canonicalize().expect("there").join("sojourn-provider-b"));
}

#[test]
fn a_name_has_small_letters_digits_and_dashes() {
    for name in ["sojourn-provider-", "sojourn-provider-A", "sojourn-provider-a b"] {
        let folder = TestFolder::new();
        folder.program(name, 0o755);
        assert!(matches!(folder.names(), Err(FolderError::Name { .. })), "{name}");
    }
    let long = TestFolder::new();
    long.program(&format!("sojourn-provider-{}", "a".repeat(64)), 0o755);
    assert!(matches!(long.names(), Err(FolderError::Name { .. })));
    let other = TestFolder::new();
    let path = other.program("provider", 0o755);
    assert!(matches!(Program::at(&path), Err(FolderError::Name { .. })));
    assert!(matches!(Program::at(Path::new("/")), Err(FolderError::Name { .. })));
}

#[test]
fn what_others_may_write_to_is_refused() {
    for mode in [0o775, 0o757, 0o777] {
        let folder = TestFolder::new();
        folder.program("sojourn-provider-a", mode);
        assert_eq!(folder.refused(), UnsafeReason::Writable(mode));
        let folder = TestFolder::new();
        folder.program("sojourn-provider-a", 0o755);
        chmod(&folder.0, mode);
        assert_eq!(folder.refused(), UnsafeReason::Writable(mode));
        // The whole of it may be led elsewhere by whoever can write above it, unless that is sticky.
        let (above, within) = (TestFolder::new(), "within");
        fs::create_dir(above.0.join(within)).expect("a folder");
        chmod(&above.0, mode);
        assert!(programs(&above.0.join(within)).is_err(), "{mode:o}");
        chmod(&above.0, mode | STICKY);
        assert!(programs(&above.0.join(within)).is_ok(), "{mode:o}");
    }
}

#[test]
fn what_becomes_writable_later_is_not_run_again() {
    let folder = TestFolder::new();
    let path = folder.program("sojourn-provider-a", 0o755);
    let program = Program::at(&path).expect("good");
    chmod(&path, 0o757);
    assert!(program.check().is_err());
    chmod(&path, 0o755);
    chmod(&folder.0, 0o777);
    assert!(program.check().is_err());
}

#[test]
fn links_and_what_is_no_program_are_refused() {
    let folder = TestFolder::new();
    let elsewhere = TestFolder::new();
    let real = elsewhere.program("sojourn-provider-a", 0o755);
    symlink(&real, folder.0.join("sojourn-provider-a")).expect("a link");
    assert_eq!(folder.refused(), UnsafeReason::Link);

    let folder = TestFolder::new();
    symlink(&elsewhere.0, folder.0.join("providers")).expect("a link");
    let linked = programs(&folder.0.join("providers"));
    assert!(matches!(linked, Err(FolderError::Unsafe { why: UnsafeReason::Link, .. })));

    let folder = TestFolder::new();
    fs::create_dir(folder.0.join("sojourn-provider-a")).expect("a folder");
    assert_eq!(folder.refused(), UnsafeReason::NotAFile);

    let folder = TestFolder::new();
    folder.program("sojourn-provider-a", 0o644);
    assert_eq!(folder.refused(), UnsafeReason::NotExecutable(0o644));

    let file = programs(&real);
    assert!(matches!(file, Err(FolderError::Unsafe { why: UnsafeReason::NotAFolder, .. })));
    let missing = programs(&folder.0.join("missing"));
    assert!(matches!(missing, Err(FolderError::Io { .. })));
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let folder = TestFolder::new();
    let path = folder.program("sojourn-provider-a", 0o755);
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        crate::skip::left_to_another_run("this user cannot give a file away");
        return;
    }
    let us = geteuid().as_raw();
    assert_eq!(folder.refused(), UnsafeReason::Foreign { owner: 12_345, us });
}
