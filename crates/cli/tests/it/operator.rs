//! `sojourn operator` on an API without controllers: two replicas, both of which serve people.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use sojourn_api::install;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::connect;
use crate::folder::Folder;
use crate::metrics::{assert_accepted, get};
use crate::process::{Ended, Running, command};

/// An API that knows our kinds, and whose kubeconfig may do everything.
async fn cluster(folder: &Folder) -> (Running, Client) {
    let server = Running::up_in_memory(folder, &["--no-pods", "--no-controllers"]);
    let client = connect(&server.kubeconfig()).await;
    let params = PostParams::default();
    for definition in sojourn_api::crds() {
        Api::all(client.clone()).create(&params, &definition).await.expect("a definition");
    }
    Api::all(client.clone()).create(&params, &install::namespace()).await.expect("a namespace");
    (server, client)
}

/// The token of an ordinary account.
async fn token(client: &Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let metadata = ObjectMeta { name: Some("ada".to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.expect("an account");
    let request = TokenRequest::default();
    let made = accounts.create_token_request("ada", &PostParams::default(), &request).await;
    made.expect("a token").status.expect("a status").token.expect("a token")
}

/// A certificate that is given to the operator, and whoever believes it.
struct Given {
    certificate: String,
    key: String,
    connector: TlsConnector,
}

fn given(folder: &Folder) -> Given {
    let names = ["people.example", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).expect("made");
    let (certificate, key) = (folder.join("web.crt"), folder.join("web.key"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let text = |path: &Path| path.display().to_string();
    let connector = TlsConnector::from(Arc::new(config));
    Given { certificate: text(&certificate), key: text(&key), connector }
}

fn operator(kubeconfig: &Path, given: &Given) -> Running {
    let mut operator = command(&["operator", "--web", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    operator.args(["--web-tls-cert", &given.certificate, "--web-tls-key", &given.key]);
    operator.arg("--kubeconfig").arg(kubeconfig);
    Running::start(operator)
}

/// The kubeconfig of somebody who shows who they are like this.
fn kubeconfig_of(administrator: &Path, user: &Value, file: &Path) -> String {
    let config = Kubeconfig::read_from(administrator).expect("a kubeconfig");
    let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(file, config.to_string()).expect("a file");
    file.display().to_string()
}

/// Sends a request to one replica, under the name by which people know all of them.
async fn ask(replica: &Running, given: &Given, head: &str) -> String {
    let url = replica.field("web");
    let site = url.strip_prefix("https://").expect("with TLS");
    let stream = TcpStream::connect(site).await.expect("it listens");
    let name = ServerName::try_from("people.example").expect("a name");
    let mut stream = given.connector.connect(name, stream).await.expect("its certificate is ours");
    let request = format!(
        "{head} HTTP/1.1\r\nHost: people.example\r\nContent-Length: 0\r\n\
         Sec-Fetch-Site: same-origin\r\nConnection: close\r\n"
    );
    let request = match head.split_once('\n') {
        Some((line, more)) => request.replace(head, line) + more + "\r\n\r\n",
        None => request + "\r\n",
    };
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // The other side may close without a farewell of TLS.
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_serves_people_over_tls_with_the_certificate_it_was_given() {
    let folder = Folder::new();
    let (server, client) = cluster(&folder).await;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sojourn"},
        "data": {"lab.yaml": "publicURL: https://people.example"},
    });
    let config: k8s_openapi::api::core::v1::ConfigMap =
        serde_json::from_value(config).expect("a ConfigMap");
    let maps = Api::namespaced(client.clone(), "sojourn-system");
    maps.create(&PostParams::default(), &config).await.expect("configured");
    let (token, given) = (token(&client).await, given(&folder));
    let first = operator(&server.kubeconfig(), &given);
    first.stderr_line("The operator is up.");
    let second = operator(&server.kubeconfig(), &given);
    second.stderr_line("Standing by as ");

    // Whoever stands by takes a token, and makes a link that is good at whoever leads.
    let minted = ask(&second, &given, &format!("POST /open\nAuthorization: Bearer {token}")).await;
    assert!(minted.starts_with("HTTP/1.1 201"), "{minted}");
    let body = minted.split_once("\r\n\r\n").expect("a body").1;
    let body = &body[body.find('{').expect("JSON")..=body.rfind('}').expect("JSON")];
    let link: Value = serde_json::from_str(body).expect("JSON");
    let link = link["url"].as_str().expect("a link");
    let path = link.strip_prefix("https://people.example").expect("it is https");
    let signed_in = ask(&first, &given, &format!("POST {path}")).await;
    assert!(signed_in.starts_with("HTTP/1.1 303"), "{signed_in}");
    let cookie = signed_in.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.expect("a cookie");
    assert!(cookie.starts_with("__Host-sojourn=") && cookie.contains("Secure"), "{cookie}");
    // The session is good at every replica.
    let pair = cookie.split(';').next().expect("a pair");
    for replica in [&first, &second] {
        let front = ask(replica, &given, &format!("GET /\nCookie: {pair}")).await;
        assert!(front.starts_with("HTTP/1.1 200") && front.contains("ada"), "{front}");
    }
    // An address that leads to an instance is https, too.
    let away =
        ask(&second, &given, &format!("GET /go/lab/default/none/web/\nCookie: {pair}")).await;
    assert!(!away.contains("http://"), "{away}");

    for replica in [&first, &second] {
        assert_accepted(replica);
        assert!(get(replica, "/readyz").ends_with("ok"), "{}", get(replica, "/readyz"));
    }
    // Another leads; people are served at the same addresses, and sign in again.
    first.signal("TERM");
    second.stderr_line("The operator is up.");
    let front = ask(&second, &given, &format!("GET /\nCookie: {pair}")).await;
    assert!(front.starts_with("HTTP/1.1 401"), "{front}");
    let ended = first.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_speak_tls_to_whom_they_trust_and_show_a_token_wherever_it_comes_from() {
    let folder = Folder::new();
    let (server, client) = cluster(&folder).await;
    let (token, given) = (token(&client).await, given(&folder));
    let operator = operator(&server.kubeconfig(), &given);
    operator.stderr_line("The operator is up.");
    let web = operator.field("web");
    assert!(web.starts_with("https://127.0.0.1:"), "{web}");

    let administrator = server.kubeconfig();
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    };
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": token},
    });
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "cat", "args": [write("credential.json", &credential.to_string())],
    }});
    let file = json!({"tokenFile": write("token", &format!("{token}\n"))});
    let password = json!({"username": "ada", "password": "ada's"});
    let kubeconfig =
        |name: &str, user: &Value| kubeconfig_of(&administrator, user, &folder.join(name));
    let by_program = kubeconfig("program.kubeconfig", &exec);
    let by_file = kubeconfig("file.kubeconfig", &file);
    let open = |kubeconfig: &str, more: &[&str], roots: &str| -> Ended {
        let mut open = command(&["open", "--print", "--web", &web, "--kubeconfig", kubeconfig]);
        open.args(more).env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        Running::start(open).ended()
    };

    let nobody = write("nobody.crt", "");
    let named = ["--web-ca", given.certificate.as_str()];
    for (kubeconfig, more, roots) in [
        (&by_program, &named[..], &nobody),
        (&by_file, &named[..], &nobody),
        // An authority of the system.
        (&by_file, &[][..], &given.certificate),
    ] {
        let ended = open(kubeconfig, more, roots);
        assert_eq!(ended.code, Some(0), "{kubeconfig} {more:?}: {}", ended.stderr);
        assert!(ended.stdout.starts_with("https://"), "{}", ended.stdout);
    }

    let untrusted = open(&by_file, &[], &nobody);
    assert_eq!(untrusted.code, Some(3), "{}", untrusted.stderr);
    for words in ["is not trusted", "--web-ca FILE"] {
        assert!(untrusted.stderr.contains(words), "{words}: {}", untrusted.stderr);
    }
    for user in [json!({}), password] {
        let unknown = open(&kubeconfig("unknown.kubeconfig", &user), &named, &nobody);
        assert_eq!(unknown.code, Some(2), "{user}: {}", unknown.stderr);
        assert!(unknown.stderr.contains("has no token to show"), "{user}: {}", unknown.stderr);
    }
}
