use super::*;

/// A folder of its own for a test, removed with it.
struct TestFolder(PodFolder);

impl TestFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shim-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(PodFolder::new(path))
    }

    fn text(&self, attempt: u32) -> String {
        std::fs::read_to_string(self.0.log("web", attempt)).expect("there is a log")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.path());
    }
}

fn pipe() -> (Stream, File) {
    let (ours, theirs) = crate::shim::child::pipe().expect("a pipe");
    (Stream::new("stdout", ours), theirs.into())
}

/// Each line without its time: stream, tag, and how long the text is or what it says.
fn shape(log: &str) -> Vec<String> {
    let shorten = |line: &str| {
        let (time, shrink_buffers) = line.split_once(' ').expect("a time");
        time.parse::<Timestamp>().expect("a time");
        assert_eq!(time.len(), "2026-01-01T00:00:00.000000000Z".len());
        let (head, text) = shrink_buffers.split_at("stdout F ".len());
        if text.len() > 20 { format!("{head}{}", text.len()) } else { shrink_buffers.to_owned() }
    };
    log.lines().map(shorten).collect()
}

#[test]
fn output_becomes_lines() {
    let long = "x".repeat(MAX_LINE_PART_BYTES);
    let cases: [(&[&str], &[&str]); 8] = [
        (&["one\ntwo\n"], &["stdout F one", "stdout F two"]),
        (&["o", "ne\ntw", "o"], &["stdout F one", "stdout F two"]),
        (&["\n\n"], &["stdout F ", "stdout F "]),
        (&[], &[]),
        (&[&long, "\n"], &["stdout F 16384"]),
        (&[&long, "y\n"], &["stdout P 16384", "stdout F y"]),
        (&[&long, &long, &long], &["stdout P 16384", "stdout P 16384", "stdout F 16384"]),
        (&["ab", &long, "\ncd\n"], &["stdout P 16384", "stdout F xx", "stdout F cd"]),
    ];
    for (number, (written, expected)) in cases.iter().enumerate() {
        let place = TestFolder::new("lines");
        let mut log = Log::open(&place.0, "web", 0, 1 << 20);
        let (mut stream, mut theirs) = pipe();
        let mut buffer = vec![0; 16 << 10];
        for text in *written {
            theirs.write_all(text.as_bytes()).expect("room in the pipe");
            assert!(stream.pump(&mut buffer, &mut log), "all is read");
        }
        drop(theirs);
        stream.pump(&mut buffer, &mut log);
        assert!(stream.pipe().is_none(), "the end is seen");
        assert_eq!(shape(&place.text(0)), *expected, "case {number}");
    }
}

#[test]
fn a_flood_is_read_in_turns() {
    let place = TestFolder::new("turns");
    let mut log = Log::open(&place.0, "web", 0, 1 << 20);
    let (mut stream, theirs) = pipe();
    rustix::pipe::fcntl_setpipe_size(&theirs, 1 << 20).expect("a large pipe");
    File::from(OwnedFd::from(theirs)).write_all(&vec![b'z'; 200_000]).expect("room in the pipe");
    let mut buffer = vec![0; 16 << 10];
    let turns = std::iter::repeat_with(|| stream.pump(&mut buffer, &mut log));
    assert_eq!(turns.take_while(|all| !all).count(), 3, "64 KiB in each");
}

#[test]
fn a_log_that_has_its_share_becomes_the_older_half() {
    let place = TestFolder::new("rotation");
    let share = share(0, 3);
    assert_eq!(share, MIN_SHARE_BYTES);
    let mut log = Log::open(&place.0, "web", 0, share);
    for number in 0..10_000 {
        log.line("stdout", format!("line {number}").as_bytes(), true);
    }
    log.shrink_buffers();
    let older = std::fs::read_to_string(place.0.older_log("web", 0)).expect("an older half");
    let newer = place.text(0);
    for half in [&older, &newer] {
        assert!(half.len() as u64 <= share, "{} bytes", half.len());
    }
    assert_eq!(std::fs::read_dir(place.0.logs("web")).expect("a folder").count(), 2);
    let lines: Vec<_> = older.lines().chain(newer.lines()).collect();
    assert!(lines.last().is_some_and(|line| line.ends_with(" stdout F line 9999")));
    let first = lines[0].rsplit(' ').next().and_then(|number| number.parse::<usize>().ok());
    assert_eq!(first, Some(10_000 - lines.len()), "no line is missing between the halves");
}

#[test]
fn of_older_runs_only_the_previous_logs_are_kept() {
    let place = TestFolder::new("runs");
    for attempt in [0, 1, 2, 12] {
        let mut log = Log::open(&place.0, "web", attempt, 1 << 20);
        log.line("stdout", b"here", true);
        log.shrink_buffers();
        std::fs::write(place.0.older_log("web", attempt), "older").expect("an older half");
    }
    Log::open(&place.0, "web", 13, 1 << 20);
    let mut names: Vec<_> = std::fs::read_dir(place.0.logs("web"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["12.log", "12.log.1", "13.log"]);
}

#[test]
fn what_cannot_be_written_is_dropped() {
    let mut log = Log {
        path: "/dev/full".into(),
        older: "/nowhere/older".into(),
        share: u64::MAX,
        file: None,
        size: 0,
        pending: Vec::new(),
        dropped: 0,
        tried: Instant::now(),
    };
    log.reopen().expect("it can be opened, but not written");
    for _ in 0..10 {
        log.line("stderr", &[b'a'; 10_000], true);
        log.flush();
    }
    assert!(log.pending.is_empty());
    assert!(log.dropped >= 100_000, "{} bytes", log.dropped);
}

#[test]
fn shares() {
    for (limit, containers, expected) in [
        (40 << 20, 1, 10 << 20),
        (40 << 20, 5, 2 << 20),
        (1 << 20, 100, MIN_SHARE_BYTES),
        (8 << 20, 0, 2 << 20),
    ] {
        assert_eq!(share(limit, containers), expected, "{limit} for {containers}");
    }
}
