use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::content::Kind;
use super::super::tests::{FOREIGN, Scratch, as_foreign_user, foreign_owner};
use super::*;

fn contents(files: &[(&str, &str, i32)]) -> Contents {
    let mut contents = Contents::default();
    for (path, data, mode) in files {
        contents.put(path, data.as_bytes().to_vec(), *mode, Kind::Plain).unwrap();
    }
    contents.finish().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn put(folder: &Path, contents: &Contents, second: i64) -> io::Result<bool> {
    let volume = open_folder(fs::CWD, &folder.to_string_lossy()).unwrap();
    publish(volume.as_fd(), contents, foreign_owner(), at(second))
}

/// Everything at the top: a link with its target, a folder with `/`.
fn listing(folder: &Path) -> BTreeMap<String, String> {
    let entry = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let what = match std::fs::read_link(entry.path()) {
            Ok(target) => target.to_string_lossy().into_owned(),
            Err(_) => "/".to_owned(),
        };
        (name, what)
    };
    std::fs::read_dir(folder).unwrap().map(entry).collect()
}

fn expect(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
}

#[test]
fn a_volume_looks_as_under_a_kubelet() {
    let scratch = Scratch::new("atomic-layout");
    let folder = scratch.path();
    let first = contents(&[("ca.crt", "one", 0o644), ("sub/token", "two", 0o600)]);
    assert!(put(folder, &first, 1).unwrap());
    assert_eq!(
        listing(folder),
        expect(&[
            ("..1970_01_01_00_00_01.000000000", "/"),
            ("..data", "..1970_01_01_00_00_01.000000000"),
            ("ca.crt", "..data/ca.crt"),
            ("sub", "..data/sub"),
        ])
    );
    assert_eq!(std::fs::read_to_string(folder.join("ca.crt")).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(folder.join("sub/token")).unwrap(), "two");
    assert_eq!(folder.join("sub/token").metadata().unwrap().mode() & 0o7777, 0o600);

    assert!(!put(folder, &first, 2).unwrap(), "nothing is written if nothing changed");
    assert_eq!(listing(folder)["..data"], "..1970_01_01_00_00_01.000000000");

    let second = contents(&[("ca.crt", "three", 0o644), ("new", "", 0o644)]);
    assert!(put(folder, &second, 3).unwrap());
    assert_eq!(
        listing(folder),
        expect(&[
            ("..1970_01_01_00_00_03.000000000", "/"),
            ("..data", "..1970_01_01_00_00_03.000000000"),
            ("ca.crt", "..data/ca.crt"),
            ("new", "..data/new"),
        ])
    );
    assert_eq!(std::fs::read_to_string(folder.join("ca.crt")).unwrap(), "three");

    assert!(put(folder, &contents(&[]), 4).unwrap());
    assert_eq!(listing(folder).len(), 2, "only the two reserved names are left");
}

#[test]
fn every_difference_is_one() {
    let scratch = Scratch::new("atomic-difference");
    let versions = [
        contents(&[("a", "1", 0o644)]),
        contents(&[("a", "2", 0o644)]),
        contents(&[("a", "2", 0o600)]),
        contents(&[("a", "22", 0o600)]),
        contents(&[("a", "22", 0o600), ("b", "", 0o644)]),
        contents(&[("b", "", 0o644)]),
        contents(&[("b/c", "", 0o644)]),
        contents(&[("b/d", "", 0o644)]),
    ];
    for (second, version) in (1..).zip(&versions) {
        assert!(put(scratch.path(), version, second).unwrap(), "{version:?}");
        assert!(!put(scratch.path(), version, second).unwrap(), "{version:?}");
    }
}

#[test]
fn the_pod_reads_its_files_and_can_change_nothing() {
    let Some(owner) = foreign_owner() else { return };
    let scratch = Scratch::new("atomic-owner");
    let folder = scratch.path().join("volume");
    std::fs::create_dir(&folder).unwrap();
    scratch.let_everybody_in();
    let volume = open_folder(fs::CWD, &folder.to_string_lossy()).unwrap();
    give_folder(volume.as_fd(), Some(owner)).unwrap();
    put(&folder, &contents(&[("sub/secret", "s", 0o600)]), 1).unwrap();
    let file = folder.join("sub/secret").metadata().unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (FOREIGN, FOREIGN, 0o600));
    for part in ["", "..data", "..data/sub"] {
        let made = folder.join(part).metadata().unwrap();
        assert_eq!((made.uid(), made.gid()), (0, FOREIGN), "{part}");
        assert_eq!(made.mode() & 0o7777, 0o750, "{part}");
    }
    let script = "cat sub/secret && ! touch x 2>/dev/null && ! rm ..data 2>/dev/null \
                  && ! rm sub/secret 2>/dev/null && ! ln -s / sub/l 2>/dev/null";
    let run = as_foreign_user(FOREIGN, &folder, script);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(run.stdout, b"s");
    let run = as_foreign_user(FOREIGN + 1, scratch.path(), "ls volume/");
    assert!(!run.status.success(), "another user gets in: {run:?}");
}

