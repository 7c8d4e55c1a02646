//! What lies ahead of a group: the rotations that are open, and those that the controllers' own
//! decision would begin with time passing.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::group::convert::{group_intent, machine_intent, read_group, read_machine};
use sojourn_api::group::status::{
    Health as Told, MachineStatus, OpenRotation, Phase, RotationPhase, RotationStatus,
};
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_api::name::group as name;
use sojourn_core::group::forecast;
use sojourn_core::group::intent::{Fleet, Intent};
use sojourn_core::group::observed::{Health, Observed, ObservedMachine, Power, ProviderMachine};
use sojourn_core::group::state::{self, GroupState};
use sojourn_core::known::Known;

use super::super::super::connect::{ApiContext, PAGE_SIZE};
use super::super::{UpcomingAction, kind_of, options};
use super::{action, is_shown_by_its_group};

/// So many rotations are foreseen.
const MAX_FORECAST_ROTATIONS: usize = 10;

/// The rotations of a group that are open, as its status shows them.
pub(super) fn open(object: &DynamicObject) -> Vec<UpcomingAction> {
    let rotations = object.data.pointer("/status/rotations").cloned().unwrap_or_default();
    let rotations: Vec<OpenRotation> = serde_json::from_value(rotations).unwrap_or_default();
    let upcoming = |rotation: OpenRotation| UpcomingAction {
        at: rotation.drain_deadline.as_ref().map(|time| time.0),
        action: action(&rotation.reason.map(|reason| format!("{reason:?}")).unwrap_or_default()),
        object: format!("machine/{}", rotation.machine),
        namespace: object.namespace().unwrap_or_default(),
        why: under_way(&MachineStatus {
            rotation: Some(RotationStatus {
                reason: rotation.reason,
                phase: rotation.phase,
                replacement: rotation.replacement,
                ..RotationStatus::default()
            }),
            ..MachineStatus::default()
        }),
    };
    rotations.into_iter().map(upcoming).collect()
}

/// The open rotations and the coming ones: of a group, or of one machine of a group. Nothing, if it is
/// neither, or something that matters cannot be read: then what the controllers wrote down must do.
pub(super) async fn upcoming_rotations(
    api_context: &ApiContext,
    object: &DynamicObject,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    if is_shown_by_its_group(object) {
        let machine: Machine = object.clone().try_parse().ok()?;
        let groups: Api<InstanceGroup> =
            Api::namespaced(api_context.client.clone(), &machine.namespace()?);
        let group = groups.get_opt(machine.spec.group.as_deref()?).await.ok()??;
        let upcoming = upcoming_of_group(api_context, &group, now).await?;
        return Some(upcoming_of_machine(upcoming, &machine));
    }
    if kind_of(object) != Some(&*InstanceGroup::kind(&())) {
        return None;
    }
    upcoming_of_group(api_context, &object.clone().try_parse().ok()?, now).await
}

/// What of its group's plan is about one machine; else when it grows too old, which is further away.
fn upcoming_of_machine(
    mut upcoming: Vec<UpcomingAction>,
    machine: &Machine,
) -> Vec<UpcomingAction> {
    let named = format!("machine/{}", machine.name_any());
    upcoming.retain(|one| one.object == named);
    let expires_at = machine.status.as_ref().and_then(|status| status.expires_at.as_ref());
    if let (true, Some(expires_at)) = (upcoming.is_empty(), expires_at) {
        upcoming.push(UpcomingAction {
            at: Some(expires_at.0),
            action: "Replace".to_owned(),
            object: named,
            namespace: machine.namespace().unwrap_or_default(),
            why: "it is old enough then, and waits for its turn".to_owned(),
        });
    }
    upcoming
}

async fn upcoming_of_group(
    api_context: &ApiContext,
    group: &InstanceGroup,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    let config: GroupConfig = options(api_context).await?;
    let machines = machines(api_context, &group.namespace()?, &group.name_any()).await?;
    let fleet =
        Fleet { max: config.max_rotations, others: rotations_of_others(api_context, group).await? };
    forecast_of(group, &machines, &config, fleet, now)
}

/// How many rotations that [`Fleet`] counts are open in all other groups.
async fn rotations_of_others(api_context: &ApiContext, group: &InstanceGroup) -> Option<u32> {
    let api: Api<InstanceGroup> = Api::all(api_context.client.clone());
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut open = 0_u32;
    loop {
        let page = api.list(&params).await.ok()?;
        let others = page.items.iter().filter(|other| other.uid() != group.uid());
        open = others.map(counted_rotations).fold(open, u32::saturating_add);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Some(open),
        }
    }
}

