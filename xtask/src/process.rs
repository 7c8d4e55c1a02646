//! Other programs, cargo above all, as the tasks start them.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The folder of the workspace.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let mut locate = cargo_anywhere();
    let manifest = read(locate.args(["locate-project", "--workspace", "--message-format=plain"]))
        .context("no Cargo workspace here; run this from within the repository")?;
    let folder = Path::new(manifest.trim()).parent().context("a manifest is in a folder")?;
    Ok(folder.to_owned())
}

/// Cargo, to be run in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = cargo_anywhere();
    command.current_dir(root);
    command
}

fn cargo_anywhere() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if describes_this_package(&name) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether `cargo run` set the variable to describe the package that it runs, which is xtask. Build
/// scripts (ring's, for one) ask to be run again when such a variable changes, so passing them on
/// would rebuild half of the tree whenever `cargo xtask` and plain cargo take turns.
fn describes_this_package(variable: &OsStr) -> bool {
    variable.to_str().is_some_and(|name| {
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR"
    })
}

/// Runs the program to its end, with its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    print_line(&format!("$ {shown}"));
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// The same, telling every line of the output as well.
pub(crate) fn run_and_read_lines(
    command: &mut Command,
    mut observe: impl FnMut(&str),
) -> Result<()> {
    let shown = shown(command);
    print_line(&format!("$ {shown}"));
    let (output, input) = std::io::pipe().with_context(|| format!("no pipe for `{shown}`"))?;
    let both = input.try_clone().with_context(|| format!("no pipe for `{shown}`"))?;
    let child = command.stdout(input).stderr(both).spawn();
    let mut child = child.with_context(|| format!("cannot start `{shown}`"))?;
    // The command holds the other end of the pipe, which has to be closed for the lines to end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(output).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{shown}` prints"))?;
        let line = String::from_utf8_lossy(&line);
        print_line(&line);
        observe(&line);
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs the program to its end and returns what it printed on stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print UTF-8"))
}

/// One line for the person who waits.
#[expect(clippy::print_stderr, reason = "tasks have people to talk to, and no log")]
pub(crate) fn print_line(line: &str) {
    eprintln!("{line}");
}

/// The command as one would type it, with the variables that were set for it.
fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let typed = std::iter::once(program).chain(command.get_args());
    set.chain(typed.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_xtask_is_kept_from_children() {
        for (variable, expected) in [
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("OUT_DIR", true),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_HOME", false),
            ("CARGO", false),
            ("PATH", false),
        ] {
            assert_eq!(describes_this_package(OsStr::new(variable)), expected, "{variable}");
        }
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/opt/bin/cargo");
        command.args(["test", "--workspace"]).env("ANSWER", "42").env_remove("OTHER");
        assert_eq!(shown(&command), "ANSWER=42 cargo test --workspace");
    }

    #[test]
    fn both_outputs_are_told_line_by_line() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error = run_and_read_lines(&mut command, |line| lines.push(line.to_owned()));
        assert_eq!(lines, ["one", "two"]);
        assert!(error.expect_err("3 is no success").to_string().ends_with("exit status: 3"));
    }

    #[test]
    fn a_failing_program_is_named_in_the_error() {
        let error = run(Command::new("false").arg("x")).expect_err("false fails");
        assert!(error.to_string().starts_with("`false x` failed: exit status: 1"), "{error}");
        let error = read(&mut Command::new("no-such-program")).expect_err("there is none");
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }
}
