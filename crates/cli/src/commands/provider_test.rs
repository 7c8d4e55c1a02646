//! `sojourn provider-test`: what every program of a provider must do, checked for whoever writes one.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_drivers::actuator::Account;
use sojourn_drivers::exec::trial::{self, Finding, Outcome, Settings};
use sojourn_drivers::exec::{Limits, Program};

use super::signals::Signals;
use super::{connect, providers, table};
use crate::args::{Output, ProviderTest};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// A program that is killed here is started again so soon.
const RESTART: Duration = Duration::from_millis(100);
/// Larger than any message that a config could be sent in.
const MAX_FILE_BYTES: u64 = 1 << 20;

pub(super) fn run(asked: &ProviderTest, printer: Printer) -> Result<(), Failure> {
    let settings = settings(asked)?;
    let program = Program::at(&asked.program).map_err(providers::refused)?;
    let name = program.name().to_owned();
    let findings = connect::run(async move {
        let mut signals = Signals::listen()?;
        let tell =
            |finding: &Finding| printer.line(format_args!("{}: {}", finding.check, word(finding)));
        tokio::select! {
            findings = trial::run(program, &settings, tell) => Ok(findings),
            () = signals.requested() => {
                let advice = "Machines of the trial may be left: their uids begin with sojourn-test-.";
                Err(Failure::new(Exit::Negative, anyhow!("the trial was stopped"), advice))
            }
        }
    })?;
    print(&findings, asked.output)?;
    let failed = findings.iter().filter(|one| matches!(one.outcome, Outcome::Failed(_))).count();
    if failed == 0 {
        return Ok(());
    }
    let error = anyhow!("{name} failed {failed} of {} checks", findings.len());
    Err(Failure::new(Exit::Negative, error, "docs/providers.md says what each of them is about."))
}

fn settings(asked: &ProviderTest) -> Result<Settings, Failure> {
    let config = asked.config.as_deref().map(read::<Value>).transpose()?;
    let account = asked.account.as_deref().map(read::<std::collections::BTreeMap<_, _>>);
    let account = Account::new(account.transpose()?.unwrap_or_default());
    let now = jiff::Timestamp::now().as_millisecond();
    Ok(Settings {
        config,
        infra_id: asked.infra_id.clone(),
        account,
        uid: format!("sojourn-test-{now}-{}", std::process::id()),
        patience: Duration::from_secs(asked.patience.into()),
        limits: Limits { min_restart: RESTART, ..Limits::default() },
    })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let usage = |error| Failure::new(Exit::Usage, error, "Give a file in YAML or JSON.");
    let parsed = std::fs::metadata(path)
        .map_err(anyhow::Error::from)
        .and_then(|found| {
            anyhow::ensure!(
                found.len() <= MAX_FILE_BYTES,
                "it has more than {MAX_FILE_BYTES} bytes"
            );
            Ok(std::fs::read_to_string(path)?)
        })
        .and_then(|text| Ok(serde_saphyr::from_str(&text)?));
    parsed.with_context(|| format!("cannot use {}", path.display())).map_err(usage)
}

fn print(findings: &[Finding], output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => table::json(&findings.iter().map(one).collect()),
        Output::Yaml => table::yaml(&findings.iter().map(one).collect()),
        Output::Name => {
            findings.iter().for_each(|finding| table::write(&format!("{}\n", finding.check)));
            Ok(())
        }
        Output::Table => {
            let rows: Vec<_> = findings
                .iter()
                .map(|finding| {
                    [finding.check, word(finding), why(finding)].map(str::to_owned).into()
                })
                .collect();
            table::table(&["CHECK", "RESULT", "WHY"], &rows);
            Ok(())
        }
    }
}

const fn word(finding: &Finding) -> &'static str {
    match finding.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::LeftOut(_) => "left out",
    }
}

fn why(finding: &Finding) -> &str {
    match &finding.outcome {
        Outcome::Passed => "",
        Outcome::Failed(why) | Outcome::LeftOut(why) => why,
    }
}

fn one(finding: &Finding) -> Value {
    json!({"check": finding.check, "result": word(finding), "why": why(finding)})
}
