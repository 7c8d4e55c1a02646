//! Jobs: one Pod that runs to its end, tried again when it fails.
//!
//! `decide` says what is to be done about a Job as it is now, one write at a time; `mirror` holds
//! what is there; this file watches, writes, and asks again. It does what the Job controller of
//! Kubernetes does for a Job of one completion, in the same words; a Job that asks for more fails
//! and says so. A Job's Pods are counted exactly once and made exactly once, whenever the
//! controller is stopped and started again: see `decide` and `attempt`.

mod attempt;
mod decide;
mod failure_policy;
mod mirror;
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
use decide::{Step, decide, is_tracked};
use mirror::Mirror;
use step::{Done, Outcome};
use writes::Write;

/// Who Events are from.
const COMPONENT: &str = "job-controller";
/// Writes that may be under way, of different Jobs.
const WRITES_AT_ONCE: usize = 16;
/// A Job that takes more steps than this without a rest goes round in circles, and slows down.
const STEPS_IN_A_ROW: u32 = 64;
/// Kubernetes' own back-off of a Job whose writes fail.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// Sees to Jobs until `shutdown`. Those whose time is up are deleted as `expiry`, since to see to
/// Jobs is not to be allowed to delete them.
pub async fn run(
    client: Client,
    expiry: Client,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let notes = client.clone();
    event::noting(notes, COMPONENT, |recorder| work(client, expiry, clock, recorder, shutdown))
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
    let mut foreman = Foreman::new(client, expiry, clock, recorder);
    loop {
        foreman.hand_out();
        let wake = foreman.timers.first().map(|(due, _)| *due);
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = jobs.next() => match event {
                Some(Ok(event)) => foreman.job_event(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch Jobs; trying again"),
                None => return Err(WatchEnded("Jobs")),
            },
            event = pods.next() => match event {
                Some(Ok(event)) => foreman.pod_event(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch Pods; trying again"),
                None => return Err(WatchEnded("Pods")),
            },
            Some(done) = foreman.work.next(), if !foreman.work.is_empty() => foreman.done(done),
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                foreman.time_passed();
            }
        }
    }
}

/// Who is at work on which Job.
struct Foreman {
    client: Client,
    expiry: Client,
    clock: Clock,
    recorder: Recorder,
    mirror: Mirror,
    /// Jobs to look at, by uid, each once.
    due: VecDeque<String>,
    queued: HashSet<String>,
    /// Jobs of which a write is under way.
    busy: HashMap<String, Busy>,
    paces: HashMap<String, Pace>,
    timers: BTreeSet<(Instant, String)>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// A Job of which a write is under way.
#[derive(Debug)]
struct Busy {
    write: Write,
    /// Something happened to it meanwhile.
    happened: bool,
}

/// What is remembered of a Job between looks; forgetting it does no harm.
#[derive(Debug, Default)]
struct Pace {
    /// Writes that failed in a row.
    failures: u32,
    /// Not to be looked at before.
    rests_until: Option<Instant>,
    /// To be looked at then, whatever happens.
    timer: Option<Instant>,
    /// Steps since there was nothing to do.
    steps: u32,
    /// How often the name of a Pod was somebody else's.
    detour: u32,
}

impl Foreman {
    fn new(client: Client, expiry: Client, clock: Clock, recorder: Recorder) -> Self {
        Self {
            client,
            expiry,
            clock,
            recorder,
            mirror: Mirror::default(),
            due: VecDeque::new(),
            queued: HashSet::new(),
            busy: HashMap::new(),
            paces: HashMap::new(),
            timers: BTreeSet::new(),
            work: FuturesUnordered::new(),
        }
    }

    fn look_at(&mut self, jobs: impl IntoIterator<Item = String>) {
        for job in jobs {
            if let Some(busy) = self.busy.get_mut(&job) {
                busy.happened = true;
            } else if self.queued.insert(job.clone()) {
                self.due.push_back(job);
            }
        }
    }

    fn job_event(&mut self, event: watcher::Event<Job>) {
        match event {
            watcher::Event::Init => self.mirror.begin_jobs(),
            watcher::Event::Apply(job) | watcher::Event::InitApply(job) => {
                let job = self.mirror.put_job(job);
                self.look_at(job);
            }
            watcher::Event::Delete(job) => {
                let job = self.mirror.remove_job(&job.metadata.uid.unwrap_or_default());
                self.look_at(job);
            }
            watcher::Event::InitDone => {
                let jobs = self.mirror.end_jobs();
                self.look_at(jobs);
            }
        }
    }

