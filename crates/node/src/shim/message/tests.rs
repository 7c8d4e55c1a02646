use std::os::unix::fs::symlink;

use super::*;

fn spec(termination_message: Option<PathBuf>, message_from_log: bool) -> Start {
    Start {
        container: "web".to_owned(),
        argv: vec!["true".to_owned()],
        termination_message,
        message_from_log,
        ..Start::default()
    }
}

fn lines(texts: impl IntoIterator<Item = String>) -> String {
    let line = |text: String| format!("2026-01-01T00:00:00.000000000Z stdout {text}\n");
    texts.into_iter().map(line).collect()
}

#[test]
fn termination_message_is_the_file_or_else_the_log() {
    let place = std::env::temp_dir().join(format!("shim-message-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a folder");
    let (file, log, older) = (place.join("message"), place.join("0.log"), place.join("0.log.1"));
    let halves = (&log, &older);
    std::fs::write(&log, lines(["F second".to_owned()])).expect("a log");
    std::fs::write(&older, lines(["F first".to_owned()])).expect("a log");

    let long = "é".repeat(3000);
    let cases: [(&[u8], i32, bool, &str); 6] = [
        (b"bye", 0, false, "bye"),
        (b"bye", 1, true, "bye"),
        (b"", 1, true, "first\nsecond\n"),
        (b"", 0, true, ""),
        (b"", 1, false, ""),
        (long.as_bytes(), 1, true, &long[long.len() - MAX_TERMINATION_MESSAGE_BYTES..]),
    ];
    for (left, exit_code, from_log, expected) in cases {
        std::fs::write(&file, left).expect("a file");
        let spec = spec(Some(file.clone()), from_log);
        assert_eq!(termination_message(&spec, exit_code, halves), expected);
    }

    std::fs::write(&file, b"\xff".repeat(10_000)).expect("a file");
    let message = termination_message(&spec(Some(file.clone()), false), 0, halves);
    assert!(
        message.len() <= MAX_TERMINATION_MESSAGE_BYTES && message.starts_with('\u{fffd}'),
        "{message:?}"
    );

    std::fs::remove_file(&file).expect("it is ours");
    assert_eq!(termination_message(&spec(Some(file.clone()), false), 0, halves), "");
    for (name, hostile) in
        [("a link", "/etc/passwd"), ("a folder", "/etc"), ("a device", "/dev/zero")]
    {
        symlink(hostile, &file).expect("a link");
        let message = termination_message(&spec(Some(file.clone()), false), 0, halves);
        assert!(
            message.starts_with("the termination message could not be read"),
            "{name}: {message}"
        );
        std::fs::remove_file(&file).expect("it is ours");
    }
    rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    let message = termination_message(&spec(Some(file), false), 0, halves);
    assert_eq!(message, "the termination message could not be read: it is not a regular file");
    std::fs::remove_dir_all(place).expect("it is ours");
}

#[test]
fn the_end_of_a_log() {
    let numbered = |range: std::ops::Range<u32>| range.map(|number| format!("F {number}"));
    let said =
        |range: std::ops::Range<u32>| range.map(|number| format!("{number}\n")).collect::<String>();
    let parts = ["P ab".to_owned(), "P cd".to_owned(), "F ef".to_owned(), "P gh".to_owned()];
    for (log, expected) in [
        (lines(numbered(0..3)), said(0..3)),
        (lines(numbered(0..80)), said(0..80)),
        (lines(numbered(0..200)), said(120..200)),
        (lines(parts), "abcdef\ngh".to_owned()),
        (format!("0Z stdout F cut off\n{}", lines(numbered(7..8))), "7\n".to_owned()),
        (String::new(), String::new()),
    ] {
        assert_eq!(String::from_utf8_lossy(&last_lines(log.as_bytes())), expected);
    }
}
