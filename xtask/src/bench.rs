//! `cargo xtask bench engine`: the embedded API server measured beside a real one.

use std::path::Path;

use anyhow::{Result, bail};

use crate::kube_env;
use crate::process::{cargo, run, say};

/// Where the figures of a full run are kept.
const DOCUMENT: &str = "docs/performance.md";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Options {
    /// Small numbers, rough figures, nothing written.
    quick: bool,
    /// Without a real server beside it.
    alone: bool,
}

/// Runs the benchmark; a full run writes its figures into the document.
pub(crate) fn engine(root: &Path, arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let mut bench = cargo(root);
    bench.args(["bench", "--package", "sojourn-cli", "--bench", "engine", "--"]);
    if options.alone {
        bench.env_remove("KUBEBUILDER_ASSETS");
    } else {
        match kube_env::ensure() {
            Ok(assets) => {
                bench.env("KUBEBUILDER_ASSETS", assets);
            }
            Err(error) if options.quick => {
                say(&format!("no real server to compare with: {error:#}"));
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
    use super::*;

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
