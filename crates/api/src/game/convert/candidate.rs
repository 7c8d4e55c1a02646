//! Servers, as they can be given to somebody.

use kube::core::ObjectMeta;
use sojourn_core::game::allocation::Candidate;

use super::state::read_server;
use super::template::revision;
use crate::game::collection::{DedicatedGameServerCollectionSpec, UpdateStrategy};
use crate::game::name::{COLLECTION_NAME, ORIGINAL_COLLECTION_NAME};
use crate::game::server::DedicatedGameServer;

/// The collection that a server is a member of, or was.
pub fn collection_name(meta: &ObjectMeta) -> Option<&str> {
    let labels = meta.labels.as_ref()?;
    let label = labels.get(COLLECTION_NAME).or_else(|| labels.get(ORIGINAL_COLLECTION_NAME));
    label.map(String::as_str)
}

/// A server, and what can be asked of it. Its own template is not looked at. One whose collection is not known is of no
/// old template.
pub fn candidate(
    server: &DedicatedGameServer,
    collection: Option<&DedicatedGameServerCollectionSpec>,
) -> Candidate {
    let (meta, status) = (&server.metadata, server.status.as_ref());
    let mut read = read_server(meta, status);
    read.marked_for_deletion |= meta.deletion_timestamp.is_some();
    // One of an old template that is rolled out takes nobody new, unless it is to be used until it is empty.
    let takes_grants = collection.is_none_or(|spec| {
        spec.update_strategy == UpdateStrategy::OnEmpty || read.revision == revision(spec)
    });
    let counters = status.map(|status| &status.counters).into_iter().flatten();
    let seats = server.spec.max_players_per_server;
    Candidate {
        takes_grants,
        labels: meta.labels.clone().unwrap_or_default(),
        counters: counters
            .map(|(name, counter)| (name.clone(), (counter.count, counter.capacity)))
            .collect(),
        collection: collection_name(meta).unwrap_or_default().into(),
        max_players: seats.and_then(|seats| u32::try_from(seats).ok()).unwrap_or(1),
        server: read,
    }
}
