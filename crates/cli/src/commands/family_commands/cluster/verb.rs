//! `sojourn hibernate|resume`: a power state, written to the object. What becomes of it is decided by the controllers.

use anyhow::anyhow;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::deployment::WantedPowerState;
use sojourn_api::cluster::name::condition;
use sojourn_api::cluster::status::ClusterDeploymentStatus;

use super::super::super::connect::{self, ApiContext};
use super::super::of_kind;
use crate::args::{Connection, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// Who wrote a power state. It is not who the controllers are: what somebody wrote by hand holds until a schedule says
/// something next, and what they wrote does not count for that.
const FIELD_MANAGER: &str = "sojourn-cli";

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Put a cluster to sleep: every machine of it is stopped.
    Hibernate(Toggle),
    /// Wake a cluster: every machine of it is started.
    Resume(Toggle),
}

impl Verb {
    pub(super) fn run(self, printer: Printer) -> Result<(), Failure> {
        match self {
            Self::Hibernate(asked) => toggle(asked, WantedPowerState::Hibernating, printer),
            Self::Resume(asked) => toggle(asked, WantedPowerState::Running, printer),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Toggle {
    /// The cluster, such as cd/blue
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

fn toggle(asked: Toggle, to: WantedPowerState, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&asked.connection).await?;
        let named = asked.object;
        let (api, object) = api_context.get(&named).await?;
        let cluster: ClusterDeployment =
            of_kind(&named, object, "cd/blue", "hibernated and resumed")?;
        refuse(&named, &cluster, to)?;
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({"spec": {"powerState": to}});
        api.patch(&named.name, &params, &Patch::Merge(&patch))
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot change {named}")))?;
        printer.good(format_args!("{}", outcome(&named, &cluster, to)));
        Ok(())
    })
}

fn word(to: WantedPowerState) -> &'static str {
    match to {
        WantedPowerState::Hibernating => "hibernate",
        WantedPowerState::Unset | WantedPowerState::Running => "run",
    }
}

/// What is written to no avail is not written.
fn refuse(named: &Named, cluster: &ClusterDeployment, to: WantedPowerState) -> Result<(), Failure> {
    let negative = |error, advice: String| Err(Failure::new(Exit::Negative, error, advice));
    if cluster.metadata.deletion_timestamp.is_some() {
        let error = anyhow!("{named} is being deleted");
        return negative(error, "Its machines stay as they are.".to_owned());
    }
    let unsupported = hibernating_reason(cluster.status.as_ref()) == "Unsupported";
    if unsupported && to == WantedPowerState::Hibernating {
        let error = anyhow!("{named} cannot hibernate: nobody can stop its machines");
        return negative(error, format!("See what is said about it: sojourn why {named}."));
    }
    Ok(())
}

/// What is said of a power state that was written.
fn outcome(named: &Named, cluster: &ClusterDeployment, to: WantedPowerState) -> String {
    let word = word(to);
    match hibernating_reason(cluster.status.as_ref()) {
        "PowerStatePaused" => {
            format!("{named} is to {word}. It is paused: nothing is done until that ends.")
        }
        "Initialized" if !cluster.spec.installed => {
            format!("{named} is to {word}. It is not installed: nothing is done until it is.")
        }
        _ if to == WantedPowerState::Hibernating => format!("{named} is being put to sleep."),
        _ => format!("{named} is being woken."),
    }
}

/// Why it hibernates, or does not.
fn hibernating_reason(status: Option<&ClusterDeploymentStatus>) -> &str {
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let found = conditions.iter().find(|one| one.type_ == condition::HIBERNATING);
    found.map(|one| one.reason.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sojourn_api::name::shared::MANAGER;

    use super::*;

    fn named() -> Named {
        "cd/blue".parse().expect("a name")
    }

    fn cluster(reason: &str, installed: bool, metadata: &Value) -> ClusterDeployment {
        let mut object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
            "metadata": {"name": "blue", "namespace": "shop"},
            "spec": {
                "infraID": "blue-x7k2p", "platform": {"fake": {}}, "installed": installed,
            },
            "status": {"conditions": [{
                "type": "Hibernating", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }]},
        });
        for (field, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][field] = value.clone();
        }
        serde_json::from_value(object).expect("a cluster")
    }

    #[test]
    fn what_is_written_to_no_avail_is_refused() {
        let nothing = Value::Null;
        let gone = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
        let (down, up) = (WantedPowerState::Hibernating, WantedPowerState::Running);
        for (cluster, to, words) in [
            (cluster("ResumingOrRunning", true, &nothing), down, None),
            (cluster("Hibernating", true, &nothing), up, None),
            (cluster("Unsupported", true, &nothing), up, None),
            (
                cluster("Unsupported", true, &nothing),
                down,
                Some("cd/blue cannot hibernate: nobody can stop its machines"),
            ),
            (cluster("ResumingOrRunning", true, &gone), down, Some("cd/blue is being deleted")),
            (cluster("Hibernating", true, &gone), up, Some("cd/blue is being deleted")),
        ] {
            let refused = refuse(&named(), &cluster, to).err();
            let refused = refused.map(|failure| failure.error.to_string());
            assert_eq!(refused.as_deref(), words);
        }
    }

    #[test]
    fn what_becomes_of_it_is_said() {
        let said = |reason: &str, installed, to| {
            outcome(&named(), &cluster(reason, installed, &Value::Null), to)
        };
        let (down, up) = (WantedPowerState::Hibernating, WantedPowerState::Running);
        assert_eq!(said("ResumingOrRunning", true, down), "cd/blue is being put to sleep.");
        assert_eq!(said("Hibernating", true, up), "cd/blue is being woken.");
        assert_eq!(
            said("PowerStatePaused", true, down),
            "cd/blue is to hibernate. It is paused: nothing is done until that ends."
        );
        assert_eq!(
            said("Initialized", false, up),
            "cd/blue is to run. It is not installed: nothing is done until it is."
        );
    }

    /// A change by hand holds until the schedule says something next: it must not count as ours.
    #[test]
    fn a_power_state_that_a_person_writes_is_not_the_controllers() {
        assert_ne!(FIELD_MANAGER, MANAGER);
        let written = json!({"powerState": WantedPowerState::Running});
        assert_eq!(written, json!({"powerState": "Running"}));
    }
}
