//! What really happened to servers, as observers beside the operator and players saw it, and the invariants that must
//! hold in every run.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sojourn_api::game::name::{COLLECTION_NAME, MARKED, ORIGINAL_COLLECTION_NAME};
use sojourn_api::game::status::CollectionStatus;
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::key::Key;
use sojourn_core::term::Term;
use sojourn_operator::clock::VirtualClock;

use super::matchmaker::{Answer, Wish};
use super::occupancy::{KnownGrant, Occupancy};
use super::simulation::key;
use crate::event_log::{EventLog, invariants};
use crate::simulation::Checker;

invariants! {
    /// What must hold of servers in every run.
    Invariant {
        /// Nobody is given what is somebody else's, and who asks again gets the same.
        NoDoubleGrant,
        /// No server that somebody is on, or was promised, goes before its deadline, unless it failed.
        OccupiedUntouched,
        /// A port of a node is one Pod's.
        PortsOnce,
        /// Once nothing fails any more, there is what is asked for, nothing else, and a restart changes nothing.
        Converges,
        /// A crash counts once, and nothing else counts.
        FailureCountedOnce,
        /// No task of the operator ends by itself, and no observer is cut off.
        NothingBreaks,
    }
}

/// Records what is there and what happens to it, and checks it.
#[derive(Debug)]
pub struct GameChecker {
    log: EventLog,
    pub collections: BTreeMap<String, DedicatedGameServerCollection>,
    pub servers: BTreeMap<String, DedicatedGameServer>,
    pub pods: BTreeMap<String, Pod>,
    /// Who is on which server, by uid.
    occupancy: BTreeMap<String, Occupancy>,
    /// When each server was marked, by uid.
    marked_at: BTreeMap<String, Timestamp>,
    /// By request: the server that was given last, with its uid.
    given: BTreeMap<String, (String, String)>,
    /// When processes crashed, by the uid of their server, with its collection.
    crashed: BTreeMap<String, (String, Vec<Timestamp>)>,
    /// When each failure that counts was counted.
    counted: BTreeMap<String, Timestamp>,
    acknowledged: BTreeMap<String, Timestamp>,
    /// How long marked servers of a collection wait, as people asked for last.
    drain_timeouts: BTreeMap<String, Term>,
    /// Servers and Pods that people deleted, by uid.
    deleted_by_people: BTreeSet<String>,
    /// Pods that are going, by uid, and whether somebody was thrown out by it.
    leaving: BTreeMap<String, bool>,
    /// When each server that went was seen to be gone.
    pub deleted: BTreeMap<String, Timestamp>,
    pub created: u64,
    pub grants: u64,
    pub crashes: u64,
    pub marks: u64,
}

impl Checker for GameChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.log.violated(Invariant::NothingBreaks.name(), &Key::new("", ""), message.to_owned());
    }

    fn operator_started(&mut self, replica: u64) {
        self.log.note(format!("replica {replica} runs"));
    }

    fn operator_ended(&mut self) {
        self.log.note("the operator is killed");
    }
}

/// The collection that a server is, or was, a member of.
pub fn collection_of(server: &DedicatedGameServer) -> Option<&str> {
    let labels = server.labels();
    let name = labels.get(COLLECTION_NAME).or_else(|| labels.get(ORIGINAL_COLLECTION_NAME));
    name.map(String::as_str)
}

pub fn is_marked(server: &DedicatedGameServer) -> bool {
    server.annotations().contains_key(MARKED)
}

impl GameChecker {
    pub(super) fn new(clock: Arc<VirtualClock>) -> Self {
        Self {
            log: EventLog::new(clock),
            collections: BTreeMap::new(),
            servers: BTreeMap::new(),
            pods: BTreeMap::new(),
            occupancy: BTreeMap::new(),
            marked_at: BTreeMap::new(),
            given: BTreeMap::new(),
            crashed: BTreeMap::new(),
            counted: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            drain_timeouts: BTreeMap::new(),
            deleted_by_people: BTreeSet::new(),
            leaving: BTreeMap::new(),
            deleted: BTreeMap::new(),
            created: 0,
            grants: 0,
            crashes: 0,
            marks: 0,
        }
    }

