//! The one way of not testing something because this machine lacks what it takes: a module of the
//! tests of every crate that has such a test, by `#[path]`, since a crate of its own would be an edge
//! from all of them.
//!
//! It is always said, with the reason, and never by returning alone. Under CI (`CI=true`) it fails;
//! `cargo xtask test` names a file in which everything that was skipped is counted.
//!
//! | variable of the environment | meaning                                    |
//! |-----------------------------|--------------------------------------------|
//! | `CI`                        | `true`: fail rather than skip              |
//! | `SOJOURN_SKIPS`             | a file that gets a line for each skip      |

use std::fs::OpenOptions;
use std::io::Write as _;

/// A test tests nothing.
#[track_caller]
#[allow(dead_code, reason = "not every suite has such a test")]
pub(crate) fn whole(why: impl std::fmt::Display) {
    note("skipped", &why.to_string());
}

/// A test leaves something out.
#[track_caller]
#[allow(dead_code, reason = "not every suite has such a test")]
pub(crate) fn part(why: impl std::fmt::Display) {
    note("skipped in part", &why.to_string());
}

/// Another run has what it takes: root's beside an ordinary user's, one with a control plane, or one
/// of a checkout that ordinary users can reach. It is counted, and fails nowhere.
#[track_caller]
#[allow(dead_code, reason = "not every suite has such a test")]
pub(crate) fn left_to_another_run(why: impl std::fmt::Display) {
    message("left to another run", &why.to_string());
}

#[allow(clippy::disallowed_methods, reason = "CI says so in the environment")]
#[track_caller]
fn note(what: &str, why: &str) {
    let line = message(what, why);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "{line}CI has what the tests need");
}

#[allow(clippy::disallowed_methods, reason = "the runner says where in the environment")]
#[track_caller]
fn message(what: &str, why: &str) -> String {
    let place = std::panic::Location::caller();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("{what}: {test} ({}:{}): {why}\n", place.file(), place.line());
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("SOJOURN_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("SOJOURN_SKIPS is a file");
    }
    line
}
