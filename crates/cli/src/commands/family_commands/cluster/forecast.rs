//! What lies ahead of one cluster: the controllers' own decision, asked again and again with time passing, as if
//! machines did as they are told and every notice arrived.

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::cluster::convert::{cluster_intent, read_state};
use sojourn_api::cluster::{ClusterConfig, ClusterDeployment, ClusterSync};
use sojourn_core::cluster::state::UpcomingAction;
use sojourn_core::cluster::{HibernatingReason, ObservedSync, Platform, forecast};
use sojourn_core::known::Known;

use super::super::super::connect::ApiContext;
use super::super::{kind_of, options};

/// So many steps are foreseen: a week of working days, with what announces them.
const MAX_FORECAST_STEPS: usize = 15;

/// The coming steps of a cluster. Nothing, if it is none, or something that matters cannot be read: then what the
/// controllers wrote down must do.
pub(super) async fn upcoming_steps(
    api_context: &ApiContext,
    object: &DynamicObject,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    if kind_of(object) != Some(&*ClusterDeployment::kind(&())) {
        return None;
    }
    let cluster: ClusterDeployment = object.clone().try_parse().ok()?;
    let syncs: Api<ClusterSync> =
        Api::namespaced(api_context.client.clone(), &cluster.namespace()?);
    let sync = syncs.get_opt(&cluster.name_any()).await.ok()?;
    let sync = sync.map_or(Known::Absent, |sync| Known::Is(sync.observed()));
    let config: ClusterConfig = options(api_context).await?;
    forecast_of(&cluster, sync, &config, now)
}

/// The same, of what was read. Where nobody has looked at a cluster yet, nobody knows how it is.
fn forecast_of(
    cluster: &ClusterDeployment,
    sync: Known<ObservedSync>,
    config: &ClusterConfig,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    let state = read_state(cluster.status.as_ref());
    let conditions = state.conditions?;
    let mut intent = cluster_intent(cluster, config).ok()?;
    // Whether there is an actuator for it, the controllers alone know.
    if conditions.hibernating == HibernatingReason::Unsupported {
        intent.platform = Platform::Unsupported;
    }
    Some(forecast(state, sync, &intent, &config.settings(), now, MAX_FORECAST_STEPS))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sojourn_core::cluster::Action;

    use super::*;

    /// A Thursday.
    const BORN: &str = "2026-01-01T00:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    /// One that runs since it was made, with what `spec` adds.
    fn cluster(spec: &Value) -> ClusterDeployment {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": BORN,
            })
        };
        let mut object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
            "metadata": {
                "name": "blue", "namespace": "shop", "uid": "u", "generation": 1,
                "creationTimestamp": BORN,
            },
            "spec": {"infraID": "blue-x7k2p", "platform": {"fake": {}}},
            "status": {
                "powerState": "Running", "installedTimestamp": BORN, "runningSince": BORN,
                "inventory": {
                    "recordedBy": 1, "recordedAt": BORN, "verified": true,
                    "machines": [{"id": "m-1", "name": "m-1"}],
                },
                "operation": {
                    "id": 1, "direction": "Resume", "trigger": "Adopted", "startedAt": BORN,
                    "step": "Done", "stepSince": BORN, "attempt": 1,
                },
                "conditions": [
                    condition("Hibernating", "False", "ResumingOrRunning"),
                    condition("Ready", "True", "Running"),
                ],
            },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        serde_json::from_value(object).expect("a cluster")
    }

    fn foreseen(cluster: &ClusterDeployment, now: &str) -> Option<Vec<(Action, Timestamp)>> {
        let steps = forecast_of(cluster, Known::Absent, &ClusterConfig::default(), at(now))?;
        Some(steps.into_iter().map(|step| (step.action, step.at)).collect())
    }

    #[test]
    fn a_schedule_is_foreseen_with_what_contacts_are_told() {
        let cluster = cluster(&json!({
            "schedule": [{"hibernate": "0 20 * * *", "resume": "0 8 * * *", "timeZone": "UTC"}],
            "contacts": ["ada@example.org"],
        }));
        let steps = foreseen(&cluster, "2026-01-01T12:00:00Z").expect("it can be foreseen");
        assert_eq!(steps.len(), MAX_FORECAST_STEPS);
        let (first, when) = steps[0];
        assert_eq!(first, Action::Announce);
        assert!(when < at("2026-01-01T19:45:01Z"), "{when}");
        assert_eq!(
            steps[1..3],
            [
                (Action::Hibernate, at("2026-01-01T20:00:00Z")),
                (Action::Resume, at("2026-01-02T08:00:00Z")),
            ]
        );
    }

    #[test]
    fn a_timer_counts_from_when_it_ran_and_what_nobody_can_stop_has_none() {
        let timer = json!({"hibernateAfter": "8h"});
        let mut cluster = cluster(&timer);
        let now = "2026-01-01T06:00:00Z";
        let due = (Action::Hibernate, at("2026-01-01T08:00:00Z"));
        assert_eq!(foreseen(&cluster, now), Some(vec![due]));
        let status = cluster.status.as_mut().expect("a status");
        status.conditions[0].reason = "Unsupported".to_owned();
        assert_eq!(foreseen(&cluster, now), Some(Vec::new()));
    }

    #[test]
    fn of_a_cluster_that_nobody_has_looked_at_nothing_is_foreseen() {
        let mut cluster = cluster(&json!({"hibernateAfter": "8h"}));
        cluster.status = None;
        assert_eq!(foreseen(&cluster, BORN), None);
    }
}
