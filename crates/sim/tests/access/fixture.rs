//! One escalation, in a simulation of its own.

use std::time::Duration;

use serde_json::{Value, json};
use sojourn_api::access::BreakglassSession;
use sojourn_api::access::status::BreakglassSessionStatus;
use sojourn_core::access::session::{ReasonEnded, State};
use sojourn_core::key::Key;
use sojourn_sim::access::invariants::state_of;
use sojourn_sim::access::simulation::{AccessSimulation, Setting};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const ADA: &str = "ada@example.org";
pub(crate) const ALAN: &str = "alan@example.org";
pub(crate) const BARBARA: &str = "barbara@example.org";
/// How late anything may be: a canary, and what it takes to look.
pub(crate) const LATE: Duration = Duration::from_secs(40);

/// Idle after ten minutes, over after two hours, on record for an hour.
pub(crate) fn terms() -> Value {
    json!({
        "maxValidFor": "2h", "approvalTimeout": "30m", "idleTimeout": "10m", "warnBefore": "2m",
        "retainFor": "1h", "extension": {"max": 1, "step": "30m"},
    })
}

/// A simulation with one escalation for Ada and Alan.
pub(crate) async fn simulation() -> AccessSimulation {
    with(Setting::default(), terms()).await
}

pub(crate) async fn with(setting: Setting, terms: Value) -> AccessSimulation {
    let simulation = AccessSimulation::new(setting).await;
    simulation.offer("incident", &[ADA, ALAN], terms).await;
    simulation
}

pub(crate) fn status(session: &BreakglassSession) -> BreakglassSessionStatus {
    session.status.clone().unwrap_or_default()
}

pub(crate) fn is(expected: State) -> impl Fn(&BreakglassSession) -> bool {
    move |session| state_of(session) == Some(expected)
}

/// How a session ended.
pub(crate) fn reason(session: &BreakglassSession) -> Option<ReasonEnded> {
    status(session).reason_ended.map(ReasonEnded::from)
}

/// The status and the reason of a condition.
pub(crate) fn condition(session: &BreakglassSession, kind: &str) -> Option<(String, String)> {
    let conditions = status(session).conditions;
    let found = conditions.iter().find(|one| one.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

pub(crate) fn holds(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

/// What was sent about a session, each as its template's name.
pub(crate) fn told(simulation: &AccessSimulation, key: &Key) -> Vec<&'static str> {
    let received = simulation.drivers.mail().received().into_iter();
    let about = received.filter(|one| one.notice.facts.object.name == *key.name);
    about.map(|one| one.notice.template).collect()
}
