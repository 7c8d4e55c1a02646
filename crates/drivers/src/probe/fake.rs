//! A probe that answers from a script, for tests and simulations.
//!
//! Delays are tokio's, so under a paused clock they pass when the caller advances it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{Observation, Probe, Target};

/// Bounds the memory of a test that never takes the recorded checks.
const MAX_RECORDED_CHECKS: usize = 100_000;

/// Answers each place by its own script: its steps in order, then its last answer for ever.
#[derive(Debug)]
pub struct ScriptedProbe {
    state: Mutex<FakeState>,
}

#[derive(Debug)]
struct FakeState {
    scripts: HashMap<String, Script>,
    otherwise: Observation,
    checks: VecDeque<Check>,
}

#[derive(Debug, Default)]
struct Script {
    steps: VecDeque<Step>,
    last_word: Option<Observation>,
}

/// One answer, and how long it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    observation: Observation,
    delay: Duration,
}

/// One check that was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The URL or the address.
    pub place: String,
    pub at: Instant,
}

impl Step {
    /// At once.
    pub fn answer(observation: Observation) -> Self {
        Self { observation, delay: Duration::ZERO }
    }

    /// After a while; over the target's timeout it is a timeout, as with the real one.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl ScriptedProbe {
    /// Places without a script answer this.
    pub fn new(otherwise: Observation) -> Self {
        let state = FakeState { scripts: HashMap::new(), otherwise, checks: VecDeque::new() };
        Self { state: Mutex::new(state) }
    }

    /// What the place (a URL or an address) answers next, in order; added to what it has.
    pub fn script(&self, place: impl Into<String>, steps: impl IntoIterator<Item = Step>) {
        self.state().scripts.entry(place.into()).or_default().steps.extend(steps);
    }

    /// What the place answers from now on, at once; what its script still had is dropped.
    pub fn set(&self, place: impl Into<String>, observation: Observation) {
        let script = Script { steps: VecDeque::new(), last_word: Some(observation) };
        self.state().scripts.insert(place.into(), script);
    }

    /// Every look since the last call (of very many, the latest), in order.
    pub fn take_checks(&self) -> Vec<Check> {
        std::mem::take(&mut self.state().checks).into()
    }

    fn next(&self, place: &str) -> Step {
        let mut state = self.state();
        if state.checks.len() == MAX_RECORDED_CHECKS {
            state.checks.pop_front();
        }
        state.checks.push_back(Check { place: place.to_owned(), at: Instant::now() });
        let otherwise = state.otherwise.clone();
        let Some(script) = state.scripts.get_mut(place) else { return Step::answer(otherwise) };
        match script.steps.pop_front() {
            Some(step) => {
                script.last_word = Some(step.observation.clone());
                step
            }
            None => Step::answer(script.last_word.clone().unwrap_or(otherwise)),
        }
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for ScriptedProbe {
    fn check<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        async move {
            let place = match target {
                Target::Contract { url, .. } => url.clone(),
                Target::Reach { endpoint, .. } => endpoint.address.to_string(),
            };
            let Step { observation, delay } = self.next(&place);
            if delay >= target.timeout() {
                tokio::time::sleep(target.timeout()).await;
                return target.timed_out(target.timeout());
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            observation
        }
        .boxed()
    }
}
