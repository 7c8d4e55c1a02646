use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::folder::PodFolder;

/// The folder of a Pod with a container `web`, removed in the end.
pub(in crate::log) struct Scratch(pub(in crate::log) PodFolder);

impl Scratch {
    pub(in crate::log) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-log-{}-{number}", std::process::id());
        let folder = PodFolder::new(std::env::temp_dir().join(name));
        fs::create_dir_all(folder.logs("web")).unwrap();
        Self(folder)
    }

    fn with(older: Option<&[u8]>, newer: Option<&[u8]>) -> Self {
        let scratch = Self::new();
        for (path, content) in [(scratch.older(), older), (scratch.newer(), newer)] {
            if let Some(content) = content {
                fs::write(path, content).unwrap();
            }
        }
        scratch
    }

    pub(in crate::log) fn newer(&self) -> PathBuf {
        self.0.log("web", 3)
    }

    pub(in crate::log) fn older(&self) -> PathBuf {
        self.0.older_log("web", 3)
    }

    pub(in crate::log) fn append(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.newer()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub(in crate::log) fn rotate(&self) {
        fs::rename(self.newer(), self.older()).unwrap();
    }

    fn read(&self, query: &Query) -> Vec<u8> {
        let mut reading = Reading::open(self.newer(), self.older(), query).unwrap();
        let mut out = Vec::new();
        while reading.read_block(&mut out).unwrap() == ReadStep::More {}
        reading.finish_line(&mut out);
        out
    }

    fn text(&self, query: &Query) -> String {
        String::from_utf8(self.read(query)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.0.path()));
    }
}

/// Lines of a file: `F` or `P` and the text of each.
pub(in crate::log) fn lines(parts: &[(char, &str)]) -> String {
    let mut text = String::new();
    for (tag, part) in parts {
        writeln!(text, "2026-01-02T03:04:05.123456789Z stdout {tag} {part}").unwrap();
    }
    text
}

fn tail(lines: u64) -> Query {
    Query { tail_lines: Some(lines), ..Query::default() }
}

#[test]
fn both_halves_are_read_in_order() {
    let (older, newer) = (lines(&[('F', "a"), ('P', "b")]), lines(&[('F', "c"), ('F', "d")]));
    let (older, newer) = (older.as_bytes(), newer.as_bytes());
    let cases = [
        (Some(older), Some(newer), "a\nbc\nd\n"),
        (None, Some(newer), "c\nd\n"),
        (Some(older), None, "a\nb"),
        (Some(&b""[..]), Some(&b""[..]), ""),
        (None, None, ""),
    ];
    for (older, newer, expected) in cases {
        let scratch = Scratch::with(older, newer);
        assert_eq!(scratch.text(&Query::default()), expected);
    }
    let absent = Scratch::new();
    let reading = Reading::open(absent.newer(), absent.older(), &Query::default()).unwrap();
    assert!(reading.is_absent());
}

#[test]
fn tails_count_lines_as_they_are_shown() {
    let older = lines(&[('F', "a"), ('P', "b"), ('P', "c")]);
    let newer = lines(&[('F', "d"), ('F', "e"), ('P', "f"), ('F', "g")]) + "damaged\n\n";
    let scratch = Scratch::with(Some(older.as_bytes()), Some(newer.as_bytes()));
    let cases = [
        (0, ""),
        (1, "fg\n"),
        (2, "e\nfg\n"),
        (3, "bcd\ne\nfg\n"),
        (4, "a\nbcd\ne\nfg\n"),
        (5, "a\nbcd\ne\nfg\n"),
        (u64::MAX, "a\nbcd\ne\nfg\n"),
    ];
    for (count, expected) in cases {
        assert_eq!(scratch.text(&tail(count)), expected, "{count}");
    }
    // A line that goes on is a line already; one that was torn off, too.
    let open = lines(&[('F', "a"), ('P', "b")]) + "2026-01-02T03:04:05Z stdout F to";
    let scratch = Scratch::with(None, Some(open.as_bytes()));
    for (count, expected) in [(0, ""), (1, "bto\n"), (2, "a\nbto\n")] {
        assert_eq!(scratch.text(&tail(count)), expected, "{count}");
    }
    let limited = Query { limit_bytes: Some(3), ..tail(2) };
    assert_eq!(scratch.text(&limited), "a\nb");
}

