//! The whole of a Pod's spec, or of a template's.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::super::address;
use super::super::grammar::{
    Errors, labels, one_of, push_texts, quantity, search_domain, unsupported,
};
use super::{Context, container, each_container, internal, resource, scheduling, security, volume};
use crate::field::{FieldError, Path};
use crate::json::Access;
use crate::name;

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_DOMAINS: usize = 32;
const MAX_SEARCH_LIST_CHARS: usize = 2048;

/// Whose spec it is. A template leaves some things to the Pod that is made from it.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    Pod { name: &'a str, mirror: bool },
    Template,
}

pub(crate) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value, owner: Owner<'_>) {
    let grace = spec.int("terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.push(FieldError::required(&path.field("terminationGracePeriodSeconds"), ""));
    }
    let (pod_name, is_pod, mirror) = match owner {
        Owner::Pod { name, mirror } => (name, true, mirror),
        Owner::Template => ("", false, false),
    };
    let claims = spec.list("resourceClaims").iter().map(|claim| claim.text("name"));
    let mut context = Context {
        pod_name,
        is_pod,
        restart_policy: spec.text("restartPolicy"),
        grace,
        host_users: spec.at("hostUsers").as_bool() != Some(false),
        claims: claims.filter(|name| !name.is_empty()).collect(),
        volumes: HashMap::new(),
    };
    let volumes = spec.list("volumes");
    context.volumes = volume::validate(errors, &path.field("volumes"), volumes, &context);
    resource_claims(errors, &path.field("resourceClaims"), spec.list("resourceClaims"), mirror);
    containers(errors, path, spec, &context);
    resource::validate_pod_level(errors, spec, path, &context.claims);
    if spec.flag("hostNetwork") {
        host_network_ports(errors, &path.field("containers"), spec, is_pod);
    }
    policy(errors, &path.field("restartPolicy"), context.restart_policy, &RESTART_POLICIES);
    policy(errors, &path.field("dnsPolicy"), spec.text("dnsPolicy"), &DNS_POLICIES);
    labels(errors, &path.field("nodeSelector"), spec.at("nodeSelector"));
    security::validate_pod(errors, &path.field("securityContext"), spec);
    scheduling::affinity(errors, &path.field("affinity"), spec.at("affinity"));
    dns_config(errors, &path.field("dnsConfig"), spec);
    let gates = path.field("readinessGates");
    for (i, gate) in spec.list("readinessGates").iter().enumerate() {
        let (at, condition) = (gates.index(i), gate.text("conditionType"));
        let at = at.field("conditionType");
        push_texts(errors, &at, condition, name::qualified_name(condition));
    }
    let gates = spec.list("schedulingGates");
    scheduling::scheduling_gates(errors, &path.field("schedulingGates"), gates);
    let constraints = spec.list("topologySpreadConstraints");
    scheduling::topology_spread(errors, &path.field("topologySpreadConstraints"), constraints);
    security::validate_host_process(errors, path, spec);
    if !context.host_users {
        security::validate_host_users(errors, path, spec);
    }
    hostname_override(errors, path, spec);
    names(errors, path, spec);
    if !spec.list("tolerations").is_empty() {
        scheduling::tolerations(errors, &path.field("tolerations"), spec.list("tolerations"));
    }
    host_aliases(errors, &path.field("hostAliases"), spec.list("hostAliases"));
    class_names(errors, path, spec);
    overhead(errors, &path.field("overhead"), spec);
    security::validate_os(errors, path, spec);
    file_key_volumes(errors, path, spec);
}

fn containers(errors: &mut Errors, path: &Path<'_>, spec: &Value, context: &Context<'_>) {
    let regular = spec.list("containers");
    let init = spec.list("initContainers");
    container::validate_regular(errors, &path.field("containers"), regular, context);
    container::validate_init(errors, &path.field("initContainers"), init, regular, context);
    let ephemeral = spec.list("ephemeralContainers");
    if !ephemeral.is_empty() {
        let others: HashSet<&str> =
            regular.iter().chain(init).map(|other| other.text("name")).collect();
        let at = path.field("ephemeralContainers");
        container::validate_ephemeral(errors, &at, ephemeral, &others, context);
    }
}

fn policy(errors: &mut Errors, path: &Path<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        one_of(errors, path, value, supported);
    }
}

fn resource_claims(errors: &mut Errors, path: &Path<'_>, claims: &[Value], mirror: bool) {
    let mut seen = HashSet::new();
    for (i, claim) in claims.iter().enumerate() {
        if mirror {
            let detail = "static pods do not support resource claims";
            errors.push(FieldError::forbidden(&Path::new(""), detail));
            continue;
        }
        let at = path.index(i);
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.field("name"), ""));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(&at.field("name"), &name.into()));
        } else {
            push_texts(errors, &at.field("name"), name, name::dns1123_label(name));
            seen.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = sources.iter().filter(|source| !claim.at(source).is_null()).count();
        let detail = match given {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            2 => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            _ => "",
        };
        if !detail.is_empty() {
            let shown = internal::compact(internal::RESOURCE_CLAIM, claim);
            errors.push(FieldError::invalid_raw(&at, shown, detail));
        }
        for source in sources {
            if let Some(name) = claim.at(source).as_str() {
                push_texts(errors, &at.field(source), name, name::dns1123_subdomain(name));
            }
        }
    }
}

