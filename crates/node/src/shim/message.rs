//! A container's termination message: what it left in its termination message file or, if it failed
//! without a word, the end of its log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::shim::protocol::{MAX_TERMINATION_MESSAGE_BYTES, Start};

/// How much of a log stands in for a message, as in Kubernetes.
const LOG_BYTES: usize = 2048;
const LOG_LINES: usize = 80;
/// How much of the file is looked at: the longest line that a log has, and all those lines with
/// what stands before each.
const LOG_TAIL: u64 = 32 << 10;

/// The termination message of a run that ended with `exit_code` and logged to `log`: its newer
/// half, and its older.
pub(super) fn termination_message(
    spec: &Start,
    exit_code: i32,
    log: (&PathBuf, &PathBuf),
) -> String {
    let left = spec.termination_message.as_deref().map_or(Ok(Vec::new()), read_message);
    let message = match left {
        Ok(message) => text(&message, MAX_TERMINATION_MESSAGE_BYTES),
        Err(error) => return format!("the termination message could not be read: {error}"),
    };
    if message.is_empty() && spec.message_from_log && exit_code != 0 {
        return end_of_log(log.0, log.1);
    }
    message
}

/// The end of a file that the Pod could write to. It may have made anything of it.
fn read_message(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        file => file?,
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    tail(&mut File::from(file), MAX_TERMINATION_MESSAGE_BYTES as u64)
}

/// At most so many bytes from the end.
fn tail(file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(limit)))?;
    let mut end = Vec::new();
    file.take(limit).read_to_end(&mut end)?;
    Ok(end)
}

fn end_of_log(newer: &Path, older: &Path) -> String {
    let read = |path: &Path| File::open(path).and_then(|mut file| tail(&mut file, LOG_TAIL));
    let mut lines = read(newer).unwrap_or_default();
    if (lines.len() as u64) < LOG_TAIL
        && let Ok(mut before) = read(older)
    {
        before.append(&mut lines);
        lines = before;
    }
    text(&last_lines(&lines), LOG_BYTES)
}

/// What was written, of the last lines of a log. A line of which only the end is there is none.
fn last_lines(log: &[u8]) -> Vec<u8> {
    let mut said: Vec<(&[u8], bool)> = log.split(|byte| *byte == b'\n').filter_map(parse).collect();
    let whole = |(_, whole): &(&[u8], bool)| *whole;
    let lines = said.iter().filter(|line| whole(line)).count();
    if let Some(surplus) = lines.checked_sub(LOG_LINES + 1) {
        let last_of_surplus = said.iter().enumerate().filter(|(_, line)| whole(line)).nth(surplus);
        let cut = last_of_surplus.map_or(0, |(index, _)| index + 1);
        said.drain(..cut);
    }
    let mut text = Vec::new();
    for (part, whole) in said {
        text.extend_from_slice(part);
        if whole {
            text.push(b'\n');
        }
    }
    text
}

/// `<time> <stream> <F or P> <text>`: the text, and whether it ends a line.
fn parse(line: &[u8]) -> Option<(&[u8], bool)> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let (time, stream) = (fields.next()?, fields.next()?);
    let (tag, text) = (fields.next()?, fields.next()?);
    let time_is_whole = time.len() == 30 && time.ends_with(b"Z");
    let known = matches!(stream, b"stdout" | b"stderr") && matches!(tag, b"F" | b"P");
    (time_is_whole && known).then_some((text, tag == b"F"))
}

/// At most `limit` bytes of text, from the end.
fn text(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(limit)..]);
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

#[cfg(test)]
mod tests;