    pub(super) fn violated(&mut self, invariant: Invariant, name: &str, message: String) {
        self.log.violated(invariant.name(), &key(name), message);
    }

    pub fn note(&mut self, words: impl Into<String>) {
        self.log.note(words);
    }

    pub fn status(&self, collection: &str) -> CollectionStatus {
        let found = self.collections.get(collection);
        found.and_then(|one| one.status.clone()).unwrap_or_default()
    }

    /// The members of a collection, by name.
    pub fn members(&self, collection: &str) -> Vec<&DedicatedGameServer> {
        let is_member = |server: &&DedicatedGameServer| {
            server.labels().get(COLLECTION_NAME).is_some_and(|name| name == collection)
        };
        self.servers.values().filter(is_member).collect()
    }

    /// Those that left a collection and are there.
    pub fn former(&self, collection: &str) -> Vec<&DedicatedGameServer> {
        let left = |server: &&DedicatedGameServer| {
            server.labels().get(ORIGINAL_COLLECTION_NAME).is_some_and(|name| name == collection)
        };
        self.servers.values().filter(left).collect()
    }

    /// The Pod of a server, if its process runs.
    pub fn running_pod(&self, name: &str) -> Option<&Pod> {
        let pod = self.pods.get(name)?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let runs = phase == Some("Running") && pod.metadata.deletion_timestamp.is_none();
        runs.then_some(pod)
    }

    fn uid_of(&self, name: &str) -> Option<String> {
        self.servers.get(name).and_then(kube::ResourceExt::uid)
    }

    pub fn occupancy(&self, name: &str) -> Occupancy {
        let uid = self.uid_of(name);
        uid.and_then(|uid| self.occupancy.get(&uid)).cloned().unwrap_or_default()
    }

    pub(super) fn with_occupancy(&mut self, name: &str, change: impl FnOnce(&mut Occupancy)) {
        if let Some(uid) = self.uid_of(name) {
            change(self.occupancy.entry(uid).or_default());
        }
    }

    /// The process of a server crashes, or is about to say that it failed.
    pub(super) fn crashes(&mut self, name: &str) {
        let now = self.log.now();
        self.log.note(format!("{name} crashes"));
        self.crashes += 1;
        let Some(server) = self.servers.get(name) else { return };
        let collection = collection_of(server).unwrap_or_default().to_owned();
        let uid = server.uid().unwrap_or_default();
        self.crashed.entry(uid).or_insert_with(|| (collection, Vec::new())).1.push(now);
        self.with_occupancy(name, |one| {
            one.process_ended();
            one.failed = true;
        });
    }

    pub(super) fn acknowledged(&mut self, collection: &str) {
        let now = self.log.now();
        self.log.note(format!("{collection} is acknowledged"));
        self.acknowledged.insert(collection.to_owned(), now);
        self.counted.clear();
    }

    pub(super) fn people_delete_server(&mut self, name: &str) {
        self.log.note(format!("people delete {name}"));
        if let Some(uid) = self.uid_of(name) {
            self.deleted_by_people.insert(uid);
        }
    }

    pub(super) fn people_delete_pod(&mut self, name: &str) {
        self.log.note(format!("people delete the Pod of {name}"));
        if let Some(uid) = self.pods.get(name).and_then(kube::ResourceExt::uid) {
            self.deleted_by_people.insert(uid);
        }
    }

    /// A matchmaker was answered.
    pub(super) fn granted(&mut self, wish: &Wish, answer: &Answer) {
        let (now, name) = (self.log.now(), &answer.server);
        let Some(server) = self.servers.get(name) else {
            // It was deleted by hand meanwhile, or there never was one.
            if !self.deleted.contains_key(name) {
                let message = format!("{} was given what nobody has seen", wish.request_id);
                self.violated(Invariant::NoDoubleGrant, name, message);
            }
            return;
        };
        let uid = server.uid().unwrap_or_default();
        let seats = server.spec.max_players_per_server.unwrap_or(1);
        let max_players = u32::try_from(seats).unwrap_or(0);
        self.check_same(wish, &uid, now);
        let there = self.occupancy.entry(uid.clone()).or_default();
        if there.knows(&answer.grant_id) {
            self.log.note(format!("{} is told again of {name}", wish.request_id));
            return;
        }
        let refused = there.refuses(wish.seats, max_players, now);
        there.grants.push(KnownGrant {
            request_id: wish.request_id.clone(),
            grant_id: answer.grant_id.clone(),
            seats: wish.seats,
            lease_expires: answer.lease_expires,
            claimed: false,
            arrived: 0,
        });
        self.grants += 1;
        self.log.note(format!("{} is given {name} ({:?} seats)", wish.request_id, wish.seats));
        if let Some(why) = refused {
            let message = format!("{} was given it, and {why}", wish.request_id);
            self.violated(Invariant::NoDoubleGrant, name, message);
        }
        self.given.insert(wish.request_id.clone(), (name.clone(), uid));
    }

