//! The Pods, claims, Services and Ingresses of an Instance: what exists, and what is created and deleted
//! to reach the desired state.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::PostParams;
use sojourn_api::lab::environment::Environment;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::status::{EnvironmentStatus, InstanceStatus, Phase};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_core::lab::ending::runs;
use sojourn_core::lab::intent::Intent;
use sojourn_core::lab::observed::Claim;
use sojourn_core::lab::runtime::{
    self, Child, DesiredRuntime, EnvironmentObjects, Runtime, RuntimeStep,
};
use sojourn_drivers::dial::Endpoint;

use super::caches::{LabCaches, template_key};
use super::execute::environment_of;
use super::object::{self, IngressStyle, ReportTo, access_path, child_name};
use super::observe::ObservedInstance;
use super::reconcile::{Lab, LabError};
use super::snapshot::InstanceSnapshot;
use super::view::{ChildView, PodPhase, PodView};
use crate::clock::Clock;
use crate::frame::Cache;

/// Pods that were replaced because they had ended, and have not run well since.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<HashMap<Key, Replaced>>);

#[derive(Debug, Clone, Copy, Default)]
struct Replaced {
    times: u32,
    /// Since when the first of them stood for its environment.
    since: Option<Timestamp>,
}

impl Restarts {
    fn of(&self, pod: &Key) -> Replaced {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(pod).copied().unwrap_or_default()
    }

    fn count(&self, pod: &Key, ended: &PodView) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = all.entry(pod.clone()).or_default();
        replaced.times = replaced.times.saturating_add(1);
        replaced.since = ended.since;
    }

    fn forget(&self, pod: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(pod);
    }
}

impl LabCaches {
    /// Where an environment answers, while its Pod is ready.
    pub(crate) fn endpoint(&self, key: &Key, environment: &str) -> Option<Endpoint> {
        let pod = self.pod(key, environment)?;
        let (port, reached) = pod.ports.first()?;
        let address = SocketAddr::new(pod.ip?, *reached);
        Some(Endpoint { pod: Some(pod.uid.clone()), port: u16::try_from(*port).ok()?, address })
    }
}

/// What is to be done so that the Instance's objects are as they should be.
pub(super) fn runtime(
    snapshot: &InstanceSnapshot,
    intent: &Intent,
    observed: &ObservedInstance,
    now: Timestamp,
) -> Runtime {
    let mut environments: Vec<runtime::Environment> = snapshot
        .template()
        .iter()
        .flat_map(|template| &template.spec.environment_list)
        .map(|environment| runtime::Environment {
            name: environment.name.clone(),
            persistent: environment.persistent,
            listens: !environment.ports.is_empty(),
            blocked: blocked(snapshot, environment),
        })
        .collect();
    if snapshot.template().is_none() {
        // Without a Template running Pods stay, and nothing new can be created.
        let no_template = || Some("there is no Template to make it from".to_owned());
        environments.extend(earlier(snapshot).iter().map(|one| runtime::Environment {
            name: one.name.clone(),
            persistent: false,
            listens: false,
            blocked: no_template(),
        }));
    }
    let wanted = DesiredRuntime {
        running: runs(&snapshot.state, intent),
        environments: &environments,
        ingress: observed.ingress_served && ingress_style(snapshot).is_some(),
    };
    runtime::runtime(&wanted, &observed.environments, now)
}

/// The environments as the last status has them.
fn earlier(snapshot: &InstanceSnapshot) -> &[EnvironmentStatus] {
    let status = snapshot.instance().and_then(|instance| instance.status.as_ref());
    status.map(|status| status.environments.as_slice()).unwrap_or_default()
}

impl Lab {
    /// What there is of every environment that the Instance has, or had.
    pub(super) fn environments(&self, snapshot: &InstanceSnapshot) -> Vec<EnvironmentObjects> {
        let template = snapshot.template().into_iter();
        let names = template
            .flat_map(|template| &template.spec.environment_list)
            .map(|one| &one.name)
            .chain(earlier(snapshot).iter().map(|one| &one.name))
            .chain(&snapshot.state.claims);
        let mut seen: Vec<EnvironmentObjects> = Vec::new();
        for name in names {
            if seen.iter().all(|objects| objects.name != *name) {
                seen.push(self.objects_of(snapshot, name));
            }
        }
        seen
    }

