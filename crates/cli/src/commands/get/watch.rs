//! `sojourn get --watch`: what is there, and then every change, until nobody reads it any more.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::time::Instant;

use super::super::connect::PAGE_SIZE;
use super::super::exchange::{OBJECT, TABLE, reading};
use super::super::object::without_managers;
use super::super::server_table::ServerTable;
use super::super::table;
use super::{Lookup, Wanted, items};
use crate::args::ListOutput;
use crate::exit::{Exit, Failure};

/// A server that ends watches at once is not asked more often.
const MIN_WATCH_TIME: Duration = Duration::from_secs(1);

/// Why a watch is over.
enum Ended {
    /// The server has ended it; it goes on from there.
    ByServer,
    /// What was seen is too long ago: everything is listed anew.
    TooOld,
    /// Nobody reads what is written.
    Unread,
}

/// Shows what is there and what changes.
pub(super) async fn watch(lookup: &Lookup<'_>, wanted: &Wanted) -> Result<(), Failure> {
    let client = lookup.api_context.streaming_client()?;
    let selector = match wanted.names.as_slice() {
        [] => None,
        [name] => Some(format!("metadata.name={name}")),
        _ => {
            let error = anyhow::anyhow!("only one object can be watched by its name");
            return Err(Failure::new(
                Exit::Usage,
                error,
                "Watch all of them, or those that fit -l.",
            ));
        }
    };
    let mut watching = Watching {
        lookup,
        wanted,
        client,
        selector,
        shown: Shown::new(lookup, wanted),
        version: String::new(),
    };
    loop {
        if !watching.list().await? {
            return Ok(());
        }
        loop {
            let begun = Instant::now();
            match watching.follow().await? {
                Ended::Unread => return Ok(()),
                Ended::TooOld => break,
                Ended::ByServer => {}
            }
            tokio::time::sleep_until(begun + MIN_WATCH_TIME).await;
        }
    }
}

struct Watching<'a> {
    lookup: &'a Lookup<'a>,
    wanted: &'a Wanted,
    client: Client,
    selector: Option<String>,
    shown: Shown<'a>,
    /// What was seen last.
    version: String,
}

impl Watching<'_> {
    fn accept(&self) -> &'static str {
        if matches!(self.shown, Shown::Table { .. }) { TABLE } else { OBJECT }
    }

    fn query<'q>(&'q self, more: &[(&'q str, &'q str)]) -> Vec<(&'q str, &'q str)> {
        let labels = self.lookup.get.selector.iter().map(|text| ("labelSelector", text.as_str()));
        let fields = self.selector.iter().map(|text| ("fieldSelector", text.as_str()));
        more.iter().copied().chain(labels).chain(fields).collect()
    }

    /// Everything that is there now; false once nobody reads it.
    async fn list(&mut self) -> Result<bool, Failure> {
        let path = self.wanted.resource.collection_path(self.lookup.namespace())?;
        let limit = PAGE_SIZE.to_string();
        let mut next = String::new();
        loop {
            let mut more = vec![("limit", limit.as_str())];
            if !next.is_empty() {
                more.push(("continue", next.as_str()));
            }
            let query = self.query(&more);
            let answer = self
                .lookup
                .api_context
                .ask(&reading(&path, &query, self.accept()), self.lookup.printer)
                .await;
            let page =
                answer.map_err(|error| self.lookup.failed(error, &self.wanted.resource, None))?;
            let text = |pointer: &str| {
                page.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            self.version = text("/metadata/resourceVersion");
            next = text("/metadata/continue");
            if !self.shown.page(page.body)? {
                return Ok(false);
            }
            if next.is_empty() {
                return Ok(true);
            }
        }
    }

    /// What changes, until the watch ends.
    async fn follow(&mut self) -> Result<Ended, Failure> {
        let resource = &self.wanted.resource;
        let failed = |error| self.lookup.failed(error, resource, None);
        let path = resource.collection_path(self.lookup.namespace())?;
        let version = self.version.clone();
        let query = self.query(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &version),
        ]);
        let request = reading(&path, &query, self.accept()).request().map_err(failed)?;
        let events = match self.client.request_events::<Value>(request).await {
            Ok(events) => events,
            Err(error) if is_too_old(&error) => return Ok(Ended::TooOld),
            Err(error) => return Err(failed(error)),
        };
        let mut events = pin!(events);
        while let Some(event) = events.try_next().await.map_err(failed)? {
            let object = match event {
                WatchEvent::Added(one) | WatchEvent::Modified(one) | WatchEvent::Deleted(one) => {
                    one
                }
                WatchEvent::Bookmark(bookmark) => {
                    self.version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => {
                    let error = kube::Error::Api(status);
                    return if is_too_old(&error) { Ok(Ended::TooOld) } else { Err(failed(error)) };
                }
            };
            if let Some(version) = version_of(&object) {
                self.version = version;
            }
            if !self.shown.page(object)? {
                return Ok(Ended::Unread);
            }
        }
        Ok(Ended::ByServer)
    }
}

fn is_too_old(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

/// The version of an object, or of the one whose row a Table is.
fn version_of(object: &Value) -> Option<String> {
    let row = object.pointer("/rows/0/object/metadata/resourceVersion");
    let version = row.or_else(|| object.pointer("/metadata/resourceVersion"))?.as_str()?;
    (!version.is_empty()).then(|| version.to_owned())
}

/// How what changes is written.
enum Shown<'a> {
    Table { table: ServerTable, begun: bool },
    Objects { wanted: &'a Wanted, output: ListOutput },
}

impl<'a> Shown<'a> {
    fn new(lookup: &Lookup<'_>, wanted: &'a Wanted) -> Self {
        match lookup.get.output {
            ListOutput::Table | ListOutput::Wide => {
                let layout = lookup.layout(&wanted.resource, false);
                Self::Table { table: ServerTable::new(&wanted.resource, layout), begun: false }
            }
            output @ (ListOutput::Json | ListOutput::Yaml | ListOutput::Name) => {
                Self::Objects { wanted, output }
            }
        }
    }

    /// Writes a page or an event; false once nobody reads it.
    fn page(&mut self, page: Value) -> Result<bool, Failure> {
        match self {
            Self::Table { table, begun } => {
                table.add(&page);
                if table.is_empty() {
                    return Ok(true);
                }
                let text = if *begun { table.more() } else { table.text() };
                *begun = true;
                Ok(table::try_write(text.as_bytes()).is_ok())
            }
            Self::Objects { wanted, output } => {
                let resource = &wanted.resource;
                for mut object in items(page) {
                    resource.complete(&mut object);
                    without_managers(&mut object);
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let text = match output {
                        ListOutput::Name => format!("{}/{name}\n", resource.qualified()),
                        ListOutput::Yaml => format!("---\n{}", table::yaml_text(&object)?),
                        _ => table::json_text(&object)?,
                    };
                    if table::try_write(text.as_bytes()).is_err() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_of_an_event_is_that_of_its_object() {
        let object = json!({"metadata": {"resourceVersion": "7"}});
        let table = json!({"metadata": {"resourceVersion": ""}, "rows": [{"object": object}]});
        assert_eq!(version_of(&object).as_deref(), Some("7"));
        assert_eq!(version_of(&table).as_deref(), Some("7"));
        assert_eq!(version_of(&json!({"rows": []})), None);
    }
}
