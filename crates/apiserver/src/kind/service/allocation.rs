//! What a Service gets from the cluster: its address and its node ports.
//!
//! Upstream allocates before it validates, so these run first: [`begin_create`] or [`begin_update`],
//! then [`allocate_cluster_ip`] and [`allocate_node_ports`] with the caller's pools. The cluster has one
//! address family.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::super::grammar::Errors;
use super::address_rules::cluster_ips;
use super::{needs_cluster_ip, needs_health_check, needs_node_port};
use crate::field::{FieldError, Path};
use crate::json::{Access, Object, object_mut};

/// The family of the cluster's Service addresses.
const FAMILY: &str = "IPv4";
const OTHER_FAMILY: &str = "IPv6";

/// Fills in the address fields of a new Service as far as they follow from each other.
pub(crate) fn begin_create(service: &mut Object) -> Result<(), Errors> {
    let spec = object_mut(service, "spec");
    let single = spec.text("clusterIP");
    if !single.is_empty() && spec.list("clusterIPs").is_empty() {
        let list = json!([single]);
        spec.insert("clusterIPs".to_owned(), list);
    }
    init_families(service, None)
}

/// The same for an update, which may leave out what the Service was given.
pub(crate) fn begin_update(new: &mut Object, old: &Object) -> Result<(), Errors> {
    keep_allocated(object_mut(new, "spec"), old.at("spec"));
    normalize_cluster_ips(object_mut(new, "spec"), old.at("spec"));
    init_families(new, Some(old))
}

