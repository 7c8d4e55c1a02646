//! `sojourn plan` and `sojourn why`: what the controllers wrote into the objects, or would decide, for
//! people.

mod explain;
mod view;

use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_core::term::words;

use self::explain::explain;
use self::view::View;
use super::connect::{self, ApiContext};
use super::family_commands::{NamedObject, UpcomingAction, family_of};
use super::table;
use crate::args::{ListOutput, Named, Output, Plan, Why};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// So many Events are shown.
const MAX_SHOWN_EVENTS: usize = 8;
/// What is left out where there is no room, the least first: how far away a time is tells when it is, and
/// why something comes is told by `sojourn why`.
const MIN_COLUMNS: [&[&str]; 4] = [&["AT"], &["WHY"], &["AT", "WHY"], &["AT", "WHY", "NAMESPACE"]];
/// What is done to an object when nobody keeps it any more.
const KEEP_ENDS: &str = "KeepEnds";

pub(super) fn plan(plan: Plan, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&plan.connection).await?;
        let now = Timestamp::now();
        let mut upcoming = Vec::new();
        match &plan.object {
            Some(named) => {
                let (_, object) = api_context.get(named).await?;
                upcoming.extend(keep_end(&object, &named.to_string(), now));
                upcoming.extend(one(&api_context, &object, named).await);
            }
            None => {
                let kinds = api_context.kinds().await?;
                if kinds.is_empty() {
                    return Err(api_context.no_kinds());
                }
                let asked = plan.connection.namespace.as_deref().filter(|_| !plan.all_namespaces);
                let mut view = View::new(&api_context, asked);
                for kind in kinds.iter().filter(|kind| kind.looked_after) {
                    let singular = kind.resource.kind.to_ascii_lowercase();
                    let visit = |object: &DynamicObject| {
                        let family = family_of(object);
                        let named = format!("{singular}/{}", object.name_any());
                        upcoming.extend(keep_end(object, &named, now));
                        if !family.is_shown_by_another(object) {
                            upcoming.extend(family.open(object));
                            upcoming.extend(family.next(object, &named));
                        }
                    };
                    view.visit(kind, visit).await?;
                }
                view.tell(printer)?;
            }
        }
        // What has no time yet comes last.
        upcoming.sort_by_key(|one| (one.at.is_none(), one.at));
        let namespaces = plan.all_namespaces || plan.connection.namespace.is_none();
        show(&upcoming, plan.output, namespaces && plan.object.is_none(), printer)?;
        if upcoming.is_empty() && matches!(plan.output, ListOutput::Table | ListOutput::Wide) {
            table::write("Nothing will happen by itself.\n");
        }
        Ok(())
    })
}

/// When an object is kept no longer, if it is kept.
fn keep_end(object: &DynamicObject, named: &str, now: Timestamp) -> Option<UpcomingAction> {
    let until: Timestamp = object.data.pointer("/status/keep/until")?.as_str()?.parse().ok()?;
    (until > now).then(|| UpcomingAction {
        at: Some(until),
        action: KEEP_ENDS.to_owned(),
        object: named.to_owned(),
        namespace: object.namespace().unwrap_or_default(),
        why: "somebody asked to keep it until then".to_owned(),
    })
}

/// Everything that lies ahead of one object; where that cannot be worked out, what was written down.
async fn one(
    api_context: &ApiContext,
    object: &DynamicObject,
    named: &Named,
) -> Vec<UpcomingAction> {
    let family = family_of(object);
    let of = NamedObject { named, object };
    match family.forecast(api_context, of, Timestamp::now()).await {
        Some(upcoming) => upcoming,
        None => family.next(object, &named.to_string()).into_iter().collect(),
    }
}

fn show(
    upcoming: &[UpcomingAction],
    output: ListOutput,
    namespaces: bool,
    printer: Printer,
) -> Result<(), Failure> {
    let value = || {
        let one = |c: &UpcomingAction| {
            json!({
                "at": c.at.map(|at| format!("{at:.0}")), "action": c.action, "object": c.object,
                "namespace": c.namespace, "why": c.why,
            })
        };
        Value::Array(upcoming.iter().map(one).collect())
    };
    match output {
        ListOutput::Json => return table::json(&value()),
        ListOutput::Yaml => return table::yaml(&value()),
        ListOutput::Name => {
            upcoming.iter().for_each(|one| table::write(&format!("{}\n", one.object)));
            return Ok(());
        }
        ListOutput::Table | ListOutput::Wide if upcoming.is_empty() => return Ok(()),
        ListOutput::Table | ListOutput::Wide => {}
    }
    let now = Timestamp::now();
    let row = |one: &UpcomingAction| {
        let mut row = vec![
            one.at.map_or_else(|| "unknown".to_owned(), |at| format!("{at:.0}")),
            one.at.map_or_else(String::new, |at| distance(now, at)),
            one.action.clone(),
        ];
        if namespaces {
            row.push(one.namespace.clone());
        }
        row.extend([one.object.clone(), one.why.clone()]);
        row
    };
    let head: &[&'static str] = if namespaces {
        &["AT", "IN", "ACTION", "NAMESPACE", "OBJECT", "WHY"]
    } else {
        &["AT", "IN", "ACTION", "OBJECT", "WHY"]
    };
    let rows: Vec<_> = upcoming.iter().map(row).collect();
    let out = match output {
        ListOutput::Wide => &[][..],
        _ => table::left_out(head, &rows, &MIN_COLUMNS, table::room()),
    };
    let (head, rows) = table::without(head, rows, out);
    table::table(&head, &rows);
    if !out.is_empty() {
        printer.line(format_args!(
            "Without {}, for want of room; all of it: -o wide.",
            out.join(", ")
        ));
    }
    Ok(())
}

/// How far away a time is, in the two largest units.
fn distance(now: Timestamp, at: Timestamp) -> String {
    let span = at.duration_since(now);
    let seconds = if span.is_negative() { 0 } else { span.as_secs() };
    let rounded = match seconds {
        0..3600 => seconds,
        3600..86_400 => seconds - seconds % 60,
        _ => seconds - seconds % 3600,
    };
    words(jiff::SignedDuration::from_secs(rounded))
}

pub(super) fn why(why: Why) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&why.connection).await?;
        let (_, object) = api_context.get_managed(&why.object).await?;
        let Some(status) = object.data.get("status") else {
            let error = anyhow!("nothing has been said about {} yet", why.object);
            return Err(Failure::new(Exit::Negative, error, "Are the controllers running?"));
        };
        match why.output {
            Output::Json => return table::json(status),
            Output::Yaml => return table::yaml(status),
            Output::Name => {
                table::write(&format!("{}\n", why.object));
                return Ok(());
            }
            Output::Table => {}
        }
        let events = events(&api_context, &object).await;
        let (family, named) = (family_of(&object), why.object.to_string());
        let of = NamedObject { named: &why.object, object: &object };
        let related = family.related(&api_context, of, Timestamp::now()).await;
        table::write(&explain(family, &named, status, &related, &events));
        Ok(())
    })
}

/// The newest Events about the object, oldest first; none, where they cannot be read.
async fn events(api_context: &ApiContext, object: &DynamicObject) -> Vec<Event> {
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let api: Api<Event> = Api::namespaced(api_context.client.clone(), &namespace);
    let uid = object.uid().unwrap_or_default();
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let mut events = api.list(&params).await.map(|list| list.items).unwrap_or_default();
    events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    let older = events.len().saturating_sub(MAX_SHOWN_EVENTS);
    events.split_off(older)
}
