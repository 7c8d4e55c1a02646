//! Reading the two halves of a log: forwards in blocks, and backwards to where a tail begins.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::line::{Line, LineFilter};
use super::query::Query;

/// How much is read at a time.
const BLOCK: usize = 32 << 10;
/// A longer line of a file is damaged: shims split what containers write at a quarter of this.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Enough of a line to see whether it is in the format and whether it is whole.
const LINE_HEAD_BYTES: usize = 128;
/// How often both halves are opened again because they changed places meanwhile. A shim rotates
/// after many kilobytes: once is rare.
const MAX_OPEN_ATTEMPTS: usize = 5;

/// A file, how far it has been read, and how far it is to be read.
#[derive(Debug)]
struct Part {
    file: File,
    identity: (u64, u64),
    at: u64,
    until: Option<u64>,
}

impl Part {
    /// Opens a file of a log; `None` if there is none. Links are not followed, and what is not a
    /// plain file is none of ours.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("a log is not a plain file"));
        }
        Ok(Some(Self { file, identity: identity(&metadata), at: 0, until: None }))
    }
}

/// Device and inode: rotation gives a file another name, not another identity.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The parts of a log that can be found, older first. Should they change places at this moment,
/// they are opened again: a part would be missing, be there twice, or come in the wrong order.
fn open_parts(newer: &Path, older: &Path) -> io::Result<VecDeque<Part>> {
    for _ in 0..MAX_OPEN_ATTEMPTS {
        let newer_part = Part::open(newer)?;
        let older_part = Part::open(older)?;
        let Some(opened) = newer_part.as_ref().map(|part| part.identity) else {
            return Ok(older_part.into_iter().collect());
        };
        let is_older = older_part.as_ref().is_some_and(|part| part.identity == opened);
        let replaced = std::fs::symlink_metadata(newer).is_ok_and(|now| identity(&now) != opened);
        if !is_older && !replaced {
            return Ok(older_part.into_iter().chain(newer_part).collect());
        }
    }
    Err(io::Error::other("the log is rotated faster than it can be read"))
}

/// What one turn of reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStep {
    /// There may be more.
    More,
    /// Everything that is there has been read.
    End,
    /// As much was sent as was asked for.
    Full,
}

/// One answer in the making.
#[derive(Debug)]
pub(super) struct Reading {
    newer: PathBuf,
    older: PathBuf,
    parts: VecDeque<Part>,
    shown: LineFilter,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    /// The line that is being read is longer than any: it is left out.
    overlong: bool,
    block: Box<[u8]>,
}

impl Reading {
    /// Opens a log. Unless it is followed, what is written from now on is not read: a busy
    /// container does not make an answer endless.
    pub(super) fn open(newer: PathBuf, older: PathBuf, query: &Query) -> io::Result<Self> {
        let mut parts = open_parts(&newer, &older)?;
        for part in &mut parts {
            part.until = Some(part.file.metadata()?.len());
        }
        if let Some(lines) = query.tail_lines {
            seek_tail(&mut parts, lines)?;
        }
        if query.follow {
            for part in &mut parts {
                part.until = None;
            }
        }
        Ok(Self {
            newer,
            older,
            parts,
            shown: LineFilter::new(query),
            rest: Vec::new(),
            overlong: false,
            block: vec![0; BLOCK].into(),
        })
    }

    /// Whether anything of the log is there at all.
    pub(super) fn is_absent(&self) -> bool {
        self.parts.is_empty()
    }

    /// Reads one block and adds what is to be sent.
    pub(super) fn read_block(&mut self, out: &mut Vec<u8>) -> io::Result<ReadStep> {
        if self.shown.is_full() {
            return Ok(ReadStep::Full);
        }
        let Some(part) = self.parts.front_mut() else { return Ok(ReadStep::End) };
        let left = part.until.map_or(u64::MAX, |until| until.saturating_sub(part.at));
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(self.block.len());
        let read = match part.file.read_at(&mut self.block[..room], part.at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(ReadStep::More),
            read => read?,
        };
        if read == 0 {
            if self.parts.len() == 1 {
                return Ok(ReadStep::End);
            }
            self.parts.pop_front();
            self.finish_line(out);
            return Ok(ReadStep::More);
        }
        part.at += read as u64;
        let mut block = &self.block[..read];
        while let Some(end) = block.iter().position(|byte| *byte == b'\n') {
            let (line, further) = (&block[..end], &block[end + 1..]);
            if !self.overlong && self.rest.len() + line.len() <= MAX_LINE_BYTES {
                if self.rest.is_empty() {
                    self.shown.add(line, out);
                } else {
                    self.rest.extend_from_slice(line);
                    self.shown.add(&self.rest, out);
                }
            }
            self.rest.clear();
            self.overlong = false;
            block = further;
        }
        if self.rest.len() + block.len() > MAX_LINE_BYTES {
            self.overlong = true;
            self.rest.clear();
        } else if !self.overlong {
            self.rest.extend_from_slice(block);
        }
        Ok(if self.shown.is_full() { ReadStep::Full } else { ReadStep::More })
    }

