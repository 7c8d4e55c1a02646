//! Services.

mod address_rules;
pub(crate) mod allocation;
mod warning;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use self::address_rules::{cluster_ips, external_ips, fixed_cluster_ips, fixed_families};
use super::address;
use super::grammar::{
    Errors, PROTOCOLS, labels, one_of, port_number, port_number_or_name, push_texts, unsupported,
};
use super::pod::{default, internal};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go::address::parse_sloppy;
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::warning::Warnings;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// Three hours.
const DEFAULT_AFFINITY_SECONDS: i64 = 10800;
const MAX_AFFINITY_SECONDS: i64 = 86400;
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

#[derive(Debug)]
pub(crate) struct Service;

impl Kind for Service {
    fn default(&self, obj: &mut Object) {
        let spec = object_mut(obj, "spec");
        default::default_text(spec, "sessionAffinity", "None");
        match spec.text("sessionAffinity") {
            "None" => {
                spec.remove("sessionAffinityConfig");
            }
            "ClientIP" => {
                let config = spec.at("sessionAffinityConfig").at("clientIP");
                if config.at("timeoutSeconds").is_null() {
                    let config = json!({"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}});
                    spec.insert("sessionAffinityConfig".to_owned(), config);
                }
            }
            _ => {}
        }
        default::default_text(spec, "type", "ClusterIP");
        default_ports(spec);
        if is_external(spec) {
            default::default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        match spec.text("type") {
            "NodePort" | "LoadBalancer" | "ClusterIP" => {
                default::default_value(spec, "internalTrafficPolicy", "Cluster");
            }
            "ExternalName" => {
                spec.remove("internalTrafficPolicy");
            }
            _ => {}
        }
        if spec.text("type") == "LoadBalancer" {
            default::default_value(spec, "allocateLoadBalancerNodePorts", true);
            default_ingress_modes(obj);
        }
    }

    fn prepare_create(&self, obj: &mut Object) {
        obj.insert("status".to_owned(), json!({"loadBalancer": {}}));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        drop_type_dependent(new, old);
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
        object_mut(object_mut(new, "status"), "loadBalancer");
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_any(errors, obj, None);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        fixed_cluster_ips(errors, new, old);
        fixed_families(errors, new, old);
        load_balancer_class(errors, new, Some(old));
        let port = "healthCheckNodePort";
        if needs_health_check(new.at("spec"))
            && needs_health_check(old.at("spec"))
            && new.at("spec").int(port) != old.at("spec").int(port)
        {
            let path = Path::new("spec");
            errors.push(FieldError::forbidden(&path.field(port), "field is immutable"));
        }
        validate_any(errors, new, Some(old));
    }

    fn validate_status_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        load_balancer_status(errors, new, old);
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Warnings {
        warning::warnings(new)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        Cow::Borrowed(match label {
            "spec.clusterIP" => obj.at("spec").text("clusterIP"),
            "spec.type" => obj.at("spec").text("type"),
            _ => "",
        })
    }
}

fn default_ports(spec: &mut Object) {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        default::default_text(port, "protocol", "TCP");
        let target = port.at("targetPort");
        let unset = match target {
            Value::String(name) => name.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            _ => true,
        };
        if unset {
            let number = port.int("port").unwrap_or_default();
            port.insert("targetPort".to_owned(), number.into());
        }
    }
}

fn default_ingress_modes(obj: &mut Object) {
    let balancer = obj.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
    let ingress = balancer.and_then(|balancer| balancer.get_mut("ingress"));
    let ingress = ingress.and_then(Value::as_array_mut);
    for item in ingress.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !item.text("ip").is_empty() {
            default::default_value(item, "ipMode", "VIP");
        }
    }
}

/// Whether traffic from outside the cluster can reach it.
fn is_external(spec: &impl Access) -> bool {
    match spec.text("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.list("externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &impl Access) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

fn needs_cluster_ip(spec: &impl Access) -> bool {
    spec.text("type") != "ExternalName"
}

fn has_node_ports(spec: &impl Access) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// Whether every port without a node port gets one.
fn needs_node_port(spec: &impl Access) -> bool {
    let allocates = spec.at("allocateLoadBalancerNodePorts").as_bool() != Some(false);
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => allocates,
        _ => false,
    }
}

fn is_headless(spec: &Value) -> bool {
    spec.list("clusterIPs") == ["None"]
}

/// A type that does not use a field sheds it, unless the writer changed the field too: then it
/// is for validation to refuse.
fn drop_type_dependent(new: &mut Object, old: &Object) {
    let old_spec = old.at("spec");
    let same = |spec: &Object, member: &str| spec.at(member) == old_spec.at(member);
    let spec = object_mut(new, "spec");
    if needs_cluster_ip(old_spec) && !needs_cluster_ip(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for member in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, member) {
                spec.remove(member);
            }
        }
    }
    let node_ports = |spec: &Value| -> HashSet<i64> {
        let ports = spec.list("ports").iter().filter_map(|port| port.int("nodePort"));
        ports.filter(|port| *port != 0).collect()
    };
    let new_ports: Value = spec.get("ports").cloned().unwrap_or_default();
    // Ports may have come and gone, as long as no new node port is asked for.
    let nothing_new = node_ports(&json!({ "ports": new_ports })).is_subset(&node_ports(old_spec));
    if has_node_ports(old_spec) && !has_node_ports(spec) && nothing_new {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if needs_health_check(old_spec)
        && !needs_health_check(spec)
        && same(spec, "healthCheckNodePort")
    {
        spec.remove("healthCheckNodePort");
    }
    let balanced = spec.text("type") == "LoadBalancer";
    if old_spec.text("type") == "LoadBalancer" && !balanced {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, member) {
                spec.remove(member);
            }
        }
    }
    if is_external(old_spec) && !is_external(spec) && same(spec, "externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
    if !balanced {
        object_mut(new, "status").insert("loadBalancer".to_owned(), json!({}));
    }
}

