//! Which servers can be given to somebody, and what keeps the others from it, by the decision of the operator.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use sojourn_api::game::convert::{candidate, collection_name};
use sojourn_api::game::name::{COLLECTION_NAME, ORIGINAL_COLLECTION_NAME};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::game::allocation::{Candidate, Obstacle};
use sojourn_core::game::server::ServerHealth;

use super::super::super::connect::{ApiContext, PAGE_SIZE};
use super::super::{RelatedLine, kind_of};

const ALLOCATABLE: &str = "allocatable";
const OBSTACLE: &str = "obstacle";
/// So many servers are named for each obstacle.
const MAX_NAMED: usize = 5;

/// What there is to say of a collection, or of a server.
pub(super) async fn lines(
    api_context: &ApiContext,
    object: &DynamicObject,
    now: Timestamp,
) -> Vec<RelatedLine> {
    match kind_of(object) {
        Some("DedicatedGameServerCollection") => {
            let Ok(collection) = object.clone().try_parse() else { return Vec::new() };
            match servers(api_context, &collection).await {
                Ok(servers) => of_collection(&servers, now),
                Err(error) => {
                    let failure = api_context.failed(error, "its servers cannot be listed");
                    vec![(ALLOCATABLE, format!("unknown: {:#}", failure.error))]
                }
            }
        }
        Some("DedicatedGameServer") => {
            let Ok(server) = object.clone().try_parse() else { return Vec::new() };
            let collection = collection_of(api_context, &server).await;
            let candidate = candidate(&server, collection.as_ref().map(|one| &one.spec));
            vec![(ALLOCATABLE, of_server(&candidate, now))]
        }
        _ => Vec::new(),
    }
}

/// The collection of a server, if it has one that can be read.
async fn collection_of(
    api_context: &ApiContext,
    server: &DedicatedGameServer,
) -> Option<DedicatedGameServerCollection> {
    let api: Api<DedicatedGameServerCollection> =
        Api::namespaced(api_context.client.clone(), &server.namespace()?);
    api.get_opt(collection_name(&server.metadata)?).await.ok().flatten()
}

