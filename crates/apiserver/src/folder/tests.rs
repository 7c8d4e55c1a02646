use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder for one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-folder-{}-{number}", std::process::id());
        // Looked at without links, so that paths can be compared.
        let path = std::env::temp_dir().canonicalize().expect("a temporary folder").join(name);
        std::fs::create_dir(&path).expect("a new folder");
        set_mode(&path, 0o700);
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir(&path).expect("a new folder");
        set_mode(&path, mode);
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over files in the temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
}

fn fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("a FIFO");
}

/// Why something was refused, and what.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, FolderError>) -> (PathBuf, UnsafeReason) {
    match result {
        Err(FolderError::Unsafe { path, why }) => (path, why),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_folder_is_made_for_its_owner_alone() {
    let scratch = Scratch::new();
    let folder = SafeFolder::create(&scratch.join("a/b")).expect("made");
    assert_eq!(folder.path(), scratch.join("a/b"));
    for path in ["a", "a/b"] {
        let mode = scratch.join(path).metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
    SafeFolder::create(&scratch.join("a/b")).expect("it is there");
    let absent = SafeFolder::open(&scratch.join("a/c")).expect_err("it is not there");
    assert_eq!(absent.kind(), Some(ErrorKind::NotFound));
}

#[test]
fn a_folder_that_everybody_may_read_is_good_enough() {
    let scratch = Scratch::new();
    SafeFolder::open(&scratch.folder("data", 0o755)).expect("as people make folders");
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let scratch = Scratch::new();
    for mode in [0o770, 0o707, 0o1777, 0o722] {
        let data = scratch.folder(&format!("{mode:o}"), mode);
        let refused = SafeFolder::create(&data);
        assert_eq!(refusal(refused), (data, UnsafeReason::Writable(mode)));
    }
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    let scratch = Scratch::new();
    let real = scratch.folder("real", 0o700);
    let link = scratch.join("link");
    symlink(&real, &link).expect("a link");
    assert_eq!(refusal(SafeFolder::create(&link)), (link.clone(), UnsafeReason::Link));
    // One that leads nowhere is not followed to make something there.
    std::fs::remove_dir(&real).expect("empty");
    assert_eq!(refusal(SafeFolder::create(&link)), (link, UnsafeReason::Link));
    assert!(!real.exists());
}

#[test]
fn our_own_link_on_the_way_is_followed_and_the_place_named() {
    let scratch = Scratch::new();
    scratch.folder("real", 0o700);
    symlink("real", scratch.join("link")).expect("a link");
    let folder = SafeFolder::create(&scratch.join("link/data")).expect("made");
    assert_eq!(folder.path(), scratch.join("real/data"));
    symlink(scratch.join("link"), scratch.join("real/again")).expect("a link");
    let folder = SafeFolder::open(&scratch.join("real/again/../real/data")).expect("there");
    assert_eq!(folder.path(), scratch.join("real/data"));
    symlink("round", scratch.join("round")).expect("a link");
    let error = SafeFolder::open(&scratch.join("round/data")).expect_err("it leads nowhere");
    assert!(error.kind().is_some(), "{error}");
}

#[test]
fn a_folder_that_others_could_put_another_in_place_of_is_refused() {
    let scratch = Scratch::new();
    let shared = scratch.folder("shared", 0o777);
    std::fs::create_dir(shared.join("data")).expect("a folder");
    set_mode(&shared.join("data"), 0o700);
    let refused = SafeFolder::open(&shared.join("data"));
    assert_eq!(refusal(refused), (shared.clone(), UnsafeReason::Writable(0o777)));
    // As in /tmp, only its owner can move it from here.
    set_mode(&shared, 0o1777);
    SafeFolder::open(&shared.join("data")).expect("nobody else can touch it");
    SafeFolder::open_shared(&shared).expect("what is ours in it stays ours");
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let scratch = Scratch::new();
    let data = scratch.folder("data", 0o700);
    let file = data.join("file");
    std::fs::write(&file, "").expect("written");
    if chown(&file, Some(4321), None).is_err() {
        return crate::skip::left_to_another_run("only root can give files away");
    }
    let foreign = UnsafeReason::Foreign { owner: 4321, us: geteuid().as_raw() };
    let folder = SafeFolder::open(&data).expect("ours");
    assert_eq!(refusal(folder.read("file")), (file.clone(), foreign));
    assert_eq!(refusal(folder.replace("file", b"")), (file, foreign));
    chown(&data, Some(4321), None).expect("as before");
    assert_eq!(refusal(SafeFolder::create(&data)), (data.clone(), foreign));
    // Nor may somebody else be able to move it away.
    std::fs::create_dir(data.join("ours")).expect("a folder");
    assert_eq!(refusal(SafeFolder::create(&data.join("ours"))), (data, foreign));
    let link = scratch.join("link");
    symlink("/", &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(4321), None).expect("as before");
    assert_eq!(refusal(SafeFolder::open(&link.join("tmp"))), (link, foreign));
}

#[test]
fn nothing_but_a_file_of_ours_is_opened() {
    let scratch = Scratch::new();
    let victim = scratch.join("victim");
    std::fs::write(&victim, "precious").expect("written");
    let folder = SafeFolder::create(&scratch.join("data")).expect("made");
    let at = |name: &str| folder.path().join(name);
    symlink(&victim, at("link")).expect("a link");
    symlink(scratch.join("absent"), at("dangling")).expect("a link");
    std::fs::hard_link(&victim, at("second")).expect("a second name");
    fifo(&at("fifo"));
    std::fs::create_dir(at("folder")).expect("a folder");
    drop(std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket"));
    std::fs::write(at("open"), "").expect("written");
    set_mode(&at("open"), 0o620);
    for (name, why) in [
        ("link", UnsafeReason::Link),
        ("dangling", UnsafeReason::Link),
        ("second", UnsafeReason::SeveralNames(2)),
        ("fifo", UnsafeReason::NotAFile),
        ("folder", UnsafeReason::NotAFile),
        ("socket", UnsafeReason::NotAFile),
        ("open", UnsafeReason::Writable(0o620)),
    ] {
        let expected = (at(name), why);
        assert_eq!(refusal(folder.check_file(name)), expected);
        assert_eq!(refusal(folder.read(name)), expected);
        assert_eq!(refusal(folder.open_or_create(name)), expected);
        assert_eq!(refusal(folder.replace(name, b"x")), expected);
        folder.create_new(name).expect_err("something is there");
        assert_eq!(folder.length(name), None);
    }
    assert_eq!(std::fs::read_to_string(&victim).expect("still there"), "precious");
    assert!(!scratch.join("absent").exists());
}

#[test]
fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
    let scratch = Scratch::new();
    let folder = SafeFolder::create(&scratch.join("data")).expect("made");
    assert_eq!(folder.read("file").expect("readable"), None);
    folder.replace("file", b"one").expect("written");
    folder.replace("file", b"two").expect("written");
    assert_eq!(folder.read("file").expect("readable").as_deref(), Some("two"));
    let mode = folder.path().join("file").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let names = [unguessable("file"), unguessable("file")].map(|name| name.expect("a name"));
    assert_ne!(names[0], names[1]);
    assert!(names[0].len() > 32, "{names:?}");
}

#[test]
fn a_new_name_takes_nobodys_place() {
    let scratch = Scratch::new();
    let folder = SafeFolder::create(&scratch.join("data")).expect("made");
    folder.replace("from", b"new").expect("written");
    folder.replace("to", b"old").expect("written");
    let refused = folder.rename_new("from", OsStr::new("to")).expect_err("it is taken");
    assert_eq!(refused.kind(), Some(ErrorKind::AlreadyExists));
    assert_eq!(folder.read("to").expect("readable").as_deref(), Some("old"));
    folder.rename_new("from", OsStr::new("free")).expect("nobody has it");
    assert_eq!(folder.read("free").expect("readable").as_deref(), Some("new"));
}
