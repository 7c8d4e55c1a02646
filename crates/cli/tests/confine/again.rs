//! The same tests in other circumstances.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::pod::is_root;
use crate::skip;

/// Says that this is not the first run.
const AGAIN: &str = "SOJOURN_CONFINE_AGAIN";
const NOBODY: u32 = 65534;

#[test]
fn as_an_ordinary_user() {
    if !is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("we run"));
    command.current_dir("/").uid(NOBODY).gid(NOBODY);
    if let Err(error) = check(command) {
        skip::left_to_another_run(format_args!("closed to an ordinary user: {error}"));
    }
}

/// On most machines mounts are shared among namespaces, unless somebody takes care.
#[test]
fn where_mounts_are_shared() {
    if !is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "shared"]);
    command.arg(std::env::current_exe().expect("we run")).arg("root::");
    if let Err(error) = check(command) {
        skip::whole(format_args!("nothing here shares mounts: {error}"));
    }
}

/// Runs tests; an error if they cannot be run at all.
fn check(mut command: Command) -> io::Result<()> {
    let output = command.env(AGAIN, "1").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("test result: ok"), "{text}\n{errors}");
    Ok(())
}
