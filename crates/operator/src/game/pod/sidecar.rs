//! The sidecar through which a server on a cluster is heard: this program, in the server's own Pod, with a token that is
//! good for that Pod alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, PodSpec, ProjectedVolumeSource, ResourceRequirements,
    SeccompProfile, SecurityContext, ServiceAccountTokenProjection, Volume, VolumeMount,
    VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sojourn_api::game::SdkConfig;

use crate::family::ProgramPath;
use crate::game::sdk::wire::AUDIENCE;
use crate::game::view::SIDECAR;

/// Where Agones' clients look for gRPC when nobody tells them; REST is at the next one.
const FIRST_PORT: u16 = 9_357;
const TOKEN_FOLDER: &str = "/var/run/secrets/sojourn-sdk";
const TOKEN_FILE: &str = "token";
/// It is renewed long before; nobody has a use for it when its Pod is gone.
const TOKEN_SECONDS: i64 = 3_600;
/// The certificates are no secret, and a ConfigMap would have to be in every namespace.
const CA_VARIABLE: &str = "SOJOURN_SDK_CA";

/// What goes into the Pods of servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sidecar {
    config: SdkConfig,
    program: String,
    code: String,
}

impl std::fmt::Debug for Sidecar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sidecar").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Sidecar {
    /// Nothing, if the options name no image for it. `code` is what the server shows at the classic routes.
    pub(crate) fn of(config: &SdkConfig, program: &ProgramPath, code: String) -> Option<Self> {
        if config.image.is_empty() {
            return None;
        }
        Some(Self { config: config.clone(), program: program.0.clone(), code })
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Puts it before all other containers, and gives the token to it and to nobody else.
    pub(super) fn add_to(&self, spec: &mut PodSpec, env: Vec<EnvVar>) -> Result<(), String> {
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let volumes = spec.volumes.iter().flatten();
        let mut names =
            containers.map(|container| &container.name).chain(volumes.map(|volume| &volume.name));
        if names.any(|name| name == SIDECAR) {
            return Err(format!("spec.template: the name {SIDECAR} is that of the SDK's sidecar"));
        }
        spec.init_containers.get_or_insert_default().insert(0, self.container(env));
        spec.volumes.get_or_insert_default().push(token_volume());
        Ok(())
    }

    fn container(&self, mut env: Vec<EnvVar>) -> Container {
        if !self.config.ca_bundle.is_empty() {
            env.push(super::variable(CA_VARIABLE, self.config.ca_bundle.clone()));
        }
        let words = [&self.program, "sdk", "--url", &self.config.url, "--token-file"];
        let mut command: Vec<String> = words.map(str::to_owned).to_vec();
        command.push(format!("{TOKEN_FOLDER}/{TOKEN_FILE}"));
        Container {
            name: SIDECAR.to_owned(),
            image: Some(self.config.image.clone()),
            command: Some(command),
            env: Some(env),
            // It runs beside the others, from before they begin until they have ended.
            restart_policy: Some("Always".to_owned()),
            resources: Some(resources()),
            security_context: Some(security()),
            volume_mounts: Some(vec![VolumeMount {
                name: SIDECAR.to_owned(),
                mount_path: TOKEN_FOLDER.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            }]),
            ..Container::default()
        }
    }
}

/// Two ports that no container declares: for gRPC and for REST.
pub(super) fn ports(containers: &[Container]) -> [u16; 2] {
    let declared: Vec<i32> = containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten())
        .map(|port| port.container_port)
        .collect();
    let mut free = (FIRST_PORT..).filter(|port| !declared.contains(&i32::from(*port)));
    // A Pod has not so many containers that all of them are taken.
    [free.next().unwrap_or(FIRST_PORT), free.next().unwrap_or(FIRST_PORT)]
}

fn token_volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: TOKEN_FILE.to_owned(),
    };
    let source =
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    Volume {
        name: SIDECAR.to_owned(),
        projected: Some(ProjectedVolumeSource { sources: Some(vec![source]), default_mode: None }),
        ..Volume::default()
    }
}

fn resources() -> ResourceRequirements {
    let amounts = |cpu: &str, memory: &str| {
        let pairs = [("cpu", cpu), ("memory", memory)];
        let pairs = pairs.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
        Some(BTreeMap::from(pairs))
    };
    ResourceRequirements {
        requests: amounts("5m", "16Mi"),
        limits: amounts("500m", "128Mi"),
        ..ResourceRequirements::default()
    }
}

fn security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..SecurityContext::default()
    }
}