#[test]
fn long_and_hostile_content_is_bounded() {
    // A line of a megabyte comes in parts.
    let part = "x".repeat(16 << 10);
    let mut parts = vec![('F', "before")];
    parts.extend([('P', &*part); 64]);
    parts.extend([('F', "end"), ('F', "after")]);
    let scratch = Scratch::with(None, Some(lines(&parts).as_bytes()));
    let long = format!("{}end\n", "x".repeat(1 << 20));
    assert_eq!(scratch.text(&Query::default()), format!("before\n{long}after\n"));
    assert_eq!(scratch.text(&tail(2)), format!("{long}after\n"));
    assert_eq!(scratch.text(&tail(1)), "after\n");

    // In one piece it is none of a shim's; neither is what is not in the format.
    let junk = [
        lines(&[('F', "a"), ('F', &"x".repeat(1 << 20)), ('F', "b")]).into_bytes(),
        vec![0; 100_000],
        b"\n\n\r\n\xff\xfe stdout F x\n2026-01-02T03:04:05Z stdout F \xc3\x28\n".to_vec(),
        vec![b' '; 100_000],
    ]
    .concat();
    let scratch = Scratch::with(None, Some(&junk));
    assert_eq!(scratch.read(&Query::default()), b"a\nb\n\xc3\x28\n");
    assert_eq!(scratch.read(&tail(2)), b"b\n\xc3\x28\n");
    assert_eq!(scratch.read(&tail(3)), b"a\nb\n\xc3\x28\n");
}

#[test]
fn what_is_written_later_is_not_part_of_an_answer() {
    let scratch = Scratch::new();
    scratch.append(&lines(&[('F', "a")]));
    let plain = Query::default();
    let mut reading = Reading::open(scratch.newer(), scratch.older(), &plain).unwrap();
    scratch.append(&lines(&[('F', "b")]));
    let mut out = Vec::new();
    while reading.read_block(&mut out).unwrap() == ReadStep::More {}
    assert_eq!(out, b"a\n");
}

#[test]
fn rotation_loses_and_doubles_nothing() {
    let scratch = Scratch::new();
    let follow = Query { follow: true, ..Query::default() };
    let mut reading = Reading::open(scratch.newer(), scratch.older(), &follow).unwrap();
    let read_on = |reading: &mut Reading| {
        let mut out = Vec::new();
        loop {
            while reading.read_block(&mut out).unwrap() == ReadStep::More {}
            if !reading.renew().unwrap() {
                return String::from_utf8(out).unwrap();
            }
        }
    };
    assert_eq!(read_on(&mut reading), "");
    scratch.append(&lines(&[('F', "1")]));
    assert_eq!(read_on(&mut reading), "1\n");
    assert_eq!(read_on(&mut reading), "");
    // Added before it was put aside, and then in the new file.
    scratch.append(&lines(&[('F', "2")]));
    scratch.rotate();
    assert_eq!(read_on(&mut reading), "2\n");
    scratch.append(&lines(&[('F', "3")]));
    assert_eq!(read_on(&mut reading), "3\n");
    // Twice: what was read is gone, both halves are new.
    scratch.append(&lines(&[('F', "4")]));
    scratch.rotate();
    scratch.append(&lines(&[('F', "5")]));
    scratch.rotate();
    scratch.append(&lines(&[('F', "6")]));
    assert_eq!(read_on(&mut reading), "4\n5\n6\n");
    // Half a line is not shown before it is whole.
    scratch.append("2026-01-02T03:04:05Z stdout F ha");
    assert_eq!(read_on(&mut reading), "");
    scratch.append("lf\n");
    assert_eq!(read_on(&mut reading), "half\n");
    fs::remove_dir_all(scratch.0.path()).unwrap();
    assert_eq!(read_on(&mut reading), "");
}

#[test]
fn links_and_what_is_no_file_are_refused() {
    let scratch = Scratch::new();
    let secret = scratch.0.path().join("secret");
    fs::write(&secret, lines(&[('F', "secret")])).unwrap();
    std::os::unix::fs::symlink(&secret, scratch.newer()).unwrap();
    let open = || Reading::open(scratch.newer(), scratch.older(), &Query::default());
    assert!(open().is_err());
    fs::remove_file(scratch.newer()).unwrap();
    fs::create_dir(scratch.newer()).unwrap();
    assert!(open().is_err());
    fs::remove_dir(scratch.newer()).unwrap();
    // It would wait for somebody to write.
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.newer(), rustix::fs::Mode::RUSR).unwrap();
    assert!(open().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A tail is the end of the whole, wherever blocks and halves begin.
    #[test]
    fn a_tail_is_the_end_of_the_whole(
        entries in prop::collection::vec((0..4_u8, 0..40_000_usize), 0..12),
        half in 0..12_usize,
        count in 0..14_u64,
    ) {
        let mut files = [Vec::new(), Vec::new()];
        for (index, (kind, length)) in entries.iter().enumerate() {
            let file = &mut files[usize::from(index >= half)];
            let text = "y".repeat(*length);
            match kind {
                0 => file.extend(format!("{index} damaged {text}\n").into_bytes()),
                1 => file.extend(lines(&[('P', &format!("{index}{text}"))]).into_bytes()),
                _ => file.extend(lines(&[('F', &format!("{index}{text}"))]).into_bytes()),
            }
        }
        let scratch = Scratch::with(Some(&files[0]), Some(&files[1]));
        let whole = scratch.text(&Query::default());
        let all: Vec<&str> = whole.split_inclusive('\n').collect();
        let skipped = all.len().saturating_sub(usize::try_from(count).unwrap());
        prop_assert_eq!(scratch.text(&tail(count)), all[skipped..].concat());
    }
}
