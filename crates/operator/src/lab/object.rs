//! The objects that an Instance is made of, as they are created. Every choice was made before: a
//! template's environment and a few names go in, an object comes out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec,
    PodTemplateSpec, ResourceRequirements, Secret, SecretKeySelector, SecretVolumeSource,
    SecurityContext, Service, ServicePort, ServiceSpec, Volume, VolumeDevice, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource as _;
use sojourn_api::lab::config::GatewayService;
use sojourn_api::lab::environment::{Environment, VolumeMode};
use sojourn_api::lab::instance::{Instance, Submission, SubmissionMethod};
use sojourn_api::name::{lab, shared};
use sojourn_core::key::Key;

use crate::gateway::label::label;

/// The volume that holds an environment's data.
const DATA: &str = "data";
/// An image is needed by the API even where containers are programs of the machine.
const NO_IMAGE: &str = "sojourn.dev/none";
/// The key of a report's token in its Secret.
pub(crate) const REPORT_TOKEN: &str = "token";
/// Label of the Pods and Jobs that hand in volumes.
pub(crate) const SUBMISSION: &str = "lab.sojourn.dev/submission";
/// Annotation of a Pod that stands in for one that failed: since when there is one.
pub(crate) const SINCE: &str = "lab.sojourn.dev/since";
/// A submission is tried so often: once, and this many times again.
pub(crate) const SUBMISSION_RETRIES: i32 = 9;
/// A Job whose outcome is on record can be looked at for so long.
pub(crate) const FINISHED_JOB_SECONDS: i32 = 300;

/// What the Pod of an environment, its claim, Service and Ingress are called.
pub(crate) fn child_name(instance: &str, environment: &str) -> String {
    format!("{}-{environment}", instance.replace('.', "-"))
}

pub(crate) fn job_name(instance: &str, environment: &str, series: u32) -> String {
    format!("{}-submit-{series}", child_name(instance, environment))
}

/// The name of the Secret of an Instance's reports; nobody else can guess `suffix`.
pub(crate) fn secret_name(instance: &str, suffix: &str) -> String {
    format!("{}-report-{suffix}", instance.replace('.', "-"))
}

/// The path under which an environment is reached at our origin, which leads to the environment's
/// own.
pub(crate) fn access_path(namespace: &str, instance: &str, environment: &str) -> String {
    format!("/go/lab/{namespace}/{instance}/{environment}/")
}

fn owner(instance: &Instance) -> Option<OwnerReference> {
    instance.controller_owner_ref(&())
}

fn labels(instance: &Instance, environment: &str) -> BTreeMap<String, String> {
    let name = instance.metadata.name.clone().unwrap_or_default();
    BTreeMap::from([
        (lab::INSTANCE.to_owned(), name),
        (lab::ENVIRONMENT.to_owned(), environment.to_owned()),
        (shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned()),
    ])
}