fn validate_any(errors: &mut Errors, service: &Object, old: Option<&Object>) {
    let annotations = service.at("metadata").at("annotations");
    let metadata = Path::new("metadata");
    let annotations_path = metadata.field("annotations");
    let (hints, mode) = (annotations.get(TOPOLOGY_HINTS), annotations.get(TOPOLOGY_MODE));
    if let (Some(hints), Some(mode)) = (hints, mode)
        && hints != mode
    {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(FieldError::invalid(&annotations_path.key(TOPOLOGY_MODE), mode, detail));
    }
    let spec = service.at("spec");
    let path = Path::new("spec");
    let kind = spec.text("type");
    let headless = is_headless(spec);
    let ports_path = path.field("ports");
    let ports = spec.list("ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required(&ports_path, ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let at = path.field("clusterIPs");
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid_text(&at.index(0), "None", detail));
        }
        "ExternalName" => external_name(errors, &path, spec),
        _ => {}
    }
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        validate_port(errors, &ports_path.index(i), port, ports.len() > 1, &mut names);
    }
    labels(errors, &path.field("selector"), spec.at("selector"));
    session_affinity(errors, &path, spec);
    cluster_ips(errors, service, old);
    external_ips(errors, &path.field("externalIPs"), spec, old);
    if kind.is_empty() {
        errors.push(FieldError::required(&path.field("type"), ""));
    } else {
        one_of(errors, &path.field("type"), kind, &TYPES);
    }
    if kind == "ClusterIP" {
        for (i, port) in ports.iter().enumerate() {
            if port.int("nodePort").unwrap_or_default() != 0 {
                let at = ports_path.index(i);
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(FieldError::forbidden(&at.field("nodePort"), detail));
            }
        }
    }
    duplicate_ports(errors, &ports_path, ports);
    source_ranges(errors, service, old);
    let allocates = spec.at("allocateLoadBalancerNodePorts");
    if !allocates.is_null() && kind != "LoadBalancer" {
        let at = path.field("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(&at, ONLY_LOAD_BALANCER));
    }
    if allocates.is_null() && kind == "LoadBalancer" {
        errors.push(FieldError::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    load_balancer_class(errors, service, None);
    traffic_policies(errors, &path, spec);
}

fn external_name(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for member in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.at(member).is_null() {
            let detail = "may not be set for ExternalName services";
            errors.push(FieldError::forbidden(&path.field(member), detail));
        }
    }
    let target = spec.text("externalName");
    let target = target.strip_suffix('.').unwrap_or(target);
    let at = path.field("externalName");
    if target.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        push_texts(errors, &at, target, name::dns1123_subdomain(target));
    }
}

