//! `cargo xtask bench engine`: the embedded API server measured beside a real one.
//! `cargo xtask bench node`: Pods as processes.
//! `cargo xtask bench lab`: the lab family, from one decision to 100,000 instances.
//! `cargo xtask bench group`: the group family, from a timer to 100,000 machines.
//! `cargo xtask bench access`: the access family, reviews over HTTPS and what sessions cost.
//! `cargo xtask bench game`: the game family, matchmakers and what 10,000 servers cost.
//! `cargo xtask bench cluster`: the cluster family, 1,000 clusters toggled at once and 10,000 at rest.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::kube_env;
use crate::process::{cargo, print_line, run};

/// The program with all benchmarks, as cargo knows it.
const PROGRAM: &str = "sojourn";

/// Where the figures of a full run are kept.
const DOCUMENT: &str = "docs/performance.md";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Options {
    /// Small numbers, rough figures, nothing written.
    quick: bool,
    /// Without a real server beside it.
    alone: bool,
}

/// Those that `sojourn-cli` has, all in one program.
const BENCHMARKS: [&str; 7] = [ENGINE, "node", "lab", "group", "access", "game", "cluster"];

/// The only one with something to compare with.
const ENGINE: &str = "engine";

pub(crate) fn is_known(name: &str) -> bool {
    BENCHMARKS.contains(&name)
}

/// Runs the benchmark of this name; a full run writes its figures into the document.
pub(crate) fn measure(root: &Path, name: &str, arguments: &[String]) -> Result<()> {
    if name == ENGINE { engine(root, arguments) } else { full_or_quick(root, name, arguments) }
}

fn full_or_quick(root: &Path, name: &str, arguments: &[String]) -> Result<()> {
    let mut bench = benchmark(root, name);
    match arguments {
        [] => bench.arg("--into").arg(root.join(DOCUMENT)),
        [quick] if quick == "--quick" => bench.arg(quick),
        _ => bail!("usage: cargo xtask bench {name} [--quick]"),
    };
    run(&mut bench)
}

fn benchmark(root: &Path, name: &str) -> Command {
    let mut bench = cargo(root);
    bench.args(["bench", "--package", "sojourn-cli", "--bench", PROGRAM, "--", name]);
    bench
}

fn engine(root: &Path, arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let mut bench = benchmark(root, ENGINE);
    if options.alone {
        bench.env_remove("KUBEBUILDER_ASSETS");
    } else {
        match kube_env::ensure() {
            Ok(assets) => {
                bench.env("KUBEBUILDER_ASSETS", assets);
            }
            Err(error) if options.quick => {
                print_line(&format!("no real server to compare with: {error:#}"));
                bench.env_remove("KUBEBUILDER_ASSETS");
            }
            Err(error) => return Err(error),
        }
    }
    if options.quick {
        bench.arg("--quick");
    }
    // Figures without those to compare them with are not worth keeping.
    if options == Options::default() {
        bench.arg("--into").arg(root.join(DOCUMENT));
    }
    run(&mut bench)
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--alone" => options.alone = true,
            _ => bail!(
                "`{argument}` is not known here; usage: cargo xtask bench engine [--quick] [--alone]"
            ),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn benchmarks_of_our_own_refuse_what_they_do_not_know() {
        let alone = ["--alone".to_owned()];
        for name in BENCHMARKS.into_iter().filter(|name| *name != ENGINE) {
            let error = measure(Path::new("/nowhere"), name, &alone).expect_err("refused");
            assert_eq!(error.to_string(), format!("usage: cargo xtask bench {name} [--quick]"));
        }
    }

    #[test]
    fn the_program_is_told_which_benchmark_to_run() {
        let bench = benchmark(Path::new("/nowhere"), "node");
        let arguments: Vec<_> = bench.get_args().filter_map(OsStr::to_str).collect();
        let expected = ["bench", "--package", "sojourn-cli", "--bench", "sojourn", "--", "node"];
        assert!(arguments.ends_with(&expected), "{arguments:?}");
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            options(&arguments).map_err(|error| error.to_string())
        };
        assert_eq!(read(&[]), Ok(Options::default()));
        assert_eq!(read(&["--quick", "--alone"]), Ok(Options { quick: true, alone: true }));
        let error = read(&["--fast"]).expect_err("refused");
        assert!(error.starts_with("`--fast` is not known here"), "{error}");
    }
}
