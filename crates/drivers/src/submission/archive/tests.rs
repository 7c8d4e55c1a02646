use std::io::{Cursor, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::submission::tests::TestFolder;

fn packed(folder: &TestFolder) -> Result<(Vec<u8>, Contents), ArchiveError> {
    let mut archive = Vec::new();
    let contents = pack(&Volume::Files(folder.path().to_owned()), &mut archive)?;
    Ok((archive, contents))
}

/// Every entry with its data, in the order of the archive; a checksum that is wrong is a panic.
fn entries(archive: &[u8]) -> Vec<(String, String)> {
    let mut zip = ::zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    (0..zip.len())
        .map(|index| {
            let mut entry = zip.by_index(index).unwrap();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            (entry.name().unwrap().into_owned(), String::from_utf8_lossy(&data).into_owned())
        })
        .collect()
}

fn names(archive: &[u8]) -> Vec<String> {
    entries(archive).into_iter().map(|(name, _)| name).collect()
}

fn pairs(entries: &[(String, String)]) -> Vec<(&str, &str)> {
    entries.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect()
}

#[test]
fn an_empty_volume_is_an_empty_archive() {
    let (archive, contents) = packed(&TestFolder::new("empty")).unwrap();
    assert_eq!(names(&archive), Vec::<String>::new());
    assert_eq!(contents, Contents { entries: 0, skipped: 0 });
    assert_eq!(archive.len(), 22);
}

#[test]
fn files_and_folders_come_sorted_with_data_times_and_permissions() {
    let folder = TestFolder::new("plain");
    folder.file("b/leer.txt", "");
    let script = folder.file("b/run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o4755)).unwrap();
    folder.file("a.txt", "eins");
    folder.file("über/日本.txt", "zwei");
    std::fs::create_dir(folder.path().join("c")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_001);
    let file = File::options().write(true).open(&script).unwrap();
    file.set_modified(time).unwrap();
    let (archive, contents) = packed(&folder).unwrap();

    assert_eq!(
        pairs(&entries(&archive)),
        [
            ("a.txt", "eins"),
            ("b/", ""),
            ("b/leer.txt", ""),
            ("b/run.sh", "#!/bin/sh\n"),
            ("c/", ""),
            ("über/", ""),
            ("über/日本.txt", "zwei"),
        ]
    );
    assert_eq!(contents, Contents { entries: 7, skipped: 0 });
    let mut zip = ::zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
    let script = zip.by_name("b/run.sh").unwrap();
    assert_eq!(script.unix_mode(), Some(0o100_755));
    let told = script.last_modified().unwrap();
    assert_eq!((told.year(), told.month(), told.day()), (2023, 11, 14));
    assert_eq!((told.hour(), told.minute(), told.second()), (22, 13, 20));
    assert_eq!(packed(&folder).unwrap().0, archive, "a volume at rest gives the same bytes");
}

#[test]
fn links_are_never_followed_and_kept_only_when_they_stay_inside() {
    let folder = TestFolder::new("links");
    folder.file("d/e/file", "x");
    folder.link("d/e/up", "../../d");
    folder.link("plain", "d/e/file");
    folder.link("gone", "nothing-here");
    folder.link("absolute", "/etc/passwd");
    folder.link("d/e/out", "../../../etc/passwd");
    folder.link("winding", "d/../../etc/passwd");
    folder.link("through", "d/e/up/../..");
    folder.link("tree", "/etc");
    folder.link("back", "a\\b");
    let (archive, contents) = packed(&folder).unwrap();

    let entries = entries(&archive);
    let (notes, rest) = entries.split_last().unwrap();
    assert_eq!(
        pairs(rest),
        [
            ("d/", ""),
            ("d/e/", ""),
            ("d/e/file", "x"),
            ("d/e/up", "../../d"),
            ("gone", "nothing-here"),
            ("plain", "d/e/file"),
        ]
    );
    assert_eq!(contents, Contents { entries: 6, skipped: 6 });
    assert_eq!(notes.0, NOTES);
    let told: Vec<&str> = notes.1.lines().collect();
    assert_eq!(told.len(), 6);
    assert_eq!(told[0], "left out \"absolute\": it is a link that may lead out of the volume");
    let mut zip = ::zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
    assert!(zip.by_name("plain").unwrap().is_symlink());
}

#[test]
fn what_is_no_file_is_left_out() {
    let folder = TestFolder::new("special");
    let _listener = UnixListener::bind(folder.path().join("socket")).unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    folder.file("file", "x");
    let (archive, contents) = packed(&folder).unwrap();
    assert_eq!(contents, Contents { entries: 1, skipped: 2 });
    assert_eq!(
        pairs(&entries(&archive)),
        [
            ("file", "x"),
            (NOTES, "left out \"fifo\": it is a fifo\nleft out \"socket\": it is a socket\n"),
        ]
    );
}

#[test]
fn the_notes_take_no_name_that_is_in_use() {
    let folder = TestFolder::new("notes-name");
    folder.file(NOTES, "mine");
    folder.link("out", "/etc/passwd");
    let (archive, _) = packed(&folder).unwrap();
    assert_eq!(names(&archive), [NOTES.to_owned(), format!("{NOTES}~2")]);
}

#[test]
fn names_that_could_mislead_are_replaced_and_stay_apart() {
    let folder = TestFolder::new("names");
    for name in [
        &b"..\\..\\up"[..],
        b".._.._up",
        b"C:evil",
        b"line\nbreak",
        b"not\xffutf8",
        b"not\xfeutf8",
        b"...",
        "right\u{202e}left".as_bytes(),
    ] {
        std::fs::write(folder.path().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let (archive, contents) = packed(&folder).unwrap();
    let mut found = names(&archive);
    assert_eq!(found.pop().unwrap(), NOTES);
    assert_eq!(
        found,
        [
            "...",
            ".._.._up~2",
            ".._.._up",
            "C_evil",
            "line_break",
            "not_utf8",
            "not_utf8~2",
            "right_left"
        ]
    );
    assert_eq!(contents, Contents { entries: 8, skipped: 0 });
}

#[test]
fn too_deep_is_an_error_that_names_the_place() {
    let folder = TestFolder::new("deep");
    let deepest = vec!["d"; MAX_DEPTH - 1].join("/");
    std::fs::create_dir_all(folder.path().join(&deepest)).unwrap();
    assert_eq!(packed(&folder).unwrap().1.entries, u64::try_from(MAX_DEPTH - 1).unwrap());
    std::fs::create_dir(folder.path().join(&deepest).join("d")).unwrap();
    let error = packed(&folder).unwrap_err();
    assert!(matches!(&error, ArchiveError::TooDeep { path } if path.ends_with("d/d")));
    assert!(error.to_string().ends_with("deeper than 256 folders"), "{error}");
}

#[test]
fn too_many_is_an_error_before_anything_of_the_folder_is_read() {
    let folder = TestFolder::new("many");
    for number in 0..4 {
        folder.file(&format!("d/{number}"), "x");
    }
    assert_eq!(pack_files(folder.path(), io::sink(), 5).unwrap().entries, 5);
    let mut archive = Vec::new();
    let error = pack_files(folder.path(), &mut archive, 4).unwrap_err();
    assert_eq!(error.to_string(), "the volume has more than 4 files, folders and links");
    assert!(!archive.windows(3).any(|name| name == b"d/0"));
}

#[test]
fn a_volume_that_is_not_there_is_an_error_that_names_it() {
    let folder = TestFolder::new("absent");
    for volume in [
        Volume::Files(folder.path().join("nothing")),
        Volume::Files(folder.file("file", "")),
        Volume::Disk(folder.path().join("nothing")),
    ] {
        let error = pack(&volume, io::sink()).unwrap_err();
        assert!(matches!(error, ArchiveError::OpenVolume { .. }), "{error:?}");
    }
}

#[test]
fn what_is_no_disk_is_not_read_as_one() {
    for path in ["/dev/zero", "/dev", "/dev/null"] {
        let error = pack(&Volume::Disk(path.into()), io::sink()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the volume {path:?} is neither a block device nor a plain file")
        );
    }
}

// case: lab S13
#[test]
fn a_disk_is_the_single_entry_disk_img_holes_and_all() {
    let folder = TestFolder::new("disk");
    let path = folder.path().join("disk");
    let disk = File::create(&path).unwrap();
    disk.set_len(50_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&disk, b"tail", 49_999_996).unwrap();
    let mut archive = Vec::new();
    let contents = pack(&Volume::Disk(path), &mut archive).unwrap();
    assert_eq!(contents, Contents { entries: 1, skipped: 0 });
    let entries = entries(&archive);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].0, "disk.img");
    assert_eq!(entries[0].1.len(), 50_000_000);
    assert!(entries[0].1.ends_with("\0\0tail"));
    assert!(archive.len() < 100_000, "a hole costs little: {}", archive.len());
}

#[test]
fn a_file_that_shrinks_or_grows_while_it_is_read_breaks_nothing() {
    for new_length in [100_000, 3_000_000] {
        let folder = TestFolder::new("moving");
        let path = folder.file("moving", vec![b'a'; 2_000_000]);
        folder.file("next", "whole");
        let file = File::options().write(true).open(path).unwrap();
        // The first bytes of the archive are those of the local header: the file is open by then.
        let mut archive = Vec::new();
        let out =
            InterferingWriter { out: &mut archive, meddle: || file.set_len(new_length).unwrap() };
        let contents = pack(&Volume::Files(folder.path().to_owned()), out).unwrap();

        assert_eq!(contents, Contents { entries: 2, skipped: 0 });
        let entries = entries(&archive);
        let kept = usize::try_from(new_length.min(2_000_000)).unwrap();
        assert_eq!(entries[0].1, "a".repeat(kept));
        assert_eq!(
            pairs(&entries)[1..],
            [("next", "whole"), (NOTES, "changed while it was read: \"moving\"\n")]
        );
    }
}

/// Does something to the volume before each piece is written.
struct InterferingWriter<'a, F> {
    out: &'a mut Vec<u8>,
    meddle: F,
}

impl<F: FnMut()> Write for InterferingWriter<'_, F> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (self.meddle)();
        self.out.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_link_that_takes_the_place_of_a_file_is_not_opened() {
    let folder = TestFolder::new("swap");
    folder.link("file", "/etc/passwd");
    folder.link("folder", "/etc");
    let root = File::open(folder.path()).unwrap();
    for (name, kind) in [(c"file", OFlags::empty()), (c"folder", OFlags::DIRECTORY)] {
        let errno = open_inside(root.as_fd(), name, kind).unwrap_err();
        assert!(matches!(errno, Errno::LOOP | Errno::NOTDIR), "{errno}");
    }
}

/// Files and folders are exchanged with links to a secret all the time while the volume is archived,
/// again and again; the secret is in no archive.
#[test]
fn nothing_from_outside_gets_in_while_links_are_swapped() {
    let outside = TestFolder::new("swapping-outside");
    outside.file("inner", "the secret");
    let folder = TestFolder::new("swapping");
    folder.file("file", "mine");
    folder.file("folder/inner", "mine");
    folder.link("link-to-file", outside.path().join("inner").to_str().unwrap());
    folder.link("link-to-folder", outside.path().to_str().unwrap());
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let root = File::open(folder.path()).unwrap();
            let swap = |one: &str, other: &str| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(&root, one, &root, other, flags).unwrap();
            };
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                swap("file", "link-to-file");
                swap("folder", "link-to-folder");
            }
        });
        let archives = (0..500).map(|_| packed(&folder).unwrap().0);
        let leaked = archives
            .filter(|archive| entries(archive).iter().any(|(_, data)| data.contains("secret")))
            .count();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(leaked, 0);
    });
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
    let folder = TestFolder::new("unreadable");
    let locked = folder.file("d/locked", "x");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&locked).is_ok() {
        return crate::skip::left_to_another_run("root reads every file");
    }
    let error = packed(&folder).unwrap_err();
    assert_eq!(error.to_string(), "cannot open \"d/locked\" of the volume");
}

