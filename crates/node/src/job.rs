//! Jobs: one Pod that runs to its end, tried again when it fails.
//!
//! `decide` says what is to be done about a Job as it is now, one write at a time; `cache` holds
//! what is there; this file watches, writes, and asks again. It does what the Job controller of
//! Kubernetes does for a Job of one completion, in the same words; a Job that asks for more fails
//! and says so. A Job's Pods are counted exactly once and made exactly once, whenever the
//! controller is stopped and started again: see `decide` and `attempt`.

mod attempt;
mod cache;
mod decide;
mod failure_policy;
mod step;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::event::{self, EventType, Recorder};
use crate::listing::WatchEnded;
use cache::JobCache;
use decide::{Step, decide, is_tracked};
use step::{FinishedStep, StepOutcome};
use writes::Write;

/// Who Events are from.
const COMPONENT: &str = "job-controller";
/// Writes that may be under way, of different Jobs.
const MAX_CONCURRENT_WRITES: usize = 16;
/// A Job that takes more steps than this without a rest goes round in circles, and slows down.
const MAX_STEPS_IN_A_ROW: u32 = 64;
/// Kubernetes' own back-off of a Job whose writes fail.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Sees to Jobs until `shutdown`. Those whose time is up are deleted as `expiry`, since to see to
/// Jobs is not to be allowed to delete them.
pub async fn run(
    client: Client,
    expiry: Client,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let notes = client.clone();
    event::with_recorder(notes, COMPONENT, |recorder| {
        work(client, expiry, clock, recorder, shutdown)
    })
    .await
}

async fn work(
    client: Client,
    expiry: Client,
    clock: Clock,
    recorder: Recorder,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let config = watcher::Config::default;
    let mut jobs = pin!(watcher(Api::<Job>::all(client.clone()), config()).default_backoff());
    let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), config()).default_backoff());
    let mut shutdown = pin!(shutdown);
    let mut controller = JobController::new(client, expiry, clock, recorder);
    loop {
        controller.start_work();
        let wake = controller.timers.first().map(|(due, _)| *due);
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = jobs.next() => match event {
                Some(Ok(event)) => controller.job_event(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch Jobs; trying again"),
                None => return Err(WatchEnded("Jobs")),
            },
            event = pods.next() => match event {
                Some(Ok(event)) => controller.pod_event(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch Pods; trying again"),
                None => return Err(WatchEnded("Pods")),
            },
            Some(done) = controller.work.next(), if !controller.work.is_empty() => controller.done(done),
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                controller.fire_timers();
            }
        }
    }
}

/// The Job controller's state: its cache, its queue and the writes that are in flight.
struct JobController {
    client: Client,
    expiry: Client,
    clock: Clock,
    recorder: Recorder,
    cache: JobCache,
    /// Jobs to reconcile, by uid, each once.
    due: VecDeque<String>,
    queued: HashSet<String>,
    /// Jobs of which a write is in flight.
    in_flight: HashMap<String, InFlight>,
    states: HashMap<String, JobState>,
    timers: BTreeSet<(Instant, String)>,
    work: FuturesUnordered<BoxFuture<'static, FinishedStep>>,
}

/// A Job of which a write is in flight.
#[derive(Debug)]
struct InFlight {
    write: Write,
    /// Something happened to it meanwhile.
    changed: bool,
}

/// What is kept of a Job between reconciles; it can be lost without harm.
#[derive(Debug, Default)]
struct JobState {
    /// Writes that failed in a row.
    failures: u32,
    /// Not to be reconciled before.
    not_before: Option<Instant>,
    /// To be reconciled then, whatever happens.
    timer: Option<Instant>,
    /// Steps since there was nothing to do.
    steps: u32,
    /// How often the name of a Pod was somebody else's.
    name_collisions: u32,
}

impl JobController {
    fn new(client: Client, expiry: Client, clock: Clock, recorder: Recorder) -> Self {
        Self {
            client,
            expiry,
            clock,
            recorder,
            cache: JobCache::default(),
            due: VecDeque::new(),
            queued: HashSet::new(),
            in_flight: HashMap::new(),
            states: HashMap::new(),
            timers: BTreeSet::new(),
            work: FuturesUnordered::new(),
        }
    }

    fn enqueue(&mut self, jobs: impl IntoIterator<Item = String>) {
        for job in jobs {
            if let Some(in_flight) = self.in_flight.get_mut(&job) {
                in_flight.changed = true;
            } else if self.queued.insert(job.clone()) {
                self.due.push_back(job);
            }
        }
    }

    fn job_event(&mut self, event: watcher::Event<Job>) {
        match event {
            watcher::Event::Init => self.cache.begin_jobs(),
            watcher::Event::Apply(job) | watcher::Event::InitApply(job) => {
                let job = self.cache.put_job(job);
                self.enqueue(job);
            }
            watcher::Event::Delete(job) => {
                let job = self.cache.remove_job(&job.metadata.uid.unwrap_or_default());
                self.enqueue(job);
            }
            watcher::Event::InitDone => {
                let jobs = self.cache.end_jobs();
                self.enqueue(jobs);
            }
        }
    }