    /// Since when the youngest Pod is there. One that replaces one that failed is as old as that: an
    /// instance whose Pods fail must not look used.
    pub(super) fn pods_since(&self, snapshot: &InstanceSnapshot) -> Option<Timestamp> {
        let environments = snapshot.template()?.spec.environment_list.iter();
        let pods = environments
            .filter_map(|environment| self.caches.pod(&snapshot.key, &environment.name));
        pods.filter_map(|pod| pod.since).max()
    }

    fn objects_of(&self, snapshot: &InstanceSnapshot, name: &str) -> EnvironmentObjects {
        let key = self.child(snapshot, name);
        let caches = &self.caches;
        let uid = uid_of(snapshot);
        // A Pod of an earlier Instance of that name blocks the name until it is gone.
        let pod = match caches.pods.get(&key) {
            None => Known::Absent,
            Some(pod) if pod.owner.as_deref() == uid => Known::Is(seen_pod(&pod, &*self.clock)),
            Some(_) => Known::Unknown,
        };
        EnvironmentObjects {
            name: name.to_owned(),
            claim: child(&caches.claims, &key, uid),
            claimed: snapshot.state.claims.iter().any(|claimed| *claimed == *name),
            pod,
            restarts: self.restarts.of(&key).times,
            service: child(&caches.services, &key, uid),
            ingress: if caches.ingress_served() {
                child(&caches.ingresses, &key, uid)
            } else {
                Known::Unknown
            },
        }
    }

    /// The claims of an Instance that are there.
    pub(super) fn claims(&self, snapshot: &InstanceSnapshot) -> Vec<Claim> {
        let template = snapshot.template().into_iter();
        let mut names: Vec<&String> = template
            .flat_map(|template| &template.spec.environment_list)
            .map(|environment| &environment.name)
            .collect();
        for claimed in &snapshot.state.claims {
            if !names.contains(&claimed) {
                names.push(claimed);
            }
        }
        let seen = |name: &String| {
            let claim = self.caches.claims.get(&self.child(snapshot, name))?;
            let own = uid_of(snapshot).is_some() && claim.owner.as_deref() == uid_of(snapshot);
            let view = claim.claim?;
            own.then(|| Claim {
                environment: name.clone(),
                has_finalizer: view.has_finalizer,
                bound: view.bound,
            })
        };
        names.into_iter().filter_map(seen).collect()
    }

