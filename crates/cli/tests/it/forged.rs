//! Credentials that nobody gave out, in every spelling that we know of, against the running binary:
//! none of them gets in. Each case is a row; the rows stand in `forged/`.

mod api;
mod people;
mod raw;

use std::path::Path;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use crate::client;
use crate::folder::Folder;
use crate::process::Running;

/// One request, and what may come of it.
#[derive(Clone)]
pub(crate) struct Case {
    /// What is tried, for the message of a failure.
    name: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    /// The answers that give nothing away.
    refused: &'static [u16],
}

/// A token of a service account that nobody gave any right to.
async fn powerless_token(kubeconfig: &Path, name: &str, audiences: Vec<String>) -> String {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client::connect(kubeconfig).await);
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await.expect("an account");
    let spec = TokenRequestSpec { audiences: Some(audiences), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
    answer.expect("a token").status.and_then(|status| status.token).expect("its text")
}

#[tokio::test]
async fn no_forged_credential_is_taken_by_the_api() {
    let folder = Folder::new();
    let server = Running::up_in_memory(&folder, &["--no-pods"]);
    let kubeconfig = server.kubeconfig();
    let token = powerless_token(&kubeconfig, "powerless", Vec::new()).await;
    let elsewhere = powerless_token(&kubeconfig, "elsewhere", vec!["vault".to_owned()]).await;
    let gone = powerless_token(&kubeconfig, "gone", Vec::new()).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client::connect(&kubeconfig).await);
    accounts.delete("gone", &DeleteParams::default()).await.expect("deleted");

    let access = raw::Access::to_api(&server);
    let honest = [("Authorization", format!("Bearer {token}"))];
    let version = access.status("GET", "/api", &honest).await;
    assert_eq!(version, 200, "what is forged below is made of a token that works");
    let known = api::AttackerKnowledge { admin: raw::token(&kubeconfig), token, elsewhere, gone };
    let cases = api::cases(&known);
    assert!(cases.len() >= 90, "only {} cases", cases.len());
    for case in cases {
        let status = access.status(case.method, &case.path, &case.headers).await;
        assert!(case.refused.contains(&status), "{}: {} gives {status}", case.name, case.path);
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_nobodys() {
    let folder = Folder::new();
    let server = Running::up_in_memory(&folder, &["--no-pods", "--no-controllers"]);
    for (name, group) in [("admin", "system:masters"), ("system:node:local", "system:nodes")] {
        let access = raw::Access::to_api(&server).with_certificate_of_its_own(name, group);
        // The handshake ends it, or the request is nobody's.
        let status = access.try_status("GET", "/api/v1/secrets", &[]).await;
        assert!(matches!(status, None | Some(401)), "{name}: {status:?}");
    }
}

#[tokio::test]
async fn no_forged_credential_is_taken_where_people_come_in() {
    let folder = Folder::new();
    let server = Running::up_in_memory(&folder, &["--no-pods"]);
    let token = powerless_token(&server.kubeconfig(), "powerless", Vec::new()).await;
    let access = raw::Access::to_people(&server);
    let cases = people::cases(access.address(), &token);
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    for case in cases {
        let status = access.status(case.method, &case.path, &case.headers).await;
        assert!(case.refused.contains(&status), "{}: {} gives {status}", case.name, case.path);
    }
}
