//! The ports of a server that nobody made for a collection, and others for one whose ports are somebody else's.

use jiff::Timestamp;
use kube::Resource as _;
use serde_json::json;
use sojourn_api::game::convert::{Granted, port_requests, with_granted};
use sojourn_api::game::port::{GamePort, PortPolicy};

use super::super::ports::about_ports;
use super::{ServerSnapshot, Servers};
use crate::event::normal;
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
            self.0.clock.now(),
        );
        match granted {
            Ok(numbers) => {
                self.write_ports(snapshot, &with_granted(&ports, &numbers)).await?;
                Err(RequestError::Outdated { what: WHAT })
            }
            Err(error) => {
                self.0.port_refusals.add(&snapshot.key, view.uid(), about_ports(&error));
                Ok(())
            }
        }
    }

    /// Somebody else has one of its ports: others are granted instead of those that were not asked for by number. Where
    /// none are free, it has those that it has.
    pub(super) async fn replace_ports(
        &self,
        snapshot: &ServerSnapshot,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let view = snapshot.view();
        let before = view.ports();
        let is_open = |port: &GamePort| port.policy != PortPolicy::Static;
        let open: Vec<GamePort> = before.iter().filter(|port| is_open(port)).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        let numbers = match self.0.caches.ports.grant_more(view.uid(), &port_requests(&open), now) {
            Ok(numbers) => numbers,
            Err(error) => {
                self.0.port_refusals.add(&snapshot.key, view.uid(), about_ports(&error));
                return Ok(());
            }
        };
        let mut others = with_granted(&open, &numbers).into_iter();
        let changed = |port: &GamePort| {
            let other = if is_open(port) { others.next() } else { None };
            other.unwrap_or_else(|| port.clone())
        };
        let after: Vec<GamePort> = before.iter().map(changed).collect();
        self.write_ports(snapshot, &after).await?;
        let granted = |ports: &[GamePort]| -> Vec<Granted> {
            ports.iter().filter_map(Granted::of_port).collect()
        };
        self.0.caches.ports.change(view.uid(), &granted(&after), &granted(&before), now);
        let names: Vec<String> = numbers.iter().map(u16::to_string).collect();
        let message = format!(
            "Somebody else has a port of its node that it was granted. It gets {} instead.",
            names.join(", ")
        );
        let about = view.object.object_ref(&());
        self.0.events.publish_transitions(&about, &[normal("PortsChanged", message)], now);
        Err(RequestError::Outdated { what: WHAT })
    }

    /// Writes ports down that were granted. What was decided is about the object as it was.
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
                Ok(())
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