fn metadata(instance: &Instance, environment: &str, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: instance.metadata.namespace.clone(),
        labels: Some(labels(instance, environment)),
        owner_references: owner(instance).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

fn instance_name(instance: &Instance) -> &str {
    instance.metadata.name.as_deref().unwrap_or_default()
}

/// The claim of an environment; with our finalizer if its data has to be handed in.
pub(crate) fn claim(
    instance: &Instance,
    environment: &Environment,
    with_finalizer: bool,
) -> PersistentVolumeClaim {
    let size = environment.size.clone().unwrap_or_default();
    let block = environment.volume_mode == Some(VolumeMode::Block);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            finalizers: with_finalizer.then(|| vec![lab::CLAIM_FINALIZER.to_owned()]),
            ..metadata(
                instance,
                &environment.name,
                child_name(instance_name(instance), &environment.name),
            )
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(size))])),
                limits: None,
            }),
            volume_mode: Some(if block { "Block" } else { "Filesystem" }.to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// Where a Pod reports its use, if reports are served.
#[derive(Debug, Clone)]
pub(crate) struct ReportTo {
    pub(crate) url: String,
    /// The Secret with the token that a report needs.
    pub(crate) secret: String,
}

pub(crate) fn pod(
    instance: &Instance,
    environment: &Environment,
    base_path: &str,
    report: Option<&ReportTo>,
    stands_in_since: Option<Timestamp>,
) -> Pod {
    let name = child_name(instance_name(instance), &environment.name);
    let claimed = environment.persistent.then(|| name.clone());
    let block = environment.volume_mode == Some(VolumeMode::Block);
    let path = environment.mount_path.clone().unwrap_or_default();
    let mounts = (claimed.is_some() && !block).then(|| {
        vec![VolumeMount {
            name: DATA.to_owned(),
            mount_path: path.clone(),
            ..VolumeMount::default()
        }]
    });
    let devices = (claimed.is_some() && block)
        .then(|| vec![VolumeDevice { name: DATA.to_owned(), device_path: path }]);
    let mut env = environment.env.clone();
    env.push(variable("SOJOURN_BASE_PATH", base_path.to_owned()));
    if let Some(report) = report {
        env.push(variable("SOJOURN_REPORT_URL", report.url.clone()));
        env.push(EnvVar {
            name: "SOJOURN_REPORT_TOKEN".to_owned(),
            value: None,
            value_from: Some(EnvVarSource {
                secret_key_ref: Some(SecretKeySelector {
                    name: report.secret.clone(),
                    key: REPORT_TOKEN.to_owned(),
                    optional: Some(true),
                }),
                ..EnvVarSource::default()
            }),
        });
    }
    let container = Container {
        name: environment.name.clone(),
        image: Some(match environment.image.as_str() {
            "" => NO_IMAGE.to_owned(),
            image => image.to_owned(),
        }),
        command: some(&environment.command),
        args: some(&environment.args),
        env: Some(env),
        ports: some(&environment.ports),
        resources: environment.resources.clone(),
        readiness_probe: environment.readiness_probe.clone(),
        volume_mounts: mounts,
        volume_devices: devices,
        ..Container::default()
    };
    let mut metadata = metadata(instance, &environment.name, name);
    metadata.annotations =
        stands_in_since.map(|at| BTreeMap::from([(SINCE.to_owned(), format!("{at:.0}"))]));
    Pod {
        metadata,
        spec: Some(PodSpec {
            containers: vec![container],
            restart_policy: Some("Always".to_owned()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            volumes: claimed.map(|claim| vec![claim_volume(claim, false)]),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value), value_from: None }
}

fn some<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

fn claim_volume(claim_name: String, read_only: bool) -> Volume {
    Volume {
        name: DATA.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name,
            read_only: read_only.then_some(true),
        }),
        ..Volume::default()
    }
}

/// The Secret that lets an instance's programs report that they are used.
pub(crate) fn report_secret(instance: &Instance, report: &ReportTo, token: &str) -> Secret {
    let mut metadata = metadata(instance, "", report.secret.clone());
    if let Some(labels) = &mut metadata.labels {
        labels.remove(lab::ENVIRONMENT);
    }
    let data = BTreeMap::from([(REPORT_TOKEN.to_owned(), ByteString(token.as_bytes().to_vec()))]);
    Secret { metadata, data: Some(data), ..Secret::default() }
}

/// A name for every port: those that have none are called after their number.
fn port_name(port: &k8s_openapi::api::core::v1::ContainerPort) -> String {
    port.name.clone().unwrap_or_else(|| format!("port-{}", port.container_port))
}

/// The Service of an environment, if it listens anywhere.
pub(crate) fn service(instance: &Instance, environment: &Environment) -> Option<Service> {
    if environment.ports.is_empty() {
        return None;
    }
    let ports = environment
        .ports
        .iter()
        .map(|port| ServicePort {
            name: Some(port_name(port)),
            port: port.container_port,
            target_port: Some(IntOrString::Int(port.container_port)),
            protocol: port.protocol.clone(),
            ..ServicePort::default()
        })
        .collect();
    let mut selector = labels(instance, &environment.name);
    selector.remove(shared::MANAGED_BY);
    let name = child_name(instance_name(instance), &environment.name);
    Some(Service {
        metadata: metadata(instance, &environment.name, name),
        spec: Some(ServiceSpec {
            // Nobody needs an address of its own: whoever comes, comes through the gateway.
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// How Ingresses are made on this cluster.
#[derive(Debug, Clone)]
pub(crate) struct IngressStyle {
    pub(crate) gateway: GatewayService,
    /// Below which name every environment has its origin.
    pub(crate) domain: String,
    pub(crate) class_name: Option<String>,
    /// Where the addresses are that stay the same.
    pub(crate) host: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What stands for the gateway beside an environment.
fn gateway_name(instance: &Instance, environment: &str) -> String {
    format!("{}-gateway", child_name(instance_name(instance), environment))
}

/// An Ingress leads to a Service of its own namespace; this one is another name of the gateway's.
pub(crate) fn gateway_service(
    instance: &Instance,
    environment: &Environment,
    style: &IngressStyle,
) -> Option<Service> {
    environment.ports.first()?;
    let GatewayService { namespace, name, port } = &style.gateway;
    Some(Service {
        metadata: metadata(instance, &environment.name, gateway_name(instance, &environment.name)),
        spec: Some(ServiceSpec {
            type_: Some("ExternalName".to_owned()),
            external_name: Some(format!("{name}.{namespace}.svc.cluster.local")),
            ports: Some(vec![ServicePort { port: i32::from(*port), ..ServicePort::default() }]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// The Ingress of an environment, if it listens anywhere. It leads to the gateway, where people sign
/// in and use is seen, and never to the environment itself.
pub(crate) fn ingress(
    instance: &Instance,
    environment: &Environment,
    style: &IngressStyle,
) -> Option<Ingress> {
    environment.ports.first()?;
    let name = child_name(instance_name(instance), &environment.name);
    let namespace = instance.metadata.namespace.as_deref().unwrap_or_default();
    let rule = |host: String, path: String| {
        let backend = IngressBackend {
            service: Some(IngressServiceBackend {
                name: gateway_name(instance, &environment.name),
                port: Some(ServiceBackendPort {
                    name: None,
                    number: Some(i32::from(style.gateway.port)),
                }),
            }),
            resource: None,
        };
        let path = HTTPIngressPath { path: Some(path), path_type: "Prefix".to_owned(), backend };
        IngressRule { host: Some(host), http: Some(HTTPIngressRuleValue { paths: vec![path] }) }
    };
    let key = Key::new(namespace, instance_name(instance));
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let origin = format!("{}.{}", label(&key, uid, &environment.name), style.domain);
    let own = access_path(namespace, instance_name(instance), &environment.name);
    let rules = [(Some(origin), "/".to_owned()), (style.host.clone(), own)];
    let rules = rules.into_iter().filter_map(|(host, path)| Some(rule(host?, path)));
    let mut metadata = metadata(instance, &environment.name, name);
    metadata.annotations.get_or_insert_default().extend(style.annotations.clone());
    Some(Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: style.class_name.clone(),
            rules: Some(rules.collect()),
            ..IngressSpec::default()
        }),
        status: None,
    })
}

/// What runs a submission.
#[derive(Debug, Clone)]
pub(crate) struct Submitter {
    pub(crate) image: String,
    /// The program: on a cluster the image's own, on one machine this very binary.
    pub(crate) program: String,
    /// More than one environment is handed in.
    pub(crate) several: bool,
    /// Address ranges that uploads may reach beside the public ones.
    pub(crate) allowed_addresses: Vec<String>,
}

/// One volume that is handed in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubmissionJob<'a> {
    pub(crate) environment: &'a str,
    /// It is a bare disk.
    pub(crate) block: bool,
    pub(crate) series: u32,
    pub(crate) idempotency_key: &'a str,
}

/// The Job that hands in one volume.
pub(crate) fn job(
    instance: &Instance,
    submission: &Submission,
    submission_job: SubmissionJob<'_>,
    by: &Submitter,
) -> Job {
    let SubmissionJob { environment, block, series, idempotency_key } = submission_job;
    let claim = child_name(instance_name(instance), environment);
    let name = job_name(instance_name(instance), environment, series);
    let mut metadata = metadata(instance, environment, name);
    if let Some(labels) = &mut metadata.labels {
        labels.insert(SUBMISSION.to_owned(), series.to_string());
    }
    let mut url = submission.url.clone();
    // Below a folder every environment has a place of its own; at one place they would overwrite
    // each other.
    if by.several && submission.method == SubmissionMethod::Put && !url.ends_with('/') {
        url.push('/');
    }
    let mut args: Vec<String> =
        ["submit", "--filename", &claim, "--url", &url].map(str::to_owned).into();
    args.extend(["--method".to_owned(), method(submission.method).to_owned()]);
    args.extend(["--idempotency-key".to_owned(), idempotency_key.to_owned()]);
    args.extend([if block { "--device" } else { "--root" }.to_owned(), SOURCE.to_owned()]);
    for range in &by.allowed_addresses {
        args.extend(["--allow-address".to_owned(), range.clone()]);
    }
    let mut volumes = vec![claim_volume(claim, false)];
    let mut mounts = Vec::new();
    if !block {
        mounts.push(VolumeMount {
            name: DATA.to_owned(),
            mount_path: SOURCE.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    if let Some(secret) = &submission.secret_ref {
        args.extend(["--secret-dir".to_owned(), SECRET.to_owned()]);
        volumes.push(Volume {
            name: "secret".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.name.clone()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
        mounts.push(VolumeMount {
            name: "secret".to_owned(),
            mount_path: SECRET.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    let container = Container {
        name: "submit".to_owned(),
        image: Some(by.image.clone()),
        command: Some(vec![by.program.clone()]),
        args: Some(args),
        resources: Some(submission_resources()),
        security_context: Some(confined()),
        volume_devices: block
            .then(|| vec![VolumeDevice { name: DATA.to_owned(), device_path: SOURCE.to_owned() }]),
        volume_mounts: Some(mounts),
        ..Container::default()
    };
    Job {
        spec: Some(JobSpec {
            backoff_limit: Some(SUBMISSION_RETRIES),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: metadata.labels.clone(),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    // A Pod per attempt: each keeps what it has to say until it was read.
                    restart_policy: Some("Never".to_owned()),
                    automount_service_account_token: Some(false),
                    enable_service_links: Some(false),
                    security_context: Some(PodSecurityContext {
                        run_as_non_root: Some(true),
                        ..PodSecurityContext::default()
                    }),
                    volumes: Some(volumes),
                    ..PodSpec::default()
                }),
            },
            ..JobSpec::default()
        }),
        metadata,
        status: None,
    }
}

/// Where the volume is in the Pod that hands it in.
const SOURCE: &str = "/submission";
const SECRET: &str = "/submission-secret";

const fn method(method: SubmissionMethod) -> &'static str {
    match method {
        SubmissionMethod::Multipart => "Multipart",
        SubmissionMethod::Put => "Put",
        SubmissionMethod::S3 => "S3",
    }
}

fn submission_resources() -> ResourceRequirements {
    let amounts = |cpu: &str, memory: &str| {
        Some(BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ]))
    };
    ResourceRequirements {
        requests: amounts("500m", "256Mi"),
        limits: amounts("1", "1Gi"),
        ..ResourceRequirements::default()
    }
}

fn confined() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        ..SecurityContext::default()
    }
}

#[cfg(test)]
mod tests;
