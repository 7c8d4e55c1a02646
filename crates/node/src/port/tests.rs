use k8s_openapi::api::core::v1::PodSpec;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn later(seconds: u64) -> Timestamp {
    NOW.checked_add(Duration::from_secs(seconds)).expect("in range")
}

fn range(first: u16, last: u16) -> PortRange {
    PortRange::without(first..=last, &(32_768..=60_999)).expect("ports")
}

fn drawn(keys: &[&str]) -> Vec<PortRequest> {
    let request = |key: &&str| PortRequest {
        key: (*key).to_owned(),
        protocol: Protocol::Tcp,
        port: 80,
        host_port: None,
    };
    keys.iter().map(request).collect()
}

fn host(key: &str, port: u16) -> PortRequest {
    PortRequest { key: key.to_owned(), protocol: Protocol::Tcp, port: 80, host_port: Some(port) }
}

fn map(ports: &[(&str, u16)]) -> PortMap {
    ports.iter().copied().collect()
}

fn any(_: u16, _: Protocol) -> bool {
    true
}

fn container(name: &str, ports: &[(&str, i32, &str, i32)]) -> Container {
    let port =
        |&(name, container_port, protocol, host_port): &(&str, i32, &str, i32)| ContainerPort {
            name: (!name.is_empty()).then(|| name.to_owned()),
            container_port,
            protocol: (!protocol.is_empty()).then(|| protocol.to_owned()),
            host_port: (host_port != 0).then_some(host_port),
            ..ContainerPort::default()
        };
    Container {
        name: name.to_owned(),
        ports: Some(ports.iter().map(port).collect()),
        ..Container::default()
    }
}

fn pod(containers: Vec<Container>) -> Pod {
    Pod { spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() }
}

#[test]
fn requests_name_every_port_once() {
    let pod = pod(vec![
        container("web", &[("http", 8080, "", 0), ("", 9090, "TCP", 0), ("dns", 53, "UDP", 53)]),
        container(
            "side",
            &[
                // The same port of the same Pod.
                ("http", 8080, "TCP", 0),
                // Another port of the same name.
                ("dns", 5353, "UDP", 0),
                ("", 9090, "UDP", 0),
            ],
        ),
    ]);
    let requests = requests(&pod).expect("ports");
    let shown: Vec<_> = requests
        .iter()
        .map(|request| (request.key.as_str(), request.protocol.name(), request.host_port))
        .collect();
    assert_eq!(
        shown,
        [
            ("http", "tcp", None),
            ("9090", "tcp", None),
            ("dns", "udp", Some(53)),
            ("side.dns.udp", "udp", None),
            ("side.9090.udp", "udp", None),
        ]
    );
    let ports = map(&[
        ("http", 20_000),
        ("9090", 20_001),
        ("dns", 53),
        ("side.dns.udp", 20_002),
        ("side.9090.udp", 20_003),
    ]);
    let spec = pod.spec.expect("a spec");
    let actual = |at: usize| -> Vec<Option<u16>> {
        let container = &spec.containers[at];
        container.ports.iter().flatten().map(|port| ports.of(container, port)).collect()
    };
    assert_eq!(actual(0), [Some(20_000), Some(20_001), Some(53)]);
    assert_eq!(actual(1), [Some(20_000), Some(20_002), Some(20_003)]);
    assert_eq!(ports.seen_by(&spec.containers[0]).get("dns"), Some(&53));
    assert_eq!(ports.seen_by(&spec.containers[1]).get("dns"), Some(&20_002));
}

#[test]
fn bad_ports_are_refused_in_words() {
    let many: Vec<_> = (1..=101).map(|port| ("", port, "", 0)).collect();
    for (ports, expected) in [
        (
            vec![("", 80, "SCTP", 0)],
            "port 80 of container \"c\" has protocol SCTP; there are TCP and UDP",
        ),
        (vec![("", 0, "", 0)], "container \"c\" asks for port 0, which is none"),
        (vec![("", 80, "", 70_000)], "container \"c\" asks for port 70000, which is none"),
        (vec![("", -1, "", 0)], "container \"c\" asks for port -1, which is none"),
        (many, "the Pod asks for more than 100 ports"),
    ] {
        let error = requests(&pod(vec![container("c", &ports)])).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn no_port_is_given_twice() {
    let mut ports = Ports::new(range(100, 103), 0);
    let first = ports.draw("a", &drawn(&["x", "y"]), NOW, any);
    assert_eq!(first, Ok(map(&[("x", 100), ("y", 101)])));
    // Asked again it is the same answer, and a new port beside it.
    let again = ports.draw("a", &drawn(&["x", "y", "z"]), NOW, any);
    assert_eq!(again, Ok(map(&[("x", 100), ("y", 101), ("z", 102)])));
    assert_eq!(ports.draw("b", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 103)])));
    let full = ports.draw("c", &drawn(&["x"]), NOW, any);
    assert_eq!(full, Err(PortError::Exhausted { first: 100, last: 103 }));
}

#[test]
fn released_ports_rest() {
    let mut ports = Ports::new(range(100, 100), 0);
    ports.draw("a", &drawn(&["x"]), NOW, any).expect("free");
    ports.release("a", NOW);
    ports.release("a", later(60));
    ports.release("unknown", later(60));
    for (seconds, expected) in [(0, false), (119, false), (120, true)] {
        let drawn = ports.draw("b", &drawn(&["x"]), later(seconds), any);
        assert_eq!(drawn.is_ok(), expected, "after {seconds} s");
    }
    // A port of its own choice may come back at once.
    ports.release("b", later(200));
    assert!(ports.draw("c", &[host("x", 100)], later(200), any).is_ok());
}

