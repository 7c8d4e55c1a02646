//! What lies ahead of one Instance: the controllers' own decision, asked again and again with time
//! passing, as if nobody used it and every notice arrived.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::lab::convert::{OptOuts, intent, read_state};
use sojourn_api::lab::{Instance, LabConfig, Template};
use sojourn_core::coverage::Coverage;
use sojourn_core::lab::forecast;
use sojourn_core::lab::observed::{Observed, Pods};
use sojourn_core::lab::state::{InstanceState, UpcomingAction};

use super::super::super::connect::ApiContext;
use super::super::{kind_of, options};

/// So many steps are foreseen: both ladders, with some to spare.
const MAX_FORECAST_STEPS: usize = 16;

/// The coming steps of an Instance. Nothing, if it is none, or something that matters cannot be read: then what
/// the controllers wrote down must do.
pub(super) async fn upcoming_steps(
    api_context: &ApiContext,
    object: &DynamicObject,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    if kind_of(object) != Some(&*Instance::kind(&())) {
        return None;
    }
    let instance: Instance = object.clone().try_parse().ok()?;
    let own = instance.namespace()?;
    let named = &instance.spec.template;
    let home = named.namespace.as_deref().unwrap_or(&own);
    let templates: Api<Template> = Api::namespaced(api_context.client.clone(), home);
    let template = templates.get_opt(&named.name).await.ok()?;
    let namespaces: Api<Namespace> = Api::all(api_context.client.clone());
    let namespace = namespaces.get(&own).await.ok()?;
    let opt_outs = OptOuts::of(namespace.labels(), namespace.annotations());
    let config: LabConfig = options(api_context).await?;
    if !config.covers(namespace.labels()) {
        return None;
    }
    let intent = intent(&instance, template.as_ref(), opt_outs, &config).ok()?;
    let state = read_state(instance.status.as_ref());
    let next = instance.status.as_ref().and_then(|status| status.next.as_ref());
    let never_ready = intent.running && state.power.ready_at.is_none();
    // What it waits for may be seen by the controllers alone, such as a claim without a volume.
    if never_ready && next.is_some_and(|next| next.at.is_none()) {
        return None;
    }
    let seen_by = coverage(&state, intent.created_at, now).lagging(intent.inactivity.tick);
    let seen = Observed {
        coverage: &[&seen_by],
        blind: state.activity.blind,
        pods: match intent.running {
            true if never_ready => Pods::Some,
            true => Pods::AllReady,
            false => Pods::Gone,
        },
        ..Observed::default()
    };
    Some(forecast(state, &seen, &intent, now, MAX_FORECAST_STEPS))
}

/// As if one source had seen everything, unless the object says that one is blind.
fn coverage(state: &InstanceState, created: Timestamp, now: Timestamp) -> Coverage {
    let mut coverage = Coverage::starting(state.activity.since.unwrap_or(created));
    let until = state.activity.blind.unwrap_or(now);
    coverage.mark_observed(coverage.since(), until);
    coverage.mark_blind(until, now);
    coverage
}
