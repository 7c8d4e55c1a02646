//! What the commands for every kind ask of the family that a kind is of: `sojourn plan`, `why`, `keep` and
//! `extend` walk [`FAMILIES`] and know no kind themselves. What only one family's objects can be asked for is
//! a verb of that family ([`FamilyCommands::add_verbs`]). A new family adds its module and one line there.

mod access;
mod cluster;
mod game;
mod group;
mod lab;
mod status_lines;
#[cfg(feature = "toy")]
mod toy;

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::ArgMatches;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use sojourn_api::config::{self, FamilyConfig};
use sojourn_api::family;
use sojourn_api::name::shared;

use super::connect::ApiContext;
use crate::args::{Extend, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) use self::status_lines::{StatusLines, or};

/// Every family, in the order of [`family::FAMILIES`].
const FAMILIES: &[&dyn FamilyCommands] = &[
    &lab::LabCommands,
    &group::GroupCommands,
    &access::AccessCommands,
    &game::GameCommands,
    &cluster::ClusterCommands,
    #[cfg(feature = "toy")]
    &toy::ToyCommands,
];

/// The verbs of families follow this command in the help: these are about one object, what comes after is not.
const VERBS_FOLLOW: &str = "extend";
/// How many places in the help there are for verbs.
const VERB_PLACES: usize = 100;

/// One upcoming action.
pub(super) struct UpcomingAction {
    pub(super) at: Option<Timestamp>,
    pub(super) action: String,
    pub(super) object: String,
    pub(super) namespace: String,
    pub(super) why: String,
}

/// One object, as somebody named it.
#[derive(Clone, Copy)]
pub(super) struct NamedObject<'a> {
    pub(super) named: &'a Named,
    pub(super) object: &'a DynamicObject,
}

/// A label and words.
pub(super) type RelatedLine = (&'static str, String);

/// What commands ask of a family about its objects. What is not overridden follows from the fields that
/// every kind has.
pub(super) trait FamilyCommands: Sync {
    fn name(&self) -> &'static str;

    /// Everything that lies ahead of one object, by the decision of the controllers. Nothing, if it is of a
    /// kind without a forecast, or something that matters cannot be read: then what the controllers wrote
    /// down must do.
    fn forecast<'a>(
        &'a self,
        _api_context: &'a ApiContext,
        _of: NamedObject<'a>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Option<Vec<UpcomingAction>>> {
        std::future::ready(None).boxed()
    }

    /// What comes next, as the object's status has it.
    fn next(&self, object: &DynamicObject, named: &str) -> Option<UpcomingAction> {
        NextInStatus::of(object)?.upcoming("action", named)
    }

    /// What is under way beside that, as the object's status has it.
    fn open(&self, _object: &DynamicObject) -> Vec<UpcomingAction> {
        Vec::new()
    }

    /// Whether what comes next for an object is told by another one, where all objects are listed.
    fn is_shown_by_another(&self, _object: &DynamicObject) -> bool {
        false
    }

    /// The status in words, between how the object is and its conditions.
    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/action", "/next/at"]);
        lines.kept_until();
    }

    /// What other objects have to do with how one is: lines after those of [`Self::explain`]. What cannot be read
    /// is told, and fails nothing.
    fn related<'a>(
        &'a self,
        _api_context: &'a ApiContext,
        _of: NamedObject<'a>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Vec<RelatedLine>> {
        std::future::ready(Vec::new()).boxed()
    }

    /// What to do instead, if an object is of a kind that nobody can keep.
    fn instead_of_keeping(&self, _of: NamedObject<'_>) -> Option<String> {
        None
    }

    /// Asks for more time for an object in a way of its own, if its kind has one: whoever it is lent to may
    /// neither write nor read it in the API.
    fn extend<'a>(
        &'a self,
        _asked: &'a Extend,
        _printer: Printer,
    ) -> Option<BoxFuture<'a, Result<(), Failure>>> {
        None
    }

    /// The command line with its own verbs. No two families share one.
    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        command
    }

    /// Runs the verb that was asked for; nothing, if it is none of its own.
    fn run_verb(&self, _asked: &ArgMatches, _printer: Printer) -> Option<Result<(), Failure>> {
        None
    }
}

/// The command line with the verbs of every family, where people look for them in the help.
pub(super) fn with_verbs(mut command: clap::Command) -> clap::Command {
    let mut names = subcommands(&command);
    let before = names.iter().position(|name| name == VERBS_FOLLOW).map_or(0, |at| at + 1);
    let after = names.split_off(before);
    for family in FAMILIES {
        command = family.add_verbs(command);
    }
    let is_verb = |name: &String| !names.contains(name) && !after.contains(name);
    let verbs: Vec<String> = subcommands(&command).into_iter().filter(is_verb).collect();
    for (first, names) in [(0, names), (before, verbs), (before + VERB_PLACES, after)] {
        for (place, name) in names.into_iter().enumerate() {
            command = command.mut_subcommand(name, |command| command.display_order(first + place));
        }
    }
    command
}

fn subcommands(command: &clap::Command) -> Vec<String> {
    command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// Asks for more time in the way that the object's kind has, if it is one of its own.
pub(super) fn extend(
    asked: &Extend,
    printer: Printer,
) -> Option<BoxFuture<'_, Result<(), Failure>>> {
    FAMILIES.iter().find_map(|family| family.extend(asked, printer))
}

