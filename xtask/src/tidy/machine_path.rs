//! Paths of somebody's machine, which mean nothing on the next one.

use std::path::Path;

use super::Finding;

const FOLDERS: [&str; 4] = ["/root/", "/work/", "/home/", "/Users/"];

/// Files in which such a path is not one of a machine, each with the reason.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("xtask/src/tidy/machine_path.rs", "names the folders that it looks for"),
    ("crates/node/src/shim/root/plan/tests.rs", "the machine in it is made up"),
];

/// Paths that are the same on every machine, each with the reason.
const EVERYWHERE: [(&str, &str); 1] = [("/home/pod", "the home that every Pod sees")];

pub(super) fn check(path: &Path, text: &str) -> Vec<Finding> {
    if EXCEPTIONS.iter().any(|(exempt, _)| path == Path::new(exempt)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for folder in FOLDERS {
            let of_a_machine = |at| starts_a_path(line, at) && !is_everywhere(&line[at..]);
            if line.match_indices(folder).any(|(at, _)| of_a_machine(at)) {
                let advice = "say where it is from the repository or from a variable";
                findings.push(Finding::error(path, number, format!("`{folder}…`; {advice}")));
            }
        }
    }
    findings
}

/// Whether a path starts there, rather than going on: `a/home/b`, `$TOP/work/` and
/// `example.com/home/` are not absolute.
fn starts_a_path(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    !before.is_some_and(|char| char.is_alphanumeric() || "_-.~})*?$%".contains(char))
}

fn is_everywhere(path: &str) -> bool {
    EVERYWHERE.iter().any(|(known, _)| {
        let rest = path.strip_prefix(known);
        rest.is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_of_machines_are_found() {
        for (line, expected) in [
            ("cd /work/main", true),
            ("path = \"/root/x\"", true),
            ("see file:///home/me/notes", true),
            ("`/Users/me/`", true),
            ("https://example.com/home/", false),
            ("target/work/x", false),
            ("$TOP/work/x", false),
            ("${TOP}/root/x", false),
            ("~/work/x", false),
            ("/homes/x and /roots", false),
            ("HOME=/home/pod, and /home/pod/x", false),
            ("/home/podium", true),
        ] {
            let findings = check(Path::new("docs/lab.md"), &format!("first\n{line}\n"));
            assert_eq!(findings.len(), usize::from(expected), "{line}");
            assert!(findings.iter().all(|finding| finding.line == 2), "{line}");
        }
    }

    #[test]
    fn a_file_may_be_exempt() {
        assert!(check(Path::new(EXCEPTIONS[0].0), "/root/x").is_empty());
    }
}