fn keep_allocated(spec: &mut Object, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        if spec.text("clusterIP").is_empty() && !old.text("clusterIP").is_empty() {
            spec.insert("clusterIP".to_owned(), old.text("clusterIP").into());
        }
        if spec.list("clusterIPs").is_empty() && !old.list("clusterIPs").is_empty() {
            spec.insert("clusterIPs".to_owned(), old.at("clusterIPs").clone());
        }
    }
    if needs_node_port(old) && needs_node_port(spec) {
        let new_ports = node_port_numbers(spec.list("ports"));
        let mut taken = node_port_numbers(old.list("ports"));
        taken.retain(|port| new_ports.contains(port));
        let by_name: HashMap<&str, i64> = old
            .list("ports")
            .iter()
            .map(|port| (port.text("name"), port.int("nodePort").unwrap_or_default()))
            .collect();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            if port.int("nodePort").unwrap_or_default() != 0 {
                continue;
            }
            let known = by_name.get(port.text("name")).copied().unwrap_or_default();
            if known != 0 && !taken.contains(&known) {
                port.insert("nodePort".to_owned(), known.into());
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(spec)
        && spec.int("healthCheckNodePort").unwrap_or_default() == 0
        && let Some(port) = old.int("healthCheckNodePort")
    {
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
}

/// A client that knows only the single address changes the list through it.
fn normalize_cluster_ips(spec: &mut Object, old: &Value) {
    let (single, old_single) = (spec.text("clusterIP"), old.text("clusterIP"));
    if single == old_single {
        if spec.list("clusterIPs").is_empty() && !old.list("clusterIPs").is_empty() {
            spec.insert("clusterIPs".to_owned(), old.at("clusterIPs").clone());
        }
        return;
    }
    if spec.list("clusterIPs") != old.list("clusterIPs") {
        return;
    }
    if single.is_empty() {
        spec.remove("clusterIPs");
    } else {
        let list = json!([single]);
        spec.insert("clusterIPs".to_owned(), list);
    }
}

fn init_families(service: &mut Object, old: Option<&Object>) -> Result<(), Errors> {
    if !needs_cluster_ip(service.at("spec")) {
        return Ok(());
    }
    let old_spec = old.map_or(&Value::Null, |old| old.at("spec"));
    let spec = object_mut(service, "spec");
    let selectorless = spec.text("clusterIP") == "None"
        && spec.at("selector").as_object().is_none_or(serde_json::Map::is_empty);
    if spec.at("ipFamilyPolicy").is_null() {
        let policy = match old_spec.text("ipFamilyPolicy") {
            "" if selectorless => "RequireDualStack",
            "" => "SingleStack",
            policy => policy,
        };
        let policy = Value::String(policy.to_owned());
        spec.insert("ipFamilyPolicy".to_owned(), policy);
    }
    let mut errors = Errors::new();
    cluster_ips(&mut errors, service, old);
    if !errors.is_empty() {
        return Err(errors);
    }
    let spec = object_mut(service, "spec");
    if old.is_some() {
        release_second(&mut errors, spec, old_spec);
    }
    check_policy(&mut errors, spec);
    families_of_ips(&mut errors, spec);
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy = spec.text("ipFamilyPolicy").to_owned();
    let path = Path::new("spec");
    if selectorless {
        // Nothing is allocated: whoever writes the endpoints decides.
        if spec.list("ipFamilies").is_empty() {
            spec.insert("ipFamilies".to_owned(), json!([FAMILY]));
        }
        if spec.list("ipFamilies").len() < 2 && policy != "SingleStack" {
            let first = spec.list("ipFamilies")[0].as_str().unwrap_or_default();
            let second = if first == FAMILY { OTHER_FAMILY } else { FAMILY };
            let both = json!([first, second]);
            spec.insert("ipFamilies".to_owned(), both);
        }
        return Ok(());
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid_text(&path.field("ipFamilyPolicy"), &policy, detail));
    }
    let at = path.field("ipFamilies");
    for (i, family) in spec.list("ipFamilies").iter().enumerate() {
        if family.as_str() != Some(FAMILY) {
            errors.push(FieldError::invalid(
                &at.index(i),
                family,
                "not configured on this cluster",
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if spec.list("ipFamilies").is_empty() {
        spec.insert("ipFamilies".to_owned(), json!([FAMILY]));
    }
    Ok(())
}

/// What only two families need goes when the policy says one, and not otherwise.
fn release_second(errors: &mut Errors, spec: &mut Object, old: &Value) {
    let path = Path::new("spec");
    let policy = spec.at("ipFamilyPolicy").clone();
    for (member, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (new, old) = (spec.list(member), old.list(member));
        if policy.as_str() == Some("SingleStack") {
            if new == old && new.len() > 1 {
                let first = json!([new[0]]);
                spec.insert(member.to_owned(), first);
            }
        } else if !new.is_empty() && new.len() < old.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(FieldError::invalid(&path.field("ipFamilyPolicy"), &policy, detail));
        }
    }
}

fn check_policy(errors: &mut Errors, spec: &Object) {
    if spec.text("ipFamilyPolicy") != "SingleStack" {
        return;
    }
    let path = Path::new("spec");
    let at = path.field("ipFamilyPolicy");
    for (member, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec.list(member).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.push(FieldError::invalid_text(&at, "SingleStack", detail));
        }
    }
}

/// An address that is asked for says which family is wanted.
fn families_of_ips(errors: &mut Errors, spec: &mut Object) {
    let path = Path::new("spec");
    let at = path.field("clusterIPs");
    let mut families = spec.list("ipFamilies").to_vec();
    for (i, ip) in spec.list("clusterIPs").iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if ip == "None" {
            break;
        }
        if i < families.len() {
            continue;
        }
        if ip.contains(':') {
            let detail = format!("{OTHER_FAMILY} is not configured on this cluster");
            errors.push(FieldError::invalid(&at.index(i), spec.at("clusterIPs"), detail));
        } else {
            families.push(FAMILY.into());
        }
    }
    if !families.is_empty() {
        spec.insert("ipFamilies".to_owned(), Value::Array(families));
    }
}

/// Gives the Service its address. `allocate` takes the address that is asked for, if one is, and
/// says why it cannot be given.
pub(crate) fn allocate_cluster_ip(
    service: &mut Object,
    mut allocate: impl FnMut(Option<&str>) -> Result<String, String>,
) -> Result<(), Errors> {
    let spec = object_mut(service, "spec");
    let wanted = spec.list("clusterIPs").first().and_then(Value::as_str);
    if !needs_cluster_ip(spec) || wanted == Some("None") {
        return Ok(());
    }
    match allocate(wanted) {
        Ok(ip) => {
            spec.insert("clusterIPs".to_owned(), json!([ip]));
            spec.insert("clusterIP".to_owned(), ip.into());
            Ok(())
        }
        Err(why) => {
            let path = Path::new("spec");
            let detail = match wanted {
                Some(ip) => format!("failed to allocate IP {ip}: {why}"),
                None => format!("failed to allocate IP: {why}"),
            };
            let shown = spec.at("clusterIPs");
            Err(FieldError::invalid(&path.field("clusterIPs"), shown, detail).into())
        }
    }
}

/// Whether the Service has an address of its own, to be given back when it goes.
pub(crate) fn cluster_ip(service: &Object) -> Option<&str> {
    let ip = service.at("spec").text("clusterIP");
    (!ip.is_empty() && ip != "None").then_some(ip)
}

/// Gives the Service the node ports that it needs and has not: of `held` it has, from before.
/// `allocate` takes the port that is asked for, if one is, and says why it cannot be given.
pub(crate) fn allocate_node_ports(
    service: &mut Object,
    held: &BTreeSet<i64>,
    mut allocate: impl FnMut(Option<i64>) -> Result<i64, String>,
) -> Result<(), Errors> {
    let spec = object_mut(service, "spec");
    let path = Path::new("spec");
    let refused = |at: &Path<'_>, port: i64, why: String| -> Errors {
        FieldError::invalid(at, &port.into(), why).into()
    };
    if matches!(spec.text("type"), "NodePort" | "LoadBalancer") {
        let automatic = needs_node_port(spec);
        // The first node port that is asked for, of each port.
        let mut asked: HashMap<i64, i64> = HashMap::new();
        for port in spec.list("ports") {
            let number = |member: &str| port.int(member).unwrap_or_default();
            if number("nodePort") != 0 {
                asked.entry(number("port")).or_insert(number("nodePort"));
            }
        }
        // The same port of two protocols gets one node port.
        let mut given: HashMap<i64, i64> = HashMap::new();
        let ports_path = path.field("ports");
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for (i, port) in ports.into_iter().flatten().filter_map(Value::as_object_mut).enumerate() {
            let number = port.int("port").unwrap_or_default();
            let own = port.int("nodePort").unwrap_or_default();
            if own == 0 && !automatic {
                continue;
            }
            let wanted = match (given.get(&number), own) {
                (Some(shared), 0) => {
                    port.insert("nodePort".to_owned(), (*shared).into());
                    continue;
                }
                (Some(shared), own) if *shared == own => continue,
                (Some(_), own) => Some(own),
                (None, _) => asked.get(&number).copied(),
            };
            let got = match wanted {
                Some(wanted) if held.contains(&wanted) => wanted,
                wanted => allocate(wanted).map_err(|why| {
                    let at = ports_path.index(i);
                    refused(&at.field("nodePort"), wanted.unwrap_or_default(), why)
                })?,
            };
            port.insert("nodePort".to_owned(), got.into());
            given.entry(number).or_insert(got);
        }
    }
    if needs_health_check(spec) {
        let wanted = spec.int("healthCheckNodePort").filter(|port| *port != 0);
        let got = match wanted {
            Some(wanted) if held.contains(&wanted) => wanted,
            wanted => allocate(wanted).map_err(|why| {
                refused(&path.field("healthCheckNodePort"), wanted.unwrap_or_default(), why)
            })?,
        };
        spec.insert("healthCheckNodePort".to_owned(), got.into());
    }
    Ok(())
}

/// All node ports that a Service has, to be given back when it goes.
pub(crate) fn node_ports(service: &Object) -> BTreeSet<i64> {
    let spec = service.at("spec");
    let health = spec.int("healthCheckNodePort").filter(|port| *port != 0);
    node_port_numbers(spec.list("ports")).into_iter().chain(health).collect()
}

fn node_port_numbers(ports: &[Value]) -> Vec<i64> {
    ports.iter().filter_map(|port| port.int("nodePort")).filter(|port| *port != 0).collect()
}
