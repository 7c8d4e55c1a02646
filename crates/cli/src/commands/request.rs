//! `sojourn keep` and `sojourn extend`: what owners ask for, whatever the kind. Each is a small write to
//! the object; what becomes of it is decided by the controllers, and said here.

use std::cmp::Ordering;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use sojourn_api::name::shared;
use sojourn_core::moment::saturating_add;
use sojourn_core::term::Term;

use super::connect::{self, ApiContext};
use super::family_commands::{self, NamedObject, family_of};
use crate::args::{Extend, Keep, Named};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// How long a controller may take to answer a request, and how often it is looked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// So much later what comes next is wanted, unless it is said.
const EXTENSION: &str = "1h";

pub(super) fn keep(keep: Keep, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&keep.connection).await?;
        let until = match &keep.until {
            Some(text) => {
                text.parse().with_context(|| format!("{text:?} is no time")).map_err(|error| {
                    Failure::new(Exit::Usage, error, "Write it as 2026-11-17T09:00:00Z.")
                })?
            }
            None => saturating_add(Timestamp::now(), span(&keep.span)?),
        };
        let (api, object) = api_context.get_managed(&keep.object).await?;
        can_be_kept(&keep.object, &object)?;
        keep_until(&api_context, &api, &keep.object, until, printer).await
    })
}

pub(super) fn extend(extend: Extend, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        if let Some(extending) = family_commands::extend(&extend, printer) {
            return extending.await;
        }
        let api_context = ApiContext::find(&extend.connection).await?;
        let by = span(extend.by.as_deref().unwrap_or(EXTENSION))?;
        let (api, object) = api_context.get_managed(&extend.object).await?;
        can_be_kept(&extend.object, &object)?;
        let time =
            |path: &str| -> Option<Timestamp> { object.data.pointer(path)?.as_str()?.parse().ok() };
        let now = Timestamp::now();
        let from = [time("/status/next/at"), time("/status/keep/until")].into_iter().flatten();
        let until = saturating_add(from.fold(now, Timestamp::max), by);
        keep_until(&api_context, &api, &extend.object, until, printer).await
    })
}

pub(super) fn span(text: &str) -> Result<SignedDuration, Failure> {
    let usage = |error| Failure::new(Exit::Usage, error, "Write it as 90m, 2h or 1d.");
    let term: Term = text.parse().map_err(anyhow::Error::from).map_err(usage)?;
    term.span().ok_or_else(|| usage(anyhow!("nothing is kept for ever")))
}

/// Not everything that is looked after can be kept; whoever asks is told at once, and what to do.
fn can_be_kept(named: &Named, object: &DynamicObject) -> Result<(), Failure> {
    match family_of(object).instead_of_keeping(NamedObject { named, object }) {
        Some(advice) => {
            Err(Failure::new(Exit::Usage, anyhow!("{named} is nothing that is kept"), advice))
        }
        None => Ok(()),
    }
}

/// Writes the request down and says how much of it was given.
async fn keep_until(
    api_context: &ApiContext,
    api: &Api<DynamicObject>,
    named: &Named,
    until: Timestamp,
    printer: Printer,
) -> Result<(), Failure> {
    let request = format!("{until:.0}");
    if until <= Timestamp::now() {
        let error = anyhow!("{named} cannot be kept until {request}: that is over");
        return Err(Failure::new(Exit::Usage, error, "Choose a time that is still to come."));
    }
    annotate(api_context, api, named, shared::KEEP_UNTIL, &request).await?;
    match wait_for(api, named, |object| answer(object, &request)).await {
        Some(RequestOutcome::Given(given)) => {
            let more = match given.cmp(&request) {
                Ordering::Less => "; nothing is kept for longer at a time",
                Ordering::Equal => "",
                Ordering::Greater => " already",
            };
            printer.good(format_args!("{named} is kept until {given}{more}."));
            Ok(())
        }
        Some(RequestOutcome::UsedUp) => {
            let error = anyhow!("{named} was given no more time: its allowance is used up");
            Err(Failure::new(Exit::Negative, error, "Using it keeps it, too."))
        }
        None => {
            let error = anyhow!("nobody has answered the wish to keep {named} until {request}");
            let advice = format!("Are the controllers running? See: sojourn why {named}.");
            Err(Failure::new(Exit::Negative, error, advice))
        }
    }
}

/// What became of a request.
enum RequestOutcome {
    /// It is kept until then.
    Given(String),
    UsedUp,
}

fn answer(object: &DynamicObject, request: &str) -> Option<RequestOutcome> {
    let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
    let given = text("/status/keep/until");
    if text("/status/keep/asked") == Some(request) {
        return given.map(|until| RequestOutcome::Given(until.to_owned()));
    }
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let used_up = conditions.iter().any(|one| {
        let field = |name: &str| one.get(name).and_then(Value::as_str);
        field("status") == Some("True") && field("reason") == Some("KeepAllowanceUsedUp")
    });
    // A request for no more than was given costs nothing, so it is not refused.
    let more = given.is_none_or(|given| given < request);
    (used_up && more).then_some(RequestOutcome::UsedUp)
}

pub(super) async fn annotate(
    api_context: &ApiContext,
    api: &Api<DynamicObject>,
    named: &Named,
    annotation: &str,
    value: &str,
) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    api.patch(&named.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
        .map_err(|error| api_context.failed(error, &format!("cannot change {named}")))
}

/// Looks until a controller has answered, for a while.
async fn wait_for<T>(
    api: &Api<DynamicObject>,
    named: &Named,
    answer: impl Fn(&DynamicObject) -> Option<T>,
) -> Option<T> {
    let look = async {
        loop {
            if let Ok(object) = api.get(&named.name).await
                && let Some(found) = answer(&object)
            {
                return found;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(ANSWER_TIMEOUT, look).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_refused_with_what_to_do_instead() {
        let judged = |family: &str, kind: &str, spec: Value| {
            let object = json!({
                "apiVersion": format!("{family}.sojourn.dev/v1alpha1"), "kind": kind,
                "metadata": {"name": "web"}, "spec": spec,
            });
            let object: DynamicObject = serde_json::from_value(object).expect("an object");
            let named: Named = "machine/web".parse().expect("a name");
            can_be_kept(&named, &object).map_err(|failure| failure.error.to_string())
        };
        let refused = Err("machine/web is nothing that is kept".to_owned());
        assert_eq!(judged("group", "InstanceGroup", json!({"size": 1})), refused);
        assert_eq!(judged("group", "Machine", json!({"onDemand": true})), refused);
        assert_eq!(judged("lab", "Template", json!({})), refused);
        assert_eq!(judged("group", "Machine", json!({"group": "web"})), Ok(()));
        assert_eq!(judged("lab", "Instance", json!({"running": true})), Ok(()));
    }
}
