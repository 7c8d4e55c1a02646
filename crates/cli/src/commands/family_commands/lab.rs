//! What commands tell about an Instance.

mod forecast;
mod verb;

use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;
use sojourn_core::lab::state;

use self::verb::Verb;
use super::super::connect::ApiContext;
use super::{FamilyCommands, NamedObject, StatusLines, UpcomingAction, kind_of, or, verb};
use crate::exit::Failure;
use crate::printer::Printer;

pub(super) struct LabCommands;

impl FamilyCommands for LabCommands {
    fn name(&self) -> &'static str {
        "lab"
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
                at: step.at,
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
        lines.text_field("url", "/url");
        lines.text_field("stage", "/lifecycle/stage");
        lines.next(&["/next/action", "/next/at"]);
        match (lines.text("/activity/last"), lines.text("/activity/source")) {
            ("", _) => {}
            (last, "") => lines.field("last used", last),
            (last, source) => lines.field("last used", &format!("{last}, seen by {source}")),
        }
        lines.parts("blind", &[("since ", lines.text("/activity/blind"))]);
        lines.texts("stopped", &["/stopReason", "/lastStoppedAt"]);
        lines.texts("ended", &["/ended/reason", "/ended/at"]);
        lines.kept_until();
        notices(lines);
        submissions(lines);
        for step in lines.list("/shadow/steps") {
            let text = |field: &str| text(step, field);
            lines.push(format!("  would      {} {}: {}", text("action"), text("at"), text("why")));
        }
    }

    fn instead_of_keeping(&self, of: NamedObject<'_>) -> Option<String> {
        let lent = !matches!(kind_of(of.object), Some("Tenant" | "Template"));
        (!lent).then(|| "Name something that is lent, such as instance/alice.".to_owned())
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

fn notices(lines: &mut StatusLines<'_>) {
    for notice in lines.list("/notices") {
        let text = |field: &str| text(notice, field);
        let error = text("error");
        let error = if error.is_empty() { String::new() } else { format!(": {error}") };
        let at = or(text("deliveredAt"), text("recordedAt"));
        lines.push(format!("  notice     {} {} {at}{error}", text("kind"), text("state")));
    }
}

fn submissions(lines: &mut StatusLines<'_>) {
    for entry in lines.list("/submission") {
        let text = |field: &str| text(entry, field);
        let detail = or(text("error"), text("receipt"));
        let attempts = match entry.get("attempts").and_then(Value::as_u64).unwrap_or_default() {
            0 => String::new(),
            1 => "after 1 attempt ".to_owned(),
            count => format!("after {count} attempts "),
        };
        let again = match text("retryAt") {
            "" => String::new(),
            at => format!(", tried again at {at}"),
        };
        let line = format!(
            "  submission {} {} {attempts}{detail}{again}",
            text("environment"),
            text("state")
        );
        lines.push(line.trim_end().to_owned());
    }
}
