//! Who asks and who writes, one request after the other.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use http::{Method, StatusCode, header};
use serde_json::json;

use super::connection::Connection;
use super::fleet::{COLLECTION, NAMESPACE};
use super::ledger::Given;

const ALLOCATE: &str = "/v1/allocate";

pub(crate) enum Client {
    Matchmaker(Matchmaker),
    Writer(Writer),
}

impl Client {
    /// Makes the next request; an error unless it does what it should.
    pub(crate) async fn next(&mut self) -> Result<Option<Given>> {
        match self {
            Self::Matchmaker(matchmaker) => matchmaker.ask().await.map(Some),
            Self::Writer(writer) => writer.write().await.map(|()| None),
        }
    }
}

/// Asks for a whole server each time.
pub(crate) struct Matchmaker {
    connection: Connection,
    name: String,
    asked: usize,
}

impl Matchmaker {
    pub(crate) const fn new(connection: Connection, name: String) -> Self {
        Self { connection, name, asked: 0 }
    }

    async fn ask(&mut self) -> Result<Given> {
        self.asked += 1;
        let body = json!({
            "requestId": format!("{}-{}", self.name, self.asked),
            "namespace": NAMESPACE, "collection": COLLECTION,
            // Where more are asked for than come free, that is how fast they do.
            "waitSeconds": 30,
        });
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let answer = self.connection.send(Method::POST, ALLOCATE, &headers, &body).await?;
        let (status, body) = answer;
        ensure!(status == StatusCode::OK, "{status} for {}: {body}", self.name);
        Given::read(&body)
    }
}

/// Which servers somebody writes, and how many players are there then.
pub(crate) struct WriteTarget {
    pub(crate) names: Arc<[String]>,
    pub(crate) first: usize,
    pub(crate) step: usize,
    pub(crate) players: u32,
}

/// Writes the status of one server after the other.
pub(crate) struct Writer {
    connection: Connection,
    authorization: String,
    target: WriteTarget,
    next: usize,
}

impl Writer {
    pub(crate) fn new(connection: Connection, token: &str, target: WriteTarget) -> Self {
        let (authorization, next) = (format!("Bearer {token}"), target.first);
        Self { connection, authorization, target, next }
    }

    async fn write(&mut self) -> Result<()> {
        // Written again it would be as it is, and that is no write.
        let Some(name) = self.target.names.get(self.next) else { bail!("every server is written") };
        self.next += self.target.step;
        let path = format!(
            "/apis/game.sojourn.dev/v1alpha1/namespaces/{NAMESPACE}/dedicatedgameservers/{name}/status"
        );
        let headers = [
            (header::CONTENT_TYPE, "application/merge-patch+json"),
            (header::AUTHORIZATION, &*self.authorization),
        ];
        let body = json!({"status": {"activePlayers": self.target.players}});
        let (status, answer) = self.connection.send(Method::PATCH, &path, &headers, &body).await?;
        ensure!(status == StatusCode::OK, "{status} for {name}: {answer}");
        Ok(())
    }
}
