//! `sojourn node --publish-ports`, for those who cannot dial into Pods; and what such a node's Pods are
//! told about the API.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

const SERVER: &str = r#"
import os, socket
server = socket.create_server(("0.0.0.0", 8080))
while True:
    s, _ = server.accept()
    where = (os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
    try:
        socket.create_connection(where, 20).close()
        s.sendall(b"reached %s:%d after %s" % (where[0].encode(), where[1], s.recv(100)))
    except OSError as error:
        s.sendall(type(error).__name__.encode())
    s.close()
"#;

#[tokio::test]
async fn a_node_publishes_the_ports_of_its_pods_and_says_where_the_api_is() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(&folder.join("api"), &["--no-pods"]).await;
    let kubeconfig = up.server.kubeconfig();
    let mut node = command(&["node", "--name", "second", "--publish-ports"]);
    node.args(["--pod-ports", "23000-23099", "--kubeconfig"]).arg(&kubeconfig);
    node.arg("--data").arg(folder.join("node"));
    let node = Running::start(node);
    node.stderr_line("Node second is up.");
    let pod = json!({
        "nodeName": "second",
        "containers": [{
            "command": ["/usr/bin/python3", "-uc", SERVER],
            "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1},
        }],
    });
    up.create("main", &pod).await;
    let pod = up.until("main", running()).await;
    let ports = pod["metadata"]["annotations"]["sojourn.dev/ports"].as_str().expect("ports");
    let ports: Value = serde_json::from_str(ports).expect("JSON");
    let port = ports["web"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    assert!((23000..=23099).contains(&port), "{ports}");
    let config = std::fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it leads in");
        stream.write_all(b"hello").expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is answered");
        answer
    });
    let answer = answer.await.expect("an answer");
    let api = answer.strip_prefix("reached ").and_then(|rest| rest.strip_suffix(" after hello"));
    let api = api.unwrap_or_else(|| panic!("{answer}"));
    assert!(config.contains(&format!("https://{api}")), "{api} is not in {config}");
    interrupt(node);
    interrupt(up.server);
}
