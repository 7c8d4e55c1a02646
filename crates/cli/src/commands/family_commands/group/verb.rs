//! `sojourn drain|rotate|freeze`: what people ask of machines and their groups. Each is a small write
//! to the object; what becomes of it is decided by the controllers.

use std::time::Duration;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sojourn_api::group::status::{MachineStatus, RotationPhase};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::group;
use sojourn_core::moment::saturating_add;
use sojourn_core::term::Term;
use tokio::time::Instant;

use super::super::super::connect::{self, ApiContext};
use super::super::super::request::annotate;
use super::super::{game, of_kind};
use crate::args::{Connection, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// After so long without an answer it is said that there is none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    Drain(Drain),
    Rotate(Rotate),
    Freeze(Freeze),
}

impl Verb {
    pub(super) fn run(self, printer: Printer) -> Result<(), Failure> {
        match self {
            Self::Drain(args) => drain(args, printer),
            Self::Rotate(args) => rotate(args, printer),
            Self::Freeze(args) => freeze(args, printer),
        }
    }
}

/// Have a machine or a game server drained and taken away.
///
/// A machine of a group is replaced first; a game server takes nobody new, and goes when it is empty. Waits until it is drained; Ctrl-C ends the waiting, and not the
/// drain.
#[derive(Debug, clap::Args)]
pub(super) struct Drain {
    /// The machine or server, such as machine/web-7k2qd or dgs/arena-x2k4d
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    /// Ask for it, and do not wait
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    connection: Connection,
}

/// Have every machine replaced that a group has now.
///
/// One after the other, each drained after its replacement is ready, as the group's budgets allow.
#[derive(Debug, clap::Args)]
pub(super) struct Rotate {
    /// The group, such as group/web
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

/// Start no rotation in a group for a while, not even a forced one.
///
/// Drains that are open end as they would have.
#[derive(Debug, clap::Args)]
pub(super) struct Freeze {
    /// The group, such as group/web
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    /// Until when, e.g. 2026-11-17T09:00:00Z, or for how long from now, e.g. 2h
    #[arg(long, value_name = "TIME", required_unless_present = "lift", conflicts_with = "lift")]
    until: Option<String>,

    /// Not any longer
    #[arg(long)]
    lift: bool,

    #[command(flatten)]
    connection: Connection,
}

fn drain(args: Drain, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&args.connection).await?;
        let named = args.object;
        let (api, object) = api_context.get(&named).await?;
        if game::is_server(&object) {
            return game::drain(&api_context, &api, &named, printer).await;
        }
        let _: Machine = of_kind(&named, object, "machine/web-7k2qd", "drained")?;
        let asked = format!("{:.0}", Timestamp::now());
        annotate(&api_context, &api, &named, group::DRAIN, &asked).await?;
        if args.no_wait {
            printer.good(format_args!("{named} is to be drained. See: sojourn why {named}."));
            return Ok(());
        }
        follow(&api_context, &api, &named, printer).await
    })
}

