//! The Pod that a server is.

mod sidecar;

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::game::DedicatedGameServer;
use sojourn_api::game::convert::{all_ports, pod_template};
use sojourn_api::game::name::{IS_SERVER, SERVER_NAME};
use sojourn_api::game::port::{GamePort, PortPolicy, PortProtocol};
use sojourn_api::name::shared;

pub(crate) use self::sidecar::Sidecar;
use super::view::SDK_HTTP_PORT;

const SDK_GRPC_PORT: &str = "AGONES_SDK_GRPC_PORT";

/// Where a server finds what it talks to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SdkEndpoint {
    /// In this process, on this machine.
    Listener(ListenerEndpoint),
    /// Within its own Pod.
    Sidecar(Sidecar),
}

/// A listener of a server's own, and by which word it is known there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ListenerEndpoint {
    pub(crate) port: u16,
    pub(crate) code: String,
}

impl std::fmt::Debug for ListenerEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerEndpoint").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Makes the Pod of a server, with the ports that it was granted.
pub(crate) fn pod_of(
    server: &DedicatedGameServer,
    sdk: Option<&SdkEndpoint>,
) -> Result<Pod, String> {
    let template = pod_template(&server.spec.template)
        .map_err(|problem| problem.beneath("spec.template").to_string())?;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(server.name_any());
    metadata.namespace = server.namespace();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(IS_SERVER.to_owned(), "true".to_owned());
    labels.insert(SERVER_NAME.to_owned(), server.name_any());
    labels.insert(shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned());
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: DedicatedGameServer::api_version(&()).into_owned(),
        kind: DedicatedGameServer::kind(&()).into_owned(),
        name: server.name_any(),
        uid: server.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    let mut spec = template.spec.unwrap_or_default();
    // A server that ends is another one's business: what begins again is decided by its collection.
    spec.restart_policy = Some("Never".to_owned());
    let ports = all_ports(&server.spec.ports, &server.spec.ports_to_expose);
    // In the network of its node others would speak for it, and find its ports taken.
    let sdk = sdk
        .filter(|sdk| matches!(sdk, SdkEndpoint::Listener(_)) || spec.host_network != Some(true));
    let talks = sdk.map(|sdk| Talks::of(sdk, &spec.containers));
    let variables = variables(server, &ports, talks.as_ref());
    for container in &mut spec.containers {
        container.env.get_or_insert_default().extend(variables.iter().cloned());
    }
    expose(&mut spec.containers, &ports);
    if let (Some(SdkEndpoint::Sidecar(sidecar)), Some(talks)) = (sdk, &talks) {
        sidecar.add_to(&mut spec, base_variables(server, talks))?;
    }
    Ok(Pod { metadata, spec: Some(spec), status: None })
}

/// Where a server talks, as it is told.
struct Talks<'a> {
    http: u16,
    grpc: u16,
    code: &'a str,
}

impl<'a> Talks<'a> {
    fn of(sdk: &'a SdkEndpoint, containers: &[Container]) -> Self {
        match sdk {
            SdkEndpoint::Listener(ListenerEndpoint { port, code }) => {
                Self { http: *port, grpc: *port, code }
            }
            SdkEndpoint::Sidecar(sidecar) => {
                let [grpc, http] = sidecar::ports(containers);
                Self { http, grpc, code: sidecar.code() }
            }
        }
    }
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() }
}

fn own_name(server: &DedicatedGameServer) -> Vec<EnvVar> {
    vec![
        variable("SERVER_NAME", server.name_any()),
        variable("SERVER_NAMESPACE", server.namespace().unwrap_or_default()),
    ]
}

/// What whoever listens has to know as well as whoever talks.
fn base_variables(server: &DedicatedGameServer, talks: &Talks<'_>) -> Vec<EnvVar> {
    let mut all = own_name(server);
    all.push(variable("API_SERVER_CODE", talks.code.to_owned()));
    all.push(variable(SDK_HTTP_PORT, talks.http.to_string()));
    all.push(variable(SDK_GRPC_PORT, talks.grpc.to_string()));
    all
}

fn variables(
    server: &DedicatedGameServer,
    ports: &[GamePort],
    talks: Option<&Talks<'_>>,
) -> Vec<EnvVar> {
    let mut all = match talks {
        Some(talks) => base_variables(server, talks),
        None => own_name(server),
    };
    if let Some(Talks { http, .. }) = talks {
        all.push(variable("API_SERVER_URL", format!("http://127.0.0.1:{http}")));
    }
    for port in ports {
        let name = port.name.to_ascii_uppercase().replace('-', "_");
        let listens = listens_at(port).unwrap_or_default();
        all.push(variable(&format!("GAME_PORT_{name}"), listens.to_string()));
    }
    all
}

