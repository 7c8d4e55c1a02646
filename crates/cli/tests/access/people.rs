//! People who use the API and our commands, each with a token of their own.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::client;
use crate::process::{Ended, Running, command};

/// Somebody with an account of the API, bound by no role.
pub(crate) struct Person {
    /// As the API server knows them.
    pub(crate) user: String,
    pub(crate) token: String,
    kubeconfig: PathBuf,
    namespace: String,
    web: String,
    client: Client,
}

impl Person {
    /// Takes on somebody who has an account already.
    pub(crate) async fn of_account(
        administrator: &Path,
        folder: &Path,
        namespace: &str,
        name: &str,
        web: &str,
    ) -> Self {
        let api = client::connect(administrator).await;
        let token = crate::wait::eventually(&format!("{name} has a token"), async || {
            token_of(&api, namespace, name).await
        })
        .await;
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        write_kubeconfig(administrator, &token, &kubeconfig);
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            token,
            client: client::connect(&kubeconfig).await,
            kubeconfig,
            namespace: namespace.to_owned(),
            web: web.to_owned(),
        }
    }

    /// Runs one of our commands as this person.
    pub(crate) fn asks(&self, words: &[&str]) -> Ended {
        let mut asked = command(words);
        asked.arg("--kubeconfig").arg(&self.kubeconfig);
        asked.args(["--namespace", &self.namespace]);
        if !["plan", "why"].contains(&words[0]) {
            asked.args(["--web", &self.web]);
        }
        Running::start(asked).ended()
    }

    /// The same, which must go well; what is printed, as JSON.
    pub(crate) fn gets(&self, words: &[&str]) -> Value {
        let printed = good(self.asks(&[words, &["--output", "json"]].concat()));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"))
    }

    /// The same, which must be refused; what is said.
    pub(crate) fn is_refused(&self, words: &[&str]) -> String {
        let ended = self.asks(words);
        assert_eq!(ended.code, Some(1), "{words:?}: {}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.stdout, "", "{words:?}");
        ended.stderr
    }

    /// Sends one request that needs the rights of the group. `true`: it was allowed, so it was a use.
    pub(crate) async fn is_allowed(&self) -> bool {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        match maps.get_opt("kube-root-ca.crt").await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// A token of a service account; nothing while there is no such account.
pub(crate) async fn token_of(api: &Client, namespace: &str, name: &str) -> Option<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(api.clone(), namespace);
    let asked = TokenRequest::default();
    let made = accounts.create_token_request(name, &PostParams::default(), &asked).await.ok()?;
    made.status?.token
}

/// An administrator's kubeconfig with another token.
pub(crate) fn write_kubeconfig(administrator: &Path, token: &str, file: &Path) {
    let config = Kubeconfig::read_from(administrator).expect("a kubeconfig");
    let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(file, config.to_string()).expect("a file");
}

/// What a command said that went well.
pub(crate) fn good(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}