    /// Shows a last line whose end was never written, as far as it goes.
    pub(super) fn finish_line(&mut self, out: &mut Vec<u8>) {
        if !self.overlong && !self.rest.is_empty() {
            self.shown.add(&self.rest, out);
        }
        self.rest.clear();
        self.overlong = false;
    }

    /// Looks whether the log goes on in another file, after everything had been read. The present
    /// one is read to its end once more before: something may have been added before it was put
    /// aside.
    pub(super) fn renew(&mut self) -> io::Result<bool> {
        let known = self.parts.back().map(|part| part.identity);
        if let Ok(newer) = std::fs::symlink_metadata(&self.newer)
            && known == Some(identity(&newer))
        {
            return Ok(false);
        }
        let mut found = open_parts(&self.newer, &self.older)?;
        if let Some(place) = found.iter().position(|part| Some(part.identity) == known) {
            found.drain(..=place);
        }
        let renewed = !found.is_empty();
        self.parts.append(&mut found);
        Ok(renewed)
    }
}

/// Sets every part to where the last `lines` lines begin. Parts of a line count as the one line
/// that is shown.
fn seek_tail(parts: &mut VecDeque<Part>, lines: u64) -> io::Result<()> {
    let mut counted = 0;
    let mut is_last = true;
    for index in (0..parts.len()).rev() {
        let part = &mut parts[index];
        let length = part.until.unwrap_or_default();
        let mut begin = None;
        walk_back(&part.file, length, |start, end, head| {
            let fits = end - start <= MAX_LINE_BYTES as u64 + 1;
            let Some(line) = Line::parse(head).filter(|_| fits) else {
                return ControlFlow::Continue(());
            };
            if line.whole || is_last {
                if counted == lines {
                    begin = Some(end);
                    return ControlFlow::Break(());
                }
                counted += 1;
            }
            is_last = false;
            ControlFlow::Continue(())
        })?;
        if let Some(begin) = begin {
            part.at = begin;
            parts.drain(..index);
            break;
        }
    }
    Ok(())
}

/// Visits the lines of a file from the last to the first: where each begins, where the next one
/// does, and its beginning.
fn walk_back(
    file: &File,
    length: u64,
    mut visit: impl FnMut(u64, u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    // The beginning of what follows the block.
    let mut after: Vec<u8> = Vec::new();
    let mut head = Vec::with_capacity(LINE_HEAD_BYTES);
    let mut line_end = length;
    let mut block_end = length;
    let mut visit = |start: u64, end: u64, block: &[u8], after: &[u8]| {
        head.clear();
        let size = usize::try_from(end - start).unwrap_or(usize::MAX).min(LINE_HEAD_BYTES);
        head.extend(block.iter().chain(after).take(size));
        if head.last() == Some(&b'\n') {
            head.pop();
        }
        visit(start, end, &head)
    };
    while block_end > 0 {
        let size = usize::try_from(block_end).unwrap_or(usize::MAX).min(BLOCK);
        let block_start = block_end - size as u64;
        let bytes = &mut block[..size];
        file.read_exact_at(bytes, block_start)?;
        let mut searched = size;
        while let Some(newline) = bytes[..searched].iter().rposition(|byte| *byte == b'\n') {
            let start = block_start + newline as u64 + 1;
            if start < line_end {
                let visited = visit(start, line_end, &bytes[newline + 1..], &after);
                if visited.is_break() {
                    return Ok(());
                }
            }
            line_end = start;
            searched = newline;
        }
        let mut joined = Vec::with_capacity(LINE_HEAD_BYTES);
        joined.extend(bytes.iter().chain(&after).take(LINE_HEAD_BYTES));
        after = joined;
        block_end = block_start;
    }
    if line_end > 0 {
        // It is the first: there is nothing further to break off.
        let _ = visit(0, line_end, &[], &after);
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
