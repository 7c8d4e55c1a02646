//! One module per command.

mod backup;
mod client;
mod config;
mod connect;
mod data;
mod descriptors;
mod drain_agent;
mod families;
mod family;
mod family_commands;
mod group;
mod kubeconfig;
mod node;
mod open;
mod operator;
mod plan;
mod program;
mod request;
mod signals;
mod submit;
mod table;
mod up;
mod web;
mod webhook;

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
        Command::Keep(keep) => request::keep(keep, printer),
        Command::Extend(extend) => request::extend(extend, printer),
        Command::Stop(power) => request::stop(power, printer),
        Command::Start(power) => request::start(power, printer),
        Command::Reopen(power) => request::reopen(power, printer),
        Command::Submission(submission) => request::submission(submission, printer),
        Command::Notice(notice) => request::notice(notice, printer),
        Command::Drain(drain) => group::drain(drain, printer),
        Command::Rotate(rotate) => group::rotate(rotate, printer),
        Command::Freeze(freeze) => group::freeze(freeze, printer),
        Command::Open(open) => open::run(open),
        Command::Config(config) => config::config(config),
        Command::Crds(_) => config::crds(),
        Command::Families(asked) => families::run(&asked),
        Command::SshTracker(tracker) => submit::track(tracker, printer),
        Command::DrainAgent(agent) => drain_agent::run(agent, printer),
        Command::Submit(submit) => submit::run(submit, printer),
        Command::Backup(backup) => backup::run(backup, printer),
    }
}
