//! The lock of the package for fuzzing. It is beside the workspace, so no build of that notices when its dependencies
//! have become others, and `cargo xtask fuzz` builds with `--locked`.

use std::path::Path;

use super::Finding;
use crate::process;

/// From the root.
const PACKAGE: &str = "fuzz";

pub(super) fn check(root: &Path) -> Vec<Finding> {
    let package = root.join(PACKAGE);
    let mut metadata = process::cargo(&package);
    // Cargo says itself what is wrong.
    match process::read(metadata.args(["metadata", "--format-version=1", "--locked"])) {
        Ok(_) => Vec::new(),
        Err(_) => vec![Finding::error(
            &Path::new(PACKAGE).join("Cargo.lock"),
            1,
            format!(
                "does not lock what {PACKAGE} depends on; run `cargo metadata --manifest-path \
                 {PACKAGE}/Cargo.toml` and commit it"
            ),
        )],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_that_lacks_a_dependency_is_found() {
        let root = std::env::temp_dir().join(format!("tidy-fuzz-lock-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            let folder = path.parent().expect("it is in a folder");
            fs::create_dir_all(folder).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        };
        write("fuzz/src/lib.rs", "");
        write("used/src/lib.rs", "");
        write("used/Cargo.toml", &package("used"));
        write("fuzz/Cargo.toml", &package("fuzz"));
        let mut locks = process::cargo(&root.join(PACKAGE));
        process::read(locks.args(["generate-lockfile", "--offline"]))
            .expect("it has no dependency");
        assert_eq!(check(&root).len(), 0);
        let depends =
            format!("{}[dependencies]\nused = {{ path = \"../used\" }}\n", package("fuzz"));
        write("fuzz/Cargo.toml", &depends);
        let found: Vec<_> = check(&root).iter().map(ToString::to_string).collect();
        fs::remove_dir_all(&root).expect("it is ours");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("fuzz/Cargo.lock:1: error: does not lock"), "{found:?}");
    }
}
