//! Many sessions for a long time: people who use theirs now and then, and lose it when they forget it, while replicas
//! are killed, clocks differ, and the webhook, or the whole API, cannot be reached.
//!
//! What is drawn for one person does not depend on the others, so that many can be simulated in shares.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
use super::simulation::{APPROVER, AccessSimulation, CONFIG, Setting};
use crate::event_counts::EventCounts;
use crate::fault::Rates;
use crate::outcome::SimulationOutcome;
use crate::process::Process;
use crate::rng::Rng;
use crate::simulation::run_on_virtual_clock;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// So long somebody waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// For so long at the end nothing fails and nobody does anything, so that what is due must be done by the end.
const QUIET: Duration = Duration::from_secs(6 * 3600);
/// So long after it could have been done something may be done once nothing fails any more.
const MAX_LATENESS: SignedDuration = SignedDuration::from_mins(20);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 20, after: 20, conflict: 20, read: 10, lost: 2 };
const FOLLOWERS: usize = 2;
const TELL_INTERVAL: Duration = Duration::from_secs(50 * 3600);
/// So many users an escalation has at most.
const MAX_USERS: usize = 64;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPlan {
    pub seed: u64,
    /// Each has a session, and asks for another when it has ended.
    pub people: usize,
    pub hours: u64,
}

impl fmt::Display for LongPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, people, hours } = self;
        write!(f, "seed {seed}: {people} people with sessions for {hours} hours")
    }
}

/// What came of it.
#[derive(Debug)]
pub struct LongOutcome {
    pub outcome: SimulationOutcome,
    /// How long sessions were active, all together.
    pub session_hours: f64,
    /// How long the webhook, or the API, could not be reached.
    pub blind_hours: f64,
    /// How often the API as a whole could not be reached.
    pub api_outages: u64,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LongEvent {
    /// Somebody does what they do next.
    Person(usize),
    Fault,
    WebhookBack,
    ApiBack,
}

/// Runs a plan on a clock of its own. `tell` is told now and then how far it is: the hours that have passed, and how
/// often an object was looked at.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: LongPlan, tell: impl Fn(u64, u64)) -> LongOutcome {
    run_on_virtual_clock(async {
        let mut life = Life::begin(plan).await;
        let end = HOUR * u32::try_from(plan.hours).unwrap_or(u32::MAX);
        let (mut passed, mut told) = (Duration::ZERO, Duration::ZERO);
        while let Some(Reverse((at, event))) = life.events.pop() {
            if at >= end {
                break;
            }
            if at > passed {
                life.simulation.pass(at - passed).await;
                passed = at;
            }
            if passed >= told + TELL_INTERVAL {
                told = passed;
                tell(passed.as_secs() / HOUR.as_secs(), life.simulation.reconciles());
            }
            life.happens(event, passed).await;
        }
        life.end(plan).await
    })
}

struct Life {
    simulation: AccessSimulation,
    followers: Vec<Process<Follower>>,
    names: Vec<String>,
    people: Vec<Rng>,
    faults: Rng,
    events: BinaryHeap<Reverse<(Duration, LongEvent)>>,
    webhook_is_away: bool,
    api_outages: u64,
    asked: u64,
}

impl Life {
    async fn begin(plan: LongPlan) -> Self {
        let LongPlan { seed, people, .. } = plan;
        let rng = Rng::new(seed).split("long");
        let rates = Rates::draw(&mut rng.split("rates"), MAX_RATES);
        // In a thousand hours canaries every ten seconds would be most of what happens.
        let config = format!("{CONFIG}canaryInterval: 60s\n");
        let setting = Setting { seed, rates, skewed: true, config, ..Setting::default() };
        let simulation = AccessSimulation::new(setting).await;
        let names: Vec<String> = (0..people).map(|n| format!("person-{n}@example.org")).collect();
        let users: Vec<&str> = names.iter().map(String::as_str).collect();
        let terms = json!({
            "maxValidFor": "300h", "approvalTimeout": "6h", "idleTimeout": "24h",
            "firstUseTimeout": "12h", "warnBefore": "2h", "retainFor": "24h",
            "extension": {"max": 3, "step": "24h"},
        });
        for (number, some) in users.chunks(MAX_USERS).enumerate() {
            simulation.offer(&format!("incident-{number}"), some, terms.clone()).await;
        }
        let followers = (0..FOLLOWERS).map(|_| simulation.follower()).collect();
        let people: Vec<Rng> = (0..people).map(|n| rng.split(&format!("person {n}"))).collect();
        let mut life = Self {
            simulation,
            followers,
            names,
            people,
            faults: rng.split("faults"),
            events: BinaryHeap::new(),
            webhook_is_away: false,
            api_outages: 0,
            asked: 0,
        };
        for person in 0..life.people.len() {
            let first = life.people[person].below(HOUR.as_secs());
            life.comes(Duration::from_secs(first), LongEvent::Person(person));
        }
        life.comes(HOUR * 3, LongEvent::Fault);
        life
    }

    fn comes(&mut self, at: Duration, event: LongEvent) {
        self.events.push(Reverse((at, event)));
    }

    async fn happens(&mut self, event: LongEvent, now: Duration) {
        match event {
            LongEvent::Person(person) => self.person(person, now).await,
            LongEvent::Fault => self.fault(now).await,
            LongEvent::WebhookBack => {
                self.webhook_is_away = false;
                self.simulation.drivers.set_reachable(true);
            }
            LongEvent::ApiBack => {
                self.webhook_is_away = false;
                self.set_api_reachable(true);
            }
        }
    }

