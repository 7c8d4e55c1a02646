//! Observe: what came of what was asked and called before, and what is asked now. Nothing is waited for: an answer
//! wakes the cluster, and the next look has it.

use jiff::Timestamp;
use sojourn_core::cluster::{
    CallOutcome, InventoryMachine, Listing, Needs, Observed, Probe, Recent, Target, needs,
};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_core::notice::DeliveryOutcome;

use super::family::Family;
use super::lookups::Asker;
use super::memory::Remembered;
use super::question::{
    Asked, ClusterQuestion, Place, ProviderAnswer, ProviderQuestion, TargetAnswer, Way,
};
use super::snapshot::ClusterSnapshot;
use super::target::TargetQuestion;
use super::written::{self, REPLACEMENTS};

/// What was seen of a cluster.
#[derive(Debug)]
pub(crate) struct SeenCluster {
    machines: Listing,
    records: Known<Vec<InventoryMachine>>,
    pub(super) outcomes: Vec<CallOutcome>,
    target: Target,
    probe: Option<Probe>,
    written: Option<Result<(), String>>,
    pub(super) deliveries: Vec<DeliveryOutcome>,
    channels_changed_at: Option<Timestamp>,
    /// Whether it was time to ask.
    pub(super) was_due: bool,
}

impl SeenCluster {
    /// As a decision takes it.
    pub(super) fn observed<'a>(&'a self, snapshot: &ClusterSnapshot) -> Observed<'a> {
        Observed {
            machines: &self.machines,
            outcomes: &self.outcomes,
            sync: snapshot.sync,
            target: &self.target,
            probe: self.probe.as_ref(),
            written: self.written.as_ref().map(|written| match written {
                Ok(()) => Ok(()),
                Err(why) => Err(why.as_str()),
            }),
            records: &self.records,
            deliveries: &self.deliveries,
            channels_changed_at: self.channels_changed_at,
        }
    }

    /// Whether its CSRs were read.
    pub(super) fn has_csrs(&self) -> bool {
        matches!(&self.target, Target::Read(target) if target.csrs.as_ref().is().is_some())
    }
}

/// What is taken in of a look, and whether there was anything.
#[derive(Debug, Clone, Copy, Default)]
struct Answered {
    provider: bool,
    cluster: bool,
}

impl Family {
    pub(super) fn observe_cluster(&self, snapshot: &ClusterSnapshot) -> SeenCluster {
        let (key, uid, now) = (&snapshot.key, snapshot.uid(), self.clock.now());
        let contacts = snapshot.cluster().map(|cluster| &cluster.spec.contacts[..]);
        let memories = &self.caches.memories;
        let (mut remembered, before) = memories.look(key, &uid, contacts.unwrap_or_default(), now);
        if let Some(gone) = before {
            self.vanished(&gone);
        }
        let mut seen = SeenCluster {
            machines: Listing::NotListed,
            records: Known::Unknown,
            outcomes: self.calls.outcomes(&uid),
            target: Target::NotRead,
            probe: None,
            written: None,
            deliveries: self.outbox.outcomes(key, &snapshot.state.outbox.notices, self.since),
            channels_changed_at: self.drivers.rebuilt_at().max(remembered.contacts_changed_at),
            was_due: false,
        };
        // What was removed is gone, or else it is tried again.
        remembered.is_due |= self.removals.take(&uid).is_some();
        // While it is deleted, a call that ends may have been the last that writes a record.
        let is_deleting = snapshot.wanted.as_ref().is_ok_and(|intent| intent.deleting);
        let is_called = self.calls.in_flight(&uid) > 0;
        remembered.is_due |= is_deleting && !is_called && !seen.outcomes.is_empty();
        seen.written = self.hear_written(key, &uid);
        let mut answered = Answered::default();
        if let Some(answer) = self.provider_lookups.take(&uid).flatten() {
            answered.provider = self.hear_provider(snapshot, answer, &mut seen, &mut remembered);
        }
        if let Some(answer) = self.target_lookups.take(&uid).flatten() {
            answered.cluster = self.hear_cluster(snapshot, answer, &mut seen, &mut remembered);
        }
        seen.was_due = remembered.is_due;
        if is_deleting && is_called {
            seen.records = Known::Unknown;
        } else {
            self.ask(snapshot, &uid, answered, &remembered, now);
        }
        seen
    }

