//! Requests and limits: their rules, their sums over containers, and the quality-of-service class
//! that follows from them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::super::grammar::{Errors, NEGATIVE, push_texts, quantity, unsupported};
use super::default::round_amount;
use crate::field::{FieldError, Path};
use crate::go::quantity::Quantity;
use crate::json::{Access, Object, object_mut};
use crate::name;

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// Of the standard ones, those that are counted in whole units.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES: &str = "hugepages-";
const COMPUTE: [&str; 2] = ["cpu", "memory"];

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Whose requests and limits are checked: the two allow different resources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Pod,
    Container,
}

pub(crate) fn round_list(parent: &mut Object, key: &str) {
    let list = parent.get_mut(key).and_then(Value::as_object_mut);
    for (_, amount) in list.into_iter().flatten() {
        round_amount(amount);
    }
}

pub(super) fn validate_requirements(
    errors: &mut Errors,
    path: &Path<'_>,
    requirements: &Value,
    scope: Scope,
    pod_claims: &BTreeSet<&str>,
) {
    let limits = requirements.at("limits");
    let limits_path = path.field("limits");
    let requests_path = path.field("requests");
    let (mut compute, mut huge_pages) = (false, false);
    for (name, amount) in requirements.entries("limits") {
        let at = limits_path.key(name);
        validate_amount(errors, &at, name, amount, scope);
        compute |= COMPUTE.contains(&name.as_str());
        huge_pages |= name.starts_with(HUGE_PAGES);
    }
    for (name, amount) in requirements.entries("requests") {
        let at = requests_path.key(name);
        // The limit's own check has spoken of the name already, but upstream says it twice.
        resource_name(errors, &at, name, scope);
        quantity_value(errors, &at, name, amount);
        let requested = quantity(amount);
        match limits.get(name).map(quantity) {
            Some(limit) if requested != limit && !may_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid_text(
                    &requests_path,
                    &requested.canonical(),
                    detail,
                ));
            }
            Some(limit) if requested > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid_text(
                    &requests_path,
                    &requested.canonical(),
                    detail,
                ));
            }
            None if !may_overcommit(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits_path, detail));
            }
            _ => {}
        }
        huge_page_multiple(errors, &at, name, &requested);
        compute |= COMPUTE.contains(&name.as_str());
        huge_pages |= name.starts_with(HUGE_PAGES);
    }
    if huge_pages && !compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claims(errors, &path.field("claims"), requirements.list("claims"), pod_claims);
}

fn validate_amount(errors: &mut Errors, path: &Path<'_>, name: &str, amount: &Value, scope: Scope) {
    resource_name(errors, path, name, scope);
    quantity_value(errors, path, name, amount);
    huge_page_multiple(errors, path, name, &quantity(amount));
}

