//! How long each test program took, as its own last line says.

use std::time::Duration;

/// So many are listed.
const MAX_LISTED: usize = 10;

/// Test programs and their times, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct TestTimes {
    /// The program whose output comes now.
    current: Option<String>,
    finished: Vec<(String, Duration)>,
}

impl TestTimes {
    /// Takes in a line of what `cargo test` prints: `Running tests/it/main.rs (…)`, `Doc-tests NAME`, and
    /// `test result: … finished in 1.23s`.
    pub(crate) fn observe(&mut self, line: &str) {
        let line = line.trim_start();
        if let Some(running) = line.strip_prefix("Running ") {
            self.current = Some(program(running));
        } else if let Some(name) = line.strip_prefix("Doc-tests ") {
            self.current = Some(format!("{} (examples in docs)", name.trim()));
        } else if line.starts_with("test result: ")
            && let Some((_, took)) = line.rsplit_once("finished in ")
            && let Some(seconds) = took.trim_end().strip_suffix('s')
            && let Ok(seconds) = seconds.parse::<f64>()
            && let Ok(took) = Duration::try_from_secs_f64(seconds)
        {
            self.finished.extend(self.current.take().map(|name| (name, took)));
        }
    }

    /// The slowest ones, a line for each; nothing if there are none.
    pub(crate) fn slowest(&self) -> Option<String> {
        let mut all: Vec<&(String, Duration)> = self.finished.iter().collect();
        all.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        all.truncate(MAX_LISTED);
        let line = |(name, took): &&(String, Duration)| {
            format!("\n  {:7.1} s  {name}", took.as_secs_f64())
        };
        let lines: String = all.iter().map(line).collect();
        (!all.is_empty()).then(|| format!("the slowest test programs:{lines}"))
    }
}

/// `sojourn_operator` of `unittests src/lib.rs (target/debug/deps/sojourn_operator-0123456789abcdef)`.
fn program(running: &str) -> String {
    let path = running.rsplit_once('(').map_or(running, |(_, path)| path.trim_end_matches(')'));
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_programs_come_first() {
        let printed = "
     Running unittests src/lib.rs (target/debug/deps/sojourn_core-0a1b)

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s

     Running tests/lab/main.rs (target/debug/deps/lab-world-9f)
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 86.20s
   Doc-tests sojourn_api
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. of a program that a test started; finished in 9.00s
";
        let mut times = TestTimes::default();
        assert_eq!(times.slowest(), None);
        printed.lines().for_each(|line| times.observe(line));
        assert_eq!(
            times.slowest().expect("three programs"),
            "the slowest test programs:\n     86.2 s  lab-world\n      1.5 s  sojourn_core\n      \
             0.0 s  sojourn_api (examples in docs)"
        );
    }
}
