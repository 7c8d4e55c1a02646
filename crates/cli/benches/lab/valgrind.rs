//! Instructions, counted one by one by valgrind in a process of its own.

use std::process::{Command, Stdio};

use super::NAME;
use super::decisions::WORD;
use crate::number::count;

/// Instructions of one of so many decisions; nothing where there is no valgrind. A process without any
/// tells what starting it takes.
pub(crate) fn instructions_per_decision(decisions: usize) -> Option<f64> {
    let [none, all] = [0, decisions].map(total_instructions);
    Some((all? - none?) / count(decisions))
}

fn total_instructions(decisions: usize) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args([NAME, WORD, &decisions.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, rest) = said.split_once("Collected :")?;
    let digits: String =
        rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().ok()
}
