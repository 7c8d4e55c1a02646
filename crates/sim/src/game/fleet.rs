//! What the processes of servers do: they talk to whichever replica is up, crash, end, and have players.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;
use sojourn_core::game::server::ServerHealth;
use sojourn_operator::game::sdk::{GameServerView, SdkError, SdkRequest, ServerIdentity};

use super::simulation::{GameSimulation, key};
use crate::kubelet::write_status;

/// An answer that does not come within so long is not waited for: the replica may have been killed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl GameSimulation {
    /// A server says something; nothing, if nobody took it in.
    pub async fn say(
        &self,
        name: &str,
        request: SdkRequest,
    ) -> Option<Result<GameServerView, SdkError>> {
        let uid = self.checker.lock().servers.get(name)?.uid()?;
        let identity = ServerIdentity { key: key(name), uid };
        let reports = self.operator.ask(|(served, _)| served.reports())?;
        tokio::time::timeout(ANSWER_TIMEOUT, reports.take(&identity, request)).await.ok()
    }

    async fn said(&self, name: &str, request: SdkRequest) -> bool {
        matches!(self.say(name, request).await, Some(Ok(_)))
    }

    /// It is ready, by Agones' SDK. A match that was on is over.
    pub async fn ready(&self, name: &str) -> bool {
        self.checker.lock().with_occupancy(name, |one| {
            one.left(0);
            one.reserved_until = None;
        });
        self.said(name, SdkRequest::Ready).await
    }

    pub async fn ping(&self, name: &str) -> bool {
        self.said(name, SdkRequest::Health).await
    }

    /// Somebody came who was given the whole server; it says so by Agones' SDK.
    pub async fn allocated(&self, name: &str) -> bool {
        let said = self.said(name, SdkRequest::Allocate).await;
        let now = self.now();
        if said {
            self.checker.lock().with_occupancy(name, |one| one.came(1, now));
        }
        said
    }

    /// So many come.
    pub async fn come(&self, name: &str, players: u32) -> bool {
        let before = self.checker.lock().occupancy(name).players;
        let said = self.said(name, SdkRequest::SetActivePlayers(before + players)).await;
        let now = self.now();
        if said {
            self.checker.lock().with_occupancy(name, |one| one.came(players, now));
        }
        said
    }

    /// So many are left.
    pub async fn leave(&self, name: &str, players: u32) -> bool {
        self.checker.lock().with_occupancy(name, |one| one.left(players));
        self.said(name, SdkRequest::SetActivePlayers(players)).await
    }

    /// It keeps itself for somebody.
    pub async fn reserve(&self, name: &str, span: SignedDuration) -> bool {
        let until = self.now().saturating_add(span).unwrap_or(self.now());
        let said = self.said(name, SdkRequest::Reserve(span)).await;
        if said {
            self.checker.lock().with_occupancy(name, |one| one.reserved_until = Some(until));
        }
        said
    }

    /// It ends itself.
    pub async fn shut_down(&self, name: &str) -> bool {
        self.checker.lock().with_occupancy(name, |one| one.ended = true);
        self.said(name, SdkRequest::Shutdown).await
    }

    /// It says itself that it failed.
    pub async fn fail(&self, name: &str) -> bool {
        self.checker.lock().crashes(name);
        self.said(name, SdkRequest::SetHealth(ServerHealth::Failed)).await
    }

    fn running_pod(&self, name: &str) -> Option<Pod> {
        let checker = self.checker.lock();
        checker.running_pod(name).cloned()
    }

    /// Its process crashes; answers whether it ran.
    pub async fn crash(&self, name: &str) -> bool {
        let Some(pod) = self.running_pod(name) else { return false };
        self.checker.lock().crashes(name);
        self.end_process(&pod, "Failed", 1).await;
        true
    }

    /// Its process ends without an error; answers whether it ran.
    pub async fn exit(&self, name: &str) -> bool {
        let Some(pod) = self.running_pod(name) else { return false };
        self.checker.lock().with_occupancy(name, |one| {
            one.process_ended();
            one.ended = true;
        });
        self.end_process(&pod, "Succeeded", 0).await;
        true
    }

    async fn end_process(&self, pod: &Pod, phase: &str, code: i32) {
        let status = json!({
            "phase": phase, "conditions": [],
            "containerStatuses": [{
                "name": "game", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": {"terminated": {"exitCode": code, "finishedAt": self.now()}},
            }],
        });
        write_status(&self.pods(), pod, status).await;
    }
}
