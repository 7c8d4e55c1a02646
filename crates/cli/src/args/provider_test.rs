//! The command for those who write a provider.

use std::path::PathBuf;

use super::Output;

/// Try a program that provides machines, or stops and starts them.
///
/// It is started as `--providers` of `up` and `operator` starts it, asked for everything that it says it
/// can do, twice, and killed at bad moments. What was found is printed as a table. Machines are made with
/// --config alone, and deleted again; machines of a cluster are touched with --infra-id alone.
#[derive(Debug, clap::Args)]
pub(crate) struct ProviderTest {
    /// The program, called sojourn-provider-NAME; only you and root may be able to change it
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,

    /// What a machine can be made from, in YAML or JSON: `config.config` of a template
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Infrastructure id of a cluster, one machine of which may be stopped and started
    #[arg(long, value_name = "ID")]
    pub(crate) infra_id: Option<String>,

    /// What the program is shown to be let in at its provider: names with texts, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) account: Option<PathBuf>,

    /// How many seconds a machine may take until it runs, has stopped or is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) patience: u32,

    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Output,
}
