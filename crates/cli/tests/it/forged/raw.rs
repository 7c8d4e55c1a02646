//! Requests written by hand, since clients refuse to send what attackers do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::process::Running;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn token(kubeconfig: &Path) -> String {
    let config = read(kubeconfig);
    config["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
}

fn read(kubeconfig: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    serde_json::from_str(&text).expect("JSON")
}

/// A way to a listener of the server, a new connection for every request.
pub(crate) struct Access {
    address: String,
    /// Whom the listener's certificate must be from; `None` if it speaks without TLS.
    roots: Option<RootCertStore>,
    certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
}

impl Access {
    pub(crate) fn to_api(server: &Running) -> Self {
        let config = read(&server.kubeconfig());
        let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
        let authority = STANDARD.decode(authority.as_str().expect("data")).expect("base64");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).expect("PEM")).expect("a certificate");
        let address = server.field("API").trim_start_matches("https://").to_owned();
        Self { address, roots: Some(roots), certificate: None }
    }

    pub(crate) fn to_people(server: &Running) -> Self {
        let address = server.field("web").trim_start_matches("http://").to_owned();
        Self { address, roots: None, certificate: None }
    }

    /// Shows a certificate that says what an attacker likes, signed by its own key.
    pub(crate) fn with_certificate_of_its_own(mut self, name: &str, group: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let certificate = params.self_signed(&key).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
        self.certificate = Some((certificate.der().clone(), key));
        self
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The status of the answer.
    pub(crate) async fn status(
        &self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> u16 {
        let answered = self.try_status(method, path, headers).await;
        answered.unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    /// The same; `None` if the connection ends without an answer.
    pub(crate) async fn try_status(
        &self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> Option<u16> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Content-Length: 0\r\nConnection: close\r\n\r\n");
        let asked = async {
            let stream = TcpStream::connect(&self.address).await.expect("it listens");
            match &self.roots {
                None => first_line(stream, &head).await,
                Some(roots) => {
                    let connector = TlsConnector::from(Arc::new(self.tls(roots.clone())));
                    let name = ServerName::from(stream.peer_addr().expect("connected").ip());
                    let stream = connector.connect(name, stream).await.ok()?;
                    first_line(stream, &head).await
                }
            }
        };
        let line = tokio::time::timeout(ANSWER_TIMEOUT, asked).await.expect("an answer in time")?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        Some(status.unwrap_or_else(|| panic!("{method} {path}: {line:?} is no answer")))
    }

    fn tls(&self, roots: RootCertStore) -> ClientConfig {
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots);
        match &self.certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config
                .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
                .expect("they fit together"),
        }
    }
}

/// The first line of the answer; `None` if there is none.
async fn first_line<S>(mut stream: S, head: &str) -> Option<String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    // The other side may end the connection without a farewell.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let line = answer.split("\r\n").next().unwrap_or_default();
    (!line.is_empty()).then(|| line.to_owned())
}