/// The open rotations of a group that count towards `maxRotations`.
fn counted_rotations(group: &InstanceGroup) -> u32 {
    let rotations = group.status.iter().flat_map(|status| &status.rotations);
    let counts = rotations.filter(|rotation| {
        rotation.reason.is_some_and(|reason| Fleet::COUNTS.contains(&reason.into()))
    });
    u32::try_from(counts.count()).unwrap_or(u32::MAX)
}

/// The same, of what was read.
fn forecast_of(
    group: &InstanceGroup,
    machines: &[Machine],
    config: &GroupConfig,
    fleet: Fleet,
    now: Timestamp,
) -> Option<Vec<UpcomingAction>> {
    let namespace = group.namespace()?;
    let intent = Intent { fleet: Some(fleet), ..group_intent(group, config).ok()?.intent };
    let mut state =
        GroupState { group: read_group(group.status.as_ref()), ..GroupState::default() };
    let mut seen = Observed::default();
    let mut requested = Vec::new();
    for machine in machines {
        let name: Arc<str> = machine.name_any().into();
        let status = machine.status.clone().unwrap_or_default();
        requested.push(machine_intent(machine).ok()?.machine);
        seen.machines.insert(name.clone(), seen_in_status(&status, now));
        state.machines.insert(name, read_machine(Some(&status)));
    }
    let row = |at, action, machine: &str, why| UpcomingAction {
        at,
        action,
        object: format!("machine/{machine}"),
        namespace: namespace.clone(),
        why,
    };
    let open = machines.iter().filter_map(|machine| {
        let status = machine.status.as_ref()?;
        let rotation = status.rotation.as_ref()?;
        let reason = rotation.reason.map(|reason| format!("{reason:?}")).unwrap_or_default();
        let at = rotation.drain_deadline.as_ref().map(|time| time.0);
        Some(row(at, action(&reason), &machine.name_any(), under_way(status)))
    });
    let mut upcoming: Vec<UpcomingAction> = open.collect();
    let foreseen = forecast(state, &requested, &seen, &intent, now, MAX_FORECAST_ROTATIONS);
    upcoming.extend(foreseen.into_iter().map(|step: state::NextRotation| {
        row(step.at, action(&format!("{:?}", step.cause)), &step.machine, step.why.to_string())
    }));
    Some(upcoming)
}

/// The managed machines of a group.
async fn machines(api_context: &ApiContext, namespace: &str, group: &str) -> Option<Vec<Machine>> {
    let api: Api<Machine> = Api::namespaced(api_context.client.clone(), namespace);
    let selected = format!("{}={group}", name::GROUP);
    let mut params = ListParams::default().labels(&selected).limit(PAGE_SIZE);
    let mut machines = Vec::new();
    loop {
        let page = api.list(&params).await.ok()?;
        machines.extend(page.items.into_iter().filter(|machine| !machine.spec.on_demand));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Some(machines),
        }
    }
}

/// How the machine is, as far as its status tells.
fn seen_in_status(status: &MachineStatus, now: Timestamp) -> ObservedMachine {
    let power = match status.phase.unwrap_or_default() {
        Phase::Pending | Phase::Failed => None,
        Phase::Provisioning => Some(Power::Pending),
        Phase::Registered | Phase::Ready | Phase::Draining => Some(Power::Running),
        Phase::Deleting => Some(Power::Deleting),
    };
    let found = power.map(|power| ProviderMachine {
        id: status.provider_id.as_deref().unwrap_or_default().into(),
        power,
        interruption: status.interrupted_at.as_ref().map(|time| time.0),
    });
    let health = match status.health {
        Some(Told::Healthy) => Known::Is(Health::Ready),
        // Its condition says since when, so that what follows from it does not move with every look.
        Some(Told::Unhealthy) => {
            let unhealthy =
                status.conditions.iter().find(|one| one.type_ == name::condition::HEALTHY);
            let since = unhealthy.map_or(now, |unhealthy| unhealthy.last_transition_time.0);
            let observed = now.duration_since(since).max(SignedDuration::ZERO);
            Known::Is(Health::Unhealthy { observed })
        }
        Some(Told::Unknown) | None => Known::Unknown,
    };
    ObservedMachine { provider: found.into(), health, ..ObservedMachine::default() }
}

