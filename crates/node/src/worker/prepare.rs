//! Whether a Pod can run here, and what it runs with: its user, its ports, its volumes.
//!
//! Looked at again only when something changed or a time has come; what a Pod was once given (its
//! ports, its user) stays with it, and is on disk for the next node.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::Path;

use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::cgroup::ContainerGroup;
use crate::event::EventType;
use crate::fields;
use crate::lifecycle::Preparation;
use crate::objects;
use crate::plan::VolumeSource;
use crate::port::{self, PortError, PortMap, PortRequest, Protocol, ProtocolPort};
use crate::private;
use crate::shim;
use crate::shim::protocol::{Confinement, Forward, Reachable, Transport};
use crate::volume::{Owner, VolumeRequest};

use super::{Retry, Shim, Worker, containers};

/// What is shown before anything was looked at.
const CREATING: &str = "ContainerCreating";
/// Each is a rule of the Pod's network.
const MAX_SERVICES_PER_POD: usize = 16;

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) preparation: Preparation,
    /// Something changed since it was looked at.
    pub(super) is_stale: bool,
    /// When the decision wants to be made again.
    pub(super) wake: Option<Timestamp>,
    pub(super) confinement: Option<Confinement>,
    pub(super) ports: Option<PortMap>,
    /// Those of them that are the machine's, too.
    published: PortMap,
    pub(super) forwards: Vec<Forward>,
    /// In the machine's network: those that it listens at by TCP.
    pub(super) listens: Vec<u16>,
    /// What of this machine it may reach, and no other Pod.
    pub(super) services: Vec<Reachable>,
    pub(super) volumes: BTreeMap<String, VolumeSource>,
    /// When a token is to be renewed.
    refresh: Option<Timestamp>,
    /// When to look again at what was missing and of which no news comes.
    retry: Retry,
}

impl Default for Prepared {
    fn default() -> Self {
        Self {
            preparation: Preparation::Waiting {
                container: None,
                reason: CREATING,
                message: String::new(),
            },
            is_stale: true,
            wake: None,
            confinement: None,
            ports: None,
            published: PortMap::default(),
            forwards: Vec::new(),
            listens: Vec::new(),
            services: Vec::new(),
            volumes: BTreeMap::new(),
            refresh: None,
            retry: Retry::default(),
        }
    }
}

impl Prepared {
    /// The annotation that tells which ports of the machine lead to the Pod, if any do.
    pub(super) fn ports_annotation(&self) -> Option<String> {
        (!self.published.is_empty()).then(|| self.published.annotation())
    }

    pub(super) fn next_check(&self) -> Option<Timestamp> {
        [self.refresh, self.retry.at].into_iter().flatten().min()
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.is_stale || self.next_check().is_some_and(|at| at <= now)
    }
}

/// Why a Pod cannot run: for now, or for good.
enum Obstacle {
    /// What it refers to is on its way here.
    Reading,
    /// Somebody who is asked does not know yet, in words.
    Unknown(&'static str),
    Waiting(String),
    /// One container refers to something that is not there.
    Configuration {
        container: String,
        message: String,
    },
    Refused {
        reason: &'static str,
        message: String,
    },
}

impl Worker {
    /// Looks at everything that the Pod needs, and makes what can be made.
    pub(super) async fn prepare(&mut self) {
        let now = self.context.clock.now();
        if self.is_over() || !self.prepared.is_due(now) {
            return;
        }
        self.prepared.is_stale = false;
        let found = self.check(now).await;
        let preparation = match found {
            Ok(()) => {
                self.prepared.retry.succeeded();
                Preparation::Ready
            }
            // Nothing is wrong yet, so nothing is said.
            Err(Obstacle::Reading) => {
                let message = String::new();
                Preparation::Waiting { container: None, reason: CREATING, message }
            }
            Err(Obstacle::Unknown(what)) => {
                self.prepared.retry.failed(now);
                let message = what.to_owned();
                Preparation::Waiting { container: None, reason: CREATING, message }
            }
            Err(Obstacle::Waiting(message)) => {
                self.prepared.retry.failed(now);
                self.emit_event(EventType::Warning, "FailedMount", &message);
                Preparation::Waiting { container: None, reason: CREATING, message }
            }
            Err(Obstacle::Configuration { container, message }) => {
                self.prepared.retry.failed(now);
                self.emit_event(EventType::Warning, "Failed", &format!("Error: {message}"));
                let (container, reason) = (Some(container), "CreateContainerConfigError");
                Preparation::Waiting { container, reason, message }
            }
            Err(Obstacle::Refused { reason, message }) => {
                self.emit_event(EventType::Warning, reason, &message);
                Preparation::Refused { reason, message }
            }
        };
        self.prepared.preparation = preparation;
    }

