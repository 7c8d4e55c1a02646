//! The listener for people, as commands ask it: where it is, and who asks.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::Config;
use kube::client::middleware::AuthLayer;
use kube::client::{Body, ConfigExt as _};
use serde_json::Value;
use sojourn_apiserver::folder::SafeFolder;
use sojourn_drivers::trust::{trust_also, trust_nobody};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use super::kubeconfig_search::SelectedKubeconfig;
use super::{api_error, data};
use crate::args::{Connection, People};
use crate::exit::{Exit, Failure};

/// Where `sojourn up` says where it serves people, beside the kubeconfig.
pub(super) const WEB_FILE: &str = "web";

/// A client that shows the token of a kubeconfig.
pub(super) struct PeopleClient {
    web: String,
    credentials: Credentials,
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
    pub(super) async fn find(connection: &Connection, people: &People) -> Result<Self, Failure> {
        let web = match &people.web {
            Some(web) => web.trim_end_matches('/').to_owned(),
            None => remembered(connection)?,
        };
        let selected = SelectedKubeconfig::find(connection)?;
        let config = selected.config(connection.context.as_deref()).await?;
        let client = client(&config, &web, people.web_ca.as_deref())?;
        let credentials = Credentials::of(&config).await;
        let credentials = credentials.map_err(|error| selected.unusable(error))?.ok_or_else(|| {
            let error = anyhow!("the kubeconfig has no token to show");
            let advice = "People are known here by a token, and by no client certificate or password: \
                          use a kubeconfig with a token, or with a program that gets one \
                          (--kubeconfig FILE, --context NAME).";
            Failure::new(Exit::Usage, error, advice)
        })?;
        let namespace =
            connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self { web, credentials, client, namespace })
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
        let header = self.credentials.header().await.map_err(|error| {
            let advice = "Sign in anew with the program that made them, or use another kubeconfig \
                          (--kubeconfig FILE).";
            let error = error.context("the credentials of the kubeconfig cannot be used");
            Failure::unavailable(error, advice)
        })?;
        let mut request = self.client.request(method, url);
        if let Some(header) = header {
            request = request.header(AUTHORIZATION, header);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Answer { status, body })
    }

    fn unreachable(&self, cause: &reqwest::Error) -> Failure {
        let (words, _) = api_error::no_answer(cause, &self.web);
        let error = anyhow!(words).context("cannot ask where people are served");
        let advice = match api_error::is_untrusted(cause) {
            true => "Name a file with the authority that has signed it: --web-ca FILE.",
            false => "Start it, such as with `sojourn up`, or say where it is: --web URL.",
        };
        Failure::unavailable(error, advice)
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

/// What shows who asks: a token of the kubeconfig, of a file that it names, or of a program that it names.
struct Credentials(AuthLayer);

impl Credentials {
    /// None, if the kubeconfig leads to no token. Runs the program, if there is one.
    async fn of(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(layer) = config.auth_layer()? else { return Ok(None) };
        let credentials = Self(layer);
        // A password is a header, too, and nobody is known by it here.
        let header = credentials.header().await?;
        let is_token = header.is_some_and(|header| header.as_bytes().starts_with(b"Bearer "));
        Ok(is_token.then_some(credentials))
    }

    /// What to show now: a token that has ended is got anew.
    fn header(&self) -> BoxFuture<'static, anyhow::Result<Option<HeaderValue>>> {
        let shown = service_fn(|request: Request<Body>| {
            let header = request.headers().get(AUTHORIZATION).cloned();
            std::future::ready(Ok::<_, BoxError>(Response::new(header)))
        });
        let asked = self.0.layer(shown).oneshot(Request::new(Body::empty()));
        asked.map_ok(Response::into_body).map_err(|error| anyhow!(error)).boxed()
    }
}

/// A client that trusts the system's authorities, those of `ca_file`, and the API's: the listener of
/// `sojourn up` has a certificate of that.
fn client(config: &Config, web: &str, ca_file: Option<&Path>) -> Result<reqwest::Client, Failure> {
    let is_https = web.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let tls = match (is_https, ca_file) {
        (false, None) => trust_nobody(),
        _ => {
            let ours = config.root_cert.iter().flatten().cloned();
            trust_also(ca_file, ours.map(Into::into))
        }
    };
    let tls = tls.map_err(|error| {
        Failure::new(Exit::Usage, error, "Name a file with certificates in PEM: --web-ca FILE.")
    })?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .context("cannot make a client")
        .map_err(|error| Failure::new(Exit::Bug, error, "Please report it."))
}
