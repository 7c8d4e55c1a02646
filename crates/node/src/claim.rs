//! Binds claims to directories of the node.
//!
//! A claim's directory is named after the claim's uid, and the name of its volume says so
//! (`sojourn-<uid>`). The embedded engine has no PersistentVolumes; for other control planes, whose
//! schedulers look there, one of that name is made first. Binding takes two writes, because a claim's
//! status is a resource of its own:
//!
//! 1. the finalizer, which keeps the claim until its directory is gone, together with the name of
//!    the volume;
//! 2. the status `Bound`, from which on Pods use the claim.
//!
//! Whoever stops between them goes on with the second, and no claim can be used, and so have a
//! directory, that does not hold on to it.

mod volume;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::event::{self, EventType, Recorder};
use crate::listing::WatchEnded;
use crate::request::{RequestError, ask, in_full};

pub use volume::Local;
pub(crate) use volume::remove as remove_volume;

/// Keeps a claim until its directory is gone.
pub const FINALIZER: &str = "sojourn.dev/directory";
/// The class of claims that are directories of the node; claims without a class are, too.
pub const CLASS: &str = "sojourn";

/// Who Events are from.
const COMPONENT: &str = "persistentvolume-controller";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Requests that may be under way.
const MAX_CONCURRENT_WRITES: usize = 16;
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The name of the volume that a claim is bound to.
pub fn volume_name(uid: &str) -> String {
    format!("sojourn-{uid}")
}

/// What is to be done about a claim now.
#[derive(Debug, Clone, PartialEq)]
enum Decision {
    Nothing,
    /// The claim as it should be, but for its status.
    Name(Box<PersistentVolumeClaim>),
    /// Its status as it should be.
    Bind(Box<PersistentVolumeClaim>),
    /// It is not for us, or cannot be had here; in words.
    Refuse(String),
}

fn decide(claim: &PersistentVolumeClaim) -> Decision {
    let (Some(uid), Some(spec)) = (claim.metadata.uid.as_deref(), claim.spec.as_ref()) else {
        return Decision::Nothing;
    };
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if claim.metadata.deletion_timestamp.is_some() || !matches!(phase, None | Some("" | "Pending"))
    {
        return Decision::Nothing;
    }
    if let Some(words) = refusal(claim) {
        return Decision::Refuse(words);
    }
    let volume = volume_name(uid);
    let finalizers = claim.metadata.finalizers.iter().flatten();
    let held = finalizers.into_iter().any(|finalizer| finalizer == FINALIZER);
    match spec.volume_name.as_deref() {
        Some(name) if name == volume && held => Decision::Bind(Box::new(bound(claim, spec))),
        Some(name) if !name.is_empty() && name != volume => Decision::Refuse(format!(
            "persistentvolume \"{name}\" not found: leave spec.volumeName empty"
        )),
        _ => Decision::Name(Box::new(named(claim, spec, volume))),
    }
}

/// The claim with the name of its volume, and held on to.
fn named(
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    volume: String,
) -> PersistentVolumeClaim {
    let mut named = claim.clone();
    let finalizers = named.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let annotations = named.metadata.annotations.get_or_insert_default();
    for key in [BIND_COMPLETED, BOUND_BY_CONTROLLER] {
        annotations.insert(key.to_owned(), "yes".to_owned());
    }
    named.spec = Some(PersistentVolumeClaimSpec { volume_name: Some(volume), ..spec.clone() });
    named
}

/// The claim with all that it asked for.
fn bound(claim: &PersistentVolumeClaim, spec: &PersistentVolumeClaimSpec) -> PersistentVolumeClaim {
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get_key_value("storage"));
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.access_modes.clone(),
        capacity: Some(
            storage.map(|(name, amount)| (name.clone(), amount.clone())).into_iter().collect(),
        ),
        ..claim.status.clone().unwrap_or_default()
    };
    PersistentVolumeClaim { status: Some(status), ..claim.clone() }
}

/// What a claim asks for that cannot be had here.
fn refusal(claim: &PersistentVolumeClaim) -> Option<String> {
    let spec = claim.spec.as_ref()?;
    let annotation = claim.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_ANNOTATION));
    let class = annotation.or(spec.storage_class_name.as_ref()).map_or("", String::as_str);
    if !matches!(class, "" | CLASS) {
        return Some(format!(
            "storageclass.storage.k8s.io \"{class}\" not found: leave spec.storageClassName out, or \
             set it to \"{CLASS}\""
        ));
    }
    if spec.selector.is_some() {
        return Some("spec.selector: there are no volumes to select from here".into());
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Some("spec.dataSource: a claim starts out empty here".into());
    }
    None
}

/// Binds claims until `shutdown`; where PersistentVolumes are wanted, to directories of this node.
pub async fn run(
    client: Client,
    local: Option<Local>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let notes = client.clone();
    event::with_recorder(notes, COMPONENT, |recorder| work(client, local, recorder, shutdown)).await
}