    /// A Pod that has ended, or is about to, needs nothing any more.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
            || self.pod.metadata.deletion_timestamp.is_some()
    }

    async fn check(&mut self, now: Timestamp) -> Result<(), Obstacle> {
        if self.prepared.confinement.is_none() {
            self.admit()?;
        }
        let Some(confinement) = self.prepared.confinement else { return Ok(()) };
        if self.prepared.ports.is_none() {
            self.assign_ports(now)?;
        }
        self.find_services()?;
        let context = self.context.clone();
        context.objects.set(&self.uid(), objects::references(&self.pod));
        if context.objects.are_loading(&self.uid()) {
            return Err(Obstacle::Reading);
        }
        let wanted = VolumeRequest {
            pod: &self.pod,
            folder: &self.folder,
            owner: Owner::of(confinement),
            lookup: &context.objects,
            now,
        };
        let volumes = context.volumes.prepare(&wanted).await;
        for warning in &volumes.warnings {
            self.emit_event(EventType::Warning, "FailedMount", warning);
        }
        self.prepared.refresh = volumes.refresh;
        self.prepared.volumes = volumes.volumes;
        if !volumes.missing.is_empty() {
            return Err(Obstacle::Waiting(volumes.missing.join("; ")));
        }
        self.check_configuration()
    }

    /// Whether every container that does not run could be started.
    fn check_configuration(&self) -> Result<(), Obstacle> {
        let group = ContainerGroup::default();
        for container in containers(&self.pod) {
            let name = &container.name;
            if self.runs.running(name).is_none()
                && let Err(error) = self.plan_in(name, 0, &group)
            {
                let (container, message) = (name.clone(), error.to_string());
                return Err(Obstacle::Configuration { container, message });
            }
        }
        Ok(())
    }

    /// Whether this node takes the Pod at all, and as which user it runs.
    fn admit(&mut self) -> Result<(), Obstacle> {
        let value = serde_json::to_value(&*self.pod).unwrap_or_default();
        fields::check(&value).map_err(|refused| Obstacle::Refused {
            reason: "UnsupportedPod",
            message: refused.to_string(),
        })?;
        let namespace = self.pod.namespace().unwrap_or_default();
        let confinement = self.context.confiner.confinement(&namespace).map_err(|error| {
            Obstacle::Refused { reason: "CannotConfine", message: error.to_string() }
        })?;
        make_folder(self.folder.path(), None)
            .and_then(|()| make_folder(&self.folder.hooks(), None))
            .and_then(|()| make_folder(&self.folder.home(), Owner::of(confinement)))
            .and_then(|()| make_folder(&self.folder.tmp(), Owner::of(confinement)))
            .map_err(|error| Obstacle::Waiting(format!("cannot make the Pod's folder: {error}")))?;
        if let Err(error) = private::write(&self.folder.pod(), value.to_string().as_bytes()) {
            return Err(Obstacle::Waiting(format!("cannot keep the Pod: {error}")));
        }
        self.prepared.confinement = Some(confinement);
        Ok(())
    }

    /// Whether the Pod has, or will have, a network of its own.
    pub(super) fn has_own_network(&self) -> bool {
        match self.shim {
            // As it was started, by whichever node that was.
            Shim::Running { .. } => shim::has_own_network(&self.folder).unwrap_or(false),
            Shim::Absent | Shim::Ended => {
                self.context.confiner.network().is_own()
                    && self.prepared.confinement != Some(Confinement::Unconfined)
            }
        }
    }

