//! Conditions: what people look at first when something is not as they expect.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// One condition, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredCondition {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(crate) fn desired(
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: impl Into<String>,
) -> DesiredCondition {
    DesiredCondition { kind, holds, reason, message: message.into() }
}

/// Which generation of the object a status speaks of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generation {
    pub(crate) now: Option<i64>,
    /// What the status that is there speaks of.
    pub(crate) observed: Option<i64>,
}

/// The conditions as they are now: a transition time changes with the status alone, and is never
/// used as a timer.
pub(crate) fn merged(
    before: &[Condition],
    told: Vec<DesiredCondition>,
    generation: Generation,
    now: Timestamp,
) -> Vec<Condition> {
    told.into_iter()
        .map(|told| {
            let status = if told.holds { "True" } else { "False" };
            let was = before.iter().find(|one| one.type_ == told.kind);
            let since = was.filter(|was| was.status == status);
            let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
            let mut condition = Condition {
                type_: told.kind.to_owned(),
                status: status.to_owned(),
                reason: told.reason.to_owned(),
                message: told.message,
                last_transition_time: since
                    .map_or(Time(whole), |was| was.last_transition_time.clone()),
                observed_generation: generation.now,
            };
            // A generation alone is no news.
            if let Some(was) = was {
                let mut same = condition.clone();
                same.observed_generation = was.observed_generation;
                if same == *was && generation.observed == generation.now {
                    condition = same;
                }
            }
            condition
        })
        .collect()
}