/// Where the container listens.
fn listens_at(port: &GamePort) -> Option<i32> {
    match port.policy {
        PortPolicy::Passthrough => port.host_port,
        PortPolicy::Dynamic | PortPolicy::Static => port.container_port,
    }
}

/// Gives each port to the container that declares it, or to the first one. What is exposed replaces what was declared
/// with its number; several ports may have one number, for different protocols.
fn expose(containers: &mut [Container], ports: &[GamePort]) {
    let declares = |container: &Container, listens: i32| {
        container.ports.iter().flatten().any(|one| one.container_port == listens)
    };
    let placed = ports.iter().filter_map(|port| {
        let (listens, host) = (listens_at(port)?, port.host_port?);
        let index = containers.iter().position(|container| declares(container, listens));
        Some((index.unwrap_or(0), listens, host, port))
    });
    let placed: Vec<(usize, i32, i32, &GamePort)> = placed.collect();
    for (index, listens, ..) in &placed {
        if let Some(declared) = containers.get_mut(*index).and_then(|one| one.ports.as_mut()) {
            declared.retain(|one| one.container_port != *listens);
        }
    }
    for (index, listens, host, port) in placed {
        let Some(container) = containers.get_mut(index) else { continue };
        let declared = container.ports.get_or_insert_default();
        let both = port.protocol == PortProtocol::TCPUDP;
        for protocol in protocols(port.protocol) {
            let suffix = format!("-{}", protocol.to_ascii_lowercase());
            let name = if both { format!("{}{suffix}", port.name) } else { port.name.clone() };
            declared.push(ContainerPort {
                name: (name.len() <= MAX_PORT_NAME).then_some(name),
                container_port: listens,
                host_port: Some(host),
                protocol: Some((*protocol).to_owned()),
                host_ip: None,
            });
        }
    }
}

/// Kubernetes takes no longer names of ports.
const MAX_PORT_NAME: usize = 15;

