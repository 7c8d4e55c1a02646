//! What builds and tests need of the system, installed where that is ours to do.
//!
//! The C compiler is for the bundled SQLite, jemalloc (with `make`) and ring. Rust links with it as
//! well, so where xtask could be built it is nearly always there: this is for machines with another
//! linker, and for a `CC` that names nothing. Python is what the Pods of the tests run as a server;
//! they see the system's folders only, so one in somebody's home is of no use.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use crate::process::{print_line, run};

const HINT: &str = "install one: `apt-get install build-essential` (Debian, Ubuntu), `dnf install gcc` \
                    (Fedora), `apk add build-base` (Alpine) or `xcode-select --install` (macOS)";

/// Where Pods look for it.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
const NODE: &str = "/usr/bin/node";

/// Makes sure that Pods of the tests find Python.
pub(crate) fn ensure_python() -> Result<()> {
    if Path::new(PYTHON).exists() {
        return Ok(());
    }
    if !may_install() {
        bail!("the tests of Pods need {PYTHON}; install the system's python3");
    }
    print_line("no python3 of the system; installing it");
    install("python3")
}

/// Makes sure that there is a browser that can be driven.
pub(crate) fn ensure_chromium() -> Result<()> {
    let needed = ["/usr/bin/chromium", "/usr/bin/chromedriver"];
    if needed.iter().all(|path| Path::new(path).exists()) {
        return Ok(());
    }
    if !may_install() {
        bail!("install the packages `chromium` and `chromium-driver`; {needed:?} must be there");
    }
    print_line("no Chromium; installing it with its driver");
    install("chromium-driver")
}

/// Makes sure that Python can make environments. On Debian that is a package of its own.
pub(crate) fn ensure_venv() -> Result<()> {
    ensure_python()?;
    if answers(&format!("{PYTHON} -c"), "import ensurepip, venv") {
        return Ok(());
    }
    if !may_install() {
        bail!("{PYTHON} cannot make environments; install the system's python3-venv");
    }
    print_line("no python3-venv of the system; installing it");
    install("python3-venv")
}

/// Whether there is Node.js where Pods look for it, and npm; installed where that is possible.
pub(crate) fn ensure_node() -> Result<bool> {
    let node = || Path::new(NODE).exists();
    let npm = || answers("npm", "--version");
    if !(node() && npm()) && may_install() {
        print_line("no Node.js of the system, or no npm; installing them");
        if !node() {
            install("nodejs")?;
        }
        if !npm() {
            install("npm")?;
        }
    }
    Ok(node() && npm())
}

/// Whether there is a compiler for `.proto` files; installed where that is possible.
pub(crate) fn ensure_protoc() -> Result<bool> {
    let protoc = || answers("protoc", "--version");
    if !protoc() && may_install() {
        print_line("no protoc; installing protobuf-compiler");
        install("protobuf-compiler")?;
    }
    Ok(protoc())
}

/// Whether a package can be had without installing it.
pub(crate) fn can_unpack() -> bool {
    answers("apt-get", "--version") && answers("dpkg-deb", "--version")
}

/// Puts the file of a package into a folder; nothing is installed, and none of its scripts run.
pub(crate) fn download(package: &str, into: &Path) -> Result<()> {
    if is_root() {
        run(Command::new("apt-get").arg("update"))?;
    }
    run(Command::new("apt-get").args(["download", package]).current_dir(into))
}

/// Makes sure that there is a C compiler, and `make`.
pub(crate) fn ensure_compiler() -> Result<()> {
    if !answers("make", "--version") {
        ensure!(may_install(), "there is no `make`; {HINT}");
        print_line("no make; installing build-essential");
        install("build-essential")?;
    }
    let chosen = std::env::var("CC").ok().filter(|name| !name.is_empty());
    let present = answers(chosen.as_deref().unwrap_or("cc"), "--version");
    match remedy(present, chosen, may_install()) {
        Remedy::Nothing => Ok(()),
        Remedy::Install => {
            print_line("no C compiler; installing build-essential");
            install("build-essential")
        }
        Remedy::Explain(problem) => bail!("{problem}; {HINT}"),
    }
}

fn may_install() -> bool {
    is_root() && answers("apt-get", "--version")
}

fn install(package: &str) -> Result<()> {
    run(Command::new("apt-get").arg("update"))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", package])
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    Nothing,
    Install,
    Explain(String),
}

fn remedy(present: bool, chosen: Option<String>, may_install: bool) -> Remedy {
    match (present, chosen) {
        (true, _) => Remedy::Nothing,
        (false, Some(name)) => {
            Remedy::Explain(format!("the C compiler `{name}` of $CC does not run"))
        }
        (false, None) if may_install => Remedy::Install,
        (false, None) => {
            Remedy::Explain("SQLite is compiled from C, and there is no `cc`".to_owned())
        }
    }
}

fn answers(program: &str, argument: &str) -> bool {
    // `CC` may be a launcher with arguments: "ccache gcc".
    let mut words = program.split_whitespace();
    let Some(first) = words.next() else {
        return false;
    };
    let mut command = Command::new(first);
    command.args(words).arg(argument).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installs_only_where_nothing_was_chosen_and_it_may() {
        let clang = || Some("clang".to_owned());
        assert_eq!(remedy(true, None, true), Remedy::Nothing);
        assert_eq!(remedy(true, clang(), false), Remedy::Nothing);
        assert_eq!(remedy(false, None, true), Remedy::Install);
        let explained = |chosen, may_install| match remedy(false, chosen, may_install) {
            Remedy::Explain(problem) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(explained(clang(), true), "the C compiler `clang` of $CC does not run");
        assert_eq!(explained(None, false), "SQLite is compiled from C, and there is no `cc`");
    }

    #[test]
    fn a_program_answers_if_it_runs() {
        assert!(answers("true", "--version"));
        assert!(answers("env true", "--version"), "a launcher with its program");
        assert!(!answers("no-such-program", "--version"));
        assert!(!answers("", "--version"));
    }
}