fn validate_port<'a>(
    errors: &mut Errors,
    path: &Path<'_>,
    port: &'a Value,
    named: bool,
    names: &mut HashSet<&'a str>,
) {
    let name = port.text("name");
    if !name.is_empty() {
        push_texts(errors, &path.field("name"), name, name::dns1123_label(name));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.field("name"), &name.into()));
        }
    } else if named {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    port_number(errors, &path.field("port"), port.int("port").unwrap_or_default());
    match port.text("protocol") {
        "" => errors.push(FieldError::required(&path.field("protocol"), "")),
        protocol => one_of(errors, &path.field("protocol"), protocol, &PROTOCOLS),
    }
    port_number_or_name(errors, &path.field("targetPort"), port.at("targetPort"));
    if let Some(protocol) = port.at("appProtocol").as_str() {
        push_texts(errors, &path.field("appProtocol"), protocol, name::qualified_name(protocol));
    }
}

fn duplicate_ports(errors: &mut Errors, path: &Path<'_>, ports: &[Value]) {
    let (mut node_ports, mut numbers) = (HashSet::new(), HashSet::new());
    for (i, port) in ports.iter().enumerate() {
        let node_port = port.int("nodePort").unwrap_or_default();
        if node_port != 0 && !node_ports.insert((port.text("protocol"), node_port)) {
            let at = path.index(i);
            errors.push(FieldError::duplicate(&at.field("nodePort"), &node_port.into()));
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let number = port.int("port").unwrap_or_default();
        if !numbers.insert((port.text("protocol"), number)) {
            let key = json!({"protocol": port.at("protocol"), "port": number});
            let mut error = FieldError::duplicate(&path.index(i), &Value::Null);
            error.value = Some(internal::compact(internal::SERVICE_PORT, &key));
            errors.push(error);
        }
    }
}

fn session_affinity(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let affinity = spec.text("sessionAffinity");
    if affinity.is_empty() {
        errors.push(FieldError::required(&path.field("sessionAffinity"), ""));
    } else {
        one_of(errors, &path.field("sessionAffinity"), affinity, &["ClientIP", "None"]);
    }
    let config = path.field("sessionAffinityConfig");
    if affinity == "ClientIP" {
        let timeout = spec.at("sessionAffinityConfig").at("clientIP").int("timeoutSeconds");
        let timeout = timeout.unwrap_or_default();
        if timeout <= 0 || timeout > MAX_AFFINITY_SECONDS {
            let at = config.field("clientIP");
            let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
            errors.push(FieldError::invalid(&at.field("timeoutSeconds"), &timeout.into(), detail));
        }
    }
}

fn source_ranges(errors: &mut Errors, service: &Object, old: Option<&Object>) {
    let spec = service.at("spec");
    let balanced = spec.text("type") == "LoadBalancer";
    let ranges = spec.list("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let path = Path::new("spec");
        // Capitalised upstream, and clients see it so.
        let at = path.field("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(FieldError::forbidden(&at, ONLY_LOAD_BALANCER));
        }
        let existing = old.map_or(&[][..], |old| old.at("spec").list("loadBalancerSourceRanges"));
        for (i, range) in ranges.iter().enumerate() {
            let range = range.as_str().unwrap_or_default().trim();
            address::cidr(errors, &at.index(i), range, existing);
        }
        return;
    }
    let annotations = service.at("metadata").at("annotations");
    let Some(text) = annotations.get(SOURCE_RANGES).and_then(Value::as_str) else {
        return;
    };
    let metadata = Path::new("metadata");
    let path = metadata.field("annotations");
    let at = path.key(SOURCE_RANGES);
    if !balanced {
        errors.push(FieldError::forbidden(&at, ONLY_LOAD_BALANCER));
    }
    let before = old.map_or("", |old| old.at("metadata").at("annotations").text(SOURCE_RANGES));
    if (old.is_none() || before != text) && !text.trim().is_empty() {
        for range in text.trim().split(',') {
            address::cidr(errors, &at, range.trim(), &[]);
        }
    }
}

fn load_balancer_class(errors: &mut Errors, new: &Object, old: Option<&Object>) {
    let path = Path::new("spec");
    let at = path.field("loadBalancerClass");
    let spec = new.at("spec");
    let class = spec.at("loadBalancerClass");
    let balanced = spec.text("type") == "LoadBalancer";
    if let Some(old) = old.map(|old| old.at("spec"))
        && balanced
        && old.text("type") == "LoadBalancer"
        && old.at("loadBalancerClass") != class
    {
        errors.push(FieldError::invalid(&at, class, "may not change once set"));
    }
    match class.as_str() {
        Some(class) if balanced => push_texts(errors, &at, class, name::qualified_name(class)),
        Some(_) => errors.push(FieldError::forbidden(&at, ONLY_LOAD_BALANCER)),
        None => {}
    }
}

fn traffic_policies(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let at = path.field("externalTrafficPolicy");
    let policy = spec.text("externalTrafficPolicy");
    match (is_external(spec), policy) {
        (false, "") => {}
        (false, policy) => {
            let detail = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid_text(&at, policy, detail));
        }
        (true, "") => errors.push(FieldError::required(&at, "")),
        (true, policy) => one_of(errors, &at, policy, &["Cluster", "Local"]),
    }
    let at = path.field("healthCheckNodePort");
    let port = spec.int("healthCheckNodePort").unwrap_or_default();
    if needs_health_check(spec) {
        if port == 0 {
            errors.push(FieldError::required(&at, ""));
        } else {
            port_number(errors, &at, port);
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is \
                      'Local'";
        errors.push(FieldError::invalid(&at, &port.into(), detail));
    }
    let at = path.field("internalTrafficPolicy");
    match spec.at("internalTrafficPolicy").as_str() {
        None if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&spec.text("type")) => {
            errors.push(FieldError::required(&at, ""));
        }
        None => {}
        Some(policy) => one_of(errors, &at, policy, &["Cluster", "Local"]),
    }
    if let Some(distribution) = spec.at("trafficDistribution").as_str() {
        let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !supported.contains(&distribution) {
            let at = path.field("trafficDistribution");
            errors.push(unsupported(&at, distribution, &supported));
        }
    }
}