#[test]
fn the_next_port_is_preferred_to_one_given_back() {
    let mut ports = Ports::new(range(100, 110), 0);
    for (round, expected) in [(0, 100), (1_000, 101), (2_000, 102)] {
        let drawn = ports.draw("a", &drawn(&["x"]), later(round), any).expect("free");
        assert_eq!(drawn, map(&[("x", expected)]));
        ports.release("a", later(round));
    }
}

#[test]
fn host_ports_are_given_as_asked() {
    let mut ports = Ports::new(range(100, 103), 0);
    let asked = [drawn(&["d"]).remove(0), host("h", 100)];
    // The drawn one gives way although it comes first.
    assert_eq!(ports.draw("a", &asked, NOW, any), Ok(map(&[("d", 101), ("h", 100)])));
    assert_eq!(ports.draw("b", &[host("h", 100)], NOW, any), Err(PortError::Held(100)));
    let busy = |port: u16, _: Protocol| port != 80;
    assert_eq!(ports.draw("b", &[host("h", 80)], NOW, busy), Err(PortError::InUse(80)));
    // All or none: what was drawn before the refusal is not kept.
    let both = [drawn(&["d"]).remove(0), host("h", 80)];
    assert_eq!(ports.draw("b", &both, NOW, busy), Err(PortError::InUse(80)));
    assert_eq!(ports.draw("c", &drawn(&["d", "e"]), NOW, any), Ok(map(&[("d", 102), ("e", 103)])));
    // Both protocols at one number.
    let udp = PortRequest { protocol: Protocol::Udp, ..host("u", 53) };
    let dns = ports.draw("d", &[host("t", 53), udp.clone()], NOW, any);
    assert_eq!(dns, Ok(map(&[("t", 53), ("u", 53)])));
    let tcp_only = |_: u16, protocol: Protocol| protocol == Protocol::Tcp;
    let udp = PortRequest { host_port: Some(54), ..udp };
    assert_eq!(ports.draw("e", &[host("t", 54), udp], NOW, tcp_only), Err(PortError::InUse(54)));
}

#[test]
fn ports_in_use_are_passed_over() {
    let mut ports = Ports::new(range(100, 110), 0);
    let mut asked = Vec::new();
    let drawn = ports.draw("a", &drawn(&["x"]), NOW, |port, protocol| {
        asked.push((port, protocol));
        port > 102
    });
    assert_eq!(drawn, Ok(map(&[("x", 103)])));
    assert_eq!(asked, [100, 101, 102, 103].map(|port| (port, Protocol::Tcp)));
    // The search gives up in the end.
    let mut wide = Ports::new(range(10_000, 20_000), 0);
    let mut tries = 0;
    let never = wide.draw("a", &[drawn_udp()], NOW, |_, _| {
        tries += 1;
        false
    });
    assert!(matches!(never, Err(PortError::Exhausted { .. })));
    assert_eq!(tries, MAX_BIND_ATTEMPTS);
}

fn drawn_udp() -> PortRequest {
    PortRequest { key: "u".to_owned(), protocol: Protocol::Udp, port: 80, host_port: None }
}

#[test]
fn adopted_pods_keep_their_ports() {
    let mut ports = Ports::new(range(100, 102), 0);
    ports.restore("a", &map(&[("x", 100), ("h", 8080)])).expect("nobody's");
    assert_eq!(ports.draw("b", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 101)])));
    assert_eq!(ports.draw("a", &drawn(&["x"]), NOW, any).map(|map| map.0["x"]), Ok(100));
    assert_eq!(ports.restore("c", &map(&[("y", 102), ("x", 100)])), Err(PortError::Held(100)));
    // What could not be restored was not restored in part.
    assert_eq!(ports.draw("d", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 102)])));
}

#[test]
fn the_annotation_is_json_by_name() {
    let ports = map(&[("http", 20_000), ("9090", 20_001)]);
    assert_eq!(ports.json(), r#"{"9090":20001,"http":20000}"#);
    assert_eq!(PortMap::parse(&ports.json()).expect("ours"), ports);
    assert_eq!(PortMap::default().json(), "{}");
    for bad in ["", "[]", r#"{"http":70000}"#, r#"{"http":"80"}"#] {
        assert!(PortMap::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn whether_a_port_is_free_is_found_out_by_binding() {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = tcp.local_addr().expect("bound").port();
    assert!(!is_free(port, Protocol::Tcp));
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let udp_port = udp.local_addr().expect("bound").port();
    assert!(!is_free(udp_port, Protocol::Udp));
    if let Ok(v6) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        assert!(!is_free(v6.local_addr().expect("bound").port(), Protocol::Tcp));
    }
    // Nobody else draws from below the ephemeral range during a test.
    assert!((19_000..19_100).any(|port| is_free(port, Protocol::Tcp)));
    assert!((19_000..19_100).any(|port| is_free(port, Protocol::Udp)));
}

#[test]
fn in_the_machines_network_a_pod_is_held_to_its_ports_and_what_is_stated() {
    let reachable = |port| Reachable { ip: "127.0.0.1".parse().expect("an address"), port };
    let held =
        allowed_tcp_ports(&[20_001], &[reachable(Some(9000)), reachable(Some(443))], Some(7443));
    assert_eq!(held.listen, [20_001]);
    assert_eq!(held.connect.as_deref(), Some(&[53, 80, 443, 7443, 9000, 20_001][..]));
    // All ports of one address cannot be told from all ports.
    let held = allowed_tcp_ports(&[20_001], &[reachable(Some(9000)), reachable(None)], None);
    assert_eq!((held.listen, held.connect), (vec![20_001], None));
}
