//! TLS for the listener: a certificate that can be replaced while it serves, and client certificates
//! for those who have one.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use super::{CertificateAndKey, CertificateError, read_error};

/// The certificate that the listener shows; handshakes after a replacement show the new one.
#[derive(Debug)]
pub struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ServingCertificate {
    pub fn new(certified: &CertificateAndKey) -> Result<Self, CertificateError> {
        Ok(Self(RwLock::new(load(certified)?)))
    }

    pub fn replace(&self, certified: &CertificateAndKey) -> Result<(), CertificateError> {
        let fresh = load(certified)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn load(certified: &CertificateAndKey) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(certified.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(read_error)?;
    let key = PrivateKeyDer::from_pem_slice(certified.key_pem.as_bytes()).map_err(read_error)?;
    let key = CertifiedKey::from_der(chain, key, &provider::default_provider())?;
    Ok(Arc::new(key))
}

/// The listener's configuration. Client certificates are asked for, not demanded; one that the
/// authority didn't issue fails the handshake.
pub fn server_config(
    serving: Arc<ServingCertificate>,
    client_authority_pem: &str,
) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(provider::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(client_authority_pem.as_bytes()) {
        roots.add(certificate.map_err(read_error)?)?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::io;

    use jiff::Timestamp;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, ServerConnection};

    use super::*;
    use crate::auth::certificate::{CertificateAuthority, client_identity, server_names};

    fn client(
        authority: &CertificateAuthority,
        as_user: Option<&CertificateAndKey>,
    ) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match as_user {
            None => builder.with_no_client_auth(),
            Some(user) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(user.certificate_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(user.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    /// Lets both ends talk in memory until neither has more to say.
    fn shake(
        client: &mut ClientConnection,
        server: &mut ServerConnection,
    ) -> Result<(), rustls::Error> {
        while client.wants_write() || server.wants_write() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            let mut sent = io::Cursor::new(wire);
            while server.read_tls(&mut sent).unwrap() > 0 {}
            server.process_new_packets()?;
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            let mut sent = io::Cursor::new(wire);
            while client.read_tls(&mut sent).unwrap() > 0 {}
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "rustls asks the machine's clock")]
    fn clients_may_or_may_not_show_a_certificate() {
        let now = Timestamp::now();
        let authority = CertificateAuthority::generate("sojourn", now).unwrap();
        let certified = authority.issue_server(&server_names("box", &[]), now).unwrap();
        let serving = Arc::new(ServingCertificate::new(&certified).unwrap());
        let config =
            Arc::new(server_config(Arc::clone(&serving), authority.certificate_pem()).unwrap());
        let connect = |as_user: Option<&CertificateAndKey>| {
            let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut client = client(&authority, as_user);
            shake(&mut client, &mut server).map(|()| server)
        };

        let server = connect(None).unwrap();
        assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
        assert!(server.peer_certificates().is_none());

        let node = authority.issue_client("system:node:n1", Some("system:nodes"), now).unwrap();
        let server = connect(Some(&node)).unwrap();
        let peer = &server.peer_certificates().unwrap()[0];
        assert_eq!(client_identity(peer).unwrap().unwrap().user().name, "system:node:n1");

        let stranger = CertificateAuthority::generate("stranger", now).unwrap();
        let stranger = stranger.issue_client("admin", Some("system:masters"), now).unwrap();
        assert!(connect(Some(&stranger)).is_err());
        // A server's certificate is not good for signing in.
        assert!(connect(Some(&certified)).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "rustls asks the machine's clock")]
    fn certificates_are_replaced_while_serving() {
        let now = Timestamp::now();
        let authority = CertificateAuthority::generate("sojourn", now).unwrap();
        let names = server_names("box", &[]);
        let (first, second) = (
            authority.issue_server(&names, now).unwrap(),
            authority.issue_server(&names, now).unwrap(),
        );
        let serving = Arc::new(ServingCertificate::new(&first).unwrap());
        let config =
            Arc::new(server_config(Arc::clone(&serving), authority.certificate_pem()).unwrap());
        let shown = || {
            let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut client = client(&authority, None);
            shake(&mut client, &mut server).unwrap();
            client.peer_certificates().unwrap()[0].to_vec()
        };
        let before = shown();
        serving.replace(&second).unwrap();
        let after = shown();
        assert_ne!(before, after);
        let wrong = CertificateAndKey { key_pem: first.key_pem, ..second };
        assert!(serving.replace(&wrong).is_err());
        assert_eq!(shown(), after);
    }
}
