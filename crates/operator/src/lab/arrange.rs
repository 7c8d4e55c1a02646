//! The Pods, claims, Services and Ingresses of an Instance: what is there, and what is made and
//! taken away so that it is as it should be.

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
use sojourn_core::lab::runtime::{self, Child, Parts, Runtime, Step, Wanted};
use sojourn_drivers::dial::Endpoint;

use super::execute::environment_of;
use super::object::{self, IngressStyle, ReportTo, access_path, child_name};
use super::reconcile::{Lab, LabError};
use super::subject::Subject;
use super::view::{ChildView, PodPhase, PodView};
use super::world::{World, template_key};
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

impl World {
    /// Where an environment answers, while its Pod is ready.
    pub(crate) fn endpoint(&self, key: &Key, environment: &str) -> Option<Endpoint> {
        let pod = self.pod(key, environment)?;
        let (port, reached) = pod.ports.first()?;
        let address = SocketAddr::new(pod.ip?, *reached);
        Some(Endpoint { pod: pod.uid.clone(), port: u16::try_from(*port).ok()?, address })
    }
}

impl Lab {
    /// What the Instance's parts come to.
    pub(super) fn runtime(&self, subject: &Subject, intent: &Intent, now: Timestamp) -> Runtime {
        let mut environments: Vec<runtime::Environment> = subject
            .template()
            .iter()
            .flat_map(|template| &template.spec.environment_list)
            .map(|environment| runtime::Environment {
                name: environment.name.clone(),
                persistent: environment.persistent,
                listens: !environment.ports.is_empty(),
                barred: barred(subject, environment),
            })
            .collect();
        let known = subject.instance().and_then(|instance| instance.status.as_ref());
        let earlier = known.map(|status| status.environments.as_slice()).unwrap_or_default();
        if subject.template().is_none() {
            // What runs goes on; what is not there cannot be made.
            let no_template = || Some("there is no Template to make it from".to_owned());
            environments.extend(earlier.iter().map(|one| runtime::Environment {
                name: one.name.clone(),
                persistent: false,
                listens: false,
                barred: no_template(),
            }));
        }
        let mut seen: Vec<Parts> = Vec::with_capacity(environments.len());
        let names = environments
            .iter()
            .map(|one| &one.name)
            .chain(earlier.iter().map(|one| &one.name))
            .chain(&subject.state.claims);
        for name in names {
            if seen.iter().all(|parts| parts.name != *name) {
                seen.push(self.parts_of(subject, name, now));
            }
        }
        let wanted = Wanted {
            running: runs(&subject.state, intent),
            environments: &environments,
            ingress: self.world.ingress_served() && ingress_style(subject).is_some(),
        };
        runtime::runtime(&wanted, &seen, now)
    }

    /// Since when the youngest Pod is there. One that replaces one that failed is as old as that: an
    /// instance whose Pods fail must not look used.
    pub(super) fn pods_since(&self, subject: &Subject) -> Option<Timestamp> {
        let environments = subject.template()?.spec.environment_list.iter();
        let pods =
            environments.filter_map(|environment| self.world.pod(&subject.key, &environment.name));
        pods.filter_map(|pod| pod.since).max()
    }

    fn parts_of(&self, subject: &Subject, name: &str, now: Timestamp) -> Parts {
        let key = self.child(subject, name);
        let world = &self.world;
        let uid = uid_of(subject);
        // What an Instance of the same name has left behind is in the way until it is gone.
        let pod = match world.pods.get(&key) {
            None => Known::Absent,
            Some(pod) if pod.owner.as_deref() == uid => Known::Is(seen_pod(&pod, now)),
            Some(_) => Known::Unknown,
        };
        if matches!(&pod, Known::Is(pod) if pod.ready) {
            self.restarts.forget(&key);
        }
        Parts {
            name: name.to_owned(),
            claim: child(&world.claims, &key, uid),
            claimed: subject.state.claims.iter().any(|claimed| *claimed == *name),
            pod,
            restarts: self.restarts.of(&key).times,
            service: child(&world.services, &key, uid),
            ingress: if world.ingress_served() {
                child(&world.ingresses, &key, uid)
            } else {
                Known::Unknown
            },
        }
    }

