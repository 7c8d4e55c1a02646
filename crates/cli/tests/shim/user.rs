//! All tests once more, as an ordinary user, when root runs them: that is another confinement.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Nobody.
const ORDINARY: u32 = 65534;
/// Where the tests of the ordinary user put their Pods.
const PLACE: &str = "SHIM_TESTS_PLACE";

/// Where Pods of tests are.
pub(crate) fn place() -> PathBuf {
    std::env::var_os(PLACE).map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

#[test]
fn the_same_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        // These tests run as an ordinary user already.
        return;
    }
    let place = place().join(format!("ordinary-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a folder");
    chown(&place, Some(ORDINARY), Some(ORDINARY)).expect("we are root");
    let ourselves = std::env::current_exe().expect("we run");
    let tests = |args: &[&str]| {
        let mut command = Command::new(&ourselves);
        command.args(args).env(PLACE, &place).current_dir("/").uid(ORDINARY).gid(ORDINARY);
        command
    };
    let may_run = tests(&["--list"]).output().is_ok_and(|output| output.status.success());
    let may_write = Command::new("/bin/ls").arg(&place).uid(ORDINARY).gid(ORDINARY).output();
    if may_run && may_write.is_ok_and(|output| output.status.success()) {
        let output = tests(&["--test-threads=2"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    } else {
        crate::skip::left_to_another_run(format_args!(
            "{} is closed to an ordinary user",
            ourselves.display()
        ));
    }
    std::fs::remove_dir_all(place).expect("it is ours");
}
