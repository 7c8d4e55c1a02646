//! The listener for people, as commands ask it: where it is, and who asks.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use http::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sojourn_apiserver::folder::SafeFolder;

use super::connect::ApiContext;
use super::{api_error, data};
use crate::args::Connection;
use crate::exit::{Exit, Failure};

/// Where `sojourn up` says where it serves people, beside the kubeconfig.
pub(super) const WEB_FILE: &str = "web";

/// A client that shows the token of a kubeconfig.
pub(super) struct PeopleClient {
    web: String,
    token: SecretString,
    client: reqwest::Client,
    /// Of the kubeconfig, or the one that was asked for.
    pub(super) namespace: String,
}

/// What the listener answers.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Nothing, where it is no JSON.
    pub(super) body: Value,
}

impl PeopleClient {
    /// `web`: where people are served, if that was said.
    pub(super) async fn find(connection: &Connection, web: Option<&str>) -> Result<Self, Failure> {
        let web = match web {
            Some(web) => web.trim_end_matches('/').to_owned(),
            None => remembered(connection)?,
        };
        let api_context = ApiContext::find(connection).await?;
        let token = api_context.config.auth_info.token.clone().ok_or_else(|| {
            let error = anyhow!("the kubeconfig has no token to show");
            Failure::new(Exit::Usage, error, "Use one with a token: --kubeconfig FILE.")
        })?;
        let client = client(&api_context)?;
        Ok(Self { web, token, client, namespace: api_context.namespace })
    }

    /// Where it is.
    pub(super) fn web(&self) -> &str {
        &self.web
    }

    /// Asks once. `path` begins with a slash.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let url = format!("{}{path}", self.web);
        let mut request = self.client.request(method, url).bearer_auth(self.token.expose_secret());
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Answer { status, body })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let (words, _) = api_error::no_answer(error, &self.web);
        let error = anyhow!(words).context("cannot ask where people are served");
        Failure::unavailable(
            error,
            "Start it, such as with `sojourn up`, or say where it is: --web URL.",
        )
    }
}

/// What `sojourn up` left beside the kubeconfig that is used.
fn remembered(connection: &Connection) -> Result<String, Failure> {
    let beside = |file: &Path| file.parent().map(Path::to_owned).unwrap_or_default();
    let folder = match &connection.kubeconfig {
        Some(file) => beside(file),
        None => match std::env::var_os("KUBECONFIG") {
            Some(file) if !file.is_empty() => beside(Path::new(&file)),
            _ => data::directory(None)?,
        },
    };
    // Our token goes wherever it says: nobody else may have written it.
    let read = SafeFolder::open(&folder).and_then(|folder| folder.read(WEB_FILE));
    let advice = "Is `sojourn up` running? Or say where: --web URL.";
    match read {
        Ok(Some(text)) => Ok(text.trim().to_owned()),
        Ok(None) => {
            let error = anyhow!("there is no {}", folder.join(WEB_FILE).display());
            Err(Failure::unavailable(error, advice))
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context("cannot tell where people sign in");
            Err(Failure::unavailable(error, advice))
        }
    }
}

/// A client that trusts the API's authority: the web listener has the same.
fn client(api_context: &ApiContext) -> Result<reqwest::Client, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in api_context.config.root_cert.iter().flatten() {
        // One that cannot be read is not trusted.
        let _ = roots.add(certificate.clone().into());
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots).with_no_client_auth());
    let bug = |error: anyhow::Error| Failure::new(Exit::Bug, error, "Please report it.");
    let tls = tls.context("cannot set up TLS").map_err(bug)?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .context("cannot make a client")
        .map_err(bug)
}