    /// The ports that the Pod listens at, and those of the machine that lead there.
    fn assign_ports(&mut self, now: Timestamp) -> Result<(), Obstacle> {
        let requests = port::requests(&self.pod).map_err(|error| Obstacle::Refused {
            reason: "UnsupportedPod",
            message: error.to_string(),
        })?;
        if !self.has_own_network() {
            let drawn = self.allocate_ports(&requests, now)?;
            let tcp = requests.iter().filter(|request| request.protocol == Protocol::Tcp);
            self.prepared.listens = tcp.filter_map(|request| drawn.get(&request.key)).collect();
            self.prepared.published = drawn.clone();
            self.prepared.ports = Some(drawn);
            return Ok(());
        }
        let config = &self.context.config;
        let (address, all) = (config.address, config.publish_ports);
        let own = |request: &PortRequest| ProtocolPort::new(request.protocol, request.port);
        let inside = requests.iter().map(|request| (request.key.clone(), own(request))).collect();
        let wanted: Vec<PortRequest> =
            requests.into_iter().filter(|request| all || request.host_port.is_some()).collect();
        self.prepared.published = self.allocate_ports(&wanted, now)?;
        let forward = |request: &PortRequest| {
            let port = self.prepared.published.get(&request.key)?;
            let transport = match request.protocol {
                Protocol::Tcp => Transport::Tcp,
                Protocol::Udp => Transport::Udp,
            };
            let listen = SocketAddr::new(address, port);
            Some(Forward { transport, listen, port: request.port })
        };
        self.prepared.forwards = wanted.iter().filter_map(forward).collect();
        self.prepared.ports = Some(inside);
        Ok(())
    }

    /// The ports of the machine that the Pod has from before, or new ones.
    fn allocate_ports(
        &self,
        requests: &[PortRequest],
        now: Timestamp,
    ) -> Result<PortMap, Obstacle> {
        if requests.is_empty() {
            return Ok(PortMap::default());
        }
        let uid = self.uid();
        let had = port::record::read(&self.folder, requests);
        let has_shim = matches!(self.shim, Shim::Running { .. });
        // A shim that runs has the ports that its Pod asks for: they are in use by the Pod itself.
        let is_free = |port: ProtocolPort| {
            has_shim && requests.iter().any(|request| request.host() == Some(port))
                || port::is_free(port)
        };
        let mut ports = self.context.ports();
        let drawn = had
            .as_ref()
            .map_or(Ok(()), |had| ports.restore(&uid, had))
            .and_then(|()| ports.draw(&uid, requests, now, is_free));
        let drawn = drawn.map_err(|error| match error {
            PortError::InUse(_) => {
                Obstacle::Refused { reason: port::TAKEN_REASON, message: error.to_string() }
            }
            error => Obstacle::Waiting(error.to_string()),
        })?;
        if had.as_ref() == Some(&drawn) {
            return Ok(drawn);
        }
        if let Err(error) = port::record::write(&self.folder, &drawn) {
            if had.is_none() {
                ports.release(&uid, now);
            }
            return Err(Obstacle::Waiting(format!("cannot note the Pod's ports: {error}")));
        }
        Ok(drawn)
    }

    /// A port of the machine that the Pod asks for by number, and that is in use although its shim does
    /// not run.
    pub(super) fn taken_port(&self) -> Option<PortError> {
        let requests = port::requests(&self.pod).unwrap_or_default();
        let mut asked = requests.iter().filter_map(PortRequest::host);
        asked.find(|port| !port::is_free(*port)).map(PortError::InUse)
    }

    /// What of this machine the Pod alone may reach. A shim that runs was told when it was started.
    fn find_services(&mut self) -> Result<(), Obstacle> {
        let context = self.context.clone();
        let Some(services) = &context.config.pod_services else { return Ok(()) };
        if matches!(self.shim, Shim::Running { .. }) {
            return Ok(());
        }
        let Some(own) = services.reachable(&self.pod) else {
            return Err(Obstacle::Unknown("which services are the Pod's own is not known yet"));
        };
        if own.len() > MAX_SERVICES_PER_POD {
            let message = format!("a Pod has at most {MAX_SERVICES_PER_POD} services of its own");
            return Err(Obstacle::Refused { reason: "UnsupportedPod", message });
        }
        self.prepared.services = own.into_iter().map(Reachable::from).collect();
        Ok(())
    }
}

/// Makes a folder that only its owner can enter.
fn make_folder(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match owner {
        Some(Owner { uid, gid }) => chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}