/// Runs the verb that was asked for; nothing, if it is no family's.
pub(super) fn run_verb(asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
    FAMILIES.iter().find_map(|family| family.run_verb(asked, printer))
}

/// The verb that was asked for, if it is one of these.
fn verb<V: clap::Subcommand>(asked: &ArgMatches) -> Option<V> {
    let (name, _) = asked.subcommand()?;
    let verb = || V::from_arg_matches(asked).unwrap_or_else(|error| error.exit());
    V::has_subcommand(name).then(verb)
}

/// The family of an object.
pub(super) fn family_of(object: &DynamicObject) -> &'static dyn FamilyCommands {
    let api_version = object.types.as_ref().map(|types| types.api_version.as_str());
    let group = api_version.and_then(|version| version.split_once('/')).map(|(group, _)| group);
    let family = family::FAMILIES.iter().find(|family| Some(family.api_group) == group);
    let commands =
        family.and_then(|family| FAMILIES.iter().find(|commands| commands.name() == family.name));
    commands.map_or(&UnknownFamily, |commands| *commands)
}

/// The kinds of a newer API than this program.
struct UnknownFamily;

impl FamilyCommands for UnknownFamily {
    fn name(&self) -> &'static str {
        "unknown"
    }
}

/// `status.next` of an object.
struct NextInStatus<'a> {
    object: &'a DynamicObject,
    next: &'a Value,
}

impl<'a> NextInStatus<'a> {
    fn of(object: &'a DynamicObject) -> Option<Self> {
        Some(Self { object, next: object.data.pointer("/status/next")? })
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        self.next.get(field).and_then(Value::as_str)
    }

    /// The same as a row of `plan`, with what is done taken from a field.
    fn upcoming(&self, action: &str, named: &str) -> Option<UpcomingAction> {
        Some(UpcomingAction {
            at: self.text("at").and_then(|at| at.parse().ok()),
            action: self.text(action)?.to_owned(),
            object: named.to_owned(),
            namespace: self.object.namespace().unwrap_or_default(),
            why: self.text("why").unwrap_or_default().to_owned(),
        })
    }
}

fn kind_of(object: &DynamicObject) -> Option<&str> {
    object.types.as_ref().map(|types| types.kind.as_str())
}

/// A family's options. Nothing, if they cannot be read.
async fn options<T: FamilyConfig>(api_context: &ApiContext) -> Option<T> {
    let maps: Api<ConfigMap> = Api::namespaced(api_context.client.clone(), shared::NAMESPACE);
    let data = maps.get_opt(shared::CONFIG_MAP).await.ok()?.and_then(|map| map.data);
    config::parse(&data.unwrap_or_else(BTreeMap::new)).ok()
}

/// The object, if it is of the kind that something can be done to.
fn of_kind<K>(named: &Named, object: DynamicObject, example: &str, done: &str) -> Result<K, Failure>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    if kind != K::kind(&()) {
        let error = anyhow!("{named} is nothing that is {done}");
        return Err(Failure::new(Exit::Usage, error, format!("Name one that is: {example}.")));
    }
    object.try_parse().map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("cannot read {named}"));
        Failure::new(Exit::Negative, error, "Is this sojourn as new as the API's kinds?")
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use serde_json::json;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_family_of_the_api_answers_commands() {
        let answering: Vec<_> = FAMILIES.iter().map(|family| family.name()).collect();
        let known: Vec<_> = family::FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(answering, known);
    }

    /// A family's verb would be another's, or a command for every kind: the first one would win.
    #[test]
    fn no_two_families_share_a_verb() {
        let mut known = subcommands(&Args::command());
        for family in FAMILIES {
            for verb in subcommands(&family.add_verbs(clap::Command::new("sojourn"))) {
                assert!(!known.contains(&verb), "{verb} of {} is there already", family.name());
                known.push(verb);
            }
        }
        let all = subcommands(&with_verbs(Args::command()));
        assert_eq!(all.len(), known.len(), "{all:?}");
        for verb in ["stop", "freeze"] {
            let asked = with_verbs(Args::command())
                .try_get_matches_from(["sojourn", verb, "instance/alice", "--help"])
                .expect_err("help is printed instead");
            assert_eq!(asked.kind(), clap::error::ErrorKind::DisplayHelp, "{verb}");
        }
    }

    #[test]
    fn an_object_is_of_the_family_of_its_api_group() {
        let object = |api_version: &str| {
            let object = json!({
                "apiVersion": api_version, "kind": "Thing",
                "metadata": {"name": "one", "namespace": "default"},
                "status": {"next": {"at": "2030-01-01T00:00:00Z", "action": "End", "why": "so"}},
            });
            serde_json::from_value::<DynamicObject>(object).expect("an object")
        };
        for (api_version, name) in [
            ("lab.sojourn.dev/v1alpha1", "lab"),
            ("group.sojourn.dev/v1alpha1", "group"),
            ("access.sojourn.dev/v1alpha1", "access"),
            ("game.sojourn.dev/v1alpha1", "game"),
            ("cluster.sojourn.dev/v1alpha1", "cluster"),
            ("newer.sojourn.dev/v1", "unknown"),
            ("v1", "unknown"),
        ] {
            assert_eq!(family_of(&object(api_version)).name(), name, "{api_version}");
        }
        let newer = object("newer.sojourn.dev/v1");
        let next = family_of(&newer).next(&newer, "thing/one").expect("it is in the status");
        assert_eq!((&*next.action, &*next.object, &*next.why), ("End", "thing/one", "so"));
    }
}