/// Not negative, and whole where the resource is counted.
pub(crate) fn quantity_value(errors: &mut Errors, path: &Path<'_>, name: &str, amount: &Value) {
    let amount = quantity(amount);
    if amount.is_negative() {
        errors.push(FieldError::invalid_text(path, &amount.canonical(), NEGATIVE));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && amount.has_fraction() {
        errors.push(FieldError::invalid_text(path, &amount.canonical(), "must be an integer"));
    }
}

fn huge_page_multiple(errors: &mut Errors, path: &Path<'_>, name: &str, amount: &Quantity) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else {
        return;
    };
    let size = Quantity::parse(size).unwrap_or(Quantity::ZERO);
    let divides = size.is_positive() && (amount.is_zero() || amount.is_multiple_of(&size));
    if !divides {
        let text = amount.canonical();
        let detail = format!("{text} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid_text(path, &text, detail));
    }
}

fn resource_name(errors: &mut Errors, path: &Path<'_>, name: &str, scope: Scope) {
    let before = errors.len();
    push_texts(errors, path, name, name::qualified_name(name));
    let plain = !name.contains('/');
    let huge = name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-");
    if errors.len() == before && plain && !STANDARD.contains(&name) && !huge {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid_text(path, name, detail));
    }
    match scope {
        Scope::Pod if errors.len() == before && !is_pod_level(name) => {
            errors.push(unsupported(path, name, &["cpu", "hugepages-", "memory"]));
        }
        Scope::Pod => {}
        Scope::Container if plain => {
            let standard = ["cpu", "memory", "ephemeral-storage"].contains(&name);
            if !standard && !name.starts_with(HUGE_PAGES) {
                let detail = "must be a standard resource for containers";
                errors.push(FieldError::invalid_text(path, name, detail));
            }
        }
        Scope::Container => {
            if !is_native(name) && !is_extended(name) {
                let detail = "doesn't follow extended resource name standard";
                errors.push(FieldError::invalid_text(path, name, detail));
            }
        }
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && name::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn is_pod_level(name: &str) -> bool {
    COMPUTE.contains(&name) || name.starts_with(HUGE_PAGES)
}

fn claims(errors: &mut Errors, path: &Path<'_>, claims: &[Value], pod_claims: &BTreeSet<&str>) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    // How many requests of each claim there were.
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (i, claim) in claims.iter().enumerate() {
        let at = path.index(i);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        } else {
            if !request.is_empty() {
                push_texts(errors, &at.field("request"), request, name::dns1123_label(request));
            }
            if seen.contains(&(name, request)) {
                let key = format!("{name}/{request}");
                errors.push(FieldError::duplicate(&at, &key.into()));
            } else if request.is_empty() {
                for _ in 0..counts.get(name).copied().unwrap_or_default() {
                    errors.push(FieldError::duplicate(&at, &name.into()));
                }
            }
            seen.insert((name, request));
            *counts.entry(name).or_default() += 1;
        }
        if !pod_claims.contains(name) {
            errors.push_with(|| {
                let sorted: Vec<&str> = pod_claims.iter().copied().collect();
                let mut error = FieldError::not_found(&at, &name.into());
                error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
                if sorted.is_empty() {
                    error.detail.push_str(" which is empty");
                } else {
                    error.detail.push_str(&format!(": {}", sorted.join(", ")));
                }
                error
            });
        }
    }
}

/// The Pod's own `resources`, and that its containers fit into them.
pub(super) fn validate_pod_level(
    errors: &mut Errors,
    spec: &Value,
    spec_path: &Path<'_>,
    pod_claims: &BTreeSet<&str>,
) {
    let resources = spec.at("resources");
    if resources.is_null() {
        return;
    }
    let path = spec_path.field("resources");
    if spec.at("os").text("name") == "windows" {
        errors.push(FieldError::forbidden(&path, "may not be set for a windows pod"));
        return;
    }
    if !resources.at("claims").is_null() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.field("claims"), detail));
    }
    validate_requirements(errors, &path, resources, Scope::Pod, pod_claims);
    for (which, huge_only) in [("requests", false), ("limits", true)] {
        let lists = path.field(which);
        for (name, sum) in aggregate(spec, which) {
            let Some(given) = resources.at(which).get(name).map(quantity) else {
                continue;
            };
            if sum > given && (!huge_only || name.starts_with(HUGE_PAGES)) {
                let detail = format!(
                    "must be greater than or equal to aggregate container {which} of {sum}"
                );
                errors.push(FieldError::invalid_text(&lists.key(name), &given.canonical(), detail));
            }
        }
    }
    let containers = path.field("containers");
    for (i, container) in spec.list("containers").iter().enumerate() {
        let at = containers.index(i);
        for (name, limit) in container.at("resources").entries("limits") {
            let Some(most) = resources.at("limits").get(name).map(quantity) else {
                continue;
            };
            let limit = quantity(limit);
            if limit > most {
                let key = at.key(name);
                let detail = format!("must be less than or equal to pod limits of {most}");
                let at = key.field("limits");
                errors.push(FieldError::invalid_text(&at, &limit.canonical(), detail));
            }
        }
    }
}

/// What all containers need together: the running ones added up, or more if an init container,
/// with the sidecars started before it, needs more.
fn aggregate<'a>(spec: &'a impl Access, which: &str) -> Amounts<'a> {
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, amounts(container, which));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in spec.list("initContainers") {
        let mut needed = amounts(container, which);
        if container.text("restartPolicy") == "Always" {
            add(&mut total, needed.clone());
            add(&mut sidecars, needed.clone());
            // Of what it does not need itself, no more is needed than before.
            for (name, amount) in &mut needed {
                if let Some(sum) = sidecars.get(name) {
                    amount.clone_from(sum);
                }
            }
        } else {
            for (name, amount) in &mut needed {
                if let Some(sum) = sidecars.get(name) {
                    *amount = amount.plus(sum);
                }
            }
        }
        raise(&mut peak, needed);
    }
    raise(&mut peak, sidecars);
    raise(&mut total, peak);
    total
}

