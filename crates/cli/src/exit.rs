//! How a command ends: the exit code, and what people are told when it did not work.

use std::process::ExitCode;

/// The exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    /// The command worked, and the answer is no.
    Negative,
    /// The command line cannot be meant like this.
    Usage,
    /// Something outside that is needed is missing, busy or refuses.
    Unavailable,
    Bug,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Negative => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
            Exit::Bug => 4,
        })
    }
}

/// Why a command did not work: what was tried, on what, why it failed, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What was tried, with its causes.
    pub(crate) error: anyhow::Error,
    /// What to do next, in whole sentences.
    pub(crate) advice: String,
}

impl Failure {
    pub(crate) fn new(
        exit: Exit,
        error: impl Into<anyhow::Error>,
        advice: impl Into<String>,
    ) -> Self {
        Self { exit, error: error.into(), advice: advice.into() }
    }

    pub(crate) fn unavailable(error: impl Into<anyhow::Error>, advice: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, error, advice)
    }

    /// The panic has already said where it happened.
    pub(crate) fn panicked() -> Self {
        let advice =
            "Please report it, with the lines above. Nothing that was acknowledged is lost.";
        Self::new(Exit::Bug, anyhow::anyhow!("sojourn came upon a bug in itself"), advice)
    }
}