    fn pod_event(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.cache.begin_pods(),
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                let jobs = self.cache.put_pod(pod);
                self.enqueue(jobs);
            }
            watcher::Event::Delete(pod) => {
                let job = self.cache.remove_pod(&pod.metadata.uid.unwrap_or_default());
                self.enqueue(job);
            }
            watcher::Event::InitDone => {
                let jobs = self.cache.end_pods();
                self.enqueue(jobs);
            }
        }
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some((due, job)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, job.clone()));
            if let Some(state) = self.states.get_mut(&job) {
                state.timer = None;
            }
            self.enqueue([job]);
        }
    }

    /// Sets a Job's timer, of which it has one.
    fn set_timer(&mut self, job: &str, at: Option<Instant>) {
        let state = self.states.entry(job.to_owned()).or_default();
        if let Some(old) = state.timer.take() {
            self.timers.remove(&(old, job.to_owned()));
        }
        if let Some(at) = at {
            state.timer = Some(at);
            self.timers.insert((at, job.to_owned()));
        }
    }

    /// Takes the next step of every Job that is due. While a list is being read, the cache lacks
    /// what is not listed yet, and nothing is decided.
    fn start_work(&mut self) {
        while self.cache.is_complete() && self.work.len() < MAX_CONCURRENT_WRITES {
            let Some(job) = self.due.pop_front() else { return };
            self.queued.remove(&job);
            self.take_step(job);
        }
    }

    fn take_step(&mut self, uid: String) {
        let now = Instant::now();
        let state = self.states.entry(uid.clone()).or_default();
        if let Some(until) = state.not_before.filter(|until| *until > now) {
            return self.set_timer(&uid, Some(until));
        }
        state.not_before = None;
        let name_collisions = state.name_collisions;
        let pods = self.cache.pods(&uid);
        let Some(job) = self.cache.job(&uid) else {
            // Pods whose Job is gone are let go of.
            if let Some(pod) = pods.into_iter().find(|pod| is_tracked(pod)) {
                let work = step::release_orphan(self.client.clone(), uid.clone(), pod.clone());
                return self.start(uid, Box::pin(work));
            }
            self.set_timer(&uid, None);
            self.states.remove(&uid);
            return;
        };
        let clock = self.clock.now();
        let decision = decide(job, &pods, clock);
        if let Some(step) = decision.step {
            let client = if step == Step::DeleteJob { &self.expiry } else { &self.client };
            let work =
                step::take(client.clone(), job.clone(), step, name_collisions, decision.notes);
            return self.start(uid, Box::pin(work));
        }
        if let Some(state) = self.states.get_mut(&uid) {
            (state.steps, state.failures) = (0, 0);
        }
        self.set_timer(&uid, decision.wake.map(|wake| instant(wake, clock, now)));
    }

    fn start(&mut self, job: String, work: BoxFuture<'static, FinishedStep>) {
        let write = self.cache.begin_write();
        self.in_flight.insert(job, InFlight { write, changed: false });
        self.work.push(work);
    }

    fn done(&mut self, done: FinishedStep) {
        let FinishedStep { job: uid, about, notes, outcome } = done;
        for note in notes {
            let kind = if note.warning { EventType::Warning } else { EventType::Normal };
            self.recorder.record(&about, kind, &note.reason, &note.message);
        }
        let now = Instant::now();
        let Some(InFlight { write, changed }) = self.in_flight.remove(&uid) else { return };
        let state = self.states.entry(uid.clone()).or_default();
        state.steps += 1;
        if state.steps > MAX_STEPS_IN_A_ROW {
            state.steps = 0;
            state.not_before = Some(now + MAX_BACKOFF);
        }
        if !matches!(outcome, StepOutcome::Job(_) | StepOutcome::Pod(_)) {
            self.cache.end_write(write);
        }
        match outcome {
            StepOutcome::Job(job) => self.cache.answer_job(write, *job),
            StepOutcome::Pod(pod) => {
                let jobs = self.cache.answer_pod(write, *pod);
                self.enqueue(jobs);
            }
            StepOutcome::PodGone(pod) => {
                self.cache.remove_pod(&pod);
            }
            StepOutcome::NameTaken => state.name_collisions = state.name_collisions.wrapping_add(1),
            StepOutcome::Overtaken if changed => {}
            StepOutcome::Overtaken => return self.set_timer(&uid, Some(now + MIN_BACKOFF)),
            StepOutcome::Failed(error) => {
                tracing::warn!("{error}");
                let pause = MIN_BACKOFF * 2_u32.pow(state.failures.min(6));
                state.failures = state.failures.saturating_add(1);
                state.not_before = Some(now + pause.min(MAX_BACKOFF));
            }
        }
        self.enqueue([uid]);
    }
}

/// The moment at which `clock` will show `time`.
fn instant(time: Timestamp, clock: Timestamp, now: Instant) -> Instant {
    now + Duration::try_from(time.duration_since(clock)).unwrap_or_default()
}
