//! A file has one subject. One that is too long has more.

use std::path::Path;

use super::Finding;

const MAX_LINES: usize = 800;
/// Where splitting is still easy.
const WARNING_LINES: usize = 600;
/// Tables of cases are long without being hard to read.
const MAX_TEST_LINES: usize = 1500;

pub(super) fn check(path: &Path, source: &str) -> Option<Finding> {
    let lines = source.lines().count();
    let limit = if holds_tests(path) { MAX_TEST_LINES } else { MAX_LINES };
    if lines > limit {
        let text = format!("{lines} lines, {limit} are allowed; split it by subject");
        Some(Finding::error(path, limit + 1, text))
    } else if lines > WARNING_LINES && !holds_tests(path) {
        let text = format!("{lines} lines, {limit} are allowed; is it still one subject?");
        Some(Finding::warning(path, WARNING_LINES + 1, text))
    } else {
        None
    }
}

fn holds_tests(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|folder| folder.as_os_str() == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        for (path, lines, expected) in [
            ("crates/core/src/lab.rs", 600, None),
            ("crates/core/src/lab.rs", 601, Some("warning")),
            ("crates/core/src/lab.rs", 800, Some("warning")),
            ("crates/core/src/lab.rs", 801, Some("error")),
            ("crates/core/src/lab/tests.rs", 1500, None),
            ("crates/core/src/lab/tests.rs", 1501, Some("error")),
            ("crates/core/tests/lab/main.rs", 1500, None),
            ("crates/core/src/contests.rs", 801, Some("error")),
        ] {
            let finding = check(Path::new(path), &"x\n".repeat(lines));
            let severity = finding.map(|finding| finding.severity.to_string());
            assert_eq!(severity.as_deref(), expected, "{path} with {lines} lines");
        }
    }
}
