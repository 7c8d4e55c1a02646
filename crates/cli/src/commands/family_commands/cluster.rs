//! What commands tell about clusters, and what people do with them.

mod forecast;
mod verb;

use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;
use sojourn_core::cluster::state;

use self::verb::Verb;
use super::super::connect::ApiContext;
use super::{FamilyCommands, NamedObject, StatusLines, UpcomingAction, kind_of, or, verb};
use crate::exit::Failure;
use crate::printer::Printer;

/// So many machines are told one by one.
const MAX_MACHINES: usize = 10;

pub(super) struct ClusterCommands;

impl FamilyCommands for ClusterCommands {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn forecast<'a>(
        &'a self,
        api_context: &'a ApiContext,
        of: NamedObject<'a>,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Vec<UpcomingAction>>> {
        async move {
            let steps = forecast::upcoming_steps(api_context, of.object, now).await?;
            let upcoming = |step: state::UpcomingAction| UpcomingAction {
                at: Some(step.at),
                action: format!("{:?}", step.action),
                object: of.named.to_string(),
                namespace: of.object.namespace().unwrap_or_default(),
                why: step.why.to_string(),
            };
            Some(steps.into_iter().map(upcoming).collect())
        }
        .boxed()
    }

    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/action", "/next/at"]);
        lines.kept_until();
        lines.text_field("installed", "/installedTimestamp");
        lines.text_field("runs since", "/runningSince");
        operation(lines);
        lines.field("machines", &machines(lines));
        let write = [
            ("", lines.text("/powerWrite/powerState")),
            ("asked for by ", lines.text("/powerWrite/trigger")),
        ];
        lines.parts("is written", &write);
        let pending = [
            ("", lines.text("/schedule/pending/powerState")),
            ("since ", lines.text("/schedule/pending/at")),
        ];
        lines.parts("schedule", &pending);
        let told = [
            ("", lines.text("/announcement/stage")),
            ("for ", lines.text("/announcement/deadline")),
        ];
        lines.parts("announced", &told);
        for notice in lines.list("/notices") {
            let text = |field: &str| text(notice, field);
            let at = or(text("deliveredAt"), text("recordedAt"));
            let parts = [("", text("kind")), ("", text("state")), ("", at), ("", text("error"))];
            lines.parts("notice", &parts);
        }
    }

    fn instead_of_keeping(&self, of: NamedObject<'_>) -> Option<String> {
        (kind_of(of.object)? != "ClusterDeployment")
            .then(|| "Keep the cluster that is synced into, such as cd/blue.".to_owned())
    }

    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn run_verb(&self, asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
        verb::<Verb>(asked).map(|verb| verb.run(printer))
    }
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(entry: &Value, field: &str) -> u64 {
    entry.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// The way down or up, what went wrong on it, and the machines that it waits for. One that is done is told in short.
fn operation(lines: &mut StatusLines<'_>) {
    let step = lines.text("/operation/step");
    let done = step == "Done";
    let attempt = lines.value("/operation/attempt").and_then(Value::as_u64).unwrap_or_default();
    let attempt = if attempt > 1 { attempt.to_string() } else { String::new() };
    let deadline = if done { "" } else { lines.text("/operation/deadline") };
    let parts = [
        ("", lines.text("/operation/direction")),
        ("", step),
        ("asked for by ", lines.text("/operation/trigger")),
        ("begun at ", lines.text("/operation/startedAt")),
        ("to be done at ", deadline),
        ("attempt ", &attempt),
    ];
    lines.parts("operation", &parts);
    if done {
        return;
    }
    let error = [
        ("", lines.text("/operation/lastError/kind")),
        ("", lines.text("/operation/lastError/message")),
        ("tried again at ", lines.text("/operation/lastError/retryAt")),
    ];
    lines.parts("error", &error);
    lines.text_field("waits for", "/operation/waitsFor");
    let mut waiting = lines.list("/operation/machines").filter(|machine| is_waited_for(machine));
    let told: Vec<_> = waiting.by_ref().take(MAX_MACHINES).collect();
    for machine in told {
        let calls = match number(machine, "attempts") {
            0 => String::new(),
            1 => "called once".to_owned(),
            times => format!("called {times} times"),
        };
        let error = machine.get("error").unwrap_or(&Value::Null);
        let parts = [
            ("", or(text(machine, "name"), text(machine, "id"))),
            ("", or(text(machine, "providerState"), text(machine, "state"))),
            ("", &calls),
            ("", text(error, "class")),
            ("", text(error, "message")),
            ("tried again at ", text(machine, "retryAt")),
        ];
        lines.parts("machine", &parts);
    }
    let more = waiting.count();
    if more > 0 {
        lines.field("machine", &format!("and {more} more"));
    }
}

/// Whether something about a machine is not as it was asked for: it failed, or was called and still moves.
fn is_waited_for(machine: &Value) -> bool {
    let moves = !matches!(text(machine, "state"), "Running" | "Stopped" | "Missing");
    moves || machine.get("error").is_some_and(|error| !error.is_null())
}

/// How many machines are on record, and since when.
fn machines(lines: &StatusLines<'_>) -> String {
    let count = lines.list("/inventory/machines").count();
    let recorded = lines.text("/inventory/recordedAt");
    match (count, recorded) {
        (0, _) => String::new(),
        (count, "") => format!("{count} on record"),
        (count, at) => format!("{count} on record since {at}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(status: &Value) -> String {
        let mut lines = StatusLines::of(status);
        ClusterCommands.explain(&mut lines);
        lines.finish().join("\n")
    }

    #[test]
    fn a_cluster_says_what_it_waits_for_and_what_comes() {
        let machine = |name: &str, state: &str| json!({"id": name, "name": name, "state": state});
        let mut failing = machine("worker-1", "Running");
        failing["attempts"] = json!(3);
        failing["retryAt"] = json!("2030-01-01T00:05:00Z");
        failing["error"] = json!({"class": "Throttled", "message": "slow down"});
        let mut strange = machine("worker-2", "Unknown");
        strange["providerState"] = json!("REBUILD");
        let status = json!({
            "powerState": "WaitingForMachinesToStop",
            "next": {"action": "RollBack", "at": "2030-01-01T00:20:00Z", "why": "it takes too long"},
            "keep": {"until": "2030-01-01T08:00:00Z"},
            "operation": {
                "id": 4, "direction": "Hibernate", "trigger": "Timer", "step": "Machines",
                "startedAt": "2030-01-01T00:00:00Z", "deadline": "2030-01-01T00:20:00Z", "attempt": 2,
                "machines": [machine("worker-0", "Stopped"), failing, strange],
                "lastError": {"kind": "Call", "message": "worker-1: slow down"},
            },
            "inventory": {
                "recordedAt": "2030-01-01T00:00:01Z",
                "machines": [{"id": "worker-0"}, {"id": "worker-1"}, {"id": "worker-2"}],
            },
            "notices": [{
                "kind": "Hibernation", "state": "Waiting", "recordedAt": "2030-01-01T00:00:00Z",
                "error": "smtp: refused",
            }],
        });
        let told = told(&status);
        for words in [
            "next       RollBack 2030-01-01T00:20:00Z",
            "why        it takes too long",
            "kept until 2030-01-01T08:00:00Z",
            "operation  Hibernate, Machines, asked for by Timer, begun at 2030-01-01T00:00:00Z, \
             to be done at 2030-01-01T00:20:00Z, attempt 2",
            "error      Call, worker-1: slow down",
            "machine    worker-1, Running, called 3 times, Throttled, slow down, \
             tried again at 2030-01-01T00:05:00Z",
            "machine    worker-2, REBUILD",
            "machines   3 on record since 2030-01-01T00:00:01Z",
            "notice     Hibernation, Waiting, 2030-01-01T00:00:00Z, smtp: refused",
        ] {
            assert!(told.contains(words), "{words:?} is not in\n{told}");
        }
        assert!(!told.contains("worker-0, "), "it has stopped: {told}");
    }

    #[test]
    fn a_resume_says_what_it_waits_for_in_the_cluster() {
        let mut status = json!({"operation": {
            "direction": "Resume", "step": "ClusterOperators", "attempt": 1, "waitsFor": "dns, network",
        }});
        let waiting = told(&status);
        assert!(waiting.ends_with("waits for  dns, network"), "{waiting}");
        status["operation"]["step"] = json!("Done");
        assert!(!told(&status).contains("dns"), "nothing is waited for any more");
    }

    #[test]
    fn of_many_machines_some_are_told_and_the_others_counted() {
        let machine = |number: usize| json!({"id": format!("m-{number}"), "state": "Pending"});
        let machines: Vec<_> = (0..MAX_MACHINES + 3).map(machine).collect();
        let mut status = json!({"operation": {
            "direction": "Resume", "step": "Machines", "machines": machines, "attempt": 1,
        }});
        let all = told(&status);
        assert_eq!(all.matches("Pending").count(), MAX_MACHINES);
        assert!(all.ends_with("machine    and 3 more"), "{all}");
        assert!(!all.contains("attempt"), "{all}");
        status["operation"]["step"] = json!("Done");
        assert_eq!(told(&status), "  operation  Resume, Done", "nothing is waited for any more");
    }
}
