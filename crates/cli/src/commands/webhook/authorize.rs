//! `/authorize` on the listener of admission: what API servers ask about requests that nobody else allows.

use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, anyhow};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use sojourn_operator::access::webhook::{PATH, PeerCommonName};
use sojourn_web::PeerCertificate;
use tower::ServiceExt as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Where reviews of access are answered. The listener is there before the families are: until then nobody
/// has an opinion.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct AuthorizeRoute(Arc<OnceLock<Router>>);

impl AuthorizeRoute {
    /// From now on this answers. Another one later changes nothing.
    pub(in crate::commands) fn set(&self, router: Router) {
        // It is served once in the life of a process.
        drop(self.0.set(router));
    }

    pub(super) fn router(&self) -> Router {
        Router::new().route(PATH, any(answer)).with_state(self.clone())
    }
}

async fn answer(State(route): State<AuthorizeRoute>, mut request: Request) -> Response {
    let Some(router) = route.0.get() else { return no_opinion() };
    let shown = request.extensions_mut().remove::<PeerCertificate>();
    if let Some(name) = shown.and_then(|certificate| common_name(&certificate)) {
        request.extensions_mut().insert(PeerCommonName(name.into()));
    }
    router.clone().oneshot(request).await.into_response()
}

/// It tells nothing, so it does not matter who asks, and what.
fn no_opinion() -> Response {
    Json(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "status": {"allowed": false, "reason": "sojourn has just been started"},
    }))
    .into_response()
}

/// Whose certificate it is: the one common name in it. With two nobody can say who is meant.
fn common_name(certificate: &PeerCertificate) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(&certificate.0).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

/// The authorities in a file of PEM, at least one.
pub(super) fn authorities(pem: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| anyhow!("cannot read a certificate: {error}"))?;
        roots.add(certificate).context("cannot use a certificate as an authority")?;
    }
    if roots.is_empty() {
        return Err(anyhow!("there is no certificate in it"));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::body::Body;
    use axum::routing::post;
    use http_body_util::BodyExt as _;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::Value;

    use super::*;

    fn certificate(names: &[&str]) -> (String, PeerCertificate) {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), PeerCertificate(certificate.der().as_ref().into()))
    }

    async fn ask(route: &AuthorizeRoute, shown: Option<PeerCertificate>) -> String {
        let mut request = Request::post("/authorize").body(Body::empty()).expect("a request");
        if let Some(shown) = shown {
            request.extensions_mut().insert(shown);
        }
        let answer = route.router().oneshot(request).await.expect("an answer");
        let bytes = answer.into_body().collect().await.expect("a whole answer").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn before_the_families_are_served_nobody_has_an_opinion() {
        let route = AuthorizeRoute::default();
        let answer: Value = serde_json::from_str(&ask(&route, None).await).expect("JSON");
        assert_eq!(answer["status"]["allowed"], false);
        assert_eq!(answer["status"]["denied"], Value::Null);
    }

    #[tokio::test]
    async fn whoever_shows_a_certificate_is_known_by_its_common_name() {
        let route = AuthorizeRoute::default();
        let whose = async |name: Option<Extension<PeerCommonName>>| {
            name.map_or_else(|| "nobody".to_owned(), |Extension(name)| name.0.to_string())
        };
        route.set(Router::new().route("/authorize", post(whose)));
        assert_eq!(ask(&route, None).await, "nobody");
        let (_, shown) = certificate(&["kube-apiserver"]);
        assert_eq!(ask(&route, Some(shown)).await, "kube-apiserver");
        assert_eq!(ask(&route, Some(PeerCertificate([0, 1, 2].into()))).await, "nobody");
        let (_, shown) = certificate(&[]);
        assert_eq!(ask(&route, Some(shown)).await, "nobody");
    }

    #[test]
    fn a_file_without_authorities_is_refused() {
        let (pem, _) = certificate(&["authority"]);
        assert_eq!(authorities(format!("{pem}{pem}").as_bytes()).expect("two").len(), 2);
        for wrong in ["", "nothing", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"]
        {
            authorities(wrong.as_bytes()).expect_err(wrong);
        }
    }
}
