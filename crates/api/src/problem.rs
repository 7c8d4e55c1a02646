//! What is wrong with something that somebody wrote: where, and in a sentence.

use std::fmt;

/// One thing to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, as in `spec.environmentList[0].size`.
    pub path: String,
    /// A sentence without its subject: "must be …".
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// The same, seen from one level further out.
    #[must_use]
    pub fn beneath(self, parent: &str) -> Self {
        let Self { path, message } = self;
        let path = match (parent, path.as_str()) {
            ("", _) => path,
            (_, "") => parent.to_owned(),
            (_, below) if below.starts_with('[') => format!("{parent}{below}"),
            _ => format!("{parent}.{path}"),
        };
        Self { path, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Everything that is wrong, at once; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.0))]
pub struct Problems(pub Vec<Problem>);

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Collects problems while a value is read: each part that cannot be read is noted, and reading
/// goes on.
#[derive(Debug, Default)]
pub(crate) struct Report {
    found: Vec<Problem>,
}

impl Report {
    pub(crate) fn note(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.found.push(Problem::new(path, message));
    }

    /// The value, or a note about why there is none.
    pub(crate) fn take<T, E: fmt::Display>(&mut self, path: &str, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.note(path, error.to_string())).ok()
    }

    pub(crate) fn add(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.found.extend(problems);
    }

    /// The value that was read, unless something was noted meanwhile.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(Problems(self.found)),
        }
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_from_the_inside() {
        let problem =
            Problem::new("size", "must be there").beneath("[2]").beneath("environmentList");
        assert_eq!(
            problem.beneath("spec").to_string(),
            "spec.environmentList[2].size: must be there"
        );
        assert_eq!(Problem::new("", "is bad").beneath("spec").path, "spec");
        assert_eq!(Problem::new("a", "is bad").beneath("").path, "a");
    }

    #[test]
    fn all_are_told_at_once() {
        let mut report = Report::default();
        report.note("a", "is bad");
        assert_eq!(report.take("b", "x".parse::<i32>()), None);
        let problems = report.finish(Some(())).expect_err("two problems");
        assert_eq!(problems.to_string(), "a: is bad; b: invalid digit found in string");
    }
}
