//! Who the node is to those who ask it, and who they are to the node.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why the node's listener cannot be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the node's certificate: {0}")]
    Certificate(String),
    #[error("cannot read the key of the node's certificate: {0}")]
    Key(String),
    #[error("the node's certificate cannot be used: {0}")]
    Unusable(rustls::Error),
    #[error("cannot read the authority of clients: {0}")]
    Authority(String),
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// A certificate, with the ones that vouch for it, and its key, in PEM.
#[derive(Clone)]
pub struct Certified {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// Logs must never show a key.
impl fmt::Debug for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certified").finish_non_exhaustive()
    }
}

/// The certificate that the listener shows; handshakes after a replacement show the new one.
#[derive(Debug)]
pub(super) struct Serving(RwLock<Arc<CertifiedKey>>);

impl Serving {
    pub(super) fn new(certified: &Certified) -> Result<Self, TlsError> {
        Ok(Self(RwLock::new(load(certified)?)))
    }

    pub(super) fn replace(&self, certified: &Certified) -> Result<(), TlsError> {
        let fresh = load(certified)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn load(certified: &Certified) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certified.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(certified.key_pem.as_bytes())
        .map_err(|error| TlsError::Key(error.to_string()))?;
    CertifiedKey::from_der(chain, key, &provider::default_provider())
        .map(Arc::new)
        .map_err(TlsError::Unusable)
}

/// Only who shows a certificate of the authority's gets through the handshake.
pub(super) fn config(
    serving: Arc<Serving>,
    client_authority_pem: &str,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(provider::default_provider());
    let mut roots = RootCertStore::empty();
    let unreadable = |error: &dyn fmt::Display| TlsError::Authority(error.to_string());
    for certificate in CertificateDer::pem_slice_iter(client_authority_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| unreadable(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Whose certificates are good for asking: those of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self {
            users: vec!["kube-apiserver-kubelet-client".to_owned()],
            groups: vec!["system:masters".to_owned()],
        }
    }
}

impl Allowed {
    pub(super) fn admits(&self, peer: &Peer) -> bool {
        self.users.contains(&peer.user)
            || peer.groups.iter().any(|group| self.groups.contains(group))
    }
}

/// The subject of a client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) user: String,
    groups: Vec<String>,
}

impl Peer {
    /// `None` if the certificate, though verified, names nobody in a way that can be read.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let mut peer = Self { user: String::new(), groups: Vec::new() };
        for attribute in certificate.subject().iter_attributes() {
            let text = || attribute.as_str().ok().map(str::to_owned);
            if *attribute.attr_type() == OID_X509_COMMON_NAME {
                peer.user = text()?;
            } else if *attribute.attr_type() == OID_X509_ORGANIZATION_NAME {
                peer.groups.push(text()?);
            }
        }
        (!peer.user.is_empty()).then_some(peer)
    }
}
