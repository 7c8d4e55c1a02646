//! Services of the machine that belong to one Pod alone: the test itself is the node that has them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use sojourn_node::confine::NetworkMode;
use sojourn_node::folder::{NodeFolder, PodFolder};
use sojourn_node::{Agent, Config, PodServices, PodsOnStop};

use super::lacking::{FILTER, NETWORK_NAMESPACES};
use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sojourn");

/// Tries each port of 127.0.0.1 that it is given, and says what is there.
const VISIT: &str = r#"
import socket, sys, time
for port in sys.argv[1:]:
    try:
        with socket.create_connection(("127.0.0.1", int(port)), 20) as s:
            print(port, s.recv(100).decode() or "nothing")
    except OSError as error:
        print(port, type(error).__name__)
print("done")
while True: time.sleep(1)
"#;

/// A service that says its name to whoever comes.
fn service(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = std::io::Write::write_all(&mut stream, name.as_bytes());
        }
    });
    address
}

/// What each Pod has, by name; of others it is not known yet.
#[derive(Debug, Default)]
struct Services(Mutex<BTreeMap<String, Vec<SocketAddr>>>);

impl Services {
    fn set(&self, pod: &str, own: Vec<SocketAddr>) {
        self.0.lock().expect("nobody panicked").insert(pod.to_owned(), own);
    }
}

impl PodServices for Services {
    fn reachable(&self, pod: &Pod) -> Option<Vec<SocketAddr>> {
        let name = pod.metadata.name.as_deref()?;
        self.0.lock().expect("nobody panicked").get(name).cloned()
    }
}

async fn start_node(up: &Up, folder: &Folder, program: PathBuf, own: &Arc<Services>) -> Agent {
    let mut config = Config::new("second", folder.join("node"), program);
    config.pod_services = Some(own.clone());
    let client = client::connect(&up.server.kubeconfig()).await;
    Agent::start(config, client, None).await.expect("a node")
}

fn visitor(ports: &[u16]) -> Value {
    let mut command = vec!["/usr/bin/python3".to_owned(), "-uc".to_owned(), VISIT.to_owned()];
    command.extend(ports.iter().map(u16::to_string));
    json!({"nodeName": "second", "containers": [{"command": command}]})
}

async fn pod_folder(up: &Up, folder: &Folder, pod: &str) -> PodFolder {
    let found = pods(&up.client).get(pod).await.expect("it is there");
    NodeFolder::new(folder.join("node")).pod(&found.metadata.uid.expect("it has a uid"))
}

/// What a Pod found in one of its runs, once it has tried everything. The node serves no logs here.
async fn findings(up: &Up, folder: &Folder, pod: &str, attempt: u32) -> Vec<String> {
    let log = pod_folder(up, folder, pod).await.log("main", attempt);
    let read = async {
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            // Before each line stand its time, its stream and whether it is whole.
            let words = text.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
            let words: Vec<String> = words.map(str::to_owned).collect();
            if words.iter().any(|line| line == "done") {
                return words;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    timeout(POD_TIMEOUT, read).await.unwrap_or_else(|_| panic!("{pod} finds nothing"))
}

fn expected(ports: [u16; 2], answers: [&str; 2]) -> Vec<String> {
    let lines = ports.iter().zip(answers).map(|(port, answer)| format!("{port} {answer}"));
    lines.chain(["done".to_owned()]).collect()
}

const REFUSED: &str = "ConnectionRefusedError";

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_one_pod_is_reached_by_that_pod_and_refused_to_all_others() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(&folder.join("api"), &["--no-pods"]).await;
    let (of_a, of_b) = (service("a's own"), service("b's own"));
    let ports = [of_a.port(), of_b.port()];
    let own = Arc::new(Services::default());
    own.set("a", vec![of_a]);
    own.set("c", Vec::new());
    let node = start_node(&up, &folder, PROGRAM.into(), &own).await;
    assert!(node.enforces_pod_services(), "{}", node.network());
    for pod in ["a", "b", "c"] {
        up.create(pod, &visitor(&ports)).await;
    }
    // A Pod of which nothing is known yet waits for it.
    let waits = json!({
        "/status/phase": "Pending",
        "/status/containerStatuses/0/state/waiting/message": {"$matches": "not known yet"},
    });
    up.until("b", waits).await;
    own.set("b", vec![of_b]);
    for (pod, answers) in
        [("a", ["a's own", REFUSED]), ("b", [REFUSED, "b's own"]), ("c", [REFUSED, REFUSED])]
    {
        assert_eq!(findings(&up, &folder, pod, 0).await, expected(ports, answers), "{pod}");
    }

    // A Pod whose shim is started anew is asked about again, by the next node, too.
    own.set("a", vec![of_b]);
    own.set("b", vec![of_a]);
    let shim = pod_folder(&up, &folder, "b").await;
    survivors::signal(&survivors::with(&shim.path().display().to_string()), "-KILL");
    let again = findings(&up, &folder, "b", 1).await;
    assert_eq!(again, expected(ports, ["a's own", REFUSED]));
    node.stop(PodsOnStop::End).await;
    let node = start_node(&up, &folder, PROGRAM.into(), &own).await;
    let again = findings(&up, &folder, "a", 1).await;
    assert_eq!(again, expected(ports, [REFUSED, "b's own"]));
    node.stop(PodsOnStop::End).await;
    interrupt(up.server);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_machines_network_the_port_of_its_service_is_allowed_to_a_pod() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(&folder.join("api"), &["--no-pods"]).await;
    let (of_a, of_b) = (service("a's own"), service("b's own"));
    let ports = [of_a.port(), of_b.port()];
    let own = Arc::new(Services::default());
    own.set("a", vec![of_a]);
    own.set("b", vec![of_b]);
    let node = start_node(&up, &folder, without_namespaces(&folder), &own).await;
    assert!(!node.enforces_pod_services(), "others may reach it, too");
    let NetworkMode::Machine { is_held_to_ports, .. } = node.network() else {
        panic!("{}", node.network());
    };
    let denied = |word| if *is_held_to_ports { "PermissionError" } else { word };
    if !is_held_to_ports {
        skip::part("this kernel's Landlock has no rules for TCP");
    }
    for (pod, answers) in
        [("a", ["a's own", denied("b's own")]), ("b", [denied("a's own"), "b's own"])]
    {
        up.create(pod, &visitor(&ports)).await;
        assert_eq!(findings(&up, &folder, pod, 0).await, expected(ports, answers), "{pod}");
    }
    node.stop(PodsOnStop::End).await;
    interrupt(up.server);
}

/// Our program, where no network namespace can be made.
fn without_namespaces(folder: &Folder) -> PathBuf {
    let (filter, program) = (folder.join("filter.py"), folder.join("sojourn"));
    std::fs::write(&filter, FILTER).expect("a file");
    let line = format!(
        "#!/bin/sh\nexec /usr/bin/python3 {} '{NETWORK_NAMESPACES}' {PROGRAM} \"$@\"\n",
        filter.display()
    );
    std::fs::write(&program, line).expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
    program
}
