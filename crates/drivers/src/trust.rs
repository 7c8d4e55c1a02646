//! Whom connections of ours trust: the system's authorities, and further ones from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Why it cannot be told whom to trust.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot read certificates from {}: {reason}", file.display())]
    Read { file: PathBuf, reason: String },
    #[error("there is no certificate in {}", file.display())]
    Empty { file: PathBuf },
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

/// TLS with the system's authorities and those of `ca_file`, in PEM.
pub fn trust(ca_file: Option<&Path>) -> Result<ClientConfig, TrustError> {
    trust_also(ca_file, [])
}

/// The same, with further authorities, in DER; those of them that cannot be parsed are not trusted.
pub fn trust_also(
    ca_file: Option<&Path>,
    further: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    // What the system has and cannot be parsed is not trusted; that is no reason to stop.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(further);
    if let Some(file) = ca_file {
        add(&mut roots, file)?;
    }
    with(roots)
}

/// TLS that no server gets through, for connections without any.
pub fn trust_nobody() -> Result<ClientConfig, TrustError> {
    with(RootCertStore::empty())
}

fn with(roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Tls(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), TrustError> {
    let failed = |reason: String| TrustError::Read { file: file.to_owned(), reason };
    let mut any = false;
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        any = true;
    }
    if any { Ok(()) } else { Err(TrustError::Empty { file: file.to_owned() }) }
}
