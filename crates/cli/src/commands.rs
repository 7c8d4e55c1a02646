//! One module per command, and the verbs of the families (`family_commands`).

pub(crate) mod api_error;
mod apply;
mod authorizer;
mod backup;
mod client;
mod code_pages;
mod config;
mod connect;
mod data;
mod delete;
mod descriptors;
mod drain_agent;
mod exchange;
mod families;
mod family;
mod family_commands;
mod game_server;
mod get;
mod kubeconfig;
mod kubeconfig_search;
mod logs;
mod manifest;
mod node;
mod object;
mod open;
mod operator;
mod people;
mod plan;
mod pod_services;
mod program;
mod provider_test;
mod providers;
mod request;
mod resource;
mod sdk;
mod server_table;
mod signals;
mod submit;
mod table;
mod up;
mod web;
mod webhook;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use crate::args::{Args, Command};
use crate::exit::Failure;
use crate::log;
use crate::printer::Printer;

/// The whole command line: the commands for every kind, and the verbs of the families.
pub(crate) fn command_line() -> clap::Command {
    family_commands::with_verbs(Args::command())
}

/// Runs what was asked for on the [`command_line`].
pub(crate) fn run(matches: &ArgMatches, printer: Printer) -> Result<(), Failure> {
    log::start(printer)?;
    if let Some(done) = family_commands::run_verb(matches, printer) {
        return done;
    }
    let args = Args::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    match args.command {
        Command::Up(up) => up::run(up, printer),
        Command::Operator(operator) => operator::run(operator, printer),
        Command::Node(node) => node::run(node, printer),
        Command::Plan(plan) => plan::plan(plan, printer),
        Command::Why(why) => plan::why(why),
        Command::Keep(keep) => request::keep(keep, printer),
        Command::Extend(extend) => request::extend(extend, printer),
        Command::Open(open) => open::run(open, printer),
        Command::Apply(apply) => apply::run(apply, printer),
        Command::Get(get) => get::run(get, printer),
        Command::Delete(delete) => delete::run(delete, printer),
        Command::Logs(logs) => logs::run(logs),
        Command::Config(config) => config::config(config),
        Command::Crds(_) => config::crds(),
        Command::Families(asked) => families::run(&asked),
        Command::SshTracker(tracker) => submit::track(tracker, printer),
        Command::DrainAgent(agent) => drain_agent::run(agent, printer),
        Command::ProviderTest(test) => provider_test::run(&test, printer),
        Command::Submit(submit) => submit::run(submit, printer),
        Command::Sdk(sdk) => sdk::run(&sdk, printer),
        Command::GameServer(game_server) => game_server::run(&game_server, printer),
        Command::Backup(backup) => backup::run(backup, printer),
    }
}
