//! `cargo xtask sim`: months of people and faults on a virtual clock, one for each seed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, print_line, run as start};

/// How much is simulated, unless the command line says otherwise.
const SEEDS: u64 = 200;
const DAYS: u64 = 30;
/// People come and go during a few days; in less, nothing could become of what they did.
const MIN_DAYS: u64 = 4;
/// How many people have sessions of the family access, and for how many hours.
const PEOPLE: u64 = 1_000;
const HOURS: u64 = 1_000;
/// How many seeds CI simulates, unless the environment says otherwise.
const SHARE: u64 = 20;

/// The tests of seeds, which run every simulated family.
const TEST: &str = "seeds";
/// What they read.
const SEEDS_VARIABLE: &str = "SOJOURN_SIM_SEEDS";
const DAYS_VARIABLE: &str = "SOJOURN_SIM_DAYS";

/// Whole months, in the profile that is made for them; the last lines have the figures of each family.
/// What must happen in them at least is checked by the tests themselves.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (seeds, days) = asked(arguments)?;
    print_line("sim: building (optimised; the first build takes some minutes)");
    start(optimised_test(root).arg("--no-run"))?;
    print_line(&format!("sim: {seeds} seeds of {days} days"));
    let mut command = optimised_test(root);
    command.args(["--", "months", "--nocapture"]);
    command.env(SEEDS_VARIABLE, seeds.to_string()).env(DAYS_VARIABLE, days.to_string());
    start(&mut command)
}

/// Many sessions of the family access, each used now and then, for a long time.
pub(crate) fn sessions(root: &Path, arguments: &[String]) -> Result<()> {
    let (people, hours) = match arguments {
        [] => (PEOPLE, HOURS),
        [people] => (positive(people)?, HOURS),
        [people, hours] => (positive(people)?, positive(hours)?),
        _ => bail!("usage: cargo xtask sim-access [PEOPLE [HOURS]]"),
    };
    print_line("sim-access: building (optimised; the first build takes some minutes)");
    start(optimised_test(root).arg("--no-run"))?;
    print_line(&format!("sim-access: {people} people with sessions for {hours} hours"));
    let mut command = optimised_test(root);
    command.args(["--", "long", "--nocapture"]);
    command.env("SOJOURN_SIM_PEOPLE", people.to_string());
    command.env("SOJOURN_SIM_HOURS", hours.to_string());
    start(&mut command)
}

/// The tests of seeds, in the profile that is made for them.
fn optimised_test(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["test", "--profile", "simulation", "--package", "sojourn-sim"]);
    command.args(["--test", TEST]);
    command
}

/// A few days of a few seeds in which everything is lent for a shorter time, a seed replayed, and two
/// operators at once. It fails if too little happens. An optimised build would take longer than all of
/// CI's own tests, so these are the binaries that they built.
pub(crate) fn share(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--test", TEST, "--", "--nocapture"]);
    if std::env::var_os(SEEDS_VARIABLE).is_none() {
        command.env(SEEDS_VARIABLE, SHARE.to_string());
    }
    start(&mut command)
}

/// The numbers of seeds and days.
fn asked(arguments: &[String]) -> Result<(u64, u64)> {
    match arguments {
        [] => Ok((SEEDS, DAYS)),
        [seeds] => Ok((positive(seeds)?, DAYS)),
        [seeds, days] => match positive(days)? {
            days if days < MIN_DAYS => bail!("a simulation has {MIN_DAYS} days at least"),
            days => Ok((positive(seeds)?, days)),
        },
        _ => bail!("usage: cargo xtask sim [SEEDS [DAYS]]"),
    }
}

fn positive(text: &String) -> Result<u64> {
    let number = text.parse::<u64>().with_context(|| format!("`{text}` is not a number"))?;
    if number == 0 {
        bail!("nothing is simulated with 0 of something");
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_days_are_numbers_and_have_defaults() {
        let asked = |typed: &str| {
            asked(&typed.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(asked(""), Ok((SEEDS, DAYS)));
        assert_eq!(asked("3"), Ok((3, DAYS)));
        assert_eq!(asked("3 5"), Ok((3, 5)));
        assert_eq!(asked("many"), Err("`many` is not a number".to_owned()));
        assert_eq!(asked("3 3"), Err("a simulation has 4 days at least".to_owned()));
        assert_eq!(asked("0"), Err("nothing is simulated with 0 of something".to_owned()));
        assert_eq!(asked("1 2 3"), Err("usage: cargo xtask sim [SEEDS [DAYS]]".to_owned()));
    }
}
