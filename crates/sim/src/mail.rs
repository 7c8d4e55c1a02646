//! The mail server of a simulation: each attempt goes as a story says, or well.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_drivers::notify::Notice;
use sojourn_drivers::notify::fake::{Effect, Received, Script, ScriptedAttempt};
use sojourn_operator::clock::Clock;

/// One attempt to hand it a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailAttempt {
    pub id: String,
    pub address: String,
    pub effect: Effect,
}

/// The mail server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Mail {
    pub(crate) channel: Script,
    turns: Arc<Mutex<VecDeque<ScriptedAttempt>>>,
    attempts: Arc<Mutex<Vec<MailAttempt>>>,
}

impl Mail {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let turns: Arc<Mutex<VecDeque<ScriptedAttempt>>> = Arc::default();
        let attempts: Arc<Mutex<Vec<MailAttempt>>> = Arc::default();
        let decide = {
            let (turns, attempts) = (turns.clone(), attempts.clone());
            move |notice: &Notice| {
                let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
                let turn = turns.pop_front().unwrap_or_default();
                let (id, address) = (notice.id.clone(), notice.to.email.clone());
                let attempt = MailAttempt { id, address, effect: turn.effect.clone() };
                attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
                turn
            }
        };
        Self { channel: Script::new(move || clock.now(), decide), turns, attempts }
    }

    /// How the next attempts go, one after another; after them all is well.
    pub fn next_turns(&self, turns: impl IntoIterator<Item = ScriptedAttempt>) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).extend(turns);
    }

    /// From now on all is well.
    pub fn accept_all(&self) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Every attempt so far.
    pub fn attempts(&self) -> Vec<MailAttempt> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of them that it said to have accepted.
    pub fn accepted(&self) -> Vec<MailAttempt> {
        let mut all = self.attempts();
        all.retain(|attempt| attempt.effect == Effect::Accept);
        all
    }

    /// Everything that arrived, repetitions too.
    pub fn received(&self) -> Vec<Received> {
        self.channel.received()
    }
}
