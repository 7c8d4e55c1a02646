use k8s_openapi::api::core::v1::PodSpec;

use super::*;
use crate::folder::NodeFolder;
use crate::private;

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

fn udp(request: PortRequest) -> PortRequest {
    PortRequest { protocol: Protocol::Udp, ..request }
}

const fn tcp_port(port: u16) -> ProtocolPort {
    ProtocolPort::new(Protocol::Tcp, port)
}

const fn udp_port(port: u16) -> ProtocolPort {
    ProtocolPort::new(Protocol::Udp, port)
}

/// TCP ports by name.
fn map(ports: &[(&str, u16)]) -> PortMap {
    ports.iter().map(|(key, port)| (*key, tcp_port(*port))).collect()
}

fn udp_map(ports: &[(&str, u16)]) -> PortMap {
    ports.iter().map(|(key, port)| (*key, udp_port(*port))).collect()
}

fn any(_: ProtocolPort) -> bool {
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
    assert_eq!(ports.draw("b", &[host("h", 100)], NOW, any), Err(PortError::Held(tcp_port(100))));
    let busy = |port: ProtocolPort| port.port != 80;
    let in_use = Err(PortError::InUse(tcp_port(80)));
    assert_eq!(ports.draw("b", &[host("h", 80)], NOW, busy), in_use);
    // All or none: what was drawn before the refusal is not kept.
    let both = [drawn(&["d"]).remove(0), host("h", 80)];
    assert_eq!(ports.draw("b", &both, NOW, busy), in_use);
    assert_eq!(ports.draw("c", &drawn(&["d", "e"]), NOW, any), Ok(map(&[("d", 102), ("e", 103)])));
    // Both protocols at one number.
    let dns = ports.draw("d", &[host("t", 53), udp(host("u", 53))], NOW, any);
    assert_eq!(dns, Ok([("t", tcp_port(53)), ("u", udp_port(53))].into_iter().collect()));
    let tcp_only = |port: ProtocolPort| port.protocol == Protocol::Tcp;
    let both = [host("t", 54), udp(host("u", 54))];
    assert_eq!(ports.draw("e", &both, NOW, tcp_only), Err(PortError::InUse(udp_port(54))));
}

#[test]
fn a_number_is_two_ports() {
    let mut ports = Ports::new(range(100, 100), 0);
    assert!(ports.draw("a", &[host("h", 20_000)], NOW, any).is_ok());
    // Another Pod's, by UDP.
    let other = [udp(host("h", 20_000))];
    assert_eq!(ports.draw("b", &other, NOW, any), Ok(udp_map(&[("h", 20_000)])));
    let held = |result: Result<PortMap, PortError>| result.expect_err("it is held").to_string();
    let again = |protocol| PortRequest { protocol, ..host("h", 20_000) };
    assert_eq!(
        [Protocol::Tcp, Protocol::Udp].map(|of| held(ports.draw("c", &[again(of)], NOW, any))),
        ["20000/TCP", "20000/UDP"].map(|port| format!("hostPort {port} belongs to another Pod"))
    );
    // One that is given back frees its own, and no other.
    ports.release("a", NOW);
    assert!(ports.draw("c", &[again(Protocol::Tcp)], NOW, any).is_ok());
    assert!(ports.draw("d", &[again(Protocol::Udp)], NOW, any).is_err());

    // Drawn ports as well, and they rest by themselves.
    assert_eq!(ports.draw("e", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 100)])));
    assert_eq!(ports.draw("f", &[drawn_udp()], NOW, any), Ok(udp_map(&[("u", 100)])));
    ports.release("f", NOW);
    ports.release("e", later(60));
    assert!(ports.draw("g", &[drawn_udp()], later(120), any).is_ok());
    assert!(ports.draw("g", &drawn(&["x"]), later(120), any).is_err());
    // One Pod may have both at one number, and never one of them twice.
    let mut ports = Ports::new(range(100, 101), 0);
    let asked = [drawn_udp(), udp(drawn(&["v"]).remove(0)), drawn(&["t"]).remove(0)];
    let all = ports.draw("a", &asked, NOW, any).expect("enough");
    assert_eq!((all.whole("u"), all.whole("v")), (Some(udp_port(100)), Some(udp_port(101))));
    assert!(all.whole("t").is_some_and(|port| port.protocol == Protocol::Tcp));
}

#[test]
fn ports_in_use_are_passed_over() {
    let mut ports = Ports::new(range(100, 110), 0);
    let mut asked = Vec::new();
    let drawn = ports.draw("a", &drawn(&["x"]), NOW, |port| {
        asked.push(port);
        port.port > 102
    });
    assert_eq!(drawn, Ok(map(&[("x", 103)])));
    assert_eq!(asked, [100, 101, 102, 103].map(tcp_port));
    // The search gives up in the end.
    let mut wide = Ports::new(range(10_000, 20_000), 0);
    let mut tries = 0;
    let never = wide.draw("a", &[drawn_udp()], NOW, |_| {
        tries += 1;
        false
    });
    assert!(matches!(never, Err(PortError::Exhausted { .. })));
    assert_eq!(tries, MAX_BIND_ATTEMPTS);
}

fn drawn_udp() -> PortRequest {
    udp(drawn(&["u"]).remove(0))
}