/// Waits until a machine is drained, and says what goes on.
async fn follow(
    api_context: &ApiContext,
    api: &Api<DynamicObject>,
    named: &Named,
    printer: Printer,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut said = String::new();
    loop {
        let object = api
            .get_opt(&named.name)
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot look at {named}")))?;
        // One that cannot be read is there all the same.
        let status = object.map(|object| {
            let machine = object.try_parse::<Machine>().ok();
            machine.and_then(|machine| machine.status).unwrap_or_default()
        });
        let stage = stage(status.as_ref());
        match stage {
            Stage::Drained => {
                printer.good(format_args!("{named} is drained."));
                return Ok(());
            }
            Stage::Waiting(words) if words != said => {
                printer.line(format_args!("{named} {words}"));
                said = words;
            }
            Stage::Unanswered if said.is_empty() && begun.elapsed() > ANSWER_TIMEOUT => {
                said = "unanswered".to_owned();
                printer.warning(format_args!(
                    "nothing has been decided about {named} yet. Are the controllers running?"
                ));
            }
            Stage::Waiting(_) | Stage::Unanswered => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// How far the way of a machine out is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has begun.
    Unanswered,
    Waiting(String),
    Drained,
}

fn stage(status: Option<&MachineStatus>) -> Stage {
    let Some(status) = status else { return Stage::Drained };
    let Some(rotation) = &status.rotation else {
        let why = status.next.as_ref().map(|next| next.why.as_str()).unwrap_or_default();
        return if why.is_empty() {
            Stage::Unanswered
        } else {
            Stage::Waiting(format!("waits: {why}"))
        };
    };
    match rotation.phase {
        Some(RotationPhase::Deleting) => Stage::Drained,
        Some(RotationPhase::Draining) => {
            let drain = status.drain.clone().unwrap_or_default();
            let until = drain.deadline.map(|time| format!(" until {:.0}", time.0));
            let words = format!("is being drained{}", until.unwrap_or_default());
            let more = Some(drain.message).filter(|message| !message.is_empty());
            Stage::Waiting(more.map_or(format!("{words}."), |more| format!("{words}: {more}")))
        }
        Some(RotationPhase::Reserved | RotationPhase::Creating | RotationPhase::Waiting) | None => {
            Stage::Waiting(match &rotation.replacement {
                Some(replacement) => format!("waits for its replacement, machine/{replacement}."),
                None => "is about to be drained.".to_owned(),
            })
        }
    }
}

fn rotate(args: Rotate, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&args.connection).await?;
        let named = args.object;
        let (api, object) = api_context.get(&named).await?;
        let group: InstanceGroup = of_kind(&named, object, "group/web", "rotated")?;
        let machines: Api<Machine> =
            Api::namespaced(api_context.client.clone(), &api_context.namespace);
        let own = ListParams::default().labels(&format!("{}={}", group::GROUP, group.name_any()));
        let machines = machines
            .list_metadata(&own)
            .await
            .map_err(|error| {
                api_context.failed(error, &format!("cannot list the machines of {named}"))
            })?
            .items;
        let count = machines.len();
        let newest = machines.iter().filter_map(|one| Some(one.creation_timestamp()?.0)).max();
        let (before, wait) = rotated_before(newest, Timestamp::now());
        tokio::time::sleep(wait).await;
        annotate(&api_context, &api, &named, group::ROTATE, &format!("{before:.0}")).await?;
        printer.good(format_args!(
            "The machines that {named} has now ({count}) are to be replaced. See: sojourn plan \
             {named}."
        ));
        if let Some(until) = frozen(&group) {
            printer.warning(format_args!("it is frozen until {until}, and nothing begins before."));
        }
        Ok(())
    })
}

/// The time before which machines must have been made to be replaced, and how long to wait before it
/// is said. The API keeps whole seconds: one that was made in this very second is meant, too, and one
/// that comes in its place is not.
fn rotated_before(newest: Option<Timestamp>, now: Timestamp) -> (Timestamp, Duration) {
    let after = newest.map_or(now, |newest| saturating_add(newest, SignedDuration::from_secs(1)));
    // A clock that differs from the server's costs no more than this.
    let wait = after.duration_since(now).clamp(SignedDuration::ZERO, SignedDuration::from_secs(1));
    (now.max(after), wait.unsigned_abs())
}

/// Until when a group is frozen, if it is.
fn frozen(group: &InstanceGroup) -> Option<String> {
    let until: Timestamp = group.spec.freeze_until.as_ref()?.parse().ok()?;
    (until > Timestamp::now()).then(|| format!("{until:.0}"))
}

fn freeze(args: Freeze, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let now = Timestamp::now();
        let until = args.until.as_deref().map(|text| moment(text, now)).transpose()?;
        let api_context = ApiContext::find(&args.connection).await?;
        let named = args.object;
        let (api, object) = api_context.get(&named).await?;
        let _: InstanceGroup = of_kind(&named, object, "group/web", "frozen")?;
        let change = json!({"spec": {"freezeUntil": until.map(|at| format!("{at:.0}"))}});
        api.patch(&named.name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .map_err(|error| api_context.failed(error, &format!("cannot change {named}")))?;
        match until {
            Some(until) => printer.good(format_args!(
                "{named} begins no rotation before {until:.0}. Drains that are open go on."
            )),
            None => printer.good(format_args!("{named} is not frozen.")),
        }
        Ok(())
    })
}

