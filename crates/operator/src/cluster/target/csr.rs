//! Requests for certificates of a cluster: parsed here, judged in `core::cluster::csr`, approved here.
//!
//! Whoever files one chooses every byte of it. So it is read more strictly than by those who sign it: what two
//! parsers could read differently is not readable. One that is not never keeps the others from being read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use sojourn_core::cluster::Approval;
use sojourn_core::cluster::csr::{CertificateRequest, Csr, Usage};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;

use super::list::{ListError, each};
use super::within;

/// Requests of one cluster, decided or not. With more, none is looked at.
pub(super) const MAX_CSRS: usize = 10_000;
/// No kubelet's request is longer.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
const MAX_NAMES: usize = 100;
/// What our approvals are known by.
const APPROVAL_REASON: &str = "SojournResume";
const APPROVAL_MESSAGE: &str =
    "asked for by the kubelet of a machine of this cluster, which resumed";

fn resource() -> ApiResource {
    ApiResource {
        group: "certificates.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "certificates.k8s.io/v1".to_owned(),
        kind: "CertificateSigningRequest".to_owned(),
        plural: "certificatesigningrequests".to_owned(),
    }
}

/// The requests that nobody has decided.
pub(super) async fn pending(client: &Client, page: u32) -> Result<Vec<Csr>, ListError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let mut csrs = Vec::new();
    let params = ListParams::default().limit(page);
    each(&api, params, MAX_CSRS, |object| {
        csrs.extend(Some(csr_of(&object)).filter(|csr| !csr.decided));
    })
    .await?;
    Ok(csrs)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    signer_name: String,
    username: String,
    groups: Vec<String>,
    usages: Vec<String>,
    request: String,
}

fn csr_of(object: &DynamicObject) -> Csr {
    // One without a spec that can be read is of no signer, and so none of our business.
    let spec = object.data.get("spec").and_then(|spec| Spec::deserialize(spec).ok());
    let spec = spec.unwrap_or_default();
    let decided = is_decided(object);
    let request = if decided { None } else { parse_base64(&spec.request) };
    Csr {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        signer: spec.signer_name,
        requester: spec.username,
        groups: spec.groups,
        usages: spec.usages.into_iter().map(usage).collect(),
        decided,
        request,
    }
}

/// Whether somebody has approved or denied it, or it has failed.
fn is_decided(object: &DynamicObject) -> bool {
    let status = object.data.get("status");
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let signed = status.and_then(|status| status.get("certificate")).is_some();
    let decides = |condition: &Value| {
        condition["type"].as_str().is_some_and(|of| ["Approved", "Denied", "Failed"].contains(&of))
    };
    signed || conditions.is_some_and(|all| all.iter().any(decides))
}

fn usage(word: String) -> Usage {
    match word.as_str() {
        "digital signature" => Usage::DigitalSignature,
        "key encipherment" => Usage::KeyEncipherment,
        "client auth" => Usage::ClientAuth,
        "server auth" => Usage::ServerAuth,
        _ => Usage::Other(word),
    }
}

fn parse_base64(text: &str) -> Option<CertificateRequest> {
    if text.len() > MAX_REQUEST_BYTES * 2 {
        return None;
    }
    parse(&STANDARD.decode(text).ok()?)
}

/// What is asked for in a request in PEM; nothing if it cannot be read, or its signature does not hold.
fn parse(pem: &[u8]) -> Option<CertificateRequest> {
    if pem.len() > MAX_REQUEST_BYTES {
        return None;
    }
    // Of several blocks, it would depend on the reader which one counts.
    let text = str::from_utf8(pem).ok()?;
    if text.matches("-----BEGIN").count() != 1 {
        return None;
    }
    let (_, block) = parse_x509_pem(pem).ok()?;
    if block.label != "CERTIFICATE REQUEST" {
        return None;
    }
    let (rest, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    if !rest.is_empty() {
        return None;
    }
    request.verify_signature().ok()?;
    let mut parsed = subject(&request)?;
    names(&request, &mut parsed)?;
    Some(parsed)
}

fn subject(request: &X509CertificationRequest<'_>) -> Option<CertificateRequest> {
    let mut parsed = CertificateRequest::default();
    let mut common_names = 0;
    for attribute in request.certification_request_info.subject.iter_attributes() {
        if *attribute.attr_type() == OID_X509_COMMON_NAME {
            attribute.as_str().ok()?.clone_into(&mut parsed.common_name);
            common_names += 1;
        } else if *attribute.attr_type() == OID_X509_ORGANIZATION_NAME {
            parsed.organizations.push(attribute.as_str().ok()?.to_owned());
        }
    }
    // Of several, it would depend on the reader which one counts.
    (common_names == 1 && parsed.organizations.len() <= MAX_NAMES).then_some(parsed)
}

/// Takes in the alternative names, of one extension of one attribute.
fn names(request: &X509CertificationRequest<'_>, parsed: &mut CertificateRequest) -> Option<()> {
    let mut attributes = 0;
    let mut extensions = 0;
    for attribute in request.certification_request_info.iter_attributes() {
        let requested = match attribute.parsed_attribute() {
            ParsedCriAttribute::ExtensionRequest(requested) => requested,
            ParsedCriAttribute::ChallengePassword(_) => continue,
            _ => return None,
        };
        attributes += 1;
        for extension in &requested.extensions {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    extensions += 1;
                    if names.general_names.len() > MAX_NAMES {
                        return None;
                    }
                    for name in &names.general_names {
                        take_name(name, parsed)?;
                    }
                }
                ParsedExtension::ParseError { .. } | ParsedExtension::Unparsed => return None,
                _ => {}
            }
        }
    }
    (attributes <= 1 && extensions <= 1).then_some(())
}

fn take_name(name: &GeneralName<'_>, parsed: &mut CertificateRequest) -> Option<()> {
    match name {
        GeneralName::DNSName(name) => parsed.dns_names.push((*name).to_owned()),
        GeneralName::IPAddress(bytes) => parsed.ip_addresses.push(address(bytes)?),
        GeneralName::Invalid(..) => return None,
        _ => parsed.has_other_names = true,
    }
    Some(())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    let v6 = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(v6)))
}

/// What came of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approved {
    Now,
    /// Somebody has decided it meanwhile.
    Decided,
    /// It is gone, or another of its name is in its place.
    Gone,
}

pub(super) async fn approve(client: &Client, approval: &Approval) -> Result<Approved, String> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let found = within(api.get_opt(&approval.name)).await?;
    let Some(found) = found.filter(|found| found.uid().as_deref() == Some(&*approval.uid)) else {
        return Ok(Approved::Gone);
    };
    if is_decided(&found) {
        return Ok(Approved::Decided);
    }
    let mut approved = found;
    let Some(fields) = approved.data.as_object_mut() else {
        return Err("it is no object that can be approved".to_owned());
    };
    // Nobody has decided it, so there is no condition that would be lost.
    let condition = json!({
        "type": "Approved", "status": "True",
        "reason": APPROVAL_REASON, "message": APPROVAL_MESSAGE,
    });
    fields.insert("status".to_owned(), json!({"conditions": [condition]}));
    // Under the version that was read, so what was judged is what is approved.
    let params = PostParams::default();
    let replaced = api.replace_subresource("approval", &approval.name, &params, &approved);
    within(replaced).await.map(|_| Approved::Now)
}

#[cfg(test)]
mod tests;
