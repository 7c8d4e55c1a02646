//! What containers wrote of themselves: one file for each, in which every run says that it starts
//! and, before it ends by itself, with which code.

use std::collections::BTreeMap;
use std::path::Path;

/// One run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    id: String,
    /// The code that it was about to end with.
    pub(crate) end: Option<i32>,
}

/// The runs of every container, by `MARK.CONTAINER`.
#[derive(Debug, Default)]
pub(crate) struct Journal(BTreeMap<String, Vec<Run>>);

impl Journal {
    /// Reads the files in this folder, and what is wrong in them by itself.
    pub(crate) fn read(folder: &Path) -> (Self, Vec<String>) {
        let mut journal = Self::default();
        let mut problems = Vec::new();
        for entry in std::fs::read_dir(folder).expect("the journals' folder").flatten() {
            let name = entry.file_name().into_string().expect("we chose the names");
            let text = std::fs::read_to_string(entry.path()).expect("a journal");
            match runs(&text) {
                Ok(runs) => {
                    journal.0.insert(name, runs);
                }
                Err(problem) => problems.push(format!("{name}: {problem}:\n{text}")),
            }
        }
        (journal, problems)
    }

    pub(crate) fn of(&self, mark: &str, container: &str) -> &[Run] {
        self.0.get(&format!("{mark}.{container}")).map_or(&[], Vec::as_slice)
    }

    /// How many runs there were, and how many of them ended by themselves.
    pub(crate) fn count(&self) -> (usize, usize) {
        let runs = || self.0.values().flatten();
        (runs().count(), runs().filter(|run| run.end.is_some()).count())
    }
}

/// Reads one journal. Runs of one container come one after the other.
fn runs(text: &str) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match (words.as_slice(), runs.last_mut()) {
            // Only what is deleted ends unsaid, and that is not run again.
            (["start", _], Some(Run { end: None, .. })) => {
                return Err("a run began before the one before it ended".to_owned());
            }
            (["start", id], _) => runs.push(Run { id: (*id).to_owned(), end: None }),
            (["end", id, code], Some(run)) if run.id == *id && run.end.is_none() => {
                run.end = Some(code.parse().map_err(|_| format!("`{code}` is no code"))?);
            }
            _ => return Err(format!("`{line}` is out of place")),
        }
    }
    Ok(runs)
}

#[test]
fn runs_follow_one_another() {
    let run = |id: &str, end| Run { id: id.to_owned(), end };
    let read = runs("start a\nend a 3\nstart b\n");
    assert_eq!(read, Ok(vec![run("a", Some(3)), run("b", None)]));
    for (text, problem) in [
        ("start a\nstart b\n", "a run began before the one before it ended"),
        ("start a\nend b 3\n", "`end b 3` is out of place"),
        ("start a\nend a 3\nend a 3\n", "`end a 3` is out of place"),
        ("end a 3\n", "`end a 3` is out of place"),
    ] {
        assert_eq!(runs(text), Err(problem.to_owned()), "{text}");
    }
}