/// What an open rotation waits for.
fn under_way(status: &MachineStatus) -> String {
    let Some(rotation) = &status.rotation else { return String::new() };
    let reason = rotation.reason.map(|reason| format!("{reason:?}, ")).unwrap_or_default();
    match (rotation.phase, &rotation.replacement, &status.drain) {
        (Some(RotationPhase::Draining), _, Some(drain)) if !drain.message.is_empty() => {
            format!("{reason}draining: {}", drain.message)
        }
        (Some(RotationPhase::Draining), ..) => format!("{reason}draining"),
        (Some(RotationPhase::Deleting), ..) => format!("{reason}being deleted"),
        (_, Some(replacement), _) => format!("{reason}waits for machine/{replacement}"),
        (_, None, _) => format!("{reason}begins"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sojourn_api::group::convert::template_hash;

    use super::*;

    const BORN: &str = "2030-01-01T00:00:00Z";
    /// No other group has an open rotation.
    const ALONE: Fleet = Fleet { max: 100, others: 0 };

    fn group() -> InstanceGroup {
        serde_json::from_value(json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
            "metadata": {"name": "web", "namespace": "shop", "uid": "g"},
            "spec": {
                "size": 3, "template": {"provider": "fake", "config": {}},
                "drainTimeout": "5m", "expiry": {"eligibleAge": "1h"},
            },
        }))
        .expect("a group")
    }

    /// One that is ready, with what `status` adds.
    fn machine(group: &InstanceGroup, name: &str, status: &Value) -> Machine {
        let mut object = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "creationTimestamp": BORN,
            },
            "spec": {
                "group": "web", "template": group.spec.template,
                "templateHash": template_hash(&group.spec.template),
            },
            "status": {
                "phase": "Ready", "health": "Healthy", "providerID": name,
                "askedAt": BORN, "registeredAt": BORN, "servedAt": BORN, "readyAt": BORN,
            },
        });
        for (field, value) in status.as_object().into_iter().flatten() {
            object["status"][field] = value.clone();
        }
        serde_json::from_value(object).expect("a machine")
    }

    #[test]
    fn the_rotations_of_a_group_come_one_after_the_other() {
        let group = group();
        let nothing = json!({});
        let machines = ["web-a", "web-b", "web-c"].map(|name| machine(&group, name, &nothing));
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().expect("a time");
        let upcoming = forecast_of(&group, &machines, &GroupConfig::default(), ALONE, now)
            .expect("a good group");
        let rows: Vec<_> = upcoming[..3].iter().map(|one| (&*one.object, &*one.action)).collect();
        let all = ["machine/web-a", "machine/web-b", "machine/web-c"];
        assert_eq!(rows, all.map(|object| (object, "Replace")));
        let begun: Vec<Timestamp> = upcoming[..3].iter().filter_map(|one| one.at).collect();
        let due: Timestamp = "2030-01-01T01:00:00Z".parse().expect("a time");
        let late = begun[0].duration_since(due).as_secs();
        assert!((0..=1).contains(&late), "{begun:?}");
        // Nobody answers a drain before its time, and the next waits for that.
        for pair in begun.windows(2) {
            assert!(pair[1].duration_since(pair[0]).as_mins() >= 5, "{begun:?}");
        }
    }

    #[test]
    fn a_group_that_waits_for_others_has_no_time_and_says_so() {
        let group = group();
        let machines = [machine(&group, "web-a", &json!({}))];
        let late: Timestamp = "2030-01-01T03:00:00Z".parse().expect("a time");
        let fleet = Fleet { max: 2, others: 2 };
        let upcoming = forecast_of(&group, &machines, &GroupConfig::default(), fleet, late)
            .expect("a good group");
        assert_eq!((upcoming.len(), upcoming[0].at), (1, None));
        assert!(upcoming[0].why.contains("maxRotations"), "{}", upcoming[0].why);
        let mut other = group;
        other.status = serde_json::from_value(json!({"rotations": [
            {"machine": "a", "id": "1", "reason": "Expired", "phase": "Draining"},
            {"machine": "b", "id": "2", "reason": "Manual", "phase": "Draining"},
            {"machine": "c", "id": "3", "reason": "Forced", "phase": "Waiting"},
        ]}))
        .expect("a status");
        assert_eq!(counted_rotations(&other), 2, "what people order does not count");
    }

    #[test]
    fn what_is_under_way_comes_with_its_deadline() {
        let group = group();
        let deadline = "2030-01-01T00:12:00Z";
        let rotation = json!({
            "id": "d", "reason": "Manual", "tier": "Eligible", "phase": "Draining",
            "startedAt": BORN, "drainDeadline": deadline,
        });
        let drain = json!({"id": "d", "startedAt": BORN, "deadline": deadline});
        let draining = json!({"phase": "Draining", "rotation": rotation, "drain": drain});
        let machines = [machine(&group, "web-a", &draining)];
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().expect("a time");
        let upcoming = forecast_of(&group, &machines, &GroupConfig::default(), ALONE, now)
            .expect("a good group");
        let first = &upcoming[0];
        assert_eq!((&*first.object, &*first.why), ("machine/web-a", "Manual, draining"));
        assert_eq!(first.at.map(|at| at.to_string()).as_deref(), Some(deadline));
    }

    #[test]
    fn open_drains_are_part_of_the_plan_of_everything_and_of_their_machine() {
        let object = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
            "metadata": {"name": "web", "namespace": "shop"},
            "status": {"rotations": [{
                "machine": "web-a", "id": "d", "reason": "Expired", "phase": "Draining",
                "drainDeadline": "2030-01-01T00:12:00Z",
            }]},
        });
        let all = open(&serde_json::from_value(object).expect("an object"));
        let row = (&*all[0].object, &*all[0].action, &*all[0].why);
        assert_eq!(row, ("machine/web-a", "Replace", "Expired, draining"));
        assert_eq!(all[0].at.map(|at| at.to_string()).as_deref(), Some("2030-01-01T00:12:00Z"));
        let group = group();
        let expires = json!({"expiresAt": "2030-01-01T01:00:00Z"});
        let [a, b] = ["web-a", "web-b"].map(|name| machine(&group, name, &expires));
        let of_a = upcoming_of_machine(all, &a);
        assert_eq!(of_a.len(), 1);
        let of_b = upcoming_of_machine(of_a, &b);
        assert_eq!((of_b.len(), &*of_b[0].object), (1, "machine/web-b"), "when it is too old");
        assert!(upcoming_of_machine(Vec::new(), &machine(&group, "web-c", &json!({}))).is_empty());
    }

    #[test]
    fn an_open_rotation_says_what_it_waits_for() {
        let words = |status: Value| under_way(&serde_json::from_value(status).expect("a status"));
        let rotation = |phase: &str| json!({"id": "d", "reason": "Expired", "phase": phase});
        assert_eq!(words(json!({"rotation": rotation("Draining")})), "Expired, draining");
        assert_eq!(
            words(
                json!({"rotation": rotation("Draining"), "drain": {"id": "d", "message": "1 Pod"}})
            ),
            "Expired, draining: 1 Pod"
        );
        assert_eq!(words(json!({"rotation": rotation("Deleting")})), "Expired, being deleted");
        let waiting = json!({"id": "d", "phase": "Waiting", "replacement": "web-2"});
        assert_eq!(words(json!({"rotation": waiting})), "waits for machine/web-2");
    }

    #[test]
    fn a_machine_is_taken_for_what_its_status_says() {
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().expect("a time");
        let seen_of =
            |status: Value| seen_in_status(&serde_json::from_value(status).expect("a status"), now);
        let ill = json!({
            "type": "Healthy", "status": "False", "reason": "NotReady", "message": "",
            "lastTransitionTime": "2030-01-01T00:08:00Z",
        });
        let ill =
            seen_of(json!({"phase": "Registered", "health": "Unhealthy", "conditions": [ill]}));
        let observed = SignedDuration::from_mins(2);
        assert_eq!(
            ill.health,
            Known::Is(Health::Unhealthy { observed }),
            "since its condition says so"
        );
        let ready = seen_of(json!({"phase": "Ready", "health": "Healthy", "providerID": "p"}));
        let found = ProviderMachine { id: "p".into(), power: Power::Running, interruption: None };
        assert_eq!((ready.provider, ready.health), (Known::Is(found), Known::Is(Health::Ready)));
        assert_eq!(
            seen_of(json!({"phase": "Pending"})),
            ObservedMachine { provider: Known::Absent, ..ObservedMachine::default() }
        );
    }
}