    /// Makes and takes away what the plan says.
    pub(super) async fn apply_runtime(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        plan: &Runtime,
    ) -> Result<(), LabError> {
        for report in plan.environments.iter().filter(|report| report.ready()) {
            self.restarts.forget(&self.child(snapshot, &report.name));
        }
        let namespace = &*snapshot.key.namespace;
        for step in &plan.steps {
            match step {
                RuntimeStep::EnsureClaim(name) => {
                    if let Some(environment) = environment_of(snapshot, name) {
                        let claim = object::claim(instance, environment, submits_at_end(snapshot));
                        self.create(namespace, &claim, "create the claim").await?;
                    }
                }
                RuntimeStep::EnsurePod(name) => {
                    if let Some(environment) = environment_of(snapshot, name) {
                        self.create_pod(snapshot, instance, environment).await?;
                    }
                }
                RuntimeStep::DeletePod { environment, uid } => {
                    let key = self.child(snapshot, environment);
                    let ended = |phase| matches!(phase, PodPhase::Failed | PodPhase::Succeeded);
                    if let Some(pod) = self.caches.pods.get(&key).filter(|pod| ended(pod.phase)) {
                        self.restarts.count(&key, &pod);
                    }
                    self.remove::<Pod>(namespace, &key.name, uid, "delete the Pod").await?;
                }
                RuntimeStep::EnsureService(name) => {
                    let environment = environment_of(snapshot, name);
                    if let Some(service) =
                        environment.and_then(|one| object::service(instance, one))
                    {
                        self.create(namespace, &service, "create the Service").await?;
                    }
                }
                RuntimeStep::DeleteService(name) => {
                    let key = self.child(snapshot, name);
                    if let Some(service) = self.caches.services.get(&key) {
                        self.remove::<Service>(
                            namespace,
                            &key.name,
                            &service.uid,
                            "delete the Service",
                        )
                        .await?;
                    }
                }
                RuntimeStep::EnsureIngress(name) => {
                    let environment = environment_of(snapshot, name);
                    let Some((environment, style)) = environment.zip(ingress_style(snapshot))
                    else {
                        continue;
                    };
                    if let Some(gateway) = object::gateway_service(instance, environment, &style) {
                        self.create(namespace, &gateway, "create the gateway's Service").await?;
                    }
                    if let Some(ingress) = object::ingress(instance, environment, &style) {
                        self.create(namespace, &ingress, "create the Ingress").await?;
                    }
                }
                RuntimeStep::DeleteIngress(name) => {
                    let key = self.child(snapshot, name);
                    if let Some(ingress) = self.caches.ingresses.get(&key) {
                        self.remove::<Ingress>(
                            namespace,
                            &key.name,
                            &ingress.uid,
                            "delete the Ingress",
                        )
                        .await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn create_pod(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        environment: &Environment,
    ) -> Result<(), LabError> {
        let report = self.report_to(snapshot, instance);
        if let Some(report) = &report {
            let uid = instance.metadata.uid.as_deref().unwrap_or_default();
            let token = self.installation_key.report_token(&snapshot.key, uid);
            let secret = object::report_secret(instance, report, &token);
            self.create_report_secret(&snapshot.key.namespace, &secret).await?;
        }
        let since = self.restarts.of(&self.child(snapshot, &environment.name)).since;
        // Behind the gateway it has an origin of its own.
        let pod = object::pod(instance, environment, "/", report.as_ref(), since);
        self.create(&snapshot.key.namespace, &pod, "create the Pod").await
    }

    pub(super) fn public_url(&self, snapshot: &InstanceSnapshot) -> Option<String> {
        let url = snapshot.config.public_url.clone().or_else(|| self.web.public_url.clone())?;
        Some(url.trim_end_matches('/').to_owned())
    }

    fn report_to(&self, snapshot: &InstanceSnapshot, instance: &Instance) -> Option<ReportTo> {
        let base = self.public_url(snapshot).filter(|_| self.web.reports)?;
        let Key { namespace, name } = &snapshot.key;
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        Some(ReportTo {
            url: format!("{base}/report/lab/{namespace}/{name}"),
            secret: object::secret_name(
                name,
                &self.installation_key.report_secret_suffix(&snapshot.key, uid),
            ),
        })
    }

    /// Creates the Secret of reports. We may read no Secrets here, so nobody could tell whose one is
    /// that is there already: its name is one that only we can find.
    async fn create_report_secret(&self, namespace: &str, secret: &Secret) -> Result<(), LabError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match api.create(&PostParams::default(), secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(LabError::of("create the Secret for reports", error)),
        }
    }

    /// Where an environment is reached, if anywhere.
    fn url_of(&self, snapshot: &InstanceSnapshot, environment: &Environment) -> Option<String> {
        environment.ports.first()?;
        let Key { namespace, name } = &snapshot.key;
        let path = access_path(namespace, name, &environment.name);
        let reached = self.web.gateway || ingress_style(snapshot).is_some();
        let base = self.public_url(snapshot).filter(|_| reached)?;
        Some(format!("{base}{path}"))
    }

    /// Writes how the environments are into the status.
    pub(super) fn describe_runtime(
        &self,
        snapshot: &InstanceSnapshot,
        plan: &Runtime,
        status: &mut InstanceStatus,
    ) {
        status.phase = Some(phase(plan.phase));
        let earlier = std::mem::take(&mut status.environments);
        let mut url = None;
        for report in &plan.environments {
            let key = self.child(snapshot, &report.name);
            let environment = environment_of(snapshot, &report.name);
            let pod = self.caches.pod(&snapshot.key, &report.name).filter(|pod| !pod.deleting);
            let own = |claim: &ChildView| claim.owner.as_deref() == uid_of(snapshot);
            let claimed = self.caches.claims.get(&key).is_some_and(|claim| own(&claim))
                || snapshot.state.claims.contains(&report.name);
            let own_url = environment.and_then(|one| self.url_of(snapshot, one));
            url = url.or_else(|| own_url.clone());
            status.environments.push(EnvironmentStatus {
                name: report.name.clone(),
                phase: Some(phase(report.phase)),
                url: own_url,
                ip: pod.as_ref().and_then(|pod| pod.ip).map(|ip| ip.to_string()),
                port: pod
                    .as_ref()
                    .and_then(|pod| pod.ports.first())
                    .map(|(_, port)| i32::from(*port)),
                claim: claimed.then(|| child_name(&snapshot.key.name, &report.name)),
                message: report.message.clone(),
            });
        }
        // What still runs of an environment that the Template has lost is taken away at the next stop.
        for one in &earlier {
            let lost = status.environments.iter().all(|known| known.name != one.name);
            if lost && self.caches.pod(&snapshot.key, &one.name).is_some() {
                let message = Some("its Template has no such environment any more".to_owned());
                status.environments.push(EnvironmentStatus { message, ..one.clone() });
            }
        }
        if snapshot.template().is_none() {
            // Without a Template the addresses are unknown, so those of the last status stay.
            let of = |one: EnvironmentStatus| {
                let report = plan.environments.iter().find(|report| report.name == one.name);
                match report {
                    Some(report) => EnvironmentStatus {
                        phase: Some(phase(report.phase)),
                        message: report.message.clone(),
                        ..one
                    },
                    None => one,
                }
            };
            status.environments = earlier.into_iter().map(of).collect();
        } else {
            status.url = url;
        }
    }
}

/// Whether what is written is handed in at the end, whatever that is.
fn submits_at_end(snapshot: &InstanceSnapshot) -> bool {
    let wanted = snapshot.intent.as_ref().ok().and_then(|intent| intent.submission.wanted.as_ref());
    wanted.is_some_and(|wanted| wanted.on_termination)
}

/// Why no Pod may be made of an environment: its Template is written by others than the ones who say who
/// reads what in this namespace.
fn blocked(snapshot: &InstanceSnapshot, environment: &Environment) -> Option<String> {
    let template = template_key(snapshot.instance()?);
    let foreign = template.namespace != snapshot.key.namespace;
    (foreign && !environment.referents().is_empty()).then(|| {
        format!(
            "its Template {template} is of another namespace and names Secrets or ConfigMaps, which are read for Instances of its own namespace only"
        )
    })
}

/// What has the name of a part of the Instance and is neither that part nor left over from an
/// earlier Instance.
pub(super) fn conflicting_object(
    caches: &LabCaches,
    snapshot: &InstanceSnapshot,
) -> Option<String> {
    let environments = snapshot.template()?.spec.environment_list.iter();
    environments.map(|one| child_name(&snapshot.key.name, &one.name)).find_map(|name| {
        let key = Key::new(snapshot.key.namespace.clone(), name.clone());
        let foreign = |cache: &Cache<ChildView>| {
            cache.get(&key).is_some_and(|child| child.owner.is_none() && !child.deleting)
        };
        let pod = caches.pods.get(&key);
        let kind = match pod.filter(|pod| pod.owner.is_none() && !pod.deleting) {
            Some(_) => "Pod",
            None if foreign(&caches.claims) => "PersistentVolumeClaim",
            None if foreign(&caches.services) => "Service",
            None if foreign(&caches.ingresses) => "Ingress",
            None => return None,
        };
        Some(format!("there is another {kind} {name}, which is not ours and stays as it is"))
    })
}

/// How Ingresses are made, if any are to be.
fn ingress_style(snapshot: &InstanceSnapshot) -> Option<IngressStyle> {
    let config = &snapshot.config;
    Some(IngressStyle {
        gateway: config.gateway_service()?,
        domain: config.gateway.domain.clone()?,
        class_name: config.ingress_class_name.clone(),
        host: config.ingress_host.clone(),
        annotations: config.ingress_annotations.clone(),
    })
}

pub(super) fn uid_of(snapshot: &InstanceSnapshot) -> Option<&str> {
    snapshot.instance()?.metadata.uid.as_deref()
}

fn child(cache: &Cache<ChildView>, key: &Key, uid: Option<&str>) -> Known<Child> {
    match cache.get(key) {
        None => Known::Absent,
        Some(child) if child.owner.as_deref() == uid => {
            Known::Is(Child { deleting: child.deleting })
        }
        Some(_) => Known::Unknown,
    }
}

fn seen_pod(pod: &PodView, clock: &dyn Clock) -> runtime::Pod {
    runtime::Pod {
        uid: pod.uid.clone(),
        phase: match pod.phase {
            PodPhase::Pending => runtime::PodPhase::Pending,
            PodPhase::Running => runtime::PodPhase::Running,
            PodPhase::Succeeded => runtime::PodPhase::Succeeded,
            PodPhase::Failed => runtime::PodPhase::Failed,
        },
        ready: pod.ready,
        deleting: pod.deleting,
        created: pod.created.unwrap_or_else(|| clock.now()),
        message: pod.message.clone(),
    }
}

const fn phase(phase: runtime::Phase) -> Phase {
    match phase {
        runtime::Phase::Pending => Phase::Pending,
        runtime::Phase::Starting => Phase::Starting,
        runtime::Phase::Ready => Phase::Ready,
        runtime::Phase::Stopping => Phase::Stopping,
        runtime::Phase::Off => Phase::Off,
        runtime::Phase::Failed => Phase::Failed,
    }
}
