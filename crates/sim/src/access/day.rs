//! Some hours of sessions, drawn from a seed, and the run of them.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sojourn_core::access::act::Verb;
use sojourn_core::access::session::State;
use sojourn_core::key::Key;
use tokio::time::timeout;

use super::invariants::state_of;
use super::replica::Follower;
use super::simulation::{APPROVER, AccessSimulation, Setting};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::outcome::SimulationOutcome;
use crate::process::Process;
use crate::rng::Rng;
use crate::simulation::run_on_virtual_clock;

pub const USERS: [&str; 6] = [
    "ada@example.org",
    "alan@example.org",
    "barbara@example.org",
    "edsger@example.org",
    "frances@example.org",
    "tony@example.org",
];
const BUSY: Duration = Duration::from_secs(5 * 3600);
const STEP: Duration = Duration::from_secs(20);
/// So long somebody waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// For so long at the end nothing fails and nobody does anything, so that what is due must be done by the end.
const QUIET: Duration = Duration::from_secs(4 * 3600);
/// So long after it could have been done something may be done once nothing fails any more.
const MAX_LATENESS: SignedDuration = SignedDuration::from_mins(20);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 30, after: 30, conflict: 30, read: 20, lost: 10 };

/// One thing that somebody does, or that happens.
#[derive(Debug, Clone, Copy)]
enum PlannedEvent {
    Request(usize),
    Approve(usize),
    /// Somebody uses their session so often, every few seconds.
    Use(usize, u64),
    Drop(usize),
    Cancel(usize),
    Extend(usize),
    /// The API server cannot reach the webhook for so long.
    Outage(Duration),
    CutWatches,
    Kill(Duration),
    KillAfter(u64, Duration),
    KillFollower(usize),
    TakeOver(Duration),
}

/// Hours, drawn from a seed.
#[derive(Debug)]
pub struct DayPlan {
    seed: u64,
    rates: Rates,
    skewed: bool,
    followers: usize,
    events: Vec<(Duration, PlannedEvent)>,
}

impl DayPlan {
    /// Three replicas whose clocks differ, and faults.
    pub fn draw(seed: u64) -> Self {
        let rng = Rng::new(seed).split("sessions");
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        let mut events = people(&mut rng.split("people"));
        let mut faults = rng.split("faults");
        for _ in 0..30 {
            let event = match faults.below(10) {
                0..=1 => PlannedEvent::Outage(Duration::from_secs(faults.between(60, 900))),
                2 => PlannedEvent::CutWatches,
                3 => PlannedEvent::Kill(Duration::from_secs(*faults.pick(&[1, 20, 400]))),
                4 | 5 => {
                    let down = Duration::from_secs(faults.below(120));
                    PlannedEvent::KillAfter(faults.between(1, 40), down)
                }
                6 | 7 => PlannedEvent::KillFollower(usize::try_from(faults.below(2)).unwrap_or(0)),
                _ => PlannedEvent::TakeOver(Duration::from_secs(*faults.pick(&[0, 2, 17]))),
            };
            events.push((Duration::from_secs(faults.below(BUSY.as_secs())), event));
        }
        events.sort_by_key(|(at, _)| *at);
        Self { seed, rates, skewed: true, followers: 2, events }
    }

    /// One replica, whose requests fail and which is killed: whatever happens within one instant is drawn.
    pub fn replayable(seed: u64) -> Self {
        let rng = Rng::new(seed).split("sessions");
        let events = people(&mut rng.split("people"));
        Self { seed, rates: Rates::default(), skewed: false, followers: 0, events }
    }
}

fn people(rng: &mut Rng) -> Vec<(Duration, PlannedEvent)> {
    let mut events = Vec::new();
    let seconds = Duration::from_secs;
    for user in 0..USERS.len() {
        let mut at = rng.below(600);
        while at < BUSY.as_secs() {
            events.push((seconds(at), PlannedEvent::Request(user)));
            at += rng.between(60, 300);
            if rng.permille(900) {
                events.push((seconds(at), PlannedEvent::Approve(user)));
            }
            for _ in 0..rng.below(8) {
                at += rng.between(20, 500);
                events.push((seconds(at), PlannedEvent::Use(user, rng.between(1, 6))));
            }
            at += rng.between(60, 900);
            match rng.below(10) {
                0 => events.push((seconds(at), PlannedEvent::Drop(user))),
                1 => events.push((seconds(at), PlannedEvent::Cancel(user))),
                2 | 3 => events.push((seconds(at), PlannedEvent::Extend(user))),
                _ => {}
            }
            at += rng.between(300, 2400);
        }
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

impl fmt::Display for DayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rates, skewed, followers, events } = self;
        writeln!(
            f,
            "seed {seed}: sessions of {} people, {rates:?}, {followers} followers, skewed: {skewed}",
            USERS.len()
        )?;
        events.iter().try_for_each(|(at, event)| writeln!(f, "  {at:?} {event:?}"))
    }
}

/// Runs a plan on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: &DayPlan) -> SimulationOutcome {
    run_on_virtual_clock(async {
        let mut day = Day::begin(plan).await;
        let mut events = plan.events.iter().peekable();
        let mut passed = Duration::ZERO;
        while passed < BUSY {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= passed) {
                day.apply(*event, passed).await;
            }
            day.step(passed).await;
            day.simulation.pass(STEP).await;
            passed += STEP;
        }
        day.end(plan).await
    })
}

