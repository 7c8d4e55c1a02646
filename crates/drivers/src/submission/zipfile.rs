//! Writes a ZIP archive to something that can only be appended to.
//!
//! The sizes and the checksum of a file follow its data, so nothing has to be known before it is
//! read and nothing is ever rewritten. What stays in memory is the directory that ends an archive:
//! its records, encoded, about 55 bytes and the name for each entry.
//!
//! An archive that is dropped before [`ZipWriter::finish`] has no directory, so no reader takes it
//! for whole. That is the reason for not using a library here: the usual one completes an archive
//! when it is dropped, which would make a volume that could not be read look like a small one.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The bytes that the directory of an archive may have, which is what an archive costs in memory.
const MAX_DIRECTORY: usize = 32 * 1024 * 1024;

/// Files that are expected to be larger get 64-bit sizes. Less than what 32 bits can say, since
/// data that cannot be compressed grows a little.
const LARGE_FROM: u64 = u32::MAX as u64 - 16 * 1024 * 1024;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DATA_DESCRIPTOR: u32 = 0x0807_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const END_64_LOCATOR: u32 = 0x0706_4b50;

const FLAG_DESCRIPTOR_FOLLOWS: u16 = 1 << 3;
const FLAG_UTF8: u16 = 1 << 11;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
const MADE_ON_UNIX: u16 = 3 << 8;
const EXTRA_64: u16 = 0x0001;
const EXTRA_TIME: u16 = 0x5455;
const DOS_DIRECTORY: u32 = 0x10;

/// What is said of an entry besides its data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// With `/` between its parts; a folder's ends with one.
    pub name: &'a str,
    /// Seconds since 1970; `None` where an entry has no time of its own.
    pub modified: Option<i64>,
    /// As `st_mode` has it.
    pub mode: u32,
}

pub(super) struct ZipWriter<W> {
    out: W,
    written: u64,
    directory: Vec<u8>,
    entries: u64,
    compress: Compress,
    compressed: Box<[u8]>,
}

impl<W: Write> ZipWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            written: 0,
            directory: Vec::new(),
            entries: 0,
            compress: Compress::new(Compression::default(), false),
            compressed: vec![0; 64 * 1024].into_boxed_slice(),
        }
    }

    /// An entry without data to compress: a folder, an empty file, or a link with its target.
    pub(super) fn stored(&mut self, entry: Entry<'_>, data: &[u8]) -> io::Result<()> {
        let size = u64::try_from(data.len()).map_err(io::Error::other)?;
        let mut crc = Crc::new();
        crc.update(data);
        let record = Record {
            entry,
            offset: self.written,
            flags: FLAG_UTF8,
            method: STORED,
            large: size > LARGE_FROM,
            crc: crc.sum(),
            size,
            compressed: size,
        };
        self.put(&record.local_header(false)?)?;
        self.put(data)?;
        self.note(&record)
    }

    /// Begins a file of which at most `expected` bytes will be written.
    pub(super) fn file<'w>(
        &'w mut self,
        entry: Entry<'w>,
        expected: u64,
    ) -> io::Result<FileWriter<'w, W>> {
        let record = Record {
            entry,
            offset: self.written,
            flags: FLAG_UTF8 | FLAG_DESCRIPTOR_FOLLOWS,
            method: DEFLATED,
            large: expected > LARGE_FROM,
            crc: 0,
            size: 0,
            compressed: 0,
        };
        self.put(&record.local_header(true)?)?;
        self.compress.reset();
        Ok(FileWriter { data_from: self.written, zip: self, record, crc: Crc::new() })
    }

    /// Writes the directory, without which this is no archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let directory = std::mem::take(&mut self.directory);
        let offset = self.written;
        self.put(&directory)?;
        let size = self.written - offset;
        let mut end = Vec::new();
        if self.entries >= u64::from(u16::MAX)
            || size >= u64::from(u32::MAX)
            || offset >= u64::from(u32::MAX)
        {
            let record_at = self.written;
            put32(&mut end, END_64);
            put64(&mut end, 44);
            put16(&mut end, MADE_ON_UNIX | VERSION_64);
            put16(&mut end, VERSION_64);
            put32(&mut end, 0);
            put32(&mut end, 0);
            put64(&mut end, self.entries);
            put64(&mut end, self.entries);
            put64(&mut end, size);
            put64(&mut end, offset);
            put32(&mut end, END_64_LOCATOR);
            put32(&mut end, 0);
            put64(&mut end, record_at);
            put32(&mut end, 1);
        }
        let entries = u16::try_from(self.entries).unwrap_or(u16::MAX);
        put32(&mut end, END);
        put16(&mut end, 0);
        put16(&mut end, 0);
        put16(&mut end, entries);
        put16(&mut end, entries);
        put32(&mut end, saturated(size));
        put32(&mut end, saturated(offset));
        put16(&mut end, 0);
        self.put(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += u64::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok(())
    }

    fn note(&mut self, record: &Record<'_>) -> io::Result<()> {
        let header = record.central_header()?;
        if self.directory.len() + header.len() > MAX_DIRECTORY {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the names of all files together have more than {MAX_DIRECTORY} bytes"),
            ));
        }
        self.directory.extend_from_slice(&header);
        self.entries += 1;
        Ok(())
    }
}

