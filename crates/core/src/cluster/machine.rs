//! A machine of a cluster: in which state its provider shows it, and what that means for an operation.

use std::fmt;

use super::power::Direction;

/// What a provider says of a machine, in the words that all providers share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineState {
    Running,
    /// It starts.
    Pending,
    Stopping,
    Stopped,
    /// It runs nothing and still holds its place: paused, suspended.
    Paused,
    Failed,
    /// It is going for good.
    Deleting,
    /// There is none of it, or only its name is left.
    Missing,
    /// The provider's own word, which nobody here knows.
    Unknown(String),
}

impl MachineState {
    const KNOWN: [Self; 8] = [
        Self::Running,
        Self::Pending,
        Self::Stopping,
        Self::Stopped,
        Self::Paused,
        Self::Failed,
        Self::Deleting,
        Self::Missing,
    ];

    /// The state that a provider means by a word.
    pub fn of(word: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|state| state.as_str() == word);
        known.unwrap_or_else(|| Self::Unknown(word.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => "Running",
            Self::Pending => "Pending",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Paused => "Paused",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
            Self::Missing => "Missing",
            Self::Unknown(word) => word,
        }
    }
}

impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "Unknown ({word})"),
            known => f.write_str(known.as_str()),
        }
    }
}

/// What stopping makes of a machine on a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stopped {
    /// It stays, switched off.
    Kept,
    /// It goes, and what it takes to make it again is on record.
    Removed,
}

/// What an operation has to do about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It is where the operation leads.
    Settled,
    /// It has to be stopped, or started.
    ToCall,
    /// It is on its way.
    Moving,
    /// There is none of it: nothing is waited for, and nothing is proved by it.
    Gone,
    /// Nobody knows, so it is neither here nor there.
    Unknown,
}

impl MachineState {
    pub fn standing(&self, direction: Direction, stopped: Stopped) -> Standing {
        match direction {
            Direction::Hibernate => match self {
                Self::Running | Self::Pending | Self::Paused | Self::Failed => Standing::ToCall,
                Self::Stopping | Self::Deleting => Standing::Moving,
                Self::Stopped => Standing::Settled,
                Self::Missing => match stopped {
                    Stopped::Kept => Standing::Gone,
                    Stopped::Removed => Standing::Settled,
                },
                Self::Unknown(_) => Standing::Unknown,
            },
            Direction::Resume => match self {
                Self::Running => Standing::Settled,
                Self::Pending | Self::Deleting => Standing::Moving,
                Self::Stopped | Self::Stopping | Self::Paused | Self::Failed => Standing::ToCall,
                Self::Missing => match stopped {
                    Stopped::Kept => Standing::Gone,
                    Stopped::Removed => Standing::ToCall,
                },
                Self::Unknown(_) => Standing::Unknown,
            },
        }
    }

    /// Whether somebody else moved the machine of a cluster that had settled. What is on its way may be a reboot,
    /// and what has failed is its cluster's own to repair.
    pub fn is_drift(&self, settled: Direction) -> bool {
        match settled {
            Direction::Hibernate => match self {
                Self::Running | Self::Pending | Self::Paused => true,
                Self::Stopping
                | Self::Stopped
                | Self::Failed
                | Self::Deleting
                | Self::Missing
                | Self::Unknown(_) => false,
            },
            Direction::Resume => match self {
                Self::Stopped | Self::Paused => true,
                Self::Running
                | Self::Pending
                | Self::Stopping
                | Self::Failed
                | Self::Deleting
                | Self::Missing
                | Self::Unknown(_) => false,
            },
        }
    }

    /// Whether it will not come back by being started.
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::Deleting | Self::Missing => true,
            Self::Running
            | Self::Pending
            | Self::Stopping
            | Self::Stopped
            | Self::Paused
            | Self::Failed
            | Self::Unknown(_) => false,
        }
    }
}

/// A machine that its provider listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMachine {
    /// What the provider knows it by. Where machines are removed and made again, it stays the same.
    pub id: String,
    pub name: String,
    pub state: MachineState,
    /// Its provider may take it at any time, and it cannot be stopped: it is ended, and replaced later.
    pub spot: bool,
    pub node_name: Option<String>,
    /// Names and addresses by which it may be reached.
    pub addresses: Vec<String>,
}

/// How a machine is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopMode {
    Stop,
    /// It goes for good, and is replaced on resume.
    End,
}

/// What a cluster's machines amount to on the way that an operation takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// The names of machines, in order.
    pub settled: Vec<String>,
    pub to_call: Vec<String>,
    pub moving: Vec<String>,
    pub gone: Vec<String>,
    pub unknown: Vec<String>,
}

/// What follows from a [`Census`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tally {
    /// There is no machine that could say anything: neither all stopped nor all running.
    NoneMatched,
    /// Every machine that there is is where it should be.
    AllSettled,
    SomeLeft,
}

impl Census {
    pub fn of<'m>(
        machines: impl IntoIterator<Item = (&'m str, &'m MachineState)>,
        direction: Direction,
        stopped: Stopped,
    ) -> Self {
        Self::count(
            machines.into_iter().map(|(name, state)| (name, state.standing(direction, stopped))),
        )
    }

    pub fn count<'m>(standings: impl IntoIterator<Item = (&'m str, Standing)>) -> Self {
        let mut census = Self::default();
        for (name, standing) in standings {
            census.add(name, standing);
        }
        for names in [
            &mut census.settled,
            &mut census.to_call,
            &mut census.moving,
            &mut census.gone,
            &mut census.unknown,
        ] {
            names.sort();
        }
        census
    }

    fn add(&mut self, name: &str, standing: Standing) {
        let names = match standing {
            Standing::Settled => &mut self.settled,
            Standing::ToCall => &mut self.to_call,
            Standing::Moving => &mut self.moving,
            Standing::Gone => &mut self.gone,
            Standing::Unknown => &mut self.unknown,
        };
        names.push(name.to_owned());
    }

    pub fn tally(&self) -> Tally {
        let left = !(self.to_call.is_empty() && self.moving.is_empty() && self.unknown.is_empty());
        match (left, self.settled.is_empty()) {
            (true, _) => Tally::SomeLeft,
            (false, false) => Tally::AllSettled,
            (false, true) => Tally::NoneMatched,
        }
    }
}

#[cfg(test)]
mod tests;