#[test]
fn a_reader_sees_the_old_or_the_new() {
    let scratch = Scratch::new("atomic-reader");
    let folder = scratch.path();
    // Two files, alike in each version and larger than one write.
    let version = |number: i64| {
        let text = char::from(b'a' + u8::try_from(number % 26).unwrap()).to_string().repeat(70_000);
        contents(&[("one", &text, 0o644), ("two", &text, 0o644)])
    };
    put(folder, &version(0), 0).unwrap();
    let done = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                // Both through one version; it may be removed on the way, but never be half.
                let Ok(current) = std::fs::read_link(folder.join("..data")) else {
                    panic!("..data is always there");
                };
                let current = folder.join(current);
                let read = |name: &str| std::fs::read(current.join(name));
                let (Ok(one), Ok(two)) = (read("one"), read("two")) else { continue };
                assert_eq!(one.len(), 70_000);
                assert!(one == two && one.iter().all(|byte| *byte == one[0]));
                reads += 1;
            }
            reads
        });
        for number in 1..200 {
            put(folder, &version(number), number).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(reads > 0);
}

#[test]
fn leftovers_of_an_interrupted_write_do_no_harm() {
    let scratch = Scratch::new("atomic-leftovers");
    let folder = scratch.path();
    std::fs::create_dir(folder.join("..1970_01_01_00_00_01.000000000")).unwrap();
    symlink("..gone", folder.join("..data_tmp")).unwrap();
    symlink("..data/old", folder.join("old")).unwrap();
    put(folder, &contents(&[("a", "1", 0o644)]), 1).unwrap();
    assert_eq!(
        listing(folder),
        expect(&[
            ("..1970_01_01_00_00_01.000000001", "/"),
            ("..data", "..1970_01_01_00_00_01.000000001"),
            ("a", "..data/a"),
        ])
    );
    // Killed after the swap and before the links.
    std::fs::remove_file(folder.join("a")).unwrap();
    assert!(put(folder, &contents(&[("a", "1", 0o644)]), 2).unwrap());
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "1");
}

#[test]
fn hostile_links_are_replaced_not_followed() {
    let scratch = Scratch::new("atomic-hostile");
    let (folder, outside) = (scratch.path().join("volume"), scratch.path().join("outside"));
    for path in [&folder, &outside] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(outside.join("a"), "theirs").unwrap();
    symlink("../outside", folder.join("..data")).unwrap();
    symlink("../outside/a", folder.join("a")).unwrap();
    symlink("../outside", folder.join("..data_tmp")).unwrap();
    symlink("../outside", folder.join("..1970_01_01_00_00_00.000000000")).unwrap();
    put(&folder, &contents(&[("a", "ours", 0o644)]), 1).unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "ours");
    assert_eq!(std::fs::read_to_string(outside.join("a")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    let link = Path::new("..data/a");
    assert_eq!(std::fs::read_link(folder.join("a")).unwrap(), link);
}

#[test]
fn mount_points_stay_and_are_not_confused_with_files() {
    let scratch = Scratch::new("atomic-points");
    let folder = scratch.path();
    let volume = open_folder(fs::CWD, scratch.text()).unwrap();
    let points = BTreeSet::from(["x".to_owned(), "deep/er".to_owned()]);
    for second in [1, 2] {
        make_mount_points(volume.as_fd(), &points, foreign_owner()).unwrap();
        put(folder, &contents(&[("a", &second.to_string(), 0o644)]), second).unwrap();
        assert!(folder.join("x").is_dir() && folder.join("deep/er").is_dir());
    }
    let error = put(folder, &contents(&[("x", "1", 0o644)]), 3).unwrap_err().to_string();
    assert_eq!(error, "\"x\" is in the way: another volume is mounted there");
}