#[test]
fn an_archive_that_nobody_takes_ends_the_packing() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = TestFolder::new("unwanted");
    folder.file("a", "a");
    let error = pack(&Volume::Files(folder.path().to_owned()), Gone).unwrap_err();
    assert!(matches!(error, ArchiveError::Unwanted));
}

#[test]
fn another_reader_agrees() {
    const READ: &str = "
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
for info in archive.infolist():
    print(repr(info.filename), info.file_size, oct(info.external_attr >> 16), info.date_time[0])
";
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return crate::skip::whole("there is no python3 here");
    }
    let folder = TestFolder::new("python");
    folder.file("d/ä.txt", "x".repeat(1_000_000));
    folder.file("leer", "");
    folder.link("link", "d/ä.txt");
    for name in ["d/ä.txt", "leer", "d"] {
        let file = File::open(folder.path().join(name)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        file.set_modified(time).unwrap();
    }
    let mode = std::fs::Permissions::from_mode;
    std::fs::set_permissions(folder.path().join("d"), mode(0o755)).unwrap();
    std::fs::set_permissions(folder.path().join("d/ä.txt"), mode(0o640)).unwrap();
    std::fs::set_permissions(folder.path().join("leer"), mode(0o600)).unwrap();
    let (archive, _) = packed(&folder).unwrap();
    let scratch = TestFolder::new("python-archive");
    let path = scratch.file("a.zip", archive);
    let output = Command::new("python3").args(["-c", READ]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[..3],
        ["'d/' 0 0o40755 2023", "'d/ä.txt' 1000000 0o100640 2023", "'leer' 0 0o100600 2023"]
    );
    assert!(lines[3].starts_with("'link' 8 0o120777 "), "{}", lines[3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever bytes names are made of: every file is there once, with its data, under a name that
    /// leads nowhere else.
    #[test]
    fn any_names_give_an_archive_that_unpacks_inside(
        files in proptest::collection::btree_map(
            proptest::collection::vec(
                prop_oneof![
                    Just(b'.'), Just(b'\\'), Just(b':'), Just(b'C'), Just(0xff), Just(b'_'), Just(b'~'),
                    Just(b'2'), 1_u8..=255,
                ],
                1..8,
            ),
            proptest::collection::vec(any::<u8>(), 0..64),
            0..12,
        ),
    ) {
        let folder = TestFolder::new("any-names");
        let mut data: Vec<Vec<u8>> = Vec::new();
        for (name, content) in files {
            if name == b"." || name == b".." || name.contains(&b'/') {
                continue;
            }
            std::fs::write(folder.path().join(OsStr::from_bytes(&name)), &content).unwrap();
            data.push(content);
        }
        let (archive, contents) = packed(&folder).unwrap();
        prop_assert_eq!(contents, Contents { entries: data.len() as u64, skipped: 0 });
        let mut zip = ::zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).unwrap();
            let name = entry.name().unwrap().into_owned();
            prop_assert!(entry.enclosed_name().is_some(), "{}", name);
            prop_assert!(!name.contains(crate::submission::name::is_unfit), "{}", name);
            prop_assert!(name != "." && name != "..");
            prop_assert!(seen.insert(name.clone()), "{} is there twice", name);
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if !name.starts_with(NOTES) {
                found.push(content);
            }
        }
        data.sort();
        found.sort();
        prop_assert_eq!(found, data);
    }
}
