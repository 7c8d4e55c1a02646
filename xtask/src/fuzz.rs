//! `cargo xtask fuzz`: bodies that a fuzzer makes up, posted to the authorization webhook.
//!
//! libFuzzer, led by what a body reaches in our code. The flags are those by which the compiler counts that, without
//! an unstable toolchain. It begins with the corpus that the tests replay, and with what earlier runs found.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, print_line, read, run as start};

const SECONDS: u64 = 300;
/// The package is beside the workspace.
const PACKAGE: &str = "fuzz";
/// One folder for each way in which a body is answered.
const CORPUS: &str = "crates/operator/src/access/webhook/corpus";
const COUNTING_FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// In seconds; no body may take longer.
const MAX_BODY_TIME: u32 = 5;
const MAX_BODY_BYTES: u32 = 16 << 10;
const MAX_MEGABYTES: u32 = 2048;

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let seconds = match arguments {
        [] => SECONDS,
        [seconds] => seconds.parse().with_context(|| format!("`{seconds}` is not a number"))?,
        _ => bail!("usage: cargo xtask fuzz [SECONDS]"),
    };
    let target = root.join("target").join("fuzz");
    let (found, failed) = (target.join("corpus"), target.join("failed"));
    for folder in [&found, &failed] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    print_line("fuzz: building (optimised; the first build takes some minutes)");
    let host = host()?;
    let package = root.join(PACKAGE);
    let mut build = cargo(&package);
    // With a target the flags are for what is fuzzed, and not for build scripts.
    build.args(["build", "--release", "--locked", "--target", &host]);
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", COUNTING_FLAGS.join(" "));
    start(&mut build)?;
    print_line(&format!("fuzz: the webhook, for {seconds} seconds"));
    let program = target.join(&host).join("release").join("webhook");
    let mut fuzzer = Command::new(program);
    fuzzer.current_dir(root).arg(&found);
    for seeds in ["malformed", "strange", "allowed"] {
        fuzzer.arg(root.join(CORPUS).join(seeds));
    }
    fuzzer.args([
        format!("-max_total_time={seconds}"),
        format!("-timeout={MAX_BODY_TIME}"),
        format!("-max_len={MAX_BODY_BYTES}"),
        format!("-rss_limit_mb={MAX_MEGABYTES}"),
        format!("-artifact_prefix={}/", failed.display()),
        "-print_final_stats=1".to_owned(),
    ]);
    start(&mut fuzzer).with_context(|| {
        format!("a body in {} fails; once that is mended, add it to {CORPUS}", failed.display())
    })
}

/// What this machine's programs are built for.
fn host() -> Result<String> {
    let version = read(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}