fn host_network_ports(errors: &mut Errors, path: &Path<'_>, spec: &Value, is_pod: bool) {
    for (i, container) in spec.list("containers").iter().enumerate() {
        let at = path.index(i);
        let ports = at.field("ports");
        for (i, port) in container.list("ports").iter().enumerate() {
            let host = port.int("hostPort").unwrap_or_default();
            let inner = port.int("containerPort").unwrap_or_default();
            if (is_pod || host != 0) && host != inner {
                let at = ports.index(i);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&at.field("hostPort"), &host.into(), detail));
            }
        }
    }
}

fn dns_config(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let config = spec.at("dnsConfig");
    let servers = config.list("nameservers");
    let servers_path = path.field("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return errors.push(FieldError::required(path, detail));
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(FieldError::required(&servers_path, detail));
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(FieldError::invalid(&servers_path, config.at("nameservers"), detail));
    }
    for (i, server) in servers.iter().enumerate() {
        address::ip(errors, &servers_path.index(i), server.as_str().unwrap_or_default(), &[]);
    }
    let searches = config.list("searches");
    let searches_path = path.field("searches");
    if searches.len() > MAX_SEARCH_DOMAINS {
        let detail = format!("must not have more than {MAX_SEARCH_DOMAINS} search paths");
        errors.push(FieldError::invalid(&searches_path, config.at("searches"), detail));
    }
    let letters: usize = searches.iter().map(|s| s.as_str().unwrap_or_default().len() + 1).sum();
    if letters.saturating_sub(1) > MAX_SEARCH_LIST_CHARS {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LIST_CHARS} characters (including spaces) in the \
             search list"
        );
        errors.push(FieldError::invalid(&searches_path, config.at("searches"), detail));
    }
    for (i, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            push_texts(errors, &searches_path.index(i), search, search_domain(search));
        }
    }
    let options = path.field("options");
    for (i, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.push(FieldError::required(&options.index(i), "must not be empty"));
        }
    }
}

fn hostname_override(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let Some(hostname) = spec.at("hostnameOverride").as_str() else {
        return;
    };
    let at = path.field("hostnameOverride");
    for member in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(member) {
            let detail = format!("may not be specified when {member} is true");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    if hostname.len() > 64 {
        errors.push(FieldError::too_long(&at, 64));
    }
    push_texts(errors, &at, hostname, name::dns1123_subdomain(hostname));
}

/// Names of other objects, and of the Pod in the cluster's DNS.
fn names(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for member in ["serviceAccountName", "nodeName"] {
        let name = spec.text(member);
        if !name.is_empty() {
            push_texts(errors, &path.field(member), name, name::dns1123_subdomain(name));
        }
    }
    if let Some(deadline) = spec.int("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        let at = path.field("activeDeadlineSeconds");
        errors.push(FieldError::invalid(&at, &deadline.into(), detail));
    }
    for member in ["hostname", "subdomain"] {
        let name = spec.text(member);
        if !name.is_empty() {
            push_texts(errors, &path.field(member), name, name::dns1123_label(name));
        }
    }
}

fn host_aliases(errors: &mut Errors, path: &Path<'_>, aliases: &[Value]) {
    for (i, alias) in aliases.iter().enumerate() {
        let at = path.index(i);
        address::ip(errors, &at.field("ip"), alias.text("ip"), &[]);
        let hostnames = at.field("hostnames");
        for (i, hostname) in alias.list("hostnames").iter().enumerate() {
            let hostname = hostname.as_str().unwrap_or_default();
            push_texts(errors, &hostnames.index(i), hostname, name::dns1123_subdomain(hostname));
        }
    }
}

fn class_names(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let class = spec.text("priorityClassName");
    if !class.is_empty() {
        push_texts(errors, &path.field("priorityClassName"), class, name::dns1123_subdomain(class));
    }
    if let Some(class) = spec.at("runtimeClassName").as_str() {
        push_texts(errors, &path.field("runtimeClassName"), class, name::dns1123_subdomain(class));
    }
    let at = path.field("preemptionPolicy");
    match spec.at("preemptionPolicy").as_str() {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => errors.push(FieldError::required(&at, "")),
        Some(other) => errors.push(unsupported(&at, other, &["PreemptLowerPriority", "Never"])),
    }
}

/// Overhead is checked as if it were limits.
fn overhead(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let overhead = spec.at("overhead");
    if !overhead.is_null() {
        let requirements = serde_json::json!({ "limits": overhead });
        let scope = resource::Scope::Container;
        let no_claims = BTreeSet::new();
        resource::validate_requirements(errors, path, &requirements, scope, &no_claims);
    }
}

/// Variables that are read from a file need the directory that holds it.
fn file_key_volumes(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    // Of several with one name the last one counts.
    let volumes: HashMap<&str, &Value> =
        spec.list("volumes").iter().map(|volume| (volume.text("name"), volume)).collect();
    each_container(spec, path, |container, path| {
        let env = path.field("env");
        for (i, var) in container.list("env").iter().enumerate() {
            let reference = var.at("valueFrom").at("fileKeyRef");
            if reference.is_null() {
                continue;
            }
            let name = reference.text("volumeName");
            let (at, source) = (env.index(i), "valueFrom");
            let at = at.field(source);
            let at = at.field("fileKeyRef");
            let at = at.field("volumeName");
            match volumes.get(name).copied() {
                None => errors.push(FieldError::not_found(&at, &name.into())),
                Some(volume) if volume.at("emptyDir").is_null() => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid_text(&at, name, detail));
                }
                Some(_) => {}
            }
        }
    });
}

/// Whether a spec asks for a fraction of a byte, which is allowed but means nothing.
pub(super) fn fractional(amount: &Value) -> Option<String> {
    let amount = quantity(amount);
    amount.has_fraction().then(|| amount.canonical())
}
