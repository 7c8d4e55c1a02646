//! What is allowed in a Service but probably not meant.

use super::super::address;
use super::{TOPOLOGY_HINTS, TOPOLOGY_MODE};
use crate::field::Path;
use crate::json::{Access, Object};
use crate::warning::Warnings;

pub(super) fn warnings(service: &Object) -> Warnings {
    let mut out = Warnings::default();
    let spec = service.at("spec");
    let path = Path::new("spec");
    let kind = spec.text("type");
    if service.at("metadata").at("annotations").get(TOPOLOGY_HINTS).is_some() {
        out.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
        ));
    }
    let check = |out: &mut Warnings, member: &str| {
        let at = path.field(member);
        for (i, ip) in spec.list(member).iter().enumerate() {
            out.extend(address::ip_warning(&at.index(i), ip.as_str().unwrap_or_default()));
        }
    };
    let ip = spec.text("clusterIP");
    if !ip.is_empty() && ip != "None" {
        check(&mut out, "clusterIPs");
    }
    let headless = kind == "ClusterIP" && ip == "None";
    let outside = !spec.list("externalIPs").is_empty();
    if headless {
        for (set, member) in [
            (!spec.text("loadBalancerIP").is_empty(), "loadBalancerIP"),
            (outside, "externalIPs"),
            (spec.text("sessionAffinity") != "None", "SessionAffinity"),
        ] {
            if set {
                out.push(format!("spec.{member} is ignored for headless services"));
            }
        }
    }
    check(&mut out, "externalIPs");
    if outside && !headless && kind != "ExternalName" {
        out.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    out.extend(address::ip_warning(&path.field("loadBalancerIP"), spec.text("loadBalancerIP")));
    let at = path.field("loadBalancerSourceRanges");
    for (i, range) in spec.list("loadBalancerSourceRanges").iter().enumerate() {
        out.extend(address::cidr_warnings(&at.index(i), range.as_str().unwrap_or_default()));
    }
    if kind == "ExternalName" && outside {
        out.push(r#"spec.externalIPs is ignored when spec.type is "ExternalName""#.to_owned());
    }
    if kind != "ExternalName" && !spec.text("externalName").is_empty() {
        out.push(r#"spec.externalName is ignored when spec.type is not "ExternalName""#.to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        out.push(
            r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#
                .to_owned(),
        );
    }
    out
}
