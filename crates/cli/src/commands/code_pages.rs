//! Pages of the program that only its start needed: they are given back a little later.
//!
//! A start reads most of the program once: definitions, roles, and the code that relocates, parses and installs
//! them. Those pages would count as this process's for as long as it idles. They stay in the kernel's page cache,
//! so what is run again is mapped again without reading the disk.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustix::mm::{Advice, madvise};
use tracing::debug;

/// What starts along with us, controllers above all, has had its first turn by then.
const AFTER_START: Duration = Duration::from_secs(3);

/// Gives them back once, soon. It is an economy: where it cannot be done, nothing is lost.
pub(super) fn give_back_soon() {
    // Whether it is done before the process ends does not matter.
    drop(tokio::spawn(async {
        tokio::time::sleep(AFTER_START).await;
        if let Ok(bytes) = tokio::task::spawn_blocking(give_back).await {
            debug!(bytes, "gave back pages of the program that were needed to start");
        }
    }));
}

/// Gives back the pages of this program's file that can be read from it again; says how many bytes they were.
fn give_back() -> usize {
    let (Ok(program), Ok(smaps)) =
        (std::env::current_exe(), fs::read_to_string("/proc/self/smaps"))
    else {
        return 0;
    };
    unchanged(&smaps, &program)
        .filter(|mapping| forget(&mapping.addresses))
        .map(|mapping| mapping.resident)
        .sum()
}

#[expect(unsafe_code, reason = "madvise is unsafe because of what other mappings could lose")]
fn forget(addresses: &Range<usize>) -> bool {
    let start = std::ptr::with_exposed_provenance_mut(addresses.start);
    // SAFETY: nobody can write to these pages, and nobody has: what is read there next comes from the
    // same place of the same file, with the same content.
    unsafe { madvise(start, addresses.len(), Advice::LinuxDontNeed) }.is_ok()
}

/// Part of the program in memory, exactly as it is in the file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<usize>,
    /// In bytes.
    resident: usize,
}

/// The mappings of `program` that nobody may write to, and nobody has: relocations, for one, exist in
/// memory alone. What is dirty and not anonymous is the file itself, not on the disk yet.
fn unchanged(smaps: &str, program: &Path) -> impl Iterator<Item = Mapping> {
    let mut mappings: Vec<Option<Mapping>> = Vec::new();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            mappings.push(of_program(first, line, program));
            continue;
        };
        let Some(last) = mappings.last_mut() else { continue };
        let kilobytes = words.next().and_then(|number| number.parse::<usize>().ok());
        match (field, kilobytes) {
            ("Rss", Some(kilobytes)) => {
                if let Some(mapping) = last {
                    mapping.resident = kilobytes * 1024;
                }
            }
            ("Anonymous" | "Swap", Some(0)) => {}
            ("Anonymous" | "Swap", _) => *last = None,
            _ => {}
        }
    }
    mappings.into_iter().flatten().filter(|mapping| mapping.resident > 0)
}

/// The mapping whose description begins with `line`, if it is of `program` and nobody may write to it.
fn of_program(addresses: &str, line: &str, program: &Path) -> Option<Mapping> {
    // Addresses, permissions, offset, device and inode; the rest is the path, which may have spaces.
    let (fields, path) = line.split_at(line.find('/')?);
    let permissions = fields.split_ascii_whitespace().nth(1)?;
    if Path::new(path) != program || permissions.contains('w') || !permissions.ends_with('p') {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping { addresses: address(start)?..address(end)?, resident: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/opt/some programs/sojourn";

    fn described(permissions: &str, path: &str, fields: &str) -> String {
        format!(
            "1000-3000 {permissions} 00002000 fe:00 247026     {path}\n{fields}VmFlags: rd mr\n"
        )
    }

    fn given_back(smaps: &str) -> Vec<(Range<usize>, usize)> {
        unchanged(smaps, Path::new(PROGRAM)).map(|one| (one.addresses, one.resident)).collect()
    }

    const CLEAN: &str =
        "Rss:     8 kB\nPrivate_Dirty:    8 kB\nAnonymous:    0 kB\nSwap:     0 kB\n";

    #[test]
    fn only_what_is_as_in_the_file_is_given_back() {
        let all = [(0x1000..0x3000, 8192)];
        for permissions in ["r--p", "r-xp"] {
            assert_eq!(given_back(&described(permissions, PROGRAM, CLEAN)), all);
        }
        for (permissions, path, fields) in [
            ("rw-p", PROGRAM, CLEAN),
            ("r--s", PROGRAM, CLEAN),
            ("r--p", "/usr/lib/libc.so.6", CLEAN),
            ("r--p", "[heap]", CLEAN),
            ("r--p", PROGRAM, "Rss: 8 kB\nAnonymous: 4 kB\n"),
            ("r--p", PROGRAM, "Rss: 8 kB\nSwap: 4 kB\n"),
            ("r--p", PROGRAM, "Rss: 8 kB\nAnonymous: ? kB\n"),
            ("r--p", PROGRAM, "Rss: 0 kB\n"),
        ] {
            assert_eq!(given_back(&described(permissions, path, fields)), [], "{path} {fields}");
        }
    }

    #[test]
    fn what_one_mapping_is_says_nothing_of_the_next() {
        let smaps = described("r--p", PROGRAM, "Rss: 8 kB\nAnonymous: 4 kB\n")
            + &described("r-xp", PROGRAM, CLEAN)
            + &described("rw-p", "", "Rss: 64 kB\nAnonymous: 64 kB\n");
        assert_eq!(given_back(&smaps).len(), 1);
        assert_eq!(given_back("no such\nthing: at all\n\n1-2 r--p"), []);
    }

    #[test]
    fn a_program_goes_on_without_the_pages_that_it_gave_back() {
        assert!(give_back() > 0, "nothing of this program is in memory");
        // Other code, and constants, than what has run since.
        let words = format!("{:?}", "a b c".split(' ').rev().collect::<Vec<_>>());
        assert_eq!(words, r#"["c", "b", "a"]"#);
    }
}
