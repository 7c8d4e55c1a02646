//! `sojourn plan` and `sojourn why`: what the controllers wrote into the objects, or would decide, for
//! people.

mod explain;

use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_core::term::words;

use self::explain::explain;
use super::connect::{self, ApiContext, PAGE_SIZE};
use super::family_commands::{NamedObject, UpcomingAction, family_of};
use super::table;
use crate::args::{Named, Output, Plan, Why};
use crate::exit::{Exit, Failure};

/// So many Events are shown.
const MAX_SHOWN_EVENTS: usize = 8;

pub(super) fn plan(plan: Plan) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&plan.connection).await?;
        let mut upcoming = Vec::new();
        match &plan.object {
            Some(named) => {
                let (_, object) = api_context.get(named).await?;
                upcoming = one(&api_context, &object, named).await;
            }
            None => {
                for kind in api_context.kinds().await?.into_iter().filter(|kind| kind.looked_after)
                {
                    let api = api_context.api(&kind, plan.all_namespaces);
                    let singular = kind.resource.kind.to_ascii_lowercase();
                    next_of_each(&api_context, &api, |object| {
                        let family = family_of(object);
                        if !family.is_shown_by_another(object) {
                            let named = format!("{singular}/{}", object.name_any());
                            upcoming.extend(family.open(object));
                            upcoming.extend(family.next(object, &named));
                        }
                    })
                    .await?;
                }
            }
        }
        // What has no time yet comes last.
        upcoming.sort_by_key(|one| (one.at.is_none(), one.at));
        show(&upcoming, plan.output, plan.all_namespaces)?;
        if upcoming.is_empty() && plan.output == Output::Table {
            table::write("Nothing will happen by itself.\n");
        }
        Ok(())
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

async fn next_of_each(
    api_context: &ApiContext,
    api: &Api<DynamicObject>,
    mut visit: impl FnMut(&DynamicObject),
) -> Result<(), Failure> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page =
            api.list(&params).await.map_err(|error| api_context.failed(error, "cannot list"))?;
        page.items.iter().for_each(&mut visit);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

fn show(upcoming: &[UpcomingAction], output: Output, namespaces: bool) -> Result<(), Failure> {
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
        Output::Json => return table::json(&value()),
        Output::Yaml => return table::yaml(&value()),
        Output::Name => {
            upcoming.iter().for_each(|one| table::write(&format!("{}\n", one.object)));
            return Ok(());
        }
        Output::Table if upcoming.is_empty() => return Ok(()),
        Output::Table => {}
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
    let head: &[&str] = if namespaces {
        &["AT", "IN", "ACTION", "NAMESPACE", "OBJECT", "WHY"]
    } else {
        &["AT", "IN", "ACTION", "OBJECT", "WHY"]
    };
    table::table(head, &upcoming.iter().map(row).collect::<Vec<_>>());
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
        table::write(&explain(family_of(&object), &why.object.to_string(), status, &events));
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