fn amounts<'a>(container: &'a Value, which: &str) -> Amounts<'a> {
    let list = container.at("resources").at(which).as_object();
    list.into_iter().flatten().map(|(name, amount)| (name.as_str(), quantity(amount))).collect()
}

fn add<'a>(total: &mut Amounts<'a>, more: Amounts<'a>) {
    for (name, amount) in more {
        total
            .entry(name)
            .and_modify(|sum| *sum = sum.plus(&amount))
            .or_insert_with(|| amount.clone());
    }
}

fn raise<'a>(total: &mut Amounts<'a>, other: Amounts<'a>) {
    for (name, amount) in other {
        let entry = total.entry(name).or_insert_with(|| amount.clone());
        if amount > *entry {
            *entry = amount;
        }
    }
}

/// Fills a Pod's own `resources` where they are given in part.
pub(super) fn default_pod_level(spec: &mut Object) {
    let resources = spec.at("resources");
    let has = |which: &str| resources.at(which).as_object().is_some_and(|list| !list.is_empty());
    let (limited, requested) = (has("limits"), has("requests"));
    if !limited && !requested {
        return;
    }
    let mut limits: Vec<(String, Value)> = Vec::new();
    for (name, sum) in aggregate(&*spec, "limits") {
        let given = |which: &str| resources.at(which).get(name).is_some();
        if name.starts_with(HUGE_PAGES) && !given("limits") && !given("requests") {
            limits.push((name.to_owned(), sum.canonical().into()));
        }
    }
    let mut requests: Vec<(String, Value)> = Vec::new();
    if limited || !limits.is_empty() {
        for (name, sum) in aggregate(&*spec, "requests") {
            if COMPUTE.contains(&name) {
                requests.push((name.to_owned(), sum.canonical().into()));
            }
        }
    }
    let resources = object_mut(spec, "resources");
    if !limits.is_empty() {
        object_mut(resources, "limits").extend(limits);
    }
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else {
        return;
    };
    let from_limits = limits.iter().filter(|(name, _)| is_pod_level(name));
    requests.extend(from_limits.map(|(name, amount)| (name.clone(), amount.clone())));
    let list = object_mut(resources, "requests");
    for (name, amount) in requests {
        list.entry(name).or_insert(amount);
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let mut requests = Amounts::new();
    let mut limits = Amounts::new();
    let mut guaranteed = true;
    let pod_level = spec.at("resources");
    if pod_level.is_object() {
        requests = positive_compute(spec, "requests");
        limits = positive_compute(spec, "limits");
        let limited = pod_level.entries("limits").next().is_some();
        guaranteed = !limited || limits.len() == COMPUTE.len();
    } else {
        for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
            let limited = positive_compute(container, "limits");
            guaranteed &= limited.len() == COMPUTE.len();
            add(&mut requests, positive_compute(container, "requests"));
            add(&mut limits, limited);
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn positive_compute<'a>(holder: &'a Value, which: &str) -> Amounts<'a> {
    let mut list = amounts(holder, which);
    list.retain(|name, amount| COMPUTE.contains(name) && amount.is_positive());
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::growth::assert_in_proportion;

    #[test]
    fn claims_that_there_are_not_take_time_in_proportion_to_their_number() {
        let names = |count: usize| {
            let asked: Vec<Value> = (0..count).map(|i| json!({"name": format!("d{i}")})).collect();
            let given: Vec<String> = (0..count).map(|i| format!("c{i}")).collect();
            (asked, given)
        };
        assert_in_proportion(4_000, names, |(asked, given)| {
            let given: BTreeSet<&str> = given.iter().map(String::as_str).collect();
            let mut errors = Errors::new();
            claims(&mut errors, &Path::new("claims"), &asked, &given);
            assert_eq!(errors.len(), asked.len());
            errors
        });
    }
}
