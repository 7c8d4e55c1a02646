//! The same tests in other circumstances.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::pod::is_root;

/// Says that this is not the first run.
const AGAIN: &str = "SOJOURN_CONFINE_AGAIN";
const NOBODY: u32 = 65534;

#[test]
fn as_an_ordinary_user() {
    if !is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let ourselves = std::env::current_exe().expect("we run");
    let mut command = Command::new(ourselves);
    command.env(AGAIN, "1").current_dir("/").uid(NOBODY).gid(NOBODY);
    check("as nobody", command);
}

/// On most machines mounts are shared among namespaces, unless somebody takes care.
#[test]
fn where_mounts_are_shared() {
    if !is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let ourselves = std::env::current_exe().expect("we run");
    let mut command = Command::new("unshare");
    command.env(AGAIN, "1").args(["--mount", "--propagation", "shared"]).arg(ourselves);
    command.arg("root::");
    check("with shared mounts", command);
}

fn check(how: &str, mut command: Command) {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: the tests cannot run {how}: {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{how}:\n{text}\n{errors}");
    assert!(text.contains("test result: ok"), "{how}:\n{text}\n{errors}");
}
