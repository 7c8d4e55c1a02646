//! Instructions and allocations, counted one by one by valgrind in a process of its own.

use std::process::{Command, Stdio};

use crate::decisions::WORD;
use crate::number::count as figure;

/// What one decision takes.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    pub(crate) allocations: f64,
}

/// Counts so many decisions; nothing where there is no valgrind. A process without any tells what
/// starting it takes.
pub(crate) fn count(decisions: usize) -> Option<Counts> {
    let each = |tool: &str, marks: (&str, &str)| {
        let [none, all] = [0, decisions].map(|decisions| total(tool, decisions, marks));
        Some((all? - none?) / figure(decisions))
    };
    Some(Counts {
        instructions: each("callgrind", ("Collected :", ""))?,
        allocations: each("dhat", ("Total:", "bytes in "))?,
    })
}

/// The number that a tool says at its end: in the line with the first mark, after the second.
fn total(tool: &str, decisions: usize, (line, before): (&str, &str)) -> Option<f64> {
    let output = Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .arg(format!("--{tool}-out-file=/dev/null"))
        .arg(std::env::current_exe().ok()?)
        .args([WORD, &decisions.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, rest) = said.split_once(line)?;
    let (_, rest) = rest.split_once(before)?;
    let digits: String =
        rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().ok()
}
