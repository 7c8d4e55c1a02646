use super::*;
use crate::shim::protocol::End;

fn record(container: &str, attempt: u32) -> Record {
    let end = End {
        finished_at: "2026-01-01T00:00:09.25Z".parse().expect("a time"),
        exit_code: 137,
        signal: Some(9),
        oom_killed: true,
        message: "out of\nmemory".to_owned(),
    };
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a time");
    Record { container: container.to_owned(), attempt, pid: 7, started_at, end: Some(end) }
}

#[test]
fn records_are_read_as_they_were_written_and_damage_is_named() {
    let path = std::env::temp_dir().join(format!("shim-records-{}", std::process::id()));
    let folder = PodFolder::new(&path);
    assert!(
        matches!(read_all(&folder), Ok((records, damaged)) if records.is_empty() && damaged.is_empty())
    );

    std::fs::create_dir_all(folder.records()).expect("a folder");
    let written = [record("init", 0), record("web", 0), record("web", 1), record("web", 10)];
    for record in written.iter().rev() {
        write(&folder, record).expect("room on the disk");
    }
    std::fs::write(folder.record("torn", 3), r#"{"container":"torn","att"#).expect("a file");
    std::fs::write(folder.record("empty", 0), "").expect("a file");
    std::fs::write(folder.record("huge", 0), " ".repeat(100_000)).expect("a file");
    std::fs::copy(folder.record("web", 1), folder.record("other", 1)).expect("a copy");
    std::fs::write(folder.records().join("web.2.new"), "{").expect("a file");

    let (records, damaged) = read_all(&folder).expect("the folder can be read");
    assert_eq!(records, written);
    let mut damaged: Vec<_> = damaged.iter().map(|of| of.path.file_name()).collect();
    damaged.sort();
    let names = ["empty.0.json", "huge.0.json", "other.1.json", "torn.3.json"];
    assert_eq!(damaged, names.map(|name| Some(name.as_ref())));

    remove_older(&folder, "web", 10);
    let left = [("init", 0), ("web", 0), ("web", 1), ("web", 10)]
        .map(|(container, attempt)| folder.record(container, attempt).exists());
    assert_eq!(left, [true, false, false, true]);
    std::fs::remove_dir_all(path).expect("it is ours");
}
