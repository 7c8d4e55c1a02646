//! Whom a connection trusts.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::server::{Script, Server};
use super::{TestFolder, attempt, submission};
use crate::submission::{Method, SubmitError};

#[tokio::test]
async fn a_certificate_is_trusted_when_a_file_says_so_and_only_for_its_name() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let ok = "HTTP/1.1 204 No Content\r\n\r\n";
    let script = Script::Answer(Box::new(move |_| ok.to_owned()));
    let server = Server::start_tls(script, TlsAcceptor::from(Arc::new(config))).await;

    let folder = TestFolder::new("tls");
    let port = server.address.port();
    let mut submission = submission(&folder, Method::Put, &format!("https://localhost:{port}/x"));
    let error = attempt(submission.clone()).await.unwrap_err();
    assert!(
        matches!(error, SubmitError::Exchange { .. } | SubmitError::Prepare { .. }),
        "{error:?}"
    );

    let files = TestFolder::new("tls-files");
    submission.ca_file = Some(files.file("ca.pem", cert.pem()));
    let receipt = attempt(submission.clone()).await.unwrap();
    assert_eq!(receipt.receipt, "204 No Content");

    let mut other = submission.clone();
    other.url = format!("https://127.0.0.1:{port}/x");
    let error = attempt(other).await.unwrap_err();
    assert!(matches!(error, SubmitError::Exchange { .. }), "{error:?}");
    assert_eq!(server.seen().len(), 1);

    for (name, content) in [("empty.pem", ""), ("broken.pem", "-----BEGIN CERTIFICATE-----\nx")] {
        submission.ca_file = Some(files.file(name, content));
        let error = attempt(submission.clone()).await.unwrap_err();
        assert!(matches!(error, SubmitError::Trust(_)), "{error:?}");
    }
}
