//! Developer tasks, as `cargo xtask TASK`.

mod ci;
mod compiler;
mod process;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;

use crate::process::say;

const USAGE: &str = "\
usage: cargo xtask TASK

  test                     build and run every test that needs nothing but a C compiler
  ci [--skip STEP[,STEP]]  everything that must hold before a change goes in
  tidy                     the rules of the house: crate edges, file sizes, names, leftovers
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("", [].as_slice()),
    };
    match perform(task, rest) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
        None => {
            say(USAGE);
            ExitCode::from(2)
        }
    }
}

/// Nothing if there is no such task.
fn perform(task: &str, rest: &[String]) -> Option<Result<()>> {
    let root = match process::workspace_root() {
        Ok(root) => root,
        Err(error) => return Some(Err(error)),
    };
    Some(match (task, rest) {
        ("test", []) => test::all(&root),
        ("ci", rest) => ci::run(&root, rest),
        ("tidy", []) => tidy::run(&root),
        _ => return None,
    })
}
