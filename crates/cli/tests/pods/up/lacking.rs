//! On a kernel that lacks something: `sojourn up` is run with a filter of system calls that answers as
//! such a kernel would.

use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::*;

/// Runs what follows with the calls refused that have these arguments: the number of a call, which of
/// its arguments is looked at, the bits of it that count, their value, and the error; any one is enough.
pub(super) const FILTER: &str = r#"
import ctypes, os, platform, struct, sys
rules, program = eval(sys.argv[1]), sys.argv[2:]
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
code = []
add = lambda *step: code.append(struct.pack("HBBI", *step))
for numbers, checks, error in rules:
    add(0x20, 0, 0, 0)
    add(0x15, 0, 3 * len(checks) + 1, numbers[column])
    for left, (argument, bits, value) in zip(range(len(checks), 0, -1), checks):
        add(0x20, 0, 0, 16 + 8 * argument)
        add(0x54, 0, 0, bits)
        add(0x15, 0, 3 * (left - 1) + 1, value)
    add(0x06, 0, 0, 0x50000 | error)
add(0x06, 0, 0, 0x7fff0000)
libc = ctypes.CDLL(None, use_errno=True)
text = ctypes.create_string_buffer(b"".join(code))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
filter = Program(len(code), ctypes.addressof(text))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(filter)) == 0, ctypes.get_errno()
os.execv(program[0], program)
"#;

/// `unshare` with `CLONE_NEWNET`: not permitted.
pub(super) const NETWORK_NAMESPACES: &str = "[((272, 97), [(0, 0x40000000, 0x40000000)], 1)]";
/// `socket` of netlink for netfilter: no such protocol.
const NFTABLES: &str = "[((41, 198), [(0, 0xffffffff, 16), (2, 0xffffffff, 12)], 93)]";

async fn up_without(what: &str, folder: &Folder) -> Up {
    let mut up =
        command(&["up", "--listen", "127.0.0.1:0", "--pod-ports", "24000-24099", "--data"]);
    up.arg(folder.path());
    let mut filtered = std::process::Command::new("/usr/bin/python3");
    filtered.args(["-c", FILTER, what]).arg(up.get_program()).args(up.get_args());
    Up::of(Running::start(filtered)).await
}

async fn isolated(up: &Up) -> NodeCondition {
    let node = Api::<Node>::all(up.client.clone()).get("local").await.expect("the Node");
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let mut conditions = conditions.into_iter();
    conditions.find(|one| one.type_ == "SojournNetworkIsolated").expect("the condition")
}

fn said(condition: &NodeCondition) -> (&str, &str, &str) {
    let (reason, message) = (condition.reason.as_deref(), condition.message.as_deref());
    (&condition.status, reason.unwrap_or_default(), message.unwrap_or_default())
}

fn python(script: &str) -> Value {
    let mut pod = json!({"containers": [{"command": ["/usr/bin/python3", "-uc", script]}]});
    // A machine that is short of something takes it nevertheless.
    pod["nodeName"] = json!("local");
    pod["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 8080}]);
    pod
}

const CONNECT: &str = r#"
import os, socket, time
def connect(what, address):
    try:
        socket.create_connection(address, 20).close()
        print(what, "reached")
    except OSError as error:
        print(what, type(error).__name__)
api = (os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
"#;

#[tokio::test]
async fn without_nftables_nothing_leaves_a_pod_and_the_node_says_so() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = up_without(NFTABLES, &folder).await;
    let condition = isolated(&up).await;
    let (status, reason, message) = said(&condition);
    assert_eq!((status, reason), ("True", "NoWayOut"), "{message}");
    assert!(message.contains("no connection leads out of it"), "{message}");
    // It runs, is dialled into by its probe, and reaches nobody.
    let script = format!(
        "{CONNECT}\nconnect('api', api)\nserver = socket.create_server(('0.0.0.0', 8080))\n\
         while True: server.accept()[0].close()"
    );
    let mut pod = python(&script);
    pod["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": "web"}, "periodSeconds": 1});
    up.create("main", &pod).await;
    up.until("main", running()).await;
    up.until_said("main", "api ConnectionRefusedError").await;
    interrupt(up.server);
}

#[tokio::test]
async fn without_network_namespaces_pods_are_held_to_their_ports_where_landlock_can() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = up_without(NETWORK_NAMESPACES, &folder).await;
    let condition = isolated(&up).await;
    let (status, reason, message) = said(&condition);
    assert_eq!((status, reason), ("False", "MachineNetwork"), "{message}");
    assert!(message.contains("Pods share the machine's network: "), "{message}");
    let host = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = host.local_addr().expect("it is bound").port();
    let script = format!(
        "{CONNECT}\nown = int(os.environ['SOJOURN_PORT_WEB'])\n\
         server = socket.create_server(('127.0.0.1', own))\nconnect('own', ('127.0.0.1', own))\n\
         connect('api', api)\nconnect('host', ('127.0.0.1', {port}))\n\
         try: socket.create_server(('127.0.0.1', 24098)); print('other listens')\n\
         except OSError as error: print('other', type(error).__name__)\n\
         while True: server.accept()[0].close()"
    );
    let mut pod = python(&script);
    pod["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": "web"}, "periodSeconds": 1});
    up.create("main", &pod).await;
    let pod = up.until("main", running()).await;
    assert!(pod["metadata"]["annotations"]["sojourn.dev/ports"].is_string(), "{pod}");
    up.until_said("main", "own reached").await;
    up.until_said("main", "api reached").await;
    if message.contains("nothing holds them") {
        skip::part("this kernel's Landlock has no rules for TCP");
        up.until_said("main", "host reached").await;
        up.until_said("main", "other listens").await;
    } else {
        assert!(message.contains("each listens only at ports of its own"), "{message}");
        up.until_said("main", "host PermissionError").await;
        up.until_said("main", "other PermissionError").await;
    }
    interrupt(up.server);
}
