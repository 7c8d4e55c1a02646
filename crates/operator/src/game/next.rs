//! What will happen to a server by itself, as its status tells it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sojourn_api::game::convert::read_server;
use sojourn_api::game::name::{ORIGINAL_COLLECTION_NAME, QUARANTINED_UNTIL};
use sojourn_api::game::status::{NextStatus, ServerStatus};
use sojourn_core::game::server::Server;
use sojourn_core::moment::ceil_second;

use super::view::ServerView;

/// Of a server as its controller leaves it.
pub(super) fn of_server(
    view: &ServerView,
    server: &Server,
    quarantined_until: Option<Timestamp>,
) -> Option<NextStatus> {
    if view.has_annotation(QUARANTINED_UNTIL) {
        return Some(NextStatus {
            action: "Delete".to_owned(),
            at: quarantined_until.map(time),
            why: "it failed, and is kept until then for somebody to look at".to_owned(),
        });
    }
    if server.marked_for_deletion {
        let of = view.object.labels().get(ORIGINAL_COLLECTION_NAME);
        let whose = of.map(|name| format!(" It left dgsc/{name}.")).unwrap_or_default();
        let why = match server.drain_deadline {
            Some(_) => format!("it goes when it is empty, and then at the latest.{whose}"),
            None => format!("it goes when it is empty.{whose}"),
        };
        return Some(NextStatus {
            action: "Delete".to_owned(),
            at: server.drain_deadline.map(time),
            why,
        });
    }
    return_of_grants(server)
}

/// Tells in a status what follows from its grants, as the controller would: without that it would have to write once
/// more for every grant. How a server goes that is to go is the controller's to tell.
pub(super) fn foretell(view: &ServerView, status: &mut ServerStatus, now: Timestamp) {
    let mut server = read_server(&view.object.metadata, Some(status));
    if server.marked_for_deletion || view.has_annotation(QUARANTINED_UNTIL) {
        return;
    }
    server.expire(now);
    status.next = return_of_grants(&server);
}

fn return_of_grants(server: &Server) -> Option<NextStatus> {
    let returns = server.next_return()?;
    let mut ends = server.grants.iter().filter(|grant| grant.lease_expires == returns);
    let why = if ends.all(|grant| grant.claimed) {
        "not everybody has come yet who was given a seat"
    } else {
        "nobody has come yet who was given it"
    };
    Some(NextStatus {
        action: "ReturnGrant".to_owned(),
        at: Some(time(returns)),
        why: why.to_owned(),
    })
}

fn time(at: Timestamp) -> Time {
    Time(ceil_second(at))
}