#[test]
fn adopted_pods_keep_their_ports() {
    let mut ports = Ports::new(range(100, 102), 0);
    ports.restore("a", &map(&[("x", 100), ("h", 8080)])).expect("nobody's");
    assert_eq!(ports.draw("b", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 101)])));
    assert_eq!(ports.draw("a", &drawn(&["x"]), NOW, any).map(|map| map.get("x")), Ok(Some(100)));
    let held = Err(PortError::Held(tcp_port(100)));
    assert_eq!(ports.restore("c", &map(&[("y", 102), ("x", 100)])), held);
    assert_eq!(ports.restore("u", &udp_map(&[("x", 100)])), Ok(()));
    // What could not be restored was not restored in part.
    assert_eq!(ports.draw("d", &drawn(&["x"]), NOW, any), Ok(map(&[("x", 102)])));
}

#[test]
fn the_annotation_is_json_by_name() {
    let ports = map(&[("http", 10_000), ("9090", 10_001)]);
    assert_eq!(ports.annotation(), r#"{"9090":10001,"http":10000}"#);
    assert_eq!(PortMap::default().annotation(), "{}");
}

#[test]
fn a_record_says_the_protocol_and_an_older_one_is_understood() {
    let ports: PortMap =
        [("http", tcp_port(10_000)), ("game", udp_port(10_000))].into_iter().collect();
    let record = String::from_utf8(ports.record().expect("plain values")).expect("JSON");
    assert_eq!(
        record,
        r#"{"game":{"protocol":"UDP","port":10000},"http":{"protocol":"TCP","port":10000}}"#
    );
    assert_eq!(PortMap::from_record(&record, &[]).expect("ours"), ports);
    // An earlier node wrote numbers; which protocol is meant, the Pod's own ports tell.
    let asked = [host("http", 20_000), udp(host("game", 20_001))];
    let older = PortMap::from_record(r#"{"http":20000,"game":20001,"gone":20002}"#, &asked);
    let expected =
        [("http", tcp_port(20_000)), ("game", udp_port(20_001)), ("gone", tcp_port(20_002))];
    assert_eq!(older.expect("it is understood"), expected.into_iter().collect());
    for bad in [
        "",
        "[]",
        r#"{"http":70000}"#,
        r#"{"http":"80"}"#,
        r#"{"http":{"protocol":"SCTP","port":80}}"#,
    ] {
        assert!(PortMap::from_record(bad, &asked).is_err(), "{bad}");
    }
}

#[test]
fn the_ports_of_pods_that_are_still_here_are_known_to_a_new_node() {
    let path = std::env::temp_dir().join(format!("sojourn-ports-{}", std::process::id()));
    let node = NodeFolder::new(&path);
    let recorded = |uid: &str| {
        let folder = node.pod(uid);
        std::fs::create_dir_all(folder.path()).expect("a folder");
        folder
    };
    record::write(&recorded("a"), &udp_map(&[("game", 20_000)])).expect("a record");
    // Of an earlier node: beside its record lies the Pod, which says what the port is.
    let older = recorded("b");
    let game = pod(vec![container("c", &[("game", 7777, "UDP", 20_001)])]);
    let game = serde_json::to_vec(&game).expect("a Pod");
    private::write(&older.pod(), &game).expect("a file");
    private::write(&older.ports(), br#"{"game":20001}"#).expect("a file");
    private::write(&recorded("c").ports(), b"nonsense").expect("a file");
    recorded("d");

    let mut ports = Ports::new(range(100, 101), 0);
    let uids = ["a", "b", "c", "d", "e"].map(str::to_owned);
    record::restore_all(&mut ports, &node, &uids);
    std::fs::remove_dir_all(&path).expect("it was ours");
    let mut asks = |request: PortRequest| ports.draw("new", &[request], NOW, any).is_ok();
    assert!(!asks(udp(host("x", 20_000))) && !asks(udp(host("x", 20_001))));
    assert!(asks(host("x", 20_000)));
    ports.release("new", NOW);
    assert!(ports.draw("new", &[host("x", 20_001)], NOW, any).is_ok());
}

#[test]
fn whether_a_port_is_free_is_found_out_by_binding() {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = tcp.local_addr().expect("bound").port();
    assert!(!is_free(tcp_port(port)));
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let taken = udp.local_addr().expect("bound").port();
    assert!(!is_free(udp_port(taken)));
    if let Ok(v6) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        assert!(!is_free(tcp_port(v6.local_addr().expect("bound").port())));
    }
    // Nobody takes all of these during a test.
    assert!((30_100..30_200).any(|port| is_free(tcp_port(port))));
    assert!((30_100..30_200).any(|port| is_free(udp_port(port))));
}

#[test]
fn in_the_machines_network_a_pod_is_held_to_its_ports_and_what_is_stated() {
    let reachable = |port| Reachable { ip: "127.0.0.1".parse().expect("an address"), port };
    let held =
        allowed_tcp_ports(&[20_001], &[reachable(Some(9000)), reachable(Some(443))], Some(7443));
    assert_eq!(held.listen, [20_001]);
    assert_eq!(held.connect.as_deref(), Some(&[53, 80, 443, 7443, 9000, 20_001][..]));
    // All ports of one address cannot be told from all ports.
    // What is one Pod's own service is stated for that Pod alone.
    let others = allowed_tcp_ports(&[20_002], &[reachable(Some(443))], Some(7443));
    assert_eq!(others.connect.as_deref(), Some(&[53, 80, 443, 7443, 20_002][..]));
    let held = allowed_tcp_ports(&[20_001], &[reachable(Some(9000)), reachable(None)], None);
    assert_eq!((held.listen, held.connect), (vec![20_001], None));
}
