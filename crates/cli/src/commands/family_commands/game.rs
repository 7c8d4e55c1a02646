//! What commands tell about collections and servers, and what people do with them.

mod allocatable;
mod verb;

use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use self::verb::Verb;
use super::super::connect::ApiContext;
use super::{FamilyCommands, NamedObject, RelatedLine, StatusLines, kind_of, verb};
use crate::exit::Failure;
use crate::printer::Printer;

pub(super) use self::verb::{drain, is_server};

/// So many failures are told one by one.
const MAX_FAILURES: usize = 5;

pub(super) struct GameCommands;

impl FamilyCommands for GameCommands {
    fn name(&self) -> &'static str {
        "game"
    }

    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/action", "/next/at"]);
        lines.text_field("health", "/health");
        lines.text_field("Pods", "/podState");
        lines.field("servers", &servers(lines));
        lines.text_field("state", "/state");
        lines.text_field("SDK", "/sdkState");
        lines.field("players", &number(lines, "/activePlayers"));
        lines
            .parts("address", &[("", lines.text("/publicIP")), ("node ", lines.text("/nodeName"))]);
        for port in lines.list("/ports") {
            let number = |field: &str| port[field].as_i64().unwrap_or_default();
            let protocol = port["protocol"].as_str().unwrap_or_default();
            let words = format!("{} → {} {protocol}", number("hostPort"), number("containerPort"));
            let name = port["name"].as_str().unwrap_or_default();
            lines.parts("port", &[("", name), ("", &words)]);
        }
        for grant in lines.list("/grants") {
            let text = |field: &str| grant[field].as_str().unwrap_or_default();
            let seats = grant["seats"]
                .as_u64()
                .map_or_else(|| "the whole server".to_owned(), |seats| format!("{seats} seats"));
            let claimed = grant["claimed"].as_bool() == Some(true);
            let until = if claimed { "" } else { text("leaseExpires") };
            let parts = [("", seats.as_str()), ("by ", text("requestId")), ("until ", until)];
            lines.parts("granted", &parts);
        }
        lines.parts("reserved", &[("until ", lines.text("/reservedUntil"))]);
        lines.parts("drains", &[("until ", lines.text("/drainDeadline"))]);
        let failure = [
            ("", lines.text("/failure/reason")),
            ("", lines.text("/failure/message")),
            ("at ", lines.text("/failure/at")),
        ];
        lines.parts("failed", &failure);
        lines.field("failures", &number(lines, "/timesFailed"));
        for failure in last_failures(lines) {
            let text = |field: &str| failure[field].as_str().unwrap_or_default();
            let parts = [("", text("name")), ("", text("reason")), ("at ", text("at"))];
            lines.parts("failure", &parts);
        }
        for notice in lines.list("/notices") {
            let text = |field: &str| notice[field].as_str().unwrap_or_default();
            let at = super::or(text("deliveredAt"), text("recordedAt"));
            let parts = [("", text("kind")), ("", text("state")), ("", at), ("", text("error"))];
            lines.parts("notice", &parts);
        }
        let last = [
            ("", lines.text("/autoscaler/lastDecision/reason")),
            ("at ", lines.text("/autoscaler/lastScaleTime")),
        ];
        lines.parts("autoscaler", &last);
    }

    fn related<'a>(
        &'a self,
        api_context: &'a ApiContext,
        of: NamedObject<'a>,
        now: Timestamp,
    ) -> BoxFuture<'a, Vec<RelatedLine>> {
        allocatable::lines(api_context, of.object, now).boxed()
    }

    fn instead_of_keeping(&self, of: NamedObject<'_>) -> Option<String> {
        let named = of.named;
        match kind_of(of.object)? {
            "DedicatedGameServer" => Some(
                "A server with players stays until they leave; nothing else is taken from them."
                    .to_owned(),
            ),
            _ => Some(format!("Scale it: kubectl scale {named} --replicas=N.")),
        }
    }

    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn run_verb(&self, asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
        verb::<Verb>(asked).map(|verb| verb.run(printer))
    }
}

fn number(lines: &StatusLines<'_>, path: &str) -> String {
    let number = lines.value(path).and_then(Value::as_u64);
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// The last failures of a collection, the one that tripped it at the end.
fn last_failures<'a>(lines: &StatusLines<'a>) -> Vec<&'a Value> {
    let because = lines.value("/needsInterventionBecause");
    let mut all: Vec<&Value> = lines.list("/failures").chain(because).collect();
    all.drain(..all.len().saturating_sub(MAX_FAILURES));
    all
}

/// How many servers a collection has; nothing of a server.
fn servers(lines: &StatusLines<'_>) -> String {
    let count = |path: &str| lines.value(path).and_then(Value::as_u64);
    match (count("/replicas"), count("/availableReplicas")) {
        (Some(all), Some(available)) => format!("{all}, {available} available"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_says_who_has_it_and_when_it_goes() {
        let status = json!({
            "health": "Healthy", "podState": "Running", "state": "Assigned", "activePlayers": 3,
            "publicIP": "192.0.2.7", "nodeName": "local",
            "ports": [{"name": "game", "hostPort": 20001, "containerPort": 7777, "protocol": "UDP"}],
            "grants": [{"id": "g", "requestId": "m-1", "leaseExpires": "2030-01-01T00:01:00Z", "claimed": false}],
            "next": {"action": "ReturnGrant", "at": "2030-01-01T00:01:00Z", "why": "nobody has come yet"},
        });
        let mut lines = StatusLines::of(&status);
        GameCommands.explain(&mut lines);
        let told = lines.finish().join("\n");
        for words in [
            "ReturnGrant 2030-01-01T00:01:00Z",
            "192.0.2.7, node local",
            "game, 20001 → 7777 UDP",
            "the whole server, by m-1, until 2030-01-01T00:01:00Z",
        ] {
            assert!(told.contains(words), "{words:?} is not in\n{told}");
        }
    }

    #[test]
    fn a_collection_says_what_failed_and_who_was_told() {
        let failure = |number: u32| json!({"name": format!("s-{number}"), "reason": "Error"});
        let status = json!({
            "health": "NeedsIntervention", "timesFailed": 6,
            "failures": (0..6).map(failure).collect::<Vec<_>>(),
            "needsInterventionBecause": {
                "at": "2030-01-01T00:00:00Z", "name": "s-6", "reason": "Error: exit code 1",
            },
            "notices": [{
                "kind": "NeedsIntervention", "state": "Waiting", "recordedAt": "2030-01-01T00:00:01Z",
                "error": "smtp: refused",
            }],
        });
        let mut lines = StatusLines::of(&status);
        GameCommands.explain(&mut lines);
        let told = lines.finish();
        let failures = told.iter().filter(|line| line.trim_start().starts_with("failure "));
        assert_eq!(failures.count(), MAX_FAILURES, "the last ones: {told:?}");
        for words in [
            "s-6, Error: exit code 1, at 2030-01-01T00:00:00Z",
            "NeedsIntervention, Waiting, 2030-01-01T00:00:01Z, smtp: refused",
        ] {
            assert!(told.iter().any(|line| line.contains(words)), "{words:?} is not in {told:?}");
        }
    }
}