    /// While the API is away nobody can use anything, and nobody can be asked.
    fn set_api_reachable(&self, reachable: bool) {
        self.simulation.faults.set_reachable(reachable);
        self.simulation.drivers.set_api_reachable(reachable);
        self.simulation.drivers.set_reachable(reachable);
    }

    /// The session of a person that is not over, and its state.
    fn session_of(&self, person: usize) -> Option<(Key, Option<State>)> {
        let checker = self.simulation.checker.lock();
        let mut theirs = checker.sessions().filter(|(_, one)| one.spec.user == self.names[person]);
        let live = theirs.find(|(_, one)| !state_of(one).is_some_and(State::is_final));
        live.map(|(key, one)| (key.clone(), state_of(one)))
    }

    /// Whoever has none asks for one, which is approved a little later; whoever has one uses it now and then.
    async fn person(&mut self, person: usize, now: Duration) {
        let next = match self.session_of(person) {
            None => {
                self.request(person).await;
                MINUTE * 2
            }
            Some((key, Some(State::Pending))) => {
                self.act(APPROVER.to_owned(), &key, Verb::Approve).await;
                MINUTE
            }
            Some((key, Some(_))) => match self.people[person].below(100) {
                0 => {
                    self.act(self.names[person].clone(), &key, Verb::Extend).await;
                    MINUTE * 30
                }
                1 => {
                    self.act(self.names[person].clone(), &key, Verb::Drop).await;
                    HOUR
                }
                _ => {
                    if self.simulation.faults.is_reachable() {
                        self.simulation.uses(&self.names[person]).await;
                    }
                    self.until_next_use(person)
                }
            },
            Some((_, None)) => MINUTE,
        };
        self.comes(now + next, LongEvent::Person(person));
    }

    /// Sparse, most of the time less than may go unused, at times close to it, at times more.
    fn until_next_use(&mut self, person: usize) -> Duration {
        let rng = &mut self.people[person];
        let seconds = match rng.below(20) {
            0..=5 => rng.between(1, 600),
            6..=16 => rng.between(3600, 20 * 3600),
            // Around the deadline.
            17 | 18 => rng.between(24 * 3600 - 120, 24 * 3600 + 120),
            _ => rng.between(25 * 3600, 60 * 3600),
        };
        Duration::from_secs(seconds)
    }

    async fn request(&self, person: usize) {
        // Whoever is served by a process that is killed hears nothing more.
        if self.simulation.drivers.service(0).is_some() {
            let asked = self.simulation.request(&self.names[person]);
            let _ = timeout(ANSWER_TIMEOUT, asked).await;
        }
    }

    async fn act(&mut self, who: String, key: &Key, verb: Verb) {
        self.asked += 1;
        let Some(service) = self.simulation.drivers.service(self.asked) else { return };
        let person = super::simulation::person(&who);
        let _ = timeout(ANSWER_TIMEOUT, service.act(&person, key, verb, None)).await;
    }

    async fn fault(&mut self, now: Duration) {
        let seconds = Duration::from_secs;
        // One outage of the API is in every run, however short.
        let drawn = if self.api_outages == 0 { 2 } else { self.faults.below(10) };
        match drawn {
            0..=1 if !self.webhook_is_away => {
                self.webhook_is_away = true;
                self.simulation.drivers.set_reachable(false);
                let back = now + seconds(self.faults.between(60, 3 * 3600));
                self.comes(back, LongEvent::WebhookBack);
            }
            2 if !self.webhook_is_away => {
                self.webhook_is_away = true;
                self.api_outages += 1;
                self.set_api_reachable(false);
                let back = now + seconds(self.faults.between(30, 40 * 60));
                self.comes(back, LongEvent::ApiBack);
            }
            3 => self.simulation.faults.cut_watches(),
            4 => self.simulation.kill(seconds(*self.faults.pick(&[1, 20, 400]))),
            5 => {
                let writes = self.faults.between(1, 40);
                self.simulation.kill_after(writes, seconds(self.faults.below(120)));
            }
            6 | 7 => {
                let number = usize::try_from(self.faults.below(2)).unwrap_or(0);
                if let Some(follower) = self.followers.get(number) {
                    follower.kill();
                }
            }
            8 => {
                let after = seconds(*self.faults.pick(&[0, 2, 17]));
                self.simulation.take_over(after).await;
            }
            _ => {}
        }
        let next = seconds(self.faults.between(600, 8 * 3600));
        self.comes(now + next, LongEvent::Fault);
    }

    async fn end(self, plan: LongPlan) -> LongOutcome {
        let simulation = &self.simulation;
        self.set_api_reachable(true);
        simulation.stop_faults();
        simulation.pass(QUIET).await;
        simulation.check_end(MAX_LATENESS);
        let takeovers = simulation.takeovers() as u64;
        let followers: u64 = self.followers.iter().map(Process::starts).sum();
        let began = 1 + takeovers + self.followers.len() as u64;
        let (counts, session_hours, blind_hours) = {
            let checker = simulation.checker.lock();
            let counts = EventCounts {
                uses: checker.uses,
                notices: simulation.drivers.mail().received().len() as u64,
                idle_stops: checker.idle_expiries,
                expired: checker.expiries,
                kills: (simulation.starts() + followers).saturating_sub(began),
                takeovers,
                ..EventCounts::default()
            };
            (counts, hours(checker.active_for()), hours(checker.blind_for()))
        };
        let outcome = simulation.outcome(&plan, counts);
        LongOutcome { outcome, session_hours, blind_hours, api_outages: self.api_outages }
    }
}

fn hours(span: SignedDuration) -> f64 {
    span.as_secs_f64() / HOUR.as_secs_f64()
}
