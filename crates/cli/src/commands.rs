//! One module per command.

mod backup;
mod data;
mod kubeconfig;
mod node;
mod signals;
mod up;

use crate::args::{Args, Command};
use crate::exit::Failure;
use crate::log;
use crate::printer::Printer;

pub(crate) fn run(args: Args, printer: Printer) -> Result<(), Failure> {
    log::start(printer)?;
    match args.command {
        Command::Up(up) => up::run(up, printer),
        Command::Node(node) => node::run(node, printer),
        Command::Backup(backup) => backup::run(backup, printer),
    }
}