    fn pod_event(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.mirror.begin_pods(),
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                let jobs = self.mirror.put_pod(pod);
                self.look_at(jobs);
            }
            watcher::Event::Delete(pod) => {
                let job = self.mirror.remove_pod(&pod.metadata.uid.unwrap_or_default());
                self.look_at(job);
            }
            watcher::Event::InitDone => {
                let jobs = self.mirror.end_pods();
                self.look_at(jobs);
            }
        }
    }

    fn time_passed(&mut self) {
        let now = Instant::now();
        while let Some((due, job)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, job.clone()));
            if let Some(pace) = self.paces.get_mut(&job) {
                pace.timer = None;
            }
            self.look_at([job]);
        }
    }

    /// Sets a Job's timer, of which it has one.
    fn set_timer(&mut self, job: &str, at: Option<Instant>) {
        let pace = self.paces.entry(job.to_owned()).or_default();
        if let Some(old) = pace.timer.take() {
            self.timers.remove(&(old, job.to_owned()));
        }
        if let Some(at) = at {
            pace.timer = Some(at);
            self.timers.insert((at, job.to_owned()));
        }
    }

    /// Takes the next step of every Job that is due. While a list is being read, the mirror lacks
    /// what is not listed yet, and nothing is decided.
    fn hand_out(&mut self) {
        while self.mirror.is_complete() && self.work.len() < WRITES_AT_ONCE {
            let Some(job) = self.due.pop_front() else { return };
            self.queued.remove(&job);
            self.take_step(job);
        }
    }

    fn take_step(&mut self, uid: String) {
        let now = Instant::now();
        let pace = self.paces.entry(uid.clone()).or_default();
        if let Some(until) = pace.rests_until.filter(|until| *until > now) {
            return self.set_timer(&uid, Some(until));
        }
        pace.rests_until = None;
        let detour = pace.detour;
        let pods = self.mirror.pods(&uid);
        let Some(job) = self.mirror.job(&uid) else {
            // Pods whose Job is gone are let go of.
            if let Some(pod) = pods.into_iter().find(|pod| is_tracked(pod)) {
                let work = step::let_go(self.client.clone(), uid.clone(), pod.clone());
                return self.start(uid, Box::pin(work));
            }
            self.set_timer(&uid, None);
            self.paces.remove(&uid);
            return;
        };
        let clock = self.clock.now();
        let decision = decide(job, &pods, clock);
        if let Some(step) = decision.step {
            let client = if step == Step::DeleteJob { &self.expiry } else { &self.client };
            let work = step::take(client.clone(), job.clone(), step, detour, decision.notes);
            return self.start(uid, Box::pin(work));
        }
        if let Some(pace) = self.paces.get_mut(&uid) {
            (pace.steps, pace.failures) = (0, 0);
        }
        self.set_timer(&uid, decision.wake.map(|wake| instant(wake, clock, now)));
    }

    fn start(&mut self, job: String, work: BoxFuture<'static, Done>) {
        let write = self.mirror.begin_write();
        self.busy.insert(job, Busy { write, happened: false });
        self.work.push(work);
    }

    fn done(&mut self, done: Done) {
        let Done { job: uid, about, notes, outcome } = done;
        for note in notes {
            let kind = if note.warning { EventType::Warning } else { EventType::Normal };
            self.recorder.note(&about, kind, &note.reason, &note.message);
        }
        let now = Instant::now();
        let Some(Busy { write, happened }) = self.busy.remove(&uid) else { return };
        let pace = self.paces.entry(uid.clone()).or_default();
        pace.steps += 1;
        if pace.steps > STEPS_IN_A_ROW {
            pace.steps = 0;
            pace.rests_until = Some(now + LONGEST_BACKOFF);
        }
        if !matches!(outcome, Outcome::Job(_) | Outcome::Pod(_)) {
            self.mirror.end_write(write);
        }
        match outcome {
            Outcome::Job(job) => self.mirror.answer_job(write, *job),
            Outcome::Pod(pod) => {
                let jobs = self.mirror.answer_pod(write, *pod);
                self.look_at(jobs);
            }
            Outcome::PodGone(pod) => {
                self.mirror.remove_pod(&pod);
            }
            Outcome::NameTaken => pace.detour = pace.detour.wrapping_add(1),
            Outcome::Overtaken if happened => {}
            Outcome::Overtaken => return self.set_timer(&uid, Some(now + FIRST_BACKOFF)),
            Outcome::Failed(error) => {
                tracing::warn!("{error}");
                let pause = FIRST_BACKOFF * 2_u32.pow(pace.failures.min(6));
                pace.failures = pace.failures.saturating_add(1);
                pace.rests_until = Some(now + pause.min(LONGEST_BACKOFF));
            }
        }
        self.look_at([uid]);
    }
}

/// The moment at which `clock` will show `time`.
fn instant(time: Timestamp, clock: Timestamp, now: Instant) -> Instant {
    now + Duration::try_from(time.duration_since(clock)).unwrap_or_default()
}
