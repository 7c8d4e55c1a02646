use std::io::{Cursor, Read as _};

use super::*;

fn entry(name: &str) -> Entry<'_> {
    Entry { name, modified: Some(1_700_000_000), mode: 0o100_644 }
}

#[test]
fn a_file_that_may_become_large_has_wide_sizes_and_can_be_read() {
    let mut zip = ZipWriter::new(Vec::new());
    let mut file = zip.file(entry("large"), u64::from(u32::MAX)).unwrap();
    file.write(b"only little came").unwrap();
    file.finish().unwrap();
    let mut file = zip.file(entry("small"), 5).unwrap();
    file.write(b"small").unwrap();
    file.finish().unwrap();
    let archive = zip.finish().unwrap();
    assert_eq!(archive[4..6], VERSION_64.to_le_bytes());
    let mut zip = ::zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    for (name, data) in [("large", "only little came"), ("small", "small")] {
        let mut found = String::new();
        zip.by_name(name).unwrap().read_to_string(&mut found).unwrap();
        assert_eq!(found, data);
    }
}

#[test]
fn an_entry_beyond_four_gigabytes_is_found_by_its_wide_offset() {
    let large = Record {
        entry: entry("far"),
        offset: 5 << 32,
        flags: FLAG_UTF8,
        method: DEFLATED,
        large: true,
        crc: 1,
        size: 6 << 32,
        compressed: 7,
    };
    let header = large.central_header().unwrap();
    let extra = &header[46 + 3..];
    assert_eq!(extra[..4], [1, 0, 16, 0]);
    assert_eq!(extra[4..12], (6_u64 << 32).to_le_bytes());
    assert_eq!(extra[12..20], (5_u64 << 32).to_le_bytes());
    assert_eq!(header[20..24], 7_u32.to_le_bytes());
    assert_eq!(header[24..28], u32::MAX.to_le_bytes());
    assert_eq!(header[42..46], u32::MAX.to_le_bytes());
}

#[test]
fn an_archive_that_is_dropped_is_no_archive() {
    let mut out = Vec::new();
    let mut zip = ZipWriter::new(&mut out);
    zip.stored(entry("whole"), b"whole").unwrap();
    let mut file = zip.file(entry("half"), 100).unwrap();
    file.write(b"half").unwrap();
    drop(zip);
    assert!(!out.is_empty());
    assert!(::zip::ZipArchive::new(Cursor::new(out)).is_err());
}

#[test]
fn times_that_cannot_be_said_become_the_nearest() {
    for (seconds, said) in [
        (None, (0, 0x0021)),
        (Some(0), (0, 0x0021)),
        (Some(i64::MIN), (0, 0x0021)),
        (Some(315_532_800), (0, 0x0021)),
        (Some(315_532_859), (29, 0x0021)),
        (Some(5_000_000_000), (0xbf7d, 0xff9f)),
        (Some(i64::MAX), (0xbf7d, 0xff9f)),
        (Some(4_354_819_200), (0xbf7d, 0xff9f)),
    ] {
        assert_eq!(dos_time(seconds), said, "{seconds:?}");
    }
}

#[test]
fn a_name_that_no_archive_can_hold_is_an_error() {
    let mut zip = ZipWriter::new(io::sink());
    let error = zip.stored(entry(&"n".repeat(70_000)), &[]).unwrap_err();
    assert_eq!(error.to_string(), "a path has more than 65535 bytes");
}

#[test]
fn the_directory_has_a_bound() {
    let mut zip = ZipWriter::new(io::sink());
    let name = "n".repeat(65_000);
    let error = (0..1000).find_map(|_| zip.stored(entry(&name), &[]).err()).unwrap();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn more_entries_than_sixteen_bits_can_count_are_all_there() {
    let mut zip = ZipWriter::new(Vec::new());
    for number in 0..70_000 {
        zip.stored(entry(&number.to_string()), &[]).unwrap();
    }
    let archive = zip.finish().unwrap();
    assert_eq!(::zip::ZipArchive::new(Cursor::new(archive)).unwrap().len(), 70_000);
}
