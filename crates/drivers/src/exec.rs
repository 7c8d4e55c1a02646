//! Providers and actuators that third parties bring: programs which speak JSON lines.
//!
//! A program `sojourn-provider-NAME` lies in a folder that nobody else may write to. It is started once,
//! by itself: no shell, no environment, in its own folder. Requests go to its stdin, answers and events come
//! from its stdout, one JSON object a line, and what it writes to stderr is logged. `docs/providers.md` has
//! the protocol for those who write such a program.
//!
//! | file | holds |
//! |---|---|
//! | `folder` | which programs there are, and whether they may be run |
//! | `launch` | the process of a program |
//! | `line`, `message` | the protocol |
//! | `schema` | what a program says about configs |
//! | `session` | one run of a program, from its first word to its end |
//! | `client` | requests to a program, which is started again whenever it ends |
//! | `inventory` | the machines that a program has, as far as they are known |
//! | `trial` | what every program must do, checked from outside |
//!
//! What a program that ended, or was silent, made of a request is unknown, and so is every machine until
//! the next run has listed all of them.

mod client;
mod folder;
pub(crate) mod inventory;
mod launch;
mod line;
pub(crate) mod message;
mod schema;
mod session;
pub mod trial;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::client::ProgramEvent;
pub use self::client::{CallError, Client, ProgramState};
pub use self::folder::{FolderError, Program, UnsafeReason};
pub use self::message::{MAX_LINE_BYTES, Operation, PROTOCOL, ProgramError};

/// How templates and clusters call what a program provides.
pub const NAME: &str = "exec";

/// How long is waited, and how much is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until a program has said what it can do.
    pub hello: Duration,
    /// Until a request is answered; the program is started again then.
    pub answer: Duration,
    /// Until a program has ended that was asked to.
    pub end: Duration,
    /// Before a program is started again; doubled each time.
    pub min_restart: Duration,
    pub max_restart: Duration,
    /// A program that ran for so long is not in the course of failing.
    pub stable: Duration,
    /// Between lists of a program that cannot watch.
    pub poll: Duration,
    /// Requests under way at one program.
    pub requests: usize,
    /// Events of one program that are read in a second; the others stay in its pipe.
    pub events: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(10),
            answer: Duration::from_mins(1),
            end: Duration::from_secs(5),
            min_restart: Duration::from_secs(1),
            max_restart: Duration::from_mins(1),
            stable: Duration::from_mins(1),
            poll: Duration::from_secs(30),
            requests: 64,
            events: 1000,
        }
    }
}

/// The programs of a folder, running.
#[derive(Debug, Clone, Default)]
pub struct Programs(Arc<BTreeMap<String, Client>>);

impl Programs {
    /// Starts every program of the folder.
    pub fn start(folder: &Path, limits: Limits) -> Result<Self, FolderError> {
        let programs = folder::programs(folder)?;
        let clients = programs.into_iter().map(|program| {
            let name = program.name().to_owned();
            (name, Client::start(program, limits))
        });
        Ok(Self(Arc::new(clients.collect())))
    }

    pub fn get(&self, name: &str) -> Option<&Client> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Client)> {
        self.0.iter().map(|(name, client)| (name.as_str(), client))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Asks every program to end, and ends those that do not.
    pub async fn stop(&self) {
        futures::future::join_all(self.0.values().map(Client::stop)).await;
    }

    /// What is wrong with a config that names one of the programs, and the name and the config if nothing
    /// is. `needed` is what the program must be able to do.
    pub(crate) fn resolve<'a>(
        &self,
        config: &'a serde_json::Value,
        needed: &[Operation],
    ) -> Result<Resolved<'a>, Vec<String>> {
        let named = message::NamedConfig::read(config).map_err(|problem| vec![problem])?;
        let Some(client) = self.get(named.name) else {
            let names: Vec<&str> = self.names().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let name = named.name;
            return Err(vec![format!("name: there is no program {name}; there is {known}")]);
        };
        let Some(abilities) = client.abilities() else {
            return Ok(Resolved { client: client.clone(), config: named.config });
        };
        let lacking = needed.iter().find(|operation| !abilities.can.contains(operation));
        if let Some(operation) = lacking {
            let name = named.name;
            return Err(vec![format!("name: the program {name} cannot {operation} machines")]);
        }
        let problems = abilities.schema.check("config", named.config);
        if problems.is_empty() {
            Ok(Resolved { client: client.clone(), config: named.config })
        } else {
            Err(problems)
        }
    }
}

/// The program that a config names, and what is for the program of it.
#[derive(Debug)]
pub(crate) struct Resolved<'a> {
    pub(crate) client: Client,
    pub(crate) config: &'a serde_json::Value,
}

#[cfg(test)]
mod scripted_program;
#[cfg(test)]
mod tests;
