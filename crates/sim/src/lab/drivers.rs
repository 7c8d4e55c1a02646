//! Scripted drivers: metrics, mail and status checks that do what the simulation says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sojourn_drivers::metrics::fake::{Fake, Fault};
use sojourn_drivers::metrics::{Labels, Metrics, QueryError};
use sojourn_drivers::notify::fake::{Effect, Received, Script, ScriptedAttempt};
use sojourn_drivers::notify::{Channel, Notice, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::clock::Clock;
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::notice::ChannelSecrets;

use super::invariants::InstanceChecker;
use crate::record::SharedRecord;
use crate::rng::Rng;

/// What the scripted metrics server is asked.
pub const AVAILABLE: &str = "available";
pub const REQUESTS: &str = "requests";

/// How the mail server works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MailMode {
    #[default]
    Works,
    Down,
    /// It fails so many times in a thousand, half of them after it took the notice, and is slow.
    Flaky(u64),
    /// It takes so long for everything.
    Slow(Duration),
}

/// Everything outside Kubernetes that the operator talks to.
#[derive(Debug, Clone)]
pub struct ScriptedDrivers {
    pub metrics: Fake,
    pub probe: Arc<ScriptedProbe>,
    channel: Script,
    mail_mode: Arc<Mutex<MailMode>>,
    counts: Arc<Mutex<HashMap<Labels, f64>>>,
    /// Where nobody takes mail, Events are the channel.
    has_mail: bool,
    /// What is wrong with the mail settings, if they cannot be used.
    broken: Arc<Mutex<Option<String>>>,
}

impl ScriptedDrivers {
    pub fn new(
        clock: Arc<dyn Clock>,
        rng: &Rng,
        checker: &SharedRecord<InstanceChecker>,
        has_mail: bool,
    ) -> Self {
        let mail_mode: Arc<Mutex<MailMode>> = Arc::default();
        let decide = decide(mail_mode.clone(), rng.split("mail"), checker.clone());
        let channel = Script::new(move || clock.now(), decide);
        Self {
            metrics: Fake::default(),
            probe: Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })),
            channel,
            mail_mode,
            counts: Arc::default(),
            has_mail,
            broken: Arc::default(),
        }
    }

    /// Every notice that was accepted so far.
    pub fn received(&self) -> Vec<Received> {
        self.channel.received()
    }

    pub fn set_mail_mode(&self, mail_mode: MailMode) {
        *lock(&self.mail_mode) = mail_mode;
    }

    /// From now on the mail settings cannot be read, or can again.
    pub fn break_mail(&self, why: Option<&str>) {
        *lock(&self.broken) = why.map(str::to_owned);
    }

    /// Whether the ingress can see, from `at` on.
    pub fn set_available(&self, at: Timestamp, available: bool) {
        let value = if available { 1.0 } else { 0.0 };
        self.metrics.set(AVAILABLE, &Labels::default(), at, value);
    }

    /// A request through the ingress.
    pub fn request(&self, namespace: &str, service: &str, at: Timestamp) {
        let pairs = [("exported_namespace", namespace), ("exported_service", service)];
        let labels: Labels = pairs.into_iter().collect();
        let mut counts = lock(&self.counts);
        let count = counts.entry(labels.clone()).or_default();
        *count += 1.0;
        self.metrics.set(REQUESTS, &labels, at, *count);
    }

    /// The metrics server is away, or is back.
    pub fn outage(&self, away: bool) {
        if away {
            self.metrics.script(|_| {
                let reason = "connection refused".to_owned();
                vec![Fault::Fail(QueryError::Ask { server: "metrics".to_owned(), reason })]
            });
        } else {
            self.metrics.heal();
        }
    }
}

/// Draws how each attempt goes from its notice and how often that was tried, and reports it to
/// the checker.
fn decide(
    mail_mode: Arc<Mutex<MailMode>>,
    rng: Rng,
    checker: SharedRecord<InstanceChecker>,
) -> impl FnMut(&Notice) -> ScriptedAttempt + Send + 'static {
    let mut attempts: HashMap<String, u64> = HashMap::new();
    move |notice| {
        let attempt = attempts.entry(notice.id.clone()).or_default();
        *attempt += 1;
        let mut rng = rng.split(&format!("{} {attempt}", notice.id));
        let turn = match *lock(&mail_mode) {
            // As a real one would.
            _ if notice.to.email.is_empty() => Effect::Refuse("no address".to_owned()).into(),
            MailMode::Works => ScriptedAttempt::default(),
            MailMode::Down => Effect::FailBefore("connection refused".to_owned()).into(),
            MailMode::Slow(after) => ScriptedAttempt { after, ..ScriptedAttempt::default() },
            MailMode::Flaky(chance) if rng.permille(chance) => match rng.below(4) {
                0 | 1 => Effect::FailAfter("the connection broke".to_owned()).into(),
                2 => Effect::FailBefore("try again later".to_owned()).into(),
                _ => Effect::Refuse("no such person".to_owned()).into(),
            },
            MailMode::Flaky(_) => ScriptedAttempt {
                after: Duration::from_secs(rng.below(30)),
                ..ScriptedAttempt::default()
            },
        };
        checker.lock().attempted(notice, &turn.effect);
        turn
    }
}

impl DriverFactory for ScriptedDrivers {
    fn metrics(&self, config: &DriverConfig) -> Result<Option<Arc<dyn Metrics>>, String> {
        let served = config.prometheus_url.is_some();
        Ok(served.then(|| Arc::new(self.metrics.clone()) as Arc<dyn Metrics>))
    }

    fn channels(
        &self,
        _: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        if let Some(problem) = &*lock(&self.broken) {
            return Err(problem.clone());
        }
        let channel = self.has_mail.then(|| Arc::new(self.channel.clone()) as Arc<dyn Channel>);
        Ok(channel.into_iter().collect())
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(self.probe.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