async fn work(
    client: Client,
    local: Option<Local>,
    recorder: Recorder,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let api = Api::<PersistentVolumeClaim>::all(client.clone());
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut shutdown = pin!(shutdown);
    let mut binder = Binder {
        client,
        local,
        recorder,
        pending: HashMap::new(),
        due: VecDeque::new(),
        later: BTreeSet::new(),
        work: FuturesUnordered::new(),
    };
    loop {
        binder.start_writes(Instant::now());
        let wake = binder.later.first().map(|(due, _)| *due);
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = events.next() => match event {
                Some(Ok(event)) => binder.event(event),
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot watch PersistentVolumeClaims; trying again");
                }
                None => return Err(WatchEnded("PersistentVolumeClaims")),
            },
            Some((uid, answer)) = binder.work.next(), if !binder.work.is_empty() => {
                binder.answered(uid, answer, Instant::now());
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

type Answer = Result<PersistentVolumeClaim, RequestError>;

/// The claims that are being bound.
struct Binder {
    client: Client,
    local: Option<Local>,
    recorder: Recorder,
    /// By uid.
    pending: HashMap<String, Pending>,
    due: VecDeque<String>,
    later: BTreeSet<(Instant, String)>,
    work: FuturesUnordered<BoxFuture<'static, (String, Answer)>>,
}

struct Pending {
    /// The newest picture of it.
    claim: PersistentVolumeClaim,
    state: ClaimState,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    Due,
    UnderWay,
    Later,
}

impl Binder {
    fn event(&mut self, event: watcher::Event<PersistentVolumeClaim>) {
        match event {
            watcher::Event::Apply(claim) | watcher::Event::InitApply(claim) => self.enqueue(claim),
            watcher::Event::Delete(claim) => {
                self.pending.remove(claim.metadata.uid.as_deref().unwrap_or_default());
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    fn enqueue(&mut self, claim: PersistentVolumeClaim) {
        let Some(uid) = claim.metadata.uid.clone() else { return };
        let known = self.pending.remove(&uid);
        let failures = known.as_ref().map_or(0, |known| known.failures);
        let under_way = known.is_some_and(|known| known.state == ClaimState::UnderWay);
        let state = if under_way { ClaimState::UnderWay } else { ClaimState::Due };
        match decide(&claim) {
            _ if under_way => {}
            Decision::Name(_) | Decision::Bind(_) => self.due.push_back(uid.clone()),
            Decision::Nothing => return,
            Decision::Refuse(words) => {
                let reference = reference(&claim);
                return self.recorder.record(
                    &reference,
                    EventType::Warning,
                    "ProvisioningFailed",
                    &words,
                );
            }
        }
        self.pending.insert(uid, Pending { claim, state, failures });
    }

    fn start_writes(&mut self, now: Instant) {
        while let Some((due, uid)) = self.later.first().cloned().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, uid.clone()));
            if let Some(pending) = self.pending.get_mut(&uid)
                && pending.state == ClaimState::Later
            {
                pending.state = ClaimState::Due;
                self.due.push_back(uid);
            }
        }
        while self.work.len() < MAX_CONCURRENT_WRITES {
            let Some(uid) = self.due.pop_front() else { return };
            let Some(pending) = self.pending.get_mut(&uid) else { continue };
            if pending.state == ClaimState::Due {
                pending.state = ClaimState::UnderWay;
                let (client, local) = (self.client.clone(), self.local.clone());
                let write = write(client, local, uid, pending.claim.clone());
                self.work.push(Box::pin(write));
            }
        }
    }

    fn answered(&mut self, uid: String, answer: Answer, now: Instant) {
        let Some(mut pending) = self.pending.remove(&uid) else { return };
        match answer {
            Ok(claim) => self.enqueue(claim),
            Err(error) if error.code() == Some(404) => {}
            Err(error) => {
                let name = pending.claim.metadata.name.as_deref().unwrap_or_default();
                let namespace = pending.claim.metadata.namespace.as_deref().unwrap_or_default();
                let cause = in_full(&error);
                tracing::warn!(%cause, "PersistentVolumeClaim {namespace}/{name} is not bound yet");
                let pause = MIN_BACKOFF * 2_u32.pow(pending.failures.min(6));
                pending.failures += 1;
                pending.state = ClaimState::Later;
                self.later.insert((now + pause.min(MAX_BACKOFF), uid.clone()));
                self.pending.insert(uid, pending);
            }
        }
    }
}

async fn write(
    client: Client,
    local: Option<Local>,
    uid: String,
    claim: PersistentVolumeClaim,
) -> (String, Answer) {
    let decision = decide(&claim);
    if let (Some(local), Decision::Name(_)) = (local, &decision)
        && let Err(error) = volume::make(&client, &local, &claim).await
    {
        return (uid, Err(error));
    }
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let api = Api::<PersistentVolumeClaim>::namespaced(client, namespace);
    let params = PostParams::default();
    // What is written names the version that it was made from: whoever changed the claim meanwhile
    // is not overwritten.
    let answer = match decision {
        Decision::Name(named) => {
            ask("name the volume of a PersistentVolumeClaim", api.replace(name, &params, &named))
                .await
        }
        Decision::Bind(bound) => {
            ask("bind a PersistentVolumeClaim", api.replace_status(name, &params, &bound)).await
        }
        Decision::Nothing | Decision::Refuse(_) => Ok(claim.clone()),
    };
    (uid, answer)
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
