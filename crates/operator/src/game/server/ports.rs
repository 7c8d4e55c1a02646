//! The ports of a server that nobody made for a collection, and others for one whose ports are somebody else's.

use serde_json::json;
use sojourn_api::game::convert::{Granted, port_requests, with_granted};
use sojourn_api::game::port::{GamePort, PortPolicy};

use super::super::ports::about_ports;
use super::{ServerSnapshot, Servers};
use crate::frame::RequestError;
use crate::frame::write::{self, ObjectVersion};

const WHAT: &str = "grant ports";

impl Servers {
    /// Grants what a server that nobody made for a collection asks for.
    pub(super) async fn grant_ports(&self, snapshot: &ServerSnapshot) -> Result<(), RequestError> {
        let view = snapshot.view();
        let ports = view.ports();
        let (nodes, config) = (self.0.caches.node_names(), self.0.config.current());
        // Those that it asks for by number are known to be its own already: all of them are granted together.
        self.0.caches.ports.release(view.uid());
        let granted = self.0.caches.ports.grant(
            view.uid(),
            &port_requests(&ports),
            &nodes,
            config.node_autoscaler,
        );
        match granted {
            Ok(numbers) => self.write_ports(snapshot, &with_granted(&ports, &numbers)).await,
            Err(error) => {
                self.0.port_refusals.add(&snapshot.key, view.uid(), about_ports(&error));
                Ok(())
            }
        }
    }

    /// Somebody else has one of its ports: others are granted, but for those that were asked for by number.
    pub(super) async fn replace_ports(
        &self,
        snapshot: &ServerSnapshot,
    ) -> Result<(), RequestError> {
        let view = snapshot.view();
        let mut ports = view.ports();
        for port in &mut ports {
            if port.policy != PortPolicy::Static {
                port.host_port = None;
            }
        }
        self.0.caches.ports.set_aside(view.uid());
        let (nodes, config) = (self.0.caches.node_names(), self.0.config.current());
        let requests = port_requests(&ports);
        match self.0.caches.ports.grant(view.uid(), &requests, &nodes, config.node_autoscaler) {
            Ok(numbers) => self.write_ports(snapshot, &with_granted(&ports, &numbers)).await,
            Err(error) => {
                tracing::warn!(server = %snapshot.key, %error, "no other port is free");
                Ok(())
            }
        }
    }

    /// Writes ports down that were granted. The look is over with that: it was about the object as it was.
    async fn write_ports(
        &self,
        snapshot: &ServerSnapshot,
        ports: &[GamePort],
    ) -> Result<(), RequestError> {
        let change = json!({ "spec": { "ports": ports, "portsToExpose": [] } });
        let target = ObjectVersion::of(&snapshot.view().object);
        match write::patch(&self.api(&snapshot.key), target, change, WHAT).await {
            Ok(written) => {
                self.0.port_refusals.forget(&snapshot.key);
                self.0.caches.wrote_server(&snapshot.key, written);
                self.0.caches.server_queue.wake(&snapshot.key);
                Err(RequestError::Outdated { what: WHAT })
            }
            Err(error) => {
                self.settle_ports(snapshot).await;
                Err(error)
            }
        }
    }

    /// Nobody knows whether ports were written: it has those that the API shows. Where that cannot be read either, all
    /// of them stay its own.
    async fn settle_ports(&self, snapshot: &ServerSnapshot) {
        let (key, ports) = (&snapshot.key, &self.0.caches.ports);
        let uid = snapshot.view().uid();
        match self.api(key).get_opt(&key.name).await {
            Ok(Some(object)) if object.metadata.uid.as_deref() == Some(uid) => {
                let known: Vec<Granted> =
                    object.spec.ports.iter().filter_map(Granted::of_port).collect();
                ports.settle(uid, &known);
                self.0.caches.wrote_server(key, object);
            }
            Ok(Some(_) | None) => ports.release(uid),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(server = %key, error, "cannot read which ports it has");
            }
        }
    }
}