/// A file of the archive while it is written. Without [`FileWriter::finish`] the archive stays
/// unfinished too.
pub(super) struct FileWriter<'w, W> {
    zip: &'w mut ZipWriter<W>,
    record: Record<'w>,
    data_from: u64,
    crc: Crc,
}

impl<W: Write> FileWriter<'_, W> {
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.crc.update(data);
        self.record.size += u64::try_from(data.len()).map_err(io::Error::other)?;
        if self.record.size > LARGE_FROM && !self.record.large {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{:?} has more data than was announced", self.record.entry.name),
            ));
        }
        self.deflate(data, FlushCompress::None)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.deflate(&[], FlushCompress::Finish)?;
        self.record.crc = self.crc.sum();
        self.record.compressed = self.zip.written - self.data_from;
        self.zip.put(&self.record.descriptor()?)?;
        self.zip.note(&self.record)
    }

    fn deflate(&mut self, mut data: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            let (read, made) = (self.zip.compress.total_in(), self.zip.compress.total_out());
            let zip = &mut *self.zip;
            let status = zip
                .compress
                .compress(data, &mut zip.compressed, flush)
                .map_err(io::Error::other)?;
            let read = usize::try_from(zip.compress.total_in() - read).map_err(io::Error::other)?;
            let made =
                usize::try_from(zip.compress.total_out() - made).map_err(io::Error::other)?;
            data = &data[read..];
            zip.out.write_all(&zip.compressed[..made])?;
            zip.written += u64::try_from(made).map_err(io::Error::other)?;
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => data.is_empty(),
            };
            if done {
                return Ok(());
            }
            if read == 0 && made == 0 {
                return Err(io::Error::other("the compressor makes no progress"));
            }
        }
    }
}

struct Record<'a> {
    entry: Entry<'a>,
    offset: u64,
    flags: u16,
    method: u16,
    /// Its sizes are written with 64 bits wherever they stand beside its data.
    large: bool,
    crc: u32,
    size: u64,
    compressed: u64,
}

