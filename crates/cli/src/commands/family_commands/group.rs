//! What commands tell about a group and its machines.

mod forecast;
mod verb;

use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Resource as _;
use kube::api::DynamicObject;
use serde_json::Value;
use sojourn_api::group::Machine;

use self::verb::Verb;
use super::super::connect::ApiContext;
use super::{
    FamilyCommands, NamedObject, NextInStatus, StatusLines, UpcomingAction, kind_of, verb,
};
use crate::exit::Failure;
use crate::printer::Printer;

pub(super) struct GroupCommands;

impl FamilyCommands for GroupCommands {
    fn name(&self) -> &'static str {
        "group"
    }

    fn forecast<'a>(
        &'a self,
        api_context: &'a ApiContext,
        of: NamedObject<'a>,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Vec<UpcomingAction>>> {
        forecast::upcoming_rotations(api_context, of.object, now).boxed()
    }

    /// What comes next for a group is the rotation of one of its machines.
    fn next(&self, object: &DynamicObject, named: &str) -> Option<UpcomingAction> {
        let next = NextInStatus::of(object)?;
        let machine = next.text("machine").map(|name| format!("machine/{name}"));
        let mut upcoming = next.upcoming("reason", machine.as_deref().unwrap_or(named))?;
        upcoming.action = action(&upcoming.action);
        Some(upcoming)
    }

    fn open(&self, object: &DynamicObject) -> Vec<UpcomingAction> {
        forecast::open(object)
    }

    fn is_shown_by_another(&self, object: &DynamicObject) -> bool {
        is_shown_by_its_group(object)
    }

    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/machine", "/next/reason", "/next/at"]);
        lines.kept_until();
        lines.field("machines", &counts(lines.value("/replicas")));
        lines.text_field("health", "/health");
        lines.text_field("provider", "/providerID");
        lines.text_field("expires", "/expiresAt");
        let warned = [("", lines.text("/warned/at")), ("goes at ", lines.text("/warned/deadline"))];
        lines.parts("warned", &warned);
        lines.parts("rotation", &rotation(lines.value("/rotation").unwrap_or(&Value::Null)));
        for open in lines.list("/rotations") {
            let machine = open["machine"].as_str().unwrap_or_default();
            lines.parts("rotation", &[&[("machine/", machine)][..], &rotation(open)].concat());
        }
        let drain = [
            ("until ", lines.text("/drain/deadline")),
            ("", lines.text("/drain/outcome")),
            ("", lines.text("/drain/message")),
        ];
        lines.parts("drain", &drain);
        let error = [("", lines.text("/error")), ("tried again at ", lines.text("/retryAt"))];
        lines.parts("error", &error);
        for blocker in lines.list("/blockedBy") {
            lines.field("blocked by", blocker.as_str().unwrap_or_default());
        }
    }

    fn instead_of_keeping(&self, of: NamedObject<'_>) -> Option<String> {
        let named = of.named;
        match kind_of(of.object)? {
            "InstanceGroup" => Some(format!(
                "Keep one of its machines, such as machine/web-7k2qd, or begin no rotation: \
                 sojourn freeze {named} --until 2h."
            )),
            "Machine" if is_on_demand(of.object) => Some(
                "It was lent for a time: renew it by its spec.renewedUntil, as far as its group's \
                 ondemandMaxAge lets you."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn run_verb(&self, asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
        verb::<Verb>(asked).map(|verb| verb.run(printer))
    }
}

/// What a rotation does, by its reason.
fn action(reason: &str) -> String {
    match reason {
        "Scale" | "OnDemand" => "Remove".to_owned(),
        _ => "Replace".to_owned(),
    }
}

/// Whether what comes next for an object is what comes next for its group.
fn is_shown_by_its_group(object: &DynamicObject) -> bool {
    kind_of(object) == Some(&*Machine::kind(&())) && !is_on_demand(object)
}

fn is_on_demand(machine: &DynamicObject) -> bool {
    machine.data.pointer("/spec/onDemand") == Some(&Value::Bool(true))
}

fn rotation(open: &Value) -> [(&str, &str); 4] {
    let text = |name: &str| open[name].as_str().unwrap_or_default();
    [
        ("", text("reason")),
        ("", text("phase")),
        ("replaced by machine/", text("replacement")),
        ("until ", text("drainDeadline")),
    ]
}

/// How many machines there are, those that there are none of left out.
fn counts(replicas: Option<&Value>) -> String {
    let Some(counts) = replicas.and_then(Value::as_object) else { return String::new() };
    let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or_default();
    let mut words = vec![format!("{} wanted", count("desired"))];
    for name in ["total", "ready", "starting", "draining", "unhealthy", "unknown"] {
        if count(name) > 0 {
            words.push(format!("{} {name}", count(name)));
        }
    }
    words.join(", ")
}