fn load_balancer_status(errors: &mut Errors, new: &Object, old: &Object) {
    let ingress = new.at("status").at("loadBalancer").list("ingress");
    let status = Path::new("status");
    let balancer = status.field("loadBalancer");
    let path = balancer.field("ingress");
    if new.at("spec").text("type") != "LoadBalancer" {
        if !ingress.is_empty() {
            let detail = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(&path, detail));
        }
        return;
    }
    let existing = old.at("status").at("loadBalancer").list("ingress");
    let existing: Vec<Value> = existing.iter().map(|item| item.at("ip").clone()).collect();
    for (i, item) in ingress.iter().enumerate() {
        let at = path.index(i);
        let ip = item.text("ip");
        if !ip.is_empty() {
            address::ip(errors, &at.field("ip"), ip, &existing);
        }
        let mode_path = at.field("ipMode");
        match item.at("ipMode").as_str() {
            None if !ip.is_empty() => {
                let detail = "must be specified when `ip` is set";
                errors.push(FieldError::required(&mode_path, detail));
            }
            None => {}
            Some(_) if ip.is_empty() => {
                let detail = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(&mode_path, detail));
            }
            Some(mode) => one_of(errors, &mode_path, mode, &["Proxy", "VIP"]),
        }
        let hostname = item.text("hostname");
        if hostname.is_empty() {
            continue;
        }
        let at = at.field("hostname");
        push_texts(errors, &at, hostname, name::dns1123_subdomain(hostname));
        if parse_sloppy(hostname).is_some() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid_text(&at, hostname, detail));
        }
    }
}

#[cfg(test)]
mod tests;