/// The members of a collection, and those that left it, by name.
async fn servers(
    api_context: &ApiContext,
    collection: &DedicatedGameServerCollection,
) -> Result<BTreeMap<String, Candidate>, kube::Error> {
    let (namespace, name) = (collection.namespace().unwrap_or_default(), collection.name_any());
    let resource = ApiResource::erase::<DedicatedGameServer>(&());
    // One that cannot be read is nobody's, and must not hide the others.
    let api: Api<DynamicObject> =
        Api::namespaced_with(api_context.client.clone(), &namespace, &resource);
    let mut found = BTreeMap::new();
    for label in [COLLECTION_NAME, ORIGINAL_COLLECTION_NAME] {
        let mut params = ListParams::default().limit(PAGE_SIZE).labels(&format!("{label}={name}"));
        loop {
            let page = api.list(&params).await?;
            for object in page.items {
                let Ok(server) = object.try_parse::<DedicatedGameServer>() else { continue };
                if collection_name(&server.metadata) == Some(&*name) {
                    found.insert(server.name_any(), candidate(&server, Some(&collection.spec)));
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(found)
}

fn of_collection(servers: &BTreeMap<String, Candidate>, now: Timestamp) -> Vec<RelatedLine> {
    let mut obstacles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut whole = 0_usize;
    let mut seats = 0_u32;
    for (name, candidate) in servers {
        seats = seats.saturating_add(candidate.free_seats(now));
        match obstacle(candidate, now) {
            Some(words) => obstacles.entry(words).or_default().push(name),
            None => whole += 1,
        }
    }
    let all = servers.len();
    let words = format!("{whole} of {all} servers can be given whole; free seats: {seats}");
    let mut lines = vec![(ALLOCATABLE, words)];
    for (words, names) in obstacles {
        let named = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        lines.push((OBSTACLE, format!("{} {words}: {named}{more}", names.len())));
    }
    lines
}

fn of_server(candidate: &Candidate, now: Timestamp) -> String {
    match (obstacle(candidate, now), candidate.free_seats(now)) {
        (None, _) => "yes".to_owned(),
        (Some(words), 0) => format!("no: {words}"),
        (Some(words), seats) => format!("not whole: {words}; free seats: {seats}"),
    }
}

/// Why a server cannot be given whole, in words.
fn obstacle(candidate: &Candidate, now: Timestamp) -> Option<&'static str> {
    let server = &candidate.server;
    Some(match candidate.obstacle(now)? {
        Obstacle::Marked => "marked to go, and take nobody new",
        Obstacle::NotReady if server.health == ServerHealth::Failed => "failed",
        Obstacle::NotReady if server.is_available() => "on a node without an address",
        Obstacle::NotReady => "not ready yet",
        Obstacle::OldTemplate => "made from an old template",
        Obstacle::Occupied if server.active_players.unwrap_or(0) > 0 => "with players",
        Obstacle::Occupied if server.grants.iter().any(|one| one.is_live(now)) => "granted",
        Obstacle::Occupied => "not idle, by their own word",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().expect("a time")
    }

    fn server(name: &str, change: &Value) -> (String, Candidate) {
        let mut status = json!({
            "health": "Healthy", "podState": "Running", "publicIP": "192.0.2.7", "nodeName": "n1",
        });
        for (field, value) in change.as_object().expect("fields") {
            status[field] = value.clone();
        }
        let object = json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {"name": name, "namespace": "play"},
            "spec": {
                "template": {"spec": {"containers": [{"name": "game"}]}},
                "maxPlayersPerServer": 4,
            },
            "status": status,
        });
        let object: DedicatedGameServer = serde_json::from_value(object).expect("a server");
        (name.to_owned(), candidate(&object, None))
    }

    #[test]
    fn everything_that_keeps_servers_from_being_given_is_named_with_them() {
        let grant = json!([{"id": "g", "requestId": "r", "leaseExpires": "2030-01-01T00:01:00Z"}]);
        let mut servers = BTreeMap::from([
            server("free", &json!({})),
            server("full", &json!({"activePlayers": 4})),
            server("given", &json!({"grants": grant})),
            server("nowhere", &json!({"publicIP": null})),
            server("reserved", &json!({"sdkState": "Reserved"})),
            server("starts", &json!({"health": "Creating"})),
        ]);
        for number in 0..7 {
            servers.extend([server(&format!("broken-{number}"), &json!({"health": "Failed"}))]);
        }
        let (name, mut old) = server("old", &json!({}));
        old.takes_grants = false;
        servers.insert(name, old);
        let (name, mut marked) = server("marked", &json!({}));
        marked.server.marked_for_deletion = true;
        servers.insert(name, marked);
        let told = of_collection(&servers, now());
        let told: Vec<String> =
            told.iter().map(|(label, words)| format!("{label}: {words}")).collect();
        assert_eq!(
            told,
            [
                "allocatable: 1 of 15 servers can be given whole; free seats: 4",
                "obstacle: 7 failed: broken-0, broken-1, broken-2, broken-3, broken-4, and 2 more",
                "obstacle: 1 granted: given",
                "obstacle: 1 made from an old template: old",
                "obstacle: 1 marked to go, and take nobody new: marked",
                "obstacle: 1 not idle, by their own word: reserved",
                "obstacle: 1 not ready yet: starts",
                "obstacle: 1 on a node without an address: nowhere",
                "obstacle: 1 with players: full",
            ]
        );
        let none = of_collection(&BTreeMap::new(), now());
        assert_eq!(none.len(), 1);
        assert!(none[0].1.starts_with("0 of 0 servers"), "{}", none[0].1);
    }

    #[test]
    fn a_server_that_is_no_longer_whole_has_its_other_seats() {
        let told = |change: Value| of_server(&server("s", &change).1, now());
        assert_eq!(told(json!({})), "yes");
        assert_eq!(told(json!({"activePlayers": 3})), "not whole: with players; free seats: 1");
        assert_eq!(told(json!({"activePlayers": 4})), "no: with players");
        assert_eq!(told(json!({"health": "Failed"})), "no: failed");
    }
}
