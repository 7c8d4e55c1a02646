use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "hunter2";

fn good() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "one", "cluster": {"server": "https://192.0.2.1:6443/k8s"}}],
        "users": [{"name": "us", "user": {"token": SECRET}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "us"}}],
    })
}

async fn read_value(kubeconfig: &Value) -> Result<Config, KubeconfigProblem> {
    read(&kubeconfig.to_string()).await
}

#[tokio::test]
async fn an_address_and_a_credential_are_taken_and_nothing_is_sent_twice() {
    let config = read_value(&good()).await.expect("it is good");
    assert_eq!(config.cluster_url.to_string(), "https://192.0.2.1:6443/k8s");
    assert!(config.auth_info.token.is_some() && config.auth_info.token_file.is_none());
    assert!(!config.default_retry && !config.accept_invalid_certs);
    assert!(config.proxy_url.is_none() && config.root_cert_file.is_none());
    assert!(!format!("{config:?}").contains(SECRET));

    let mut certificate = good();
    let data = STANDARD.encode("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
    certificate["users"][0]["user"] =
        json!({"client-certificate-data": data, "client-key-data": data});
    read_value(&certificate).await.expect("it is good");
}

#[tokio::test]
async fn what_is_more_than_data_is_refused_in_whichever_entry_it_stands() {
    let cluster_fields = [
        ("certificate-authority", json!("/etc/ca.crt")),
        ("proxy-url", json!("http://192.0.2.9:3128")),
        ("insecure-skip-tls-verify", json!(true)),
    ];
    let user_fields = [
        ("exec", json!({"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"})),
        ("auth-provider", json!({"name": "gcp", "config": {"cmd-path": "/bin/gcloud"}})),
        ("tokenFile", json!("/var/run/secrets/kubernetes.io/serviceaccount/token")),
        ("client-certificate", json!("/etc/client.crt")),
        ("client-key", json!("/etc/client.key")),
    ];
    let all = cluster_fields.map(|(field, value)| ("clusters", "cluster", field, value));
    let all =
        all.into_iter().chain(user_fields.map(|(field, value)| ("users", "user", field, value)));
    for (list, entry, field, value) in all {
        let mut used = good();
        used[list][0][entry][field] = value.clone();
        let mut unused = good();
        let other = json!({"name": "other", entry: {field: value}});
        unused[list].as_array_mut().expect("a list").push(other);
        for kubeconfig in [used, unused] {
            let problem = read_value(&kubeconfig).await.expect_err(field);
            let is_it = |name: &str| matches!(problem, KubeconfigProblem::Refused { field, .. } if field == name);
            assert!(is_it(field), "{field}: {problem}");
            assert!(problem.to_string().contains(field), "{problem}");
        }
    }
    let mut explicit = good();
    explicit["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(false);
    read_value(&explicit).await.expect("that is how it is");
}

#[tokio::test]
async fn what_says_too_little_is_refused_and_none_of_it_is_repeated() {
    let changed = |path: &str, value: Value| {
        let mut kubeconfig = good();
        *kubeconfig.pointer_mut(path).expect("it is there") = value;
        kubeconfig.to_string()
    };
    let server = |url: &str| changed("/clusters/0/cluster/server", json!(url));
    let user = |user: Value| changed("/users/0/user", user);
    let cases = [
        ("x".repeat(MAX_BYTES + 1), KubeconfigProblem::TooLong),
        (SECRET.to_owned(), KubeconfigProblem::Unreadable),
        (format!("users: {SECRET}"), KubeconfigProblem::Unreadable),
        (String::new(), KubeconfigProblem::NoContext),
        (changed("/current-context", json!(SECRET)), KubeconfigProblem::NoContext),
        (changed("/clusters/0/name", json!(SECRET)), KubeconfigProblem::NoCluster),
        (changed("/clusters/0/cluster", json!({})), KubeconfigProblem::NoCluster),
        (changed("/users/0/name", json!(SECRET)), KubeconfigProblem::NoCredential),
        (user(json!({})), KubeconfigProblem::NoCredential),
        (user(json!({"client-certificate-data": "eA=="})), KubeconfigProblem::NoCredential),
        (server("http://192.0.2.1"), KubeconfigProblem::Server),
        (server("https://me:hunter2@192.0.2.1"), KubeconfigProblem::Server),
        (server("192.0.2.1:6443"), KubeconfigProblem::Server),
        (server("not a url"), KubeconfigProblem::Server),
        (
            changed(
                "/clusters/0/cluster",
                json!({"server": "https://a", "certificate-authority-data": SECRET}),
            ),
            KubeconfigProblem::Authority,
        ),
    ];
    for (text, expected) in cases {
        let problem = read(&text).await.expect_err("it is refused");
        assert_eq!(problem, expected);
        let shown = format!("{problem} {problem:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}