    /// The claims of an Instance that are there.
    pub(super) fn claims(&self, subject: &Subject) -> Vec<Claim> {
        let template = subject.template().into_iter();
        let mut names: Vec<&String> = template
            .flat_map(|template| &template.spec.environment_list)
            .map(|environment| &environment.name)
            .collect();
        for claimed in &subject.state.claims {
            if !names.contains(&claimed) {
                names.push(claimed);
            }
        }
        let seen = |name: &String| {
            let claim = self.world.claims.get(&self.child(subject, name))?;
            let own = uid_of(subject).is_some() && claim.owner.as_deref() == uid_of(subject);
            let held = claim.claim.is_some_and(|claim| claim.held);
            own.then(|| Claim { environment: name.clone(), held })
        };
        names.into_iter().filter_map(seen).collect()
    }

    /// Makes and takes away what the plan says.
    pub(super) async fn arrange(
        &self,
        subject: &Subject,
        instance: &Instance,
        plan: &Runtime,
    ) -> Result<(), LabError> {
        let namespace = &*subject.key.namespace;
        for step in &plan.steps {
            match step {
                Step::EnsureClaim(name) => {
                    if let Some(environment) = environment_of(subject, name) {
                        let claim = object::claim(instance, environment, owed_at_the_end(subject));
                        self.create(namespace, &claim, "create the claim").await?;
                    }
                }
                Step::EnsurePod(name) => {
                    if let Some(environment) = environment_of(subject, name) {
                        self.create_pod(subject, instance, environment).await?;
                    }
                }
                Step::DeletePod { environment, uid } => {
                    let key = self.child(subject, environment);
                    let ended = |phase| matches!(phase, PodPhase::Failed | PodPhase::Succeeded);
                    if let Some(pod) = self.world.pods.get(&key).filter(|pod| ended(pod.phase)) {
                        self.restarts.count(&key, &pod);
                    }
                    self.remove::<Pod>(namespace, &key.name, uid, "delete the Pod").await?;
                }
                Step::EnsureService(name) => {
                    let environment = environment_of(subject, name);
                    if let Some(service) =
                        environment.and_then(|one| object::service(instance, one))
                    {
                        self.create(namespace, &service, "create the Service").await?;
                    }
                }
                Step::DeleteService(name) => {
                    let key = self.child(subject, name);
                    if let Some(service) = self.world.services.get(&key) {
                        self.remove::<Service>(
                            namespace,
                            &key.name,
                            &service.uid,
                            "delete the Service",
                        )
                        .await?;
                    }
                }
                Step::EnsureIngress(name) => {
                    let environment = environment_of(subject, name);
                    let Some((environment, style)) = environment.zip(ingress_style(subject)) else {
                        continue;
                    };
                    if let Some(gateway) = object::gateway_service(instance, environment, &style) {
                        self.create(namespace, &gateway, "create the gateway's Service").await?;
                    }
                    if let Some(ingress) = object::ingress(instance, environment, &style) {
                        self.create(namespace, &ingress, "create the Ingress").await?;
                    }
                }
                Step::DeleteIngress(name) => {
                    let key = self.child(subject, name);
                    if let Some(ingress) = self.world.ingresses.get(&key) {
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
        subject: &Subject,
        instance: &Instance,
        environment: &Environment,
    ) -> Result<(), LabError> {
        let report = self.report_to(subject, instance);
        if let Some(report) = &report {
            let uid = instance.metadata.uid.as_deref().unwrap_or_default();
            let token = self.master.report_token(&subject.key, uid);
            let secret = object::report_secret(instance, report, &token);
            self.keep_secret(&subject.key.namespace, &secret).await?;
        }
        let since = self.restarts.of(&self.child(subject, &environment.name)).since;
        // Behind the gateway it has an origin of its own.
        let pod = object::pod(instance, environment, "/", report.as_ref(), since);
        self.create(&subject.key.namespace, &pod, "create the Pod").await
    }

    pub(super) fn public_url(&self, subject: &Subject) -> Option<String> {
        let url = subject.config.public_url.clone().or_else(|| self.settings.public_url.clone())?;
        Some(url.trim_end_matches('/').to_owned())
    }

    fn report_to(&self, subject: &Subject, instance: &Instance) -> Option<ReportTo> {
        let base = self.public_url(subject).filter(|_| self.settings.reports)?;
        let Key { namespace, name } = &subject.key;
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        Some(ReportTo {
            url: format!("{base}/report/{namespace}/{name}"),
            secret: object::secret_name(name, &self.master.report_mark(&subject.key, uid)),
        })
    }

    /// Creates the Secret of reports. We may read no Secrets here, so nobody could tell whose one is
    /// that is there already: its name is one that only we can find.
    async fn keep_secret(&self, namespace: &str, secret: &Secret) -> Result<(), LabError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match api.create(&PostParams::default(), secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(LabError::of("create the Secret for reports", error)),
        }
    }

    /// Where an environment is reached, if anywhere.
    fn url_of(&self, subject: &Subject, environment: &Environment) -> Option<String> {
        environment.ports.first()?;
        let Key { namespace, name } = &subject.key;
        let path = access_path(namespace, name, &environment.name);
        let reached = self.settings.gateway || ingress_style(subject).is_some();
        let base = self.public_url(subject).filter(|_| reached)?;
        Some(format!("{base}{path}"))
    }

    /// Says how the parts are.
    pub(super) fn describe_runtime(
        &self,
        subject: &Subject,
        plan: &Runtime,
        status: &mut InstanceStatus,
    ) {
        status.phase = Some(phase(plan.phase));
        let earlier = std::mem::take(&mut status.environments);
        let mut url = None;
        for report in &plan.environments {
            let key = self.child(subject, &report.name);
            let environment = environment_of(subject, &report.name);
            let pod = self.world.pod(&subject.key, &report.name).filter(|pod| !pod.deleting);
            let own = |claim: &ChildView| claim.owner.as_deref() == uid_of(subject);
            let claimed = self.world.claims.get(&key).is_some_and(|claim| own(&claim))
                || subject.state.claims.contains(&report.name);
            let own_url = environment.and_then(|one| self.url_of(subject, one));
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
                claim: claimed.then(|| child_name(&subject.key.name, &report.name)),
                message: report.message.clone(),
            });
        }
        // What still runs of an environment that the Template has lost is taken away at the next stop.
        for one in &earlier {
            let lost = status.environments.iter().all(|known| known.name != one.name);
            if lost && self.world.pod(&subject.key, &one.name).is_some() {
                let message = Some("its Template has no such environment any more".to_owned());
                status.environments.push(EnvironmentStatus { message, ..one.clone() });
            }
        }
        if subject.template().is_none() {
            // Where it is reached is not known now; what was known stays.
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
fn owed_at_the_end(subject: &Subject) -> bool {
    let wanted = subject.intent.as_ref().ok().and_then(|intent| intent.submission.wanted.as_ref());
    wanted.is_some_and(|wanted| wanted.on_termination)
}

/// Why no Pod may be made of an environment: its Template is written by others than the ones who say who
/// reads what in this namespace.
fn barred(subject: &Subject, environment: &Environment) -> Option<String> {
    let template = template_key(subject.instance()?);
    let foreign = template.namespace != subject.key.namespace;
    (foreign && !environment.referents().is_empty()).then(|| {
        format!(
            "its Template {template} is of another namespace and names Secrets or ConfigMaps, which are read for Instances of its own namespace only"
        )
    })
}

/// What has the name of a part of the Instance and is neither that part nor left over from an
/// earlier Instance.
pub(super) fn in_the_way(world: &World, subject: &Subject) -> Option<String> {
    let environments = subject.template()?.spec.environment_list.iter();
    environments.map(|one| child_name(&subject.key.name, &one.name)).find_map(|name| {
        let key = Key::new(subject.key.namespace.clone(), name.clone());
        let foreign = |cache: &Cache<ChildView>| {
            cache.get(&key).is_some_and(|child| child.owner.is_none() && !child.deleting)
        };
        let pod = world.pods.get(&key);
        let kind = match pod.filter(|pod| pod.owner.is_none() && !pod.deleting) {
            Some(_) => "Pod",
            None if foreign(&world.claims) => "PersistentVolumeClaim",
            None if foreign(&world.services) => "Service",
            None if foreign(&world.ingresses) => "Ingress",
            None => return None,
        };
        Some(format!("there is another {kind} {name}, which is not ours and stays as it is"))
    })
}

/// How Ingresses are made, if any are to be.
fn ingress_style(subject: &Subject) -> Option<IngressStyle> {
    let config = &subject.config;
    Some(IngressStyle {
        gateway: config.gateway_service()?,
        domain: config.gateway.domain.clone()?,
        class_name: config.ingress_class_name.clone(),
        host: config.ingress_host.clone(),
        annotations: config.ingress_annotations.clone(),
    })
}

pub(super) fn uid_of(subject: &Subject) -> Option<&str> {
    subject.instance()?.metadata.uid.as_deref()
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

fn seen_pod(pod: &PodView, now: Timestamp) -> runtime::Pod {
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
        created: pod.created.unwrap_or(now),
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
