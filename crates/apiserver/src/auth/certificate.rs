//! The server's own certificate authority, and the certificates that it issues: one for the listener,
//! and one for each agent that signs in by certificate.

mod serving;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sojourn_rbac::User;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::auth::identity::{CREDENTIAL_ID, Identity};

pub use serving::{ServingCertificate, server_config};

const DAY: i64 = 24 * 60 * 60;
const CA_VALIDITY_DAYS: i64 = 3650;
const LEAF_VALIDITY_DAYS: i64 = 365;

/// Certificates are valid from a little before they are made, for clients whose clocks are behind.
const BACKDATED_SECONDS: i64 = 5 * 60;

/// The last moment that a certificate can name.
const MAX_VALIDITY_SECOND: i64 = 253_402_300_799;

/// The attribute of a subject that holds the user's uid.
const UID_ATTRIBUTE: &str = "1.3.6.1.4.1.57683.2";

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot issue a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    #[error("cannot read a certificate: {0}")]
    Read(String),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("cannot verify client certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// A certificate and its private key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateAndKey {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// Logs must never show a key.
impl fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAndKey")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

impl CertificateAndKey {
    /// Whether less than a third of its life is left, so that it is time for another.
    pub fn is_due(&self, now: Timestamp) -> Result<bool, CertificateError> {
        let der = certificate_der(&self.certificate_pem)?;
        let validity = parse(&der)?.validity().clone();
        let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Ok(now.as_second() >= until - (until - from) / 3)
    }

    /// The names and addresses that the certificate is for.
    pub fn names(&self) -> Result<Vec<String>, CertificateError> {
        let der = certificate_der(&self.certificate_pem)?;
        let certificate = parse(&der)?;
        let alternative = certificate.subject_alternative_name().map_err(read_error)?;
        let names = alternative.map(|names| names.value.general_names.as_slice());
        Ok(names.unwrap_or_default().iter().filter_map(name_text).collect())
    }
}

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// A certificate authority.
#[derive(Debug)]
pub struct CertificateAuthority {
    certified: CertificateAndKey,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// Makes a new authority, valid for ten years.
    pub fn generate(name: &str, now: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(name, now, CA_VALIDITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate_pem = params.self_signed(&key)?.pem();
        let certified = CertificateAndKey { certificate_pem, key_pem: key.serialize_pem() };
        Ok(Self { certified, issuer: Issuer::new(params, key) })
    }

    /// Reads an authority that was kept.
    pub fn from_pem(certified: CertificateAndKey) -> Result<Self, CertificateError> {
        let key = KeyPair::from_pem(&certified.key_pem)?;
        let der = certificate_der(&certified.certificate_pem)?;
        let certificate = parse(&der)?;
        if !certificate.is_ca() {
            return Err(read_error("it is not an authority's"));
        }
        if *certificate.public_key().subject_public_key.data != *key.public_key_raw() {
            return Err(read_error("the authority's key belongs to another certificate"));
        }
        let issuer = Issuer::from_ca_cert_pem(&certified.certificate_pem, key)?;
        Ok(Self { certified, issuer })
    }

    pub const fn certified(&self) -> &CertificateAndKey {
        &self.certified
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certified.certificate_pem
    }

    /// A certificate for a server with these names and addresses.
    pub fn issue_server(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<CertificateAndKey, CertificateError> {
        let mut params = params("kube-apiserver", now, LEAF_VALIDITY_DAYS);
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A certificate by which a user of this name, in this group, signs in.
    pub fn issue_client(
        &self,
        user: &str,
        group: Option<&str>,
        now: Timestamp,
    ) -> Result<CertificateAndKey, CertificateError> {
        let mut params = params(user, now, LEAF_VALIDITY_DAYS);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<CertificateAndKey, CertificateError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate_pem = params.signed_by(&key, &self.issuer)?.pem();
        Ok(CertificateAndKey { certificate_pem, key_pem: key.serialize_pem() })
    }
}

fn params(common_name: &str, now: Timestamp, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let at = |second: i64| {
        let second = second.clamp(0, MAX_VALIDITY_SECOND).unsigned_abs();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(second)
    };
    params.not_before = at(now.as_second() - BACKDATED_SECONDS);
    params.not_after = at(now.as_second() + days * DAY);
    params
}

/// The names that a server's certificate should hold: this machine's, those that Pods know the API
/// server by, and whatever else it is reached by. Each once.
pub fn server_names(host_name: &str, further: &[String]) -> Vec<String> {
    let usual = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "10.0.0.1",
        host_name,
    ];
    let mut names: Vec<String> = Vec::new();
    for name in usual.into_iter().chain(further.iter().map(String::as_str)) {
        // An address has several spellings; the certificate has one.
        let name = name
            .parse::<IpAddr>()
            .map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string());
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a `Host` header names one of these, with or without a port. A page of another site that
/// resolves to our address is caught by this.
pub fn is_named(host: &str, names: &[String]) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or_default(),
        None => host,
    };
    let address = bare.parse::<IpAddr>().ok();
    names.iter().any(|name| {
        name.eq_ignore_ascii_case(bare) || (address.is_some() && name.parse().ok() == address)
    })
}

/// Who signs in with a client certificate that has been verified; `None` if it names nobody.
pub fn client_identity(der: &[u8]) -> Result<Option<Identity>, CertificateError> {
    let certificate = parse(der)?;
    let mut user = User::default();
    let mut uids = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let text = || attribute.as_str().map(str::to_owned).map_err(read_error);
        match attribute.attr_type().to_id_string().as_str() {
            COMMON_NAME => user.name = text()?,
            ORGANIZATION => user.groups.push(text()?),
            UID_ATTRIBUTE => uids.push(text()?),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    match uids.as_slice() {
        [] => {}
        [uid] if uid.is_empty() => return Err(read_error("UID cannot be an empty string")),
        [uid] => user.uid.clone_from(uid),
        many => {
            let many = many.join(" ");
            return Err(read_error(format!("expected 1 UID, but found multiple: [{many}]")));
        }
    }
    let fingerprint = hex::encode(ring::digest::digest(&ring::digest::SHA256, der));
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    Ok(Some(Identity::authenticated(user)))
}

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

fn certificate_der(pem: &str) -> Result<CertificateDer<'static>, CertificateError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(read_error)
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    X509Certificate::from_der(der).map(|(_, certificate)| certificate).map_err(read_error)
}

fn read_error(error: impl fmt::Display) -> CertificateError {
    CertificateError::Read(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const NOW: i64 = 1_794_777_313;

    #[test]
    fn an_authority_can_be_kept() {
        let made = CertificateAuthority::generate("sojourn", at(NOW)).unwrap();
        let kept = CertificateAuthority::from_pem(made.certified().clone()).unwrap();
        assert_eq!(kept.certificate_pem(), made.certificate_pem());
        let leaf = kept.issue_client("alice", None, at(NOW)).unwrap();
        let (leaf, ca) = (
            certificate_der(&leaf.certificate_pem).unwrap(),
            certificate_der(made.certificate_pem()).unwrap(),
        );
        let (leaf, ca) = (parse(&leaf).unwrap(), parse(&ca).unwrap());
        assert!(ca.is_ca() && !leaf.is_ca());
        assert_eq!(leaf.issuer(), ca.subject());
        leaf.verify_signature(Some(ca.public_key())).unwrap();
        let years = (ca.validity().not_after.timestamp() - NOW) / (365 * DAY);
        assert_eq!(years, 10);
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }

    #[test]
    fn authorities_that_are_not_are_refused() {
        let made = CertificateAuthority::generate("sojourn", at(NOW)).unwrap();
        let other = CertificateAuthority::generate("other", at(NOW)).unwrap();
        let leaf = made.issue_client("alice", None, at(NOW)).unwrap();
        let with = |certificate_pem: &str, key_pem: &str| CertificateAndKey {
            certificate_pem: certificate_pem.to_owned(),
            key_pem: key_pem.to_owned(),
        };
        let key = &made.certified().key_pem;
        for bad in [
            with(made.certificate_pem(), ""),
            with(made.certificate_pem(), &other.certified().key_pem),
            with("x", key),
            leaf,
        ] {
            assert!(CertificateAuthority::from_pem(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn servers_have_the_names_asked_for() {
        let authority = CertificateAuthority::generate("sojourn", at(NOW)).unwrap();
        let names =
            server_names("Box", &["192.168.0.7".to_owned(), "BOX".to_owned(), "0:0::1".to_owned()]);
        assert_eq!(
            names,
            [
                "localhost",
                "127.0.0.1",
                "::1",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                "10.0.0.1",
                "box",
                "192.168.0.7",
            ]
        );
        let server = authority.issue_server(&names, at(NOW)).unwrap();
        assert_eq!(server.names().unwrap(), names);
    }

    #[test]
    fn certificates_fall_due_in_their_last_third() {
        let authority = CertificateAuthority::generate("sojourn", at(NOW)).unwrap();
        let server = authority.issue_server(&["localhost".to_owned()], at(NOW)).unwrap();
        assert!(!server.is_due(at(NOW)).unwrap());
        assert!(!server.is_due(at(NOW + 243 * DAY)).unwrap());
        assert!(server.is_due(at(NOW + 244 * DAY)).unwrap());
        assert!(server.is_due(at(NOW + 1000 * DAY)).unwrap());
        // A clock at either end of what a timestamp can hold is no reason to fail.
        assert!(authority.issue_server(&[], Timestamp::MAX).is_ok());
        assert!(authority.issue_server(&[], Timestamp::MIN).is_ok());
    }

    #[test]
    fn hosts_are_recognised() {
        let names = server_names("box", &[]);
        let cases = [
            ("localhost", true),
            ("LOCALHOST:6443", true),
            ("127.0.0.1:6443", true),
            ("127.0.0.1", true),
            ("[::1]:6443", true),
            ("[0:0:0:0:0:0:0:1]", true),
            ("box:1", true),
            ("evil.example", false),
            ("localhost.evil.example:6443", false),
            ("127.0.0.2:6443", false),
            ("[::2]:6443", false),
            ("", false),
            (":6443", false),
            ("[", false),
        ];
        for (host, expected) in cases {
            assert_eq!(is_named(host, &names), expected, "{host:?}");
        }
    }

    #[test]
    fn client_certificates_tell_who_signs_in() {
        let authority = CertificateAuthority::generate("sojourn", at(NOW)).unwrap();
        let client =
            authority.issue_client("system:node:n1", Some("system:nodes"), at(NOW)).unwrap();
        let der = certificate_der(&client.certificate_pem).unwrap();
        let identity = client_identity(&der).unwrap().unwrap();
        let fingerprint = hex::encode(ring::digest::digest(&ring::digest::SHA256, &der));
        assert_eq!(
            identity.user_info(),
            serde_json::json!({
                "username": "system:node:n1",
                "groups": ["system:nodes", "system:authenticated"],
                "extra": {CREDENTIAL_ID: [format!("X509SHA256={fingerprint}")]},
            })
        );
        let nobody = authority.issue_client("", Some("g"), at(NOW)).unwrap();
        let der = certificate_der(&nobody.certificate_pem).unwrap();
        assert_eq!(client_identity(&der).unwrap(), None);
        assert!(client_identity(b"junk").is_err());
        assert!(client_identity(&[]).is_err());
    }
}