/// A time that is still to come, as it is or as a span from now.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let usage = |error: anyhow::Error| {
        Failure::new(Exit::Usage, error, "Write it as 2026-11-17T09:00:00Z, 90m, 2h or 1d.")
    };
    let at = match text.parse::<Timestamp>() {
        Ok(at) => at,
        Err(_) => match text.parse::<Term>() {
            Ok(Term::Span(span)) => saturating_add(now, span),
            Ok(Term::Never) => return Err(usage(anyhow!("nothing is frozen for ever"))),
            Err(_) => return Err(usage(anyhow!("{text:?} is neither a time nor a span"))),
        },
    };
    if at <= now {
        return Err(usage(anyhow!("{at:.0} is over")));
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn of(status: Value) -> Stage {
        stage(Some(&serde_json::from_value(status).expect("a status")))
    }

    #[test]
    fn whoever_was_made_in_this_second_is_rotated_and_who_comes_next_is_not() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let now = at("2026-11-17T09:00:05.25Z");
        let ms = Duration::from_millis;
        for (newest, before, wait) in [
            (None, "2026-11-17T09:00:05.25Z", ms(0)),
            (Some("2026-11-17T09:00:04Z"), "2026-11-17T09:00:05.25Z", ms(0)),
            (Some("2026-11-17T09:00:05Z"), "2026-11-17T09:00:06Z", ms(750)),
            (Some("2026-11-17T09:00:09Z"), "2026-11-17T09:00:10Z", ms(1000)),
        ] {
            assert_eq!(rotated_before(newest.map(at), now), (at(before), wait), "{newest:?}");
        }
    }

    #[test]
    fn the_way_out_is_told_step_by_step() {
        let waiting = |words: &str| Stage::Waiting(words.to_owned());
        assert_eq!(of(json!({"phase": "Ready"})), Stage::Unanswered);
        assert_eq!(
            of(json!({"next": {"why": "frozen until noon"}})),
            waiting("waits: frozen until noon")
        );
        assert_eq!(
            of(json!({"rotation": {"id": "d", "phase": "Waiting", "replacement": "web-2"}})),
            waiting("waits for its replacement, machine/web-2.")
        );
        let drain = json!({"id": "d", "deadline": "2030-01-01T00:00:00Z", "message": "2 Pods."});
        assert_eq!(
            of(json!({"rotation": {"id": "d", "phase": "Draining"}, "drain": drain})),
            waiting("is being drained until 2030-01-01T00:00:00Z: 2 Pods.")
        );
        assert_eq!(of(json!({"rotation": {"id": "d", "phase": "Deleting"}})), Stage::Drained);
        assert_eq!(stage(None), Stage::Drained, "it is gone");
    }

    #[test]
    fn a_time_or_a_span_that_is_to_come() {
        let now: Timestamp = "2026-11-16T09:00:00Z".parse().expect("a time");
        let at = |text: &str| moment(text, now).map_err(|failure| failure.error.to_string());
        assert_eq!(at("2h"), Ok(saturating_add(now, SignedDuration::from_hours(2))));
        assert_eq!(
            at("2026-11-17T09:00:00Z"),
            Ok(saturating_add(now, SignedDuration::from_hours(24)))
        );
        for (text, words) in [
            ("2026-11-16T08:00:00Z", "2026-11-16T08:00:00Z is over"),
            ("0s", "2026-11-16T09:00:00Z is over"),
            ("never", "nothing is frozen for ever"),
            ("tomorrow", "\"tomorrow\" is neither a time nor a span"),
        ] {
            assert_eq!(at(text), Err(words.to_owned()));
        }
    }
}
