//! The rules of a Service's addresses: which go together, and which may change.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::address;
use super::super::grammar::{Errors, one_of};
use super::{is_headless, needs_cluster_ip};
use crate::field::{FieldError, Path};
use crate::go::address::{is_link_local_multicast, is_link_local_unicast, parse_sloppy};
use crate::json::{Access, Object};

/// The addresses of a Service and their families, as far as they depend on each other.
pub(super) fn cluster_ips(errors: &mut Errors, service: &Object, old: Option<&Object>) {
    let spec = service.at("spec");
    if !needs_cluster_ip(spec) {
        return;
    }
    let path = Path::new("spec");
    let at = path.field("clusterIPs");
    let (single, list) = (spec.text("clusterIP"), spec.list("clusterIPs"));
    let shown = spec.at("clusterIPs");
    if single.is_empty() {
        if !list.is_empty() {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(&at, shown, detail));
        }
    } else if list.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if list[0].as_str() != Some(single) {
        errors.push(FieldError::invalid(&at, shown, "first value must match `clusterIP`"));
    }
    families(errors, &path, spec);
    let existing = old.map_or(&[][..], |old| old.at("spec").list("clusterIPs"));
    let before = errors.len();
    for (i, ip) in list.iter().map(|ip| ip.as_str().unwrap_or_default()).enumerate() {
        if i == 0 && ip == "None" {
            if list.len() > 1 {
                let detail = "'None' must be the first and only value";
                errors.push(FieldError::invalid(&at, shown, detail));
            }
            continue;
        }
        address::ip(errors, &at.index(i), ip, existing);
    }
    let invalid = errors.len() > before;
    if list.len() > 2 {
        errors.push(FieldError::invalid(&at, shown, "may only hold up to 2 values"));
    }
    if invalid {
        return;
    }
    if list.len() > 1 && address::is_dual_stack(list.iter().filter_map(Value::as_str)) != Some(true)
    {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&at, shown, detail));
    }
    if is_headless(spec) {
        return;
    }
    for (i, (ip, family)) in list.iter().zip(spec.list("ipFamilies")).enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        let v6 = matches!(parse_sloppy(ip), Some(IpAddr::V6(_)));
        let wanted = match family.as_str() {
            Some("IPv4") if v6 => "IPv4",
            Some("IPv6") if !v6 => "IPv6",
            _ => continue,
        };
        let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`");
        errors.push(FieldError::invalid_text(&at.index(i), ip, detail));
    }
}

fn families(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let at = path.field("ipFamilies");
    let mut seen = HashSet::new();
    for (i, family) in spec.list("ipFamilies").iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        one_of(errors, &at.index(i), family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&at.index(i), &family.into()));
        }
    }
    if let Some(policy) = spec.at("ipFamilyPolicy").as_str() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        one_of(errors, &path.field("ipFamilyPolicy"), policy, &policies);
    }
}

pub(super) fn external_ips(
    errors: &mut Errors,
    path: &Path<'_>,
    spec: &Value,
    old: Option<&Object>,
) {
    let existing = old.map_or(&[][..], |old| old.at("spec").list("externalIPs"));
    for (i, ip) in spec.list("externalIPs").iter().enumerate() {
        let (at, ip) = (path.index(i), ip.as_str().unwrap_or_default());
        let before = errors.len();
        address::ip(errors, &at, ip, existing);
        if errors.len() > before {
            continue;
        }
        let Some(parsed) = parse_sloppy(ip) else {
            continue;
        };
        if parsed.is_unspecified() {
            let detail = format!("may not be unspecified ({ip})");
            errors.push(FieldError::invalid_text(&at, ip, detail));
        }
        let checks = [
            (parsed.is_loopback(), "in the loopback range (127.0.0.0/8, ::1/128)"),
            (is_link_local_unicast(parsed), "in the link-local range (169.254.0.0/16, fe80::/10)"),
            (
                is_link_local_multicast(parsed),
                "in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        ];
        for (bad, what) in checks {
            if bad {
                errors.push(FieldError::invalid_text(&at, ip, format!("may not be {what}")));
            }
        }
    }
}

/// The first address is for life; a second one may come and go with the family policy.
pub(super) fn fixed_cluster_ips(errors: &mut Errors, new: &Object, old: &Object) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    if !needs_cluster_ip(spec) || !needs_cluster_ip(old_spec) {
        return;
    }
    if is_headless(spec) && is_headless(old_spec) {
        return;
    }
    let path = Path::new("spec");
    let at = path.field("clusterIPs");
    let (ips, old_ips) = (spec.list("clusterIPs"), old_spec.list("clusterIPs"));
    let shown = crate::field::go_value(&Value::Array(ips.to_vec()));
    let mut changed = |i: usize| {
        errors.push_with(|| {
            FieldError::invalid_raw(&at.index(i), shown.as_str(), "may not change once set")
        });
    };
    if ips.len() == old_ips.len() {
        for (i, (ip, old_ip)) in ips.iter().zip(old_ips).enumerate() {
            if ip != old_ip {
                changed(i);
            }
        }
        return;
    }
    if let (Some(ip), Some(old_ip)) = (ips.first(), old_ips.first())
        && ip != old_ip
    {
        changed(0);
    }
    if old_ips.len() > ips.len() {
        if ips.is_empty() {
            let detail = "primary clusterIP can not be unset";
            errors.push(FieldError::invalid_raw(&at.index(0), "null", detail));
        }
        if ips.len() == 1 {
            released(errors, &path, spec, "clusterIP");
        }
    }
}

pub(super) fn fixed_families(errors: &mut Errors, new: &Object, old: &Object) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let comparable = needs_cluster_ip(spec)
        && needs_cluster_ip(old_spec)
        && !is_headless(spec)
        && !is_headless(old_spec);
    if !comparable {
        return;
    }
    let path = Path::new("spec");
    let at = path.field("ipFamilies");
    let (families, old_families) = (spec.list("ipFamilies"), old_spec.list("ipFamilies"));
    let detail = "may not change once set";
    if families.len() == old_families.len() {
        for _ in families.iter().zip(old_families).filter(|(new, old)| new != old) {
            errors.push_with(|| FieldError::invalid(&at.index(0), spec.at("ipFamilies"), detail));
        }
        return;
    }
    if let (Some(family), Some(old_family)) = (families.first(), old_families.first())
        && family != old_family
    {
        errors.push(FieldError::invalid(&at.index(0), spec.at("clusterIPs"), detail));
    }
    if old_families.len() > families.len() {
        if spec.list("clusterIPs").is_empty() {
            let detail = "primary ipFamily can not be unset";
            errors.push(FieldError::invalid(&at.index(0), spec.at("ipFamilies"), detail));
        }
        if families.len() == 1 {
            released(errors, &path, spec, "ipFamily");
        }
    }
}

fn released(errors: &mut Errors, path: &Path<'_>, spec: &Value, what: &str) {
    let policy = spec.at("ipFamilyPolicy");
    if policy.as_str() != Some("SingleStack") {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.push(FieldError::invalid(&path.field("ipFamilyPolicy"), policy, detail));
    }
}
