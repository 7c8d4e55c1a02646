//! The way to the operator: one address, which is shown the token of this Pod.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::{Response, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use sojourn_core::key::Key;
use sojourn_drivers::trust;
use sojourn_operator::game::sdk::GameServerView;
use sojourn_operator::game::sdk::sidecar::{CallError, Upstream, answered};
use sojourn_operator::game::sdk::wire::{self, Call, MAX_ANSWER_BYTES};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The operator ends a connection that nobody uses for ten seconds: it is not used again just then.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct HttpUpstream {
    client: reqwest::Client,
    url: Url,
    token_file: PathBuf,
}

impl HttpUpstream {
    /// Trusts those who signed `ca_bundle`, or, without one, those whom the system trusts.
    pub(super) fn new(
        url: &str,
        server: &Key,
        token_file: PathBuf,
        ca_bundle: Option<&str>,
    ) -> anyhow::Result<Self> {
        let base = Url::parse(url).with_context(|| format!("{url} is no URL"))?;
        let is_loopback = base.host_str().is_some_and(|host| {
            host.trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
        });
        if base.scheme() != "https" && !(base.scheme() == "http" && is_loopback) {
            return Err(anyhow!("{url} is not private: the token goes there by https alone"));
        }
        let url = base.join(&wire::path(&server.namespace, &server.name)).context("no address")?;
        let tls = match ca_bundle {
            Some(pem) => pinned(pem)?,
            None => trust::trust(None).context("cannot set up TLS")?,
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .context("cannot make a client")?;
        Ok(Self { client, url, token_file })
    }

    async fn ask(&self, call: &Call) -> Result<GameServerView, CallError> {
        let token = tokio::fs::read_to_string(&self.token_file).await.map_err(|error| {
            CallError::Unheard(format!("cannot read {}: {error}", self.token_file.display()))
        })?;
        let request = self.client.post(self.url.clone()).bearer_auth(token.trim()).json(call);
        let response = request.send().await.map_err(|error| {
            let never_sent = error.is_connect() || error.is_builder();
            let error = anyhow::Error::new(error.without_url());
            let words = format!("the operator is not reached: {error:#}");
            if never_sent { CallError::Unheard(words) } else { CallError::Unsure(words) }
        })?;
        let status = response.status();
        answered(status, &read(response).await?)
    }
}

impl Upstream for HttpUpstream {
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<GameServerView, CallError>> {
        self.ask(call).boxed()
    }
}

/// The whole body, within its bound.
async fn read(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    loop {
        let chunk = response.chunk().await.map_err(|error| {
            CallError::Unsure(format!("the operator's answer is cut off: {}", error.without_url()))
        })?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(CallError::Unsure("the operator's answer is too long".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
}

/// Trusts those who signed these certificates, and nobody else.
fn pinned(pem: &str) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate =
            certificate.map_err(|error| anyhow!("cannot read SOJOURN_SDK_CA: {error}"))?;
        roots.add(certificate).context("SOJOURN_SDK_CA cannot be trusted")?;
    }
    if roots.is_empty() {
        return Err(anyhow!("there is no certificate in SOJOURN_SDK_CA"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot set up TLS")?;
    Ok(tls.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(url: &str, ca_bundle: Option<&str>) -> anyhow::Result<HttpUpstream> {
        HttpUpstream::new(url, &Key::new("play", "arena-1"), PathBuf::from("token"), ca_bundle)
    }

    #[test]
    fn a_token_goes_to_private_addresses_alone() {
        let made = upstream("https://sojourn-sdk:7444", None).expect("a way");
        assert_eq!(made.url.as_str(), "https://sojourn-sdk:7444/v1/sdk/play/arena-1");
        upstream("http://127.0.0.1:7444", None).expect("on this machine");
        for url in ["http://sojourn-sdk:7444", "http://10.0.0.1", "sojourn-sdk", "ftp://127.0.0.1"]
        {
            upstream(url, None).expect_err(url);
        }
        upstream("https://sojourn-sdk", Some("no certificate")).expect_err("nobody is trusted");
    }
}