const fn protocols(protocol: PortProtocol) -> &'static [&'static str] {
    match protocol {
        PortProtocol::TCP => &["TCP"],
        PortProtocol::UDP => &["UDP"],
        PortProtocol::TCPUDP => &["TCP", "UDP"],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use sojourn_api::game::SdkConfig;

    use super::*;
    use crate::family::ProgramPath;
    use crate::game::sdk::wire;
    use crate::game::view::PodView;

    fn server(ports: &serde_json::Value) -> DedicatedGameServer {
        serde_json::from_value(json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {"name": "arena-x", "namespace": "play", "uid": "u-1"},
            "spec": {
                "template": {"spec": {"containers": [
                    {"name": "side"},
                    {"name": "game", "ports": [{"containerPort": 7777}, {"containerPort": 8080}]},
                ]}},
                "ports": ports,
            },
        }))
        .expect("a server")
    }

    // case: game S61, A36, A37
    #[test]
    fn the_ports_of_a_pod_are_those_that_were_granted() {
        let ports = json!([
            {"name": "game", "containerPort": 7777, "hostPort": 20001, "protocol": "TCPUDP"},
            {"name": "query", "hostPort": 20002, "policy": "Passthrough", "protocol": "UDP"},
        ]);
        let sdk = ListenerEndpoint { port: 30_001, code: "secret".to_owned() };
        let sdk = SdkEndpoint::Listener(sdk);
        let pod = pod_of(&server(&ports), Some(&sdk)).expect("a Pod");
        let spec = pod.spec.as_ref().expect("a spec");
        let ports = |index: usize| {
            let ports = spec.containers[index].ports.iter().flatten();
            ports
                .map(|one| {
                    let (name, protocol) = (one.name.as_deref(), one.protocol.as_deref());
                    (one.container_port, one.host_port, name, protocol)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ports(1),
            [
                (8080, None, None, None),
                (7777, Some(20_001), Some("game-tcp"), Some("TCP")),
                (7777, Some(20_001), Some("game-udp"), Some("UDP")),
            ],
            "what is not exposed has no port of the node"
        );
        assert_eq!(ports(0), [(20_002, Some(20_002), Some("query"), Some("UDP"))]);
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
        let env = spec.containers[1].env.iter().flatten();
        let named: Vec<&str> = env.map(|one| one.name.as_str()).collect();
        for name in ["SERVER_NAME", "API_SERVER_CODE", SDK_HTTP_PORT, "GAME_PORT_QUERY"] {
            assert!(named.contains(&name), "{name} is not among {named:?}");
        }
        assert!(!format!("{sdk:?}").contains("secret"));
    }

    // case: game A36
    #[test]
    fn two_ports_of_a_pod_may_have_one_number_for_different_protocols() {
        let ports = json!([
            {"name": "game", "containerPort": 7777, "hostPort": 20001, "protocol": "UDP"},
            {"name": "rcon", "containerPort": 7777, "hostPort": 20002, "protocol": "TCP"},
        ]);
        let pod = pod_of(&server(&ports), None).expect("a Pod");
        let declared = pod.spec.expect("a spec").containers.remove(1).ports.expect("ports");
        let named = declared.iter().map(|one| (one.name.as_deref(), one.host_port));
        let named: Vec<_> = named.collect();
        let both = [(Some("game"), Some(20_001)), (Some("rcon"), Some(20_002))];
        assert_eq!(named, [&[(None, None)], &both[..]].concat());
    }

    #[test]
    fn a_sidecar_alone_has_the_token_and_everybody_knows_where_it_listens() {
        let config = SdkConfig {
            image: "registry.example/sojourn:1".to_owned(),
            url: "https://sojourn-sdk.sojourn-system.svc:7444".to_owned(),
            ca_bundle: "a certificate".to_owned(),
        };
        let program = ProgramPath("/usr/bin/sojourn".to_owned());
        let sidecar =
            Sidecar::of(&config, &program, "secret".to_owned()).expect("it is configured");
        let sdk = SdkEndpoint::Sidecar(sidecar);
        assert!(!format!("{sdk:?}").contains("secret"));
        let pod = pod_of(&server(&json!([])), Some(&sdk)).expect("a Pod");
        assert!(PodView::of(&pod).has_sidecar);
        let spec = pod.spec.expect("a spec");
        let env = |container: &Container| -> BTreeMap<String, String> {
            let env = container.env.iter().flatten();
            env.map(|one| (one.name.clone(), one.value.clone().unwrap_or_default())).collect()
        };
        let told = json!({
            "SERVER_NAME": "arena-x", "SERVER_NAMESPACE": "play", "API_SERVER_CODE": "secret",
            "API_SERVER_URL": "http://127.0.0.1:9358",
            "AGONES_SDK_HTTP_PORT": "9358", "AGONES_SDK_GRPC_PORT": "9357",
        });
        for container in &spec.containers {
            assert_eq!(json!(env(container)), told);
            assert_eq!(container.volume_mounts, None, "no token");
        }
        let [sidecar] = spec.init_containers.expect("one").try_into().expect("one alone");
        let own = env(&sidecar);
        assert_eq!(own["SERVER_NAME"], "arena-x");
        assert_eq!(own["AGONES_SDK_GRPC_PORT"], "9357");
        assert_eq!(own["SOJOURN_SDK_CA"], "a certificate");
        assert_eq!(sidecar.restart_policy.as_deref(), Some("Always"));
        let command = sidecar.command.expect("a command");
        assert_eq!(command[..2], ["/usr/bin/sojourn", "sdk"]);
        assert!(command.contains(&config.url), "{command:?}");
        let resources = sidecar.resources.expect("resources");
        assert!(resources.limits.is_some() && resources.requests.is_some());
        let security = sidecar.security_context.expect("a context");
        assert_eq!(security.read_only_root_filesystem, Some(true));
        assert_eq!(security.allow_privilege_escalation, Some(false));
        let volumes = json!(spec.volumes);
        let token = &volumes[0]["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token["audience"], wire::AUDIENCE);
    }

    #[test]
    fn a_sidecar_evades_the_ports_of_the_game_and_refuses_to_share_its_name() {
        let config = SdkConfig {
            image: "sojourn".to_owned(),
            url: "https://sojourn".to_owned(),
            ..SdkConfig::default()
        };
        let program = ProgramPath("sojourn".to_owned());
        let sidecar =
            Sidecar::of(&config, &program, "secret".to_owned()).expect("it is configured");
        let sdk = SdkEndpoint::Sidecar(sidecar);
        let mut taken = server(&json!([]));
        taken.spec.template["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 9357}, {"containerPort": 9359}]);
        let spec = pod_of(&taken, Some(&sdk)).expect("a Pod").spec.expect("a spec");
        assert_eq!(sidecar::ports(&spec.containers), [9_358, 9_360]);

        let mut named = server(&json!([]));
        named.spec.template["spec"]["containers"][0]["name"] = json!("sojourn-sdk");
        let problem = pod_of(&named, Some(&sdk)).expect_err("the name is taken");
        assert!(problem.contains("sojourn-sdk"), "{problem}");

        let mut host = server(&json!([]));
        host.spec.template["spec"]["hostNetwork"] = json!(true);
        let spec = pod_of(&host, Some(&sdk)).expect("a Pod").spec.expect("a spec");
        assert_eq!(spec.init_containers, None, "others of the node would speak for it");
        assert_eq!(Sidecar::of(&SdkConfig::default(), &program, String::new()), None);
    }
}
