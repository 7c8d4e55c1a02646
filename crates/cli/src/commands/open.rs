//! `sojourn open`: a link that signs a browser in.

use anyhow::{Context as _, anyhow};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use sojourn_apiserver::folder::SafeFolder;

use super::connect::{self, ApiContext};
use super::{data, table};
use crate::args::Open;
use crate::exit::{Exit, Failure};

/// Where `sojourn up` says where it serves people, beside the kubeconfig.
pub(super) const WEB_FILE: &str = "web";

pub(super) fn run(open: Open) -> Result<(), Failure> {
    connect::run(async move {
        let web = match &open.web {
            Some(web) => web.trim_end_matches('/').to_owned(),
            None => remembered(&open)?,
        };
        let api_context = ApiContext::find(&open.connection).await?;
        let token = api_context.config.auth_info.token.as_ref().ok_or_else(|| {
            let error = anyhow!("the kubeconfig has no token to show");
            Failure::new(Exit::Usage, error, "Use one with a token: --kubeconfig FILE.")
        })?;
        let client = client(&api_context)?;
        let unreachable = |error: reqwest::Error| {
            let error =
                anyhow::Error::from(error.without_url()).context(format!("cannot ask {web}"));
            Failure::unavailable(error, "Is it up? Another place: --web URL.")
        };
        let answer = client
            .post(format!("{web}/open"))
            .bearer_auth(token.expose_secret())
            .send()
            .await
            .map_err(unreachable)?;
        let status = answer.status();
        if !status.is_success() {
            let error = anyhow!("{web} answers {status}");
            return Err(Failure::new(Exit::Negative, error, "Is the token of that API?"));
        }
        let answer: Value = answer.json().await.map_err(unreachable)?;
        let url = answer.get("url").and_then(Value::as_str).unwrap_or_default();
        table::write(&format!("{url}\n"));
        Ok(())
    })
}

/// What `sojourn up` left beside the kubeconfig that is used.
fn remembered(open: &Open) -> Result<String, Failure> {
    let folder = match &open.connection.kubeconfig {
        Some(file) => file.parent().map(std::path::Path::to_owned).unwrap_or_default(),
        None => match std::env::var_os("KUBECONFIG") {
            Some(file) if !file.is_empty() => std::path::Path::new(&file)
                .parent()
                .map(std::path::Path::to_owned)
                .unwrap_or_default(),
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
