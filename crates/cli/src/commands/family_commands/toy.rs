//! What commands tell about a toy, and `sojourn play`.

use anyhow::anyhow;
use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use sojourn_api::toy::{Toy, intent, read_state};
use sojourn_core::moment::ceil_second;
use sojourn_core::toy::{self, forecast};

use super::super::connect::{self, ApiContext};
use super::{FamilyCommands, NamedObject, StatusLines, UpcomingAction, kind_of, verb};
use crate::args::{Connection, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) struct ToyCommands;

impl FamilyCommands for ToyCommands {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn forecast<'a>(
        &'a self,
        _: &'a ApiContext,
        of: NamedObject<'a>,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Vec<UpcomingAction>>> {
        std::future::ready(upcoming(of, now)).boxed()
    }

    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/action", "/next/at"]);
        lines.kept_until();
        lines.text_field("warned", "/warnedAt");
    }

    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn run_verb(&self, asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
        verb::<Verb>(asked).map(|Verb::Play(asked)| play(asked, printer))
    }
}

/// The controller's own decision, with time passing.
fn upcoming(of: NamedObject<'_>, now: Timestamp) -> Option<Vec<UpcomingAction>> {
    let toy: Toy = of.object.clone().try_parse().ok()?;
    let intent = intent(&toy).ok()?;
    let upcoming = |step: toy::UpcomingAction| UpcomingAction {
        at: Some(step.at),
        action: format!("{:?}", step.action),
        object: of.named.to_string(),
        namespace: toy.namespace().unwrap_or_default(),
        why: step.why.to_string(),
    };
    let steps = forecast(read_state(toy.status.as_ref()), &intent, now);
    Some(steps.into_iter().map(upcoming).collect())
}

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    Play(Play),
}

/// Play with a toy: its life begins anew.
#[derive(Debug, clap::Args)]
struct Play {
    /// The toy, such as toy/bear
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

fn play(asked: Play, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&asked.connection).await?;
        let named = asked.object;
        let (api, object) = api_context.get(&named).await?;
        if kind_of(&object) != Some(&*Toy::kind(&())) {
            let error = anyhow!("{named} is nothing that one plays with");
            return Err(Failure::new(Exit::Usage, error, "Name one that is: toy/bear."));
        }
        // The API keeps whole seconds, and nothing of its life is to be lost.
        let played_at = format!("{:.0}", ceil_second(Timestamp::now()));
        let change = json!({"spec": {"playedAt": played_at}});
        api.patch(&named.name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot change {named}")))?;
        printer.good(format_args!("{named} lives on from {played_at}."));
        Ok(())
    })
}