impl Record<'_> {
    fn local_header(&self, sizes_follow: bool) -> io::Result<Vec<u8>> {
        let mut extra = Vec::new();
        if self.large {
            put16(&mut extra, EXTRA_64);
            put16(&mut extra, 16);
            put64(&mut extra, self.size);
            put64(&mut extra, self.compressed);
        }
        self.time_extra(&mut extra);
        let (size, compressed) = match (self.large, sizes_follow) {
            (true, _) => (u32::MAX, u32::MAX),
            (false, true) => (0, 0),
            (false, false) => (saturated(self.size), saturated(self.compressed)),
        };
        let mut header = Vec::with_capacity(30 + self.entry.name.len() + extra.len());
        put32(&mut header, LOCAL_HEADER);
        put16(&mut header, version(self.large));
        self.put_shared(&mut header, size, compressed, &extra)?;
        header.extend_from_slice(self.entry.name.as_bytes());
        header.extend_from_slice(&extra);
        Ok(header)
    }

    fn descriptor(&self) -> io::Result<Vec<u8>> {
        let mut descriptor = Vec::with_capacity(24);
        put32(&mut descriptor, DATA_DESCRIPTOR);
        put32(&mut descriptor, self.crc);
        if self.large {
            put64(&mut descriptor, self.compressed);
            put64(&mut descriptor, self.size);
        } else {
            put32(&mut descriptor, u32::try_from(self.compressed).map_err(io::Error::other)?);
            put32(&mut descriptor, u32::try_from(self.size).map_err(io::Error::other)?);
        }
        Ok(descriptor)
    }

    fn central_header(&self) -> io::Result<Vec<u8>> {
        // Exactly the fields that do not fit, in this order.
        let mut long = Vec::new();
        for value in [self.size, self.compressed, self.offset] {
            if value >= u64::from(u32::MAX) {
                put64(&mut long, value);
            }
        }
        let mut extra = Vec::new();
        if !long.is_empty() {
            put16(&mut extra, EXTRA_64);
            put16(&mut extra, u16::try_from(long.len()).map_err(io::Error::other)?);
            extra.extend_from_slice(&long);
        }
        self.time_extra(&mut extra);
        let folder = if self.entry.name.ends_with('/') { DOS_DIRECTORY } else { 0 };
        let version = version(self.large || !long.is_empty());
        let mut header = Vec::with_capacity(46 + self.entry.name.len() + extra.len());
        put32(&mut header, CENTRAL_HEADER);
        put16(&mut header, MADE_ON_UNIX | version);
        put16(&mut header, version);
        self.put_shared(&mut header, saturated(self.size), saturated(self.compressed), &extra)?;
        put16(&mut header, 0);
        put16(&mut header, 0);
        put16(&mut header, 0);
        put32(&mut header, (self.entry.mode << 16) | folder);
        put32(&mut header, saturated(self.offset));
        header.extend_from_slice(self.entry.name.as_bytes());
        header.extend_from_slice(&extra);
        Ok(header)
    }

    /// The fields that both headers have in the same order.
    fn put_shared(
        &self,
        header: &mut Vec<u8>,
        size: u32,
        compressed: u32,
        extra: &[u8],
    ) -> io::Result<()> {
        let (time, date) = dos_time(self.entry.modified);
        put16(header, self.flags);
        put16(header, self.method);
        put16(header, time);
        put16(header, date);
        put32(header, self.crc);
        put32(header, compressed);
        put32(header, size);
        put16(header, u16::try_from(self.entry.name.len()).map_err(|_| name_too_long())?);
        put16(header, u16::try_from(extra.len()).map_err(io::Error::other)?);
        Ok(())
    }

    /// The time in UTC with whole seconds; the field of the header has neither. Times that its 32
    /// bits cannot say are left to the header.
    fn time_extra(&self, extra: &mut Vec<u8>) {
        if let Some(Ok(seconds)) = self.entry.modified.map(i32::try_from) {
            put16(extra, EXTRA_TIME);
            put16(extra, 5);
            extra.push(1);
            extra.extend_from_slice(&seconds.to_le_bytes());
        }
    }
}

fn version(large: bool) -> u16 {
    if large { VERSION_64 } else { VERSION }
}

fn name_too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidFilename, "a path has more than 65535 bytes")
}

/// Time and date as DOS wrote them, in UTC, so that they do not depend on where this runs; times
/// before 1980 and after 2107 become the nearest that can be said.
fn dos_time(modified: Option<i64>) -> (u16, u16) {
    const FIRST: (u16, u16) = (0, (1 << 5) | 1);
    const LAST: (u16, u16) = ((23 << 11) | (59 << 5) | 29, (127 << 9) | (12 << 5) | 31);
    let Some(seconds) = modified else { return FIRST };
    let Ok(timestamp) = Timestamp::from_second(seconds) else {
        return if seconds < 0 { FIRST } else { LAST };
    };
    let moment = TimeZone::UTC.to_datetime(timestamp);
    let part = |value: i8| u16::from(value.unsigned_abs());
    match u16::try_from(i32::from(moment.year()) - 1980) {
        Err(_) => FIRST,
        Ok(year) if year > 127 => LAST,
        Ok(year) => (
            (part(moment.hour()) << 11)
                | (part(moment.minute()) << 5)
                | (part(moment.second()) / 2),
            (year << 9) | (part(moment.month()) << 5) | part(moment.day()),
        ),
    }
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn put16(to: &mut Vec<u8>, value: u16) {
    to.extend_from_slice(&value.to_le_bytes());
}

fn put32(to: &mut Vec<u8>, value: u32) {
    to.extend_from_slice(&value.to_le_bytes());
}

fn put64(to: &mut Vec<u8>, value: u64) {
    to.extend_from_slice(&value.to_le_bytes());
}
