//! Use that goes by a bastion host: `sojourn ssh-tracker` counts connections, Prometheus scrapes it,
//! and the controllers ask Prometheus.

use std::net::{Ipv4Addr, SocketAddr};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture, POD_PORTS};
use crate::objects::{Named, time};
use crate::person::{Person, is_phase};
use crate::process::{Running, command};
use crate::smtp::{Encryption, steps};
use crate::tool::free_port;

/// Without use for so long, in milliseconds, somebody is warned.
const TIMEOUT: i64 = 6_000;
/// What is seen is seen by scrapes and looks a second apart, and written in whole seconds.
const SLACK: i64 = 3_000;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_connection_that_the_tracker_counts_keeps_its_instance() {
    keep_by_connection(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_connection_that_the_tracker_counts_keeps_its_instance() {
    keep_by_connection(Engine::Real).await;
}

/// One connection, opened once and held, is use for as long as it is open.
async fn keep_by_connection(engine: Engine) {
    let [used_port, idle_port] = [free_port(), free_port()];
    let published = format!("{}-{}", POD_PORTS.start(), POD_PORTS.end());
    let (tracker, address) = track(&[&used_port.to_string(), &idle_port.to_string(), &published]);
    let external = ExternalServices::start_with(Encryption::StartTls, Some(address)).await;
    let Some(external) = external else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let (used, idle) = (reached_by("ssh-used", used_port), reached_by("ssh-idle", idle_port));
    for person in [&used, &idle] {
        person.apply(&stage.objects).await;
    }
    let ready = stage.objects.until(&used.instance, "it is ready", is_phase("Ready")).await;
    let destination = destination(&ready);
    // `sojourn up` dials into Pods and publishes nothing, so on its machine this stands for the Pod.
    let way = match engine {
        Engine::Embedded => Some(TcpListener::bind(destination).await.expect("it is free")),
        Engine::Real => None,
    };
    let connection = TcpStream::connect(destination).await.expect("it listens");
    let counts = |name: &str| {
        let (ip, port) = (destination.ip(), destination.port());
        format!("{name}{{destination_ip=\"{ip}\",destination_port=\"{port}\"}}")
    };
    let open = counts("bastion_ssh_open_connections");
    external.prometheus.until(&open, &[1.0]).await;

    // The other one goes the whole way meanwhile.
    stage.objects.until(&idle.instance, "the idle one is off", is_phase("Off")).await;
    let Named { namespace, name } = &used.instance;
    let kept = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!(kept["spec"]["running"], true);
    assert_eq!(kept["status"]["activity"]["source"], "BastionSSH", "{kept}");
    assert_eq!(kept["status"]["lifecycle"]["stage"], "Active", "{kept}");
    assert_eq!(external.smtp.mails_to(&used.email).len(), 0, "nobody was warned");
    let opened = counts("bastion_ssh_connections");
    assert_eq!(external.prometheus.query(&opened).await, [1.0], "there was one connection");

    let hung_up = Timestamp::now().as_millisecond();
    drop((connection, way));
    external.prometheus.until(&open, &[0.0]).await;
    let mails = external.smtp.wait_for(&used.email, 1).await;
    assert_eq!(steps(&mails[..1]), ["inactivity-1"], "{mails:#?}");
    let warned = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    let last = time(&warned["status"]["activity"]["last"]);
    assert!(last + SLACK >= hung_up, "used until {hung_up}: {warned}");
    let recorded = time(&warned["status"]["notices"][0]["recordedAt"]);
    assert!(recorded - last >= TIMEOUT, "{warned}");
    stage.stop();
    tracker.signal("TERM");
    let ended = tracker.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Starts the tracker for these ports, and says where its metrics are.
fn track(ports: &[&str]) -> (Running, SocketAddr) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut tracker = command(&["ssh-tracker", "--listen", &address.to_string()]);
    for port in ports {
        tracker.args(["--port", port]);
    }
    let tracker = Running::start(tracker);
    tracker.stderr_line(&format!("http://{address}/metrics"));
    (tracker, address)
}

/// Where an instance's Pod is reached, as its status says.
fn destination(instance: &Value) -> SocketAddr {
    let environment = &instance["status"]["environments"][0];
    let ip = environment["ip"].as_str().and_then(|ip| ip.parse().ok());
    let port = environment["port"].as_u64().and_then(|port| port.try_into().ok());
    SocketAddr::new(ip.expect("an address"), port.expect("a port"))
}

/// Somebody whose program listens at this port.
fn reached_by(name: &str, port: u16) -> Person {
    let policy = json!({"inactivityTimeout": format!("{TIMEOUT}ms"), "maxAlerts": 1});
    let environment = json!({
        "persistent": true, "size": "100Mi", "mountPath": "/data",
        "env": [{"name": "FOLDER", "value": "/data"}],
        "ports": [{"name": "http", "containerPort": port}],
    });
    Person::new(name).environment("web", &environment).template(&policy)
}
