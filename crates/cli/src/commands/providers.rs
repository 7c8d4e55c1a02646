//! The programs of `--providers`: started with the process, and ended with it.

use std::path::Path;
use std::sync::Arc;

use sojourn_drivers::actuator::exec::ExecActuator;
use sojourn_drivers::exec::{FolderError, Limits, Programs};
use sojourn_drivers::machine::exec::ExecProvider;
use sojourn_operator::admission;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::group::Providers;

use crate::exit::Failure;
use crate::printer::Printer;

/// The programs, and who makes, stops and starts machines by them.
pub(super) struct ProviderPrograms {
    programs: Programs,
    machines: MachineDrivers,
}

/// Who makes machines, and who stops and starts those of clusters, beside `pod`.
#[derive(Debug, Clone, Default)]
pub(super) struct MachineDrivers {
    pub(super) providers: Providers,
    pub(super) actuators: Actuators,
}

impl ProviderPrograms {
    /// Starts every program of the folder; without one there is neither a provider nor an actuator `exec`.
    pub(super) fn start(folder: Option<&Path>, printer: Printer) -> Result<Self, Failure> {
        let Some(folder) = folder else {
            return Ok(Self { programs: Programs::default(), machines: MachineDrivers::default() });
        };
        let programs = Programs::start(folder, Limits::default()).map_err(refused)?;
        if programs.names().next().is_none() {
            let folder = folder.display();
            printer.warning(format_args!("there is no sojourn-provider-NAME in {folder}"));
        }
        let provider = Arc::new(ExecProvider::new(programs.clone()));
        let actuator = Arc::new(ExecActuator::new(programs.clone()));
        let machines = MachineDrivers {
            providers: Providers::default().with(provider),
            actuators: Actuators::default().with(actuator),
        };
        Ok(Self { programs, machines })
    }

    pub(super) fn machines(&self) -> MachineDrivers {
        self.machines.clone()
    }

    /// What admission knows of them.
    pub(super) fn admission(&self) -> admission::Setup {
        let MachineDrivers { providers, actuators } = &self.machines;
        admission::Setup { providers: providers.for_admission(), actuators: actuators.clone() }
    }

    /// Ends the programs.
    pub(super) async fn stop(self) {
        self.programs.stop().await;
    }
}

/// Why a program, or a folder of them, is not run.
pub(super) fn refused(error: FolderError) -> Failure {
    let advice = error.advice();
    let error = anyhow::Error::from(error).context("cannot run programs of providers");
    Failure::unavailable(error, advice)
}
