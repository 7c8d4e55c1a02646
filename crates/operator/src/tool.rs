//! Programs beside which tests run, and where they are.

use std::path::{Path, PathBuf};

use crate::skip;

/// A program of Debian's package `prometheus`: the system's, or where `cargo xtask lab` unpacks it.
/// Where it is missing this says so, or fails where the outside world is required.
#[expect(clippy::disallowed_methods, reason = "CI says in the environment what must be there")]
#[track_caller]
pub(crate) fn of_prometheus(program: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let places = [Path::new("/usr/bin"), &target.join("prometheus/usr/bin")];
    let found = places.into_iter().map(|place| place.join(program)).find(|path| path.exists());
    if found.is_none() {
        let required = std::env::var_os("SOJOURN_REQUIRE_WORLD").is_some_and(|value| value == "1");
        assert!(!required, "{program} is not there");
        skip::whole(format_args!("{program} is not there (cargo xtask lab)"));
    }
    found
}