    pub(super) fn saw_collection(&mut self, collection: DedicatedGameServerCollection) {
        let name = collection.name_any();
        let status = collection.status.clone().unwrap_or_default();
        if self.status(&name).health != status.health {
            self.log.note(format!("{name} is {:?}", status.health));
        }
        if self.status(&name).available_replicas != status.available_replicas {
            let (has, wants) = (status.available_replicas, collection.spec.replicas);
            self.log.note(format!("{name} has {has} available, of {wants}"));
        }
        self.check_failures(&name, &collection, &status);
        self.collections.insert(name, collection);
    }

    pub(super) fn saw_collection_deleted(&mut self, collection: &DedicatedGameServerCollection) {
        self.log.note(format!("{} is gone", collection.name_any()));
        self.collections.remove(&collection.name_any());
    }

    pub(super) fn saw_server(&mut self, server: DedicatedGameServer) {
        let (name, uid) = (server.name_any(), server.uid().unwrap_or_default());
        let before = self.servers.get(&name);
        let health =
            |one: &DedicatedGameServer| one.status.as_ref().and_then(|status| status.health);
        if before.is_none() {
            self.created += 1;
            self.log.note(format!("{name} is created"));
        }
        if before.and_then(health) != health(&server) {
            self.log.note(format!("{name} is {:?}", health(&server)));
        }
        match (self.marked_at.contains_key(&uid), is_marked(&server)) {
            (false, true) => {
                self.marks += 1;
                let why = server.annotations().get(MARKED).cloned().unwrap_or_default();
                self.log.note(format!("{name} is marked: {why}"));
                self.marked_at.insert(uid, self.log.now());
            }
            (true, false) => {
                self.log.note(format!("{name} is taken back"));
                self.marked_at.remove(&uid);
            }
            (true, true) | (false, false) => {}
        }
        self.servers.insert(name, server);
    }

    pub(super) fn saw_server_deleted(&mut self, server: &DedicatedGameServer) {
        let name = server.name_any();
        self.log.note(format!("{name} is gone"));
        self.check_deletion(server);
        self.servers.remove(&name);
        self.deleted.insert(name, self.log.now());
    }

    pub(super) fn saw_pod(&mut self, pod: Pod) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let is_new = self.pods.get(&name).and_then(kube::ResourceExt::uid).as_ref() != Some(&uid);
        let server = pod.owner_references().first().map(|owner| owner.uid.clone());
        let there = self.occupancy.entry(server.unwrap_or_default()).or_default();
        if is_new {
            there.failed = false;
        }
        if pod.metadata.deletion_timestamp.is_some() && !self.leaving.contains_key(&uid) {
            let spared = there.failed || there.ended || self.deleted_by_people.contains(&uid);
            let thrown_out = !spared && there.is_occupied(self.log.now());
            there.process_ended();
            self.leaving.insert(uid, thrown_out);
        }
        self.check_ports(&pod);
        self.pods.insert(name, pod);
    }

    pub(super) fn saw_pod_deleted(&mut self, pod: &Pod) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        self.pods.remove(&name);
        let owner = pod.owner_references().first().map(|owner| owner.uid.clone());
        // The Pod of a server that is gone went with it, which is checked there.
        if self.leaving.remove(&uid) == Some(true) && self.uid_of(&name) == owner {
            let message = "its Pod was deleted, and somebody was on it".to_owned();
            self.violated(Invariant::OccupiedUntouched, &name, message);
        }
    }
}