struct Day {
    simulation: AccessSimulation,
    followers: Vec<Process<Follower>>,
    /// What everybody still uses, one after the other.
    left: [u64; USERS.len()],
    outage_until: Option<Duration>,
    asked: u64,
}

impl Day {
    async fn begin(plan: &DayPlan) -> Self {
        let DayPlan { seed, rates, skewed, .. } = *plan;
        let setting = Setting { seed, rates, skewed, ..Setting::default() };
        let simulation = AccessSimulation::new(setting).await;
        let terms = json!({
            "maxValidFor": "90m", "approvalTimeout": "20m", "idleTimeout": "12m",
            "firstUseTimeout": "8m", "warnBefore": "2m", "retainFor": "1h",
            "extension": {"max": 2, "step": "10m"},
        });
        simulation.offer("incident", &USERS, terms).await;
        let followers = (0..plan.followers).map(|_| simulation.follower()).collect();
        Self { simulation, followers, left: [0; USERS.len()], outage_until: None, asked: 0 }
    }

    /// The session of a user that is not over.
    fn session_of(&self, user: usize) -> Option<Key> {
        let checker = self.simulation.checker.lock();
        let mut live = checker.sessions().filter(|(_, one)| {
            let over = state_of(one).is_some_and(State::is_final);
            one.spec.user == USERS[user] && !over
        });
        live.next().map(|(key, _)| key.clone())
    }

    /// People are refused now and then, and try again another time.
    async fn act(&mut self, user: &str, owner: usize, verb: Verb) {
        self.asked += 1;
        let Some(key) = self.session_of(owner) else { return };
        let Some(service) = self.simulation.drivers.service(self.asked) else { return };
        let person = super::simulation::person(user);
        // Whoever is served by a process that is killed hears nothing more.
        let done = timeout(ANSWER_TIMEOUT, service.act(&person, &key, verb, None)).await;
        let words = match done {
            Ok(Ok(_)) => "done".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        self.simulation.checker.lock().note(format!("{user}: {} {key}: {words}", verb.as_str()));
    }

    async fn apply(&mut self, event: PlannedEvent, passed: Duration) {
        match event {
            PlannedEvent::Request(user) => {
                if self.simulation.drivers.service(0).is_some() {
                    let asked = timeout(ANSWER_TIMEOUT, self.simulation.request(USERS[user])).await;
                    let words = match asked {
                        Ok(Ok(key)) => format!("{} is given {key}", USERS[user]),
                        Ok(Err(error)) => format!("{} is not given one: {error}", USERS[user]),
                        Err(_) => format!("{} gets no answer", USERS[user]),
                    };
                    self.simulation.checker.lock().note(words);
                }
            }
            PlannedEvent::Approve(user) => self.act(APPROVER, user, Verb::Approve).await,
            PlannedEvent::Use(user, times) => self.left[user] += times,
            PlannedEvent::Drop(user) => self.act(USERS[user], user, Verb::Drop).await,
            PlannedEvent::Cancel(user) => self.act(APPROVER, user, Verb::Cancel).await,
            PlannedEvent::Extend(user) => self.act(USERS[user], user, Verb::Extend).await,
            PlannedEvent::Outage(span) => {
                self.simulation.drivers.set_reachable(false);
                self.outage_until = Some(passed + span);
            }
            PlannedEvent::CutWatches => self.simulation.faults.cut_watches(),
            PlannedEvent::Kill(down) => self.simulation.kill(down),
            PlannedEvent::KillAfter(writes, down) => self.simulation.kill_after(writes, down),
            PlannedEvent::KillFollower(number) => {
                if let Some(follower) = self.followers.get(number) {
                    follower.kill();
                }
            }
            PlannedEvent::TakeOver(after) => self.simulation.take_over(after).await,
        }
    }

    async fn step(&mut self, passed: Duration) {
        if self.outage_until.is_some_and(|until| until <= passed) {
            self.outage_until = None;
            self.simulation.drivers.set_reachable(true);
        }
        for (user, left) in self.left.iter_mut().enumerate() {
            if *left > 0 {
                *left -= 1;
                self.simulation.uses(USERS[user]).await;
            }
        }
    }

    async fn end(self, plan: &DayPlan) -> SimulationOutcome {
        let simulation = &self.simulation;
        simulation.stop_faults();
        simulation.drivers.set_reachable(true);
        simulation.pass(QUIET).await;
        simulation.check_end(MAX_LATENESS);
        let takeovers = simulation.takeovers() as u64;
        let followers: u64 = self.followers.iter().map(Process::starts).sum();
        let began = 1 + takeovers + self.followers.len() as u64;
        let counts = {
            let checker = simulation.checker.lock();
            EventCounts {
                uses: checker.uses,
                notices: simulation.drivers.mail().received().len() as u64,
                idle_stops: checker.idle_expiries,
                expired: checker.expiries,
                kills: (simulation.starts() + followers).saturating_sub(began),
                takeovers,
                ..EventCounts::default()
            }
        };
        simulation.outcome(plan, counts)
    }
}
