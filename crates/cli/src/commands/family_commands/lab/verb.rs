//! `sojourn stop|start|reopen|submission|notice`: what people ask of Instances. Each is a small write to the
//! object; what becomes of it is decided by the controllers.

use anyhow::anyhow;
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use sojourn_api::name::lab;

use super::super::super::connect::{self, ApiContext};
use super::super::super::request::annotate;
use crate::args::{Connection, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Stop something; what it keeps is kept.
    Stop(Power),
    /// Start something again, with what it kept.
    Start(Power),
    /// Take the end of an exam back and start it again; needs the verb `reopen`.
    Reopen(Power),
    Submission(Submission),
    Notice(Notice),
}

impl Verb {
    pub(super) fn run(self, printer: Printer) -> Result<(), Failure> {
        match self {
            Self::Stop(power) => switch(power, false, printer),
            Self::Start(power) => switch(power, true, printer),
            Self::Reopen(power) => reopen(power, printer),
            Self::Submission(asked) => submission(asked, printer),
            Self::Notice(asked) => notice(asked, printer),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Power {
    /// The object, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

/// Hand in the data of an instance, try again, or give it up.
#[derive(Debug, clap::Args)]
pub(super) struct Submission {
    /// What to ask for
    #[arg(value_enum)]
    verb: SubmissionVerb,

    /// The instance, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SubmissionVerb {
    /// Hand it in once the instance is off
    Request,
    /// Try again what failed
    Retry,
    /// Give up what was not handed in; needs the verb `hold`
    Waive,
}

/// Give up notices that nobody accepts.
///
/// A warning that is given up counts as given from then on: what it warns of comes no sooner than if
/// somebody had got it then. A farewell that is given up holds nothing up any more.
#[derive(Debug, clap::Args)]
pub(super) struct Notice {
    /// What to do
    #[arg(value_enum)]
    verb: NoticeVerb,

    /// The instance, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum NoticeVerb {
    /// Give up what waits to be delivered; needs the verb `hold`
    Waive,
}

fn switch(power: Power, running: bool, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&power.connection).await?;
        let named = power.object;
        let (api, object) = api_context.get(&named).await?;
        if object.data.pointer("/spec/running").is_none() {
            let error = anyhow!("{named} is nothing that is started and stopped");
            let advice = "Name something that runs, such as instance/alice.";
            return Err(Failure::new(Exit::Usage, error, advice));
        }
        if running && let Some(at) = ended(&object) {
            let error = anyhow!("{named} ended at {at}, and is not started again");
            let advice = format!("Who may do so takes that back: sojourn reopen {named}.");
            return Err(Failure::new(Exit::Negative, error, advice));
        }
        let patch = json!({"spec": {"running": running}});
        api.patch(&named.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot change {named}")))?;
        printer.good(format_args!(
            "{named} is being {}.",
            if running { "started" } else { "stopped" }
        ));
        Ok(())
    })
}

/// When something ended, if it has.
fn ended(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/status/ended/at").and_then(Value::as_str)
}

/// Takes an end back, by naming it, and starts what has ended.
fn reopen(power: Power, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&power.connection).await?;
        let named = power.object;
        let (api, object) = api_context.get(&named).await?;
        let Some(at) = ended(&object) else {
            let error = anyhow!("{named} has not ended, so there is nothing to take back");
            let advice = format!("To start it: sojourn start {named}.");
            return Err(Failure::new(Exit::Negative, error, advice));
        };
        let patch = json!({
            "metadata": {"annotations": {lab::REOPEN: at}}, "spec": {"running": true},
        });
        api.patch(&named.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot reopen {named}")))?;
        printer
            .good(format_args!("{named} does not count as ended any more, and is being started."));
        Ok(())
    })
}

/// Whether there is anything that a command about submissions would change.
fn answers(verb: SubmissionVerb, object: &DynamicObject) -> bool {
    let entries = object.data.pointer("/status/submission").and_then(Value::as_array);
    let mut states = entries.into_iter().flatten().map(|entry| entry["state"].as_str());
    match verb {
        SubmissionVerb::Retry => states.any(|state| state == Some("Failed")),
        SubmissionVerb::Request | SubmissionVerb::Waive => true,
    }
}

fn submission(submission: Submission, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&submission.connection).await?;
        let named = submission.object;
        let (api, object) = api_context.get(&named).await?;
        if object.data.pointer("/spec/submission").is_none() {
            let error = anyhow!("{named} says nowhere to submit to");
            return Err(Failure::new(Exit::Negative, error, "Set spec.submission first."));
        }
        if !answers(submission.verb, &object) {
            let error =
                anyhow!("nothing of {named} has failed to be handed in: nothing is tried again");
            let advice = format!("See how it stands: sojourn why {named}.");
            return Err(Failure::new(Exit::Negative, error, advice));
        }
        let (annotation, what) = match submission.verb {
            SubmissionVerb::Request => (lab::SUBMISSION_REQUEST, "is handed in once it is off"),
            SubmissionVerb::Retry => (lab::SUBMISSION_RETRY, "is handed in again"),
            SubmissionVerb::Waive => (lab::SUBMISSION_WAIVE, "need not be handed in any more"),
        };
        annotate(&api_context, &api, &named, annotation, &format!("{:.0}", Timestamp::now()))
            .await?;
        printer.good(format_args!("The data of {named} {what}."));
        Ok(())
    })
}

/// How many notices of the object nobody has accepted.
fn notices_waiting(object: &DynamicObject) -> usize {
    let notices = object.data.pointer("/status/notices").and_then(Value::as_array);
    notices.into_iter().flatten().filter(|notice| notice["state"] == "Waiting").count()
}

fn notice(notice: Notice, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&notice.connection).await?;
        let named = notice.object;
        let (api, object) = api_context.get(&named).await?;
        let waiting = notices_waiting(&object);
        if waiting == 0 {
            let error = anyhow!("no notice of {named} waits to be delivered");
            let advice = format!("See what it was told: sojourn why {named}.");
            return Err(Failure::new(Exit::Negative, error, advice));
        }
        let annotation = match notice.verb {
            NoticeVerb::Waive => lab::NOTICE_WAIVE,
        };
        annotate(&api_context, &api, &named, annotation, &format!("{:.0}", Timestamp::now()))
            .await?;
        let what = if waiting == 1 { "One notice is" } else { "Some notices are" };
        printer.good(format_args!("{what} given up: nobody accepts what {named} has to tell."));
        Ok(())
    })
}