    /// Takes in what came of what was written into the cluster.
    fn hear_written(&self, key: &Key, uid: &str) -> Option<Result<(), String>> {
        let memories = &self.caches.memories;
        let kinds = [(&self.approvals, written::APPROVALS), (&self.replacements, REPLACEMENTS)];
        let mut result = None;
        for (lookups, words) in kinds {
            let Some(written) = lookups.take(uid) else { continue };
            let heard = written::hear(memories, key, words, &written);
            result = Some(result.unwrap_or(Ok(())).and(heard));
        }
        result
    }

    /// Takes in what a provider said. Whether it still says something.
    fn hear_provider(
        &self,
        snapshot: &ClusterSnapshot,
        answer: ProviderAnswer,
        seen: &mut SeenCluster,
        remembered: &mut Remembered,
    ) -> bool {
        let ProviderAnswer { asked, machines, records } = answer;
        if !asked.speaks_of_machines(snapshot) {
            remembered.is_due = true;
            return false;
        }
        if machines != Listing::NotListed {
            self.caches.memories.listed(&snapshot.key, asked.at);
            remembered.recent.listed_at = remembered.recent.listed_at.max(Some(asked.at));
        }
        seen.machines = machines;
        seen.records = records;
        true
    }

    fn hear_cluster(
        &self,
        snapshot: &ClusterSnapshot,
        answer: TargetAnswer,
        seen: &mut SeenCluster,
        remembered: &mut Remembered,
    ) -> bool {
        let TargetAnswer { asked, target, probe } = answer;
        if !asked.speaks_of_cluster(snapshot) {
            remembered.is_due = true;
            return false;
        }
        self.caches.memories.probed(&snapshot.key, asked.at);
        remembered.recent.probed_at = remembered.recent.probed_at.max(Some(asked.at));
        seen.target = target;
        seen.probe = probe;
        true
    }

    /// Asks what has to be known, if it is time, or if a provider says that something is another. What was answered
    /// just now is not asked at once.
    fn ask(
        &self,
        snapshot: &ClusterSnapshot,
        uid: &str,
        answered: Answered,
        remembered: &Remembered,
        now: Timestamp,
    ) {
        let (Ok(intent), key) = (&snapshot.wanted, &snapshot.key) else { return };
        let &Remembered { recent, is_due, has_news, .. } = remembered;
        // What is news is to be listed, whenever that was done last.
        let listed_at = if has_news { Some(Timestamp::UNIX_EPOCH) } else { recent.listed_at };
        let recent = Recent { listed_at, ..recent };
        let needs = needs(&snapshot.state, intent, &snapshot.settings, recent, now);
        let asked = Asked::now(snapshot, now);
        let ask_provider = has_news || is_due && !answered.provider;
        if ask_provider && (needs.machines || needs.records) && !self.provider_lookups.is_asked(uid)
        {
            self.caches.memories.asks_provider(key);
            let place = Place::of(snapshot, &self.client);
            let Needs { machines, records, .. } = needs;
            let question = ProviderQuestion { asked, place, machines, records };
            let actuators = self.actuators.clone();
            let asker = Asker { key, uid, account: &snapshot.access.account };
            self.provider_lookups.ask(asker, question.ask(actuators), || None);
        }
        let ask_cluster = is_due && !answered.cluster && (needs.target || needs.probe);
        if ask_cluster && !self.target_lookups.is_asked(uid) {
            let config = self.config.current();
            let way = Way::of(snapshot, &self.targets, &config.allowed_addresses);
            let Some(way) = way else { return };
            let workloads = || intent.gates.workloads.clone();
            let read =
                needs.target.then(|| TargetQuestion { csrs: needs.csrs, workloads: workloads() });
            let question = ClusterQuestion { asked, way, read };
            let asker = Asker { key, uid, account: uid };
            self.target_lookups.ask(asker, question.ask(self.clock.clone()), || None);
        }
    }
}
