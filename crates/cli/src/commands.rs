//! One module per command.

mod backup;
mod client;
mod config;
mod connect;
mod data;
mod descriptors;
mod drain_agent;
mod family;
mod group;
mod kubeconfig;
mod node;
mod open;
mod operator;
mod people;
mod plan;
mod program;
mod signals;
mod submit;
mod table;
mod up;
mod webhook;
mod wish;

use crate::args::{Args, Command};
use crate::exit::Failure;
use crate::log;
use crate::printer::Printer;

pub(crate) fn run(args: Args, printer: Printer) -> Result<(), Failure> {
    log::start(printer)?;
    match args.command {
        Command::Up(up) => up::run(up, printer),
        Command::Operator(operator) => operator::run(operator, printer),
        Command::Node(node) => node::run(node, printer),
        Command::Plan(plan) => plan::plan(plan),
        Command::Why(why) => plan::why(why),
        Command::Keep(keep) => wish::keep(keep, printer),
        Command::Extend(extend) => wish::extend(extend, printer),
        Command::Stop(power) => wish::stop(power, printer),
        Command::Start(power) => wish::start(power, printer),
        Command::Reopen(power) => wish::reopen(power, printer),
        Command::Submission(submission) => wish::submission(submission, printer),
        Command::Notice(notice) => wish::notice(notice, printer),
        Command::Drain(drain) => group::drain(drain, printer),
        Command::Rotate(rotate) => group::rotate(rotate, printer),
        Command::Freeze(freeze) => group::freeze(freeze, printer),
        Command::Open(open) => open::run(open),
        Command::Config(config) => config::config(config),
        Command::Crds(_) => config::crds(),
        Command::SshTracker(tracker) => submit::track(tracker, printer),
        Command::DrainAgent(agent) => drain_agent::run(agent, printer),
        Command::Submit(submit) => submit::run(submit, printer),
        Command::Backup(backup) => backup::run(backup, printer),
    }
}
