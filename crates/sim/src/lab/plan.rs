//! What happens in a month, drawn from a seed before it begins: printed, it explains a run.

use std::fmt;

use jiff::SignedDuration;
use sojourn_core::activity::Source;
use sojourn_core::lab::source;

use super::drivers::MailMode;
use super::invariants::Policy;
use super::people::Design;
use crate::fault::Rates;
use crate::kubelet::PodFailureRates;
use crate::rng::Rng;

pub const TEMPLATES: usize = 4;
pub const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
/// The template of exams: they are handed in when they end.
pub const EXAMS: usize = 3;
/// A source is blind for a whole number of these steps, because metrics are queried once per step.
pub const STEP: SignedDuration = SignedDuration::from_mins(5);
/// The highest rates at which the operator's requests fail.
const MAX_RATES: Rates = Rates { before: 30, after: 30, conflict: 40, read: 20, lost: 30 };
const MINUTES_A_DAY: u64 = 24 * 60;

/// How fast everything goes: every span of time is so many times shorter than in a usual month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(u32);

impl Pace {
    pub const USUAL: Self = Self(1);
    /// Four days have the lifespans, terms, habits and outages of three weeks.
    const HURRIED: Self = Self(6);
    /// In fewer days nothing that is lent for a usual time would expire.
    const MIN_USUAL_DAYS: u64 = 14;

    const fn for_days(days: u64) -> Self {
        if days < Self::MIN_USUAL_DAYS { Self::HURRIED } else { Self::USUAL }
    }

    /// A span of a usual month.
    pub fn of(self, span: SignedDuration) -> SignedDuration {
        SignedDuration::from_secs(span.as_secs() / i64::from(self.0))
    }

    /// How many times more happens on a day.
    const fn times(self) -> u64 {
        self.0 as u64
    }

    /// For so many days at the end nobody changes anything and nothing fails, so that what is due must be
    /// done by the end.
    const fn days_without_faults(self) -> u64 {
        if self.0 == 1 { 3 } else { 1 }
    }
}

/// One thing that somebody does, or that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedEvent {
    Use(usize, Source),
    Stop(usize),
    Start(usize),
    Keep(usize, SignedDuration),
    Delete(usize),
    /// It is lent again, if it is not there.
    Lend(usize),
    Pause(usize, bool),
    ExamEnds(usize),
    /// One stray answer that the exam has ended, which it has not.
    StrayAnswer(usize),
    Edit(usize, Policy),
    OptOut(usize, [bool; 2]),
    Configure(Options),
    IngressSees(bool),
    MetricsAway(bool),
    Mail(MailMode),
    /// The operator is killed, and stays down for so long.
    Kill(SignedDuration),
    /// It is killed right after so many more of its writes.
    KillAfter(u64, SignedDuration),
    /// It is killed for good, and another replica acts after so long.
    TakeOver(SignedDuration),
    /// From here on nothing fails and nobody changes anything.
    FaultsStop,
}

/// What is changed in `lab.yaml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub alerts: u32,
    pub interval: SignedDuration,
    /// Between the warning that something expires and its end.
    pub expiration_interval: SignedDuration,
    pub notify: bool,
}

/// Between the warning that something expires and its end, in a usual month.
const EXPIRATION_INTERVAL: SignedDuration = SignedDuration::from_hours(12);

impl Options {
    pub fn usual(pace: Pace) -> Self {
        let interval = pace.of(SignedDuration::from_hours(6));
        Self {
            alerts: 3,
            interval,
            expiration_interval: pace.of(EXPIRATION_INTERVAL),
            notify: true,
        }
    }

    pub fn yaml(&self) -> String {
        let Self { alerts, interval, expiration_interval, notify } = self;
        format!(
            "{}inactiveTerminationMaxNumberOfAlerts: {alerts}\n\
             inactiveTerminationNotificationInterval: {}s\n\
             expirationNotificationInterval: {}s\n\
             enableInactivityNotifications: {notify}\n",
            super::simulation::CONFIG,
            interval.as_secs(),
            expiration_interval.as_secs(),
        )
    }
}

/// A month.
#[derive(Debug, Clone)]
pub struct MonthPlan {
    pub seed: u64,
    pub days: u64,
    pub instances: usize,
    pub pace: Pace,
    pub rates: Rates,
    pub pod_failure_rates: PodFailureRates,
    /// Two operators run all the time, as in a failover that takes long.
    pub two_operators: bool,
    /// In order of time, since the beginning.
    pub events: Vec<(SignedDuration, PlannedEvent)>,
}

/// The templates as they are in the beginning.
pub fn designs(pace: Pace) -> [Design; TEMPLATES] {
    let days = |days: i64| Some(pace.of(SignedDuration::from_hours(24 * days)));
    let kept = Policy { persistent: true, ..Policy::default() };
    let policies = [
        Policy { stop_after: days(1), delete_after_stopped: days(2), ..kept },
        Policy { stop_after: days(1), alerts: Some(1), ..Policy::default() },
        Policy { stop_after: days(2), delete_after: days(8), ..kept },
        Policy { delete_after: days(12), ..kept },
    ];
    let design = |policy| Design { policy, environments: 1 };
    let mut designs = policies.map(design);
    designs[EXAMS].environments = 2;
    designs
}

/// Which template an instance is of.
pub const fn template_of(instance: usize) -> usize {
    // One exam in ten: each is looked at all the time.
    if instance % 10 == 9 { EXAMS } else { instance % EXAMS }
}

pub const fn namespace_of(instance: usize) -> usize {
    instance % NAMESPACES.len()
}

impl MonthPlan {
    /// So many days, at the pace that goes with their number.
    pub fn draw(seed: u64, instances: usize, days: u64) -> Self {
        Self::draw_at(Pace::for_days(days), seed, instances, days)
    }

    pub fn draw_at(pace: Pace, seed: u64, instances: usize, days: u64) -> Self {
        let mut rng = Rng::new(seed).split("plan");
        // One month in four is one in which the API never fails.
        let fails = !rng.permille(250);
        let rates = if fails { Rates::draw(&mut rng, MAX_RATES) } else { Rates::default() };
        let pod_failure_rates = PodFailureRates {
            pod_fails: rng.below(50),
            attempt_fails: rng.below(300),
            job_vanishes: rng.below(200),
        };
        let mut drawing = Drawing { rng, days, instances, pace, events: Vec::new() };
        drawing.people();
        drawing.managers();
        drawing.outages();
        drawing.takeovers(Rng::new(seed).split("takeovers"));
        let end = drawing.busy_minutes();
        drawing.at(end, PlannedEvent::FaultsStop);
        let mut events = drawing.events;
        events.sort_by_key(|(at, _)| *at);
        Self { seed, days, instances, pace, rates, pod_failure_rates, two_operators: false, events }
    }
}

impl fmt::Display for MonthPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, days, instances, rates, pod_failure_rates, events, .. } = self;
        writeln!(
            f,
            "seed {seed}: {days} days of {instances} instances, {rates:?}, {pod_failure_rates:?}"
        )?;
        for (at, event) in
            events.iter().filter(|(_, event)| !matches!(event, PlannedEvent::Use(..)))
        {
            writeln!(f, "  {at:#} {event:?}")?;
        }
        Ok(())
    }
}

struct Drawing {
    rng: Rng,
    days: u64,
    instances: usize,
    pace: Pace,
    events: Vec<(SignedDuration, PlannedEvent)>,
}

impl Drawing {
    /// The minutes in which anything may happen.
    const fn busy_minutes(&self) -> u64 {
        self.days.saturating_sub(self.pace.days_without_faults()) * MINUTES_A_DAY
    }

    fn at(&mut self, minute: u64, event: PlannedEvent) {
        let minute = i64::try_from(minute).unwrap_or(i64::MAX / 60);
        self.events.push((SignedDuration::from_mins(minute), event));
    }

    fn any_minute(&mut self) -> u64 {
        self.rng.below(self.busy_minutes())
    }

    fn hours(&mut self, low: u64, high: u64) -> SignedDuration {
        let hours = i64::try_from(self.rng.between(low, high)).unwrap_or(1);
        self.pace.of(SignedDuration::from_hours(hours))
    }

    fn people(&mut self) {
        for instance in 0..self.instances {
            // Some use theirs every day, some now and then, some have forgotten it.
            let pause = *self.rng.pick(&[300, 1500, 3000, 6000]) / self.pace.times();
            let mut minute = self.rng.below(pause);
            while minute < self.busy_minutes() {
                let source = *self.rng.pick(&[source::GATEWAY, source::NGINX]);
                self.at(minute, PlannedEvent::Use(instance, source));
                minute += self.rng.between(pause / 4, pause * 2);
            }
            for _ in 0..self.rng.below(4) {
                let event = match self.rng.below(5) {
                    0 => PlannedEvent::Stop(instance),
                    1 => PlannedEvent::Start(instance),
                    2 => PlannedEvent::Delete(instance),
                    _ => PlannedEvent::Keep(instance, self.hours(1, 40)),
                };
                let minute = self.any_minute();
                self.at(minute, event);
            }
            if self.rng.permille(100) {
                let minute = self.any_minute();
                self.at(minute, PlannedEvent::Pause(instance, true));
                let length = self.rng.between(60, 4 * MINUTES_A_DAY) / self.pace.times();
                self.at(
                    (minute + length).min(self.busy_minutes()),
                    PlannedEvent::Pause(instance, false),
                );
            }
            for _ in 0..4 {
                let minute = self.any_minute();
                self.at(minute, PlannedEvent::Lend(instance));
                let minute = self.any_minute();
                self.at(minute, PlannedEvent::Start(instance));
            }
            if template_of(instance) == EXAMS {
                let minute = self.any_minute();
                self.at(minute, PlannedEvent::StrayAnswer(instance));
                let minute = self.any_minute();
                self.at(minute, PlannedEvent::ExamEnds(instance));
            }
        }
    }

    fn managers(&mut self) {
        let designs = designs(self.pace);
        for _ in 0..self.rng.below(6) {
            let template = usize::try_from(self.rng.below(EXAMS as u64)).unwrap_or(0);
            let was = designs[template].policy;
            let stop_after = if self.rng.permille(100) { None } else { Some(self.hours(12, 72)) };
            let alerts = *self.rng.pick(&[None, Some(0), Some(1), Some(2)]);
            let policy = Policy {
                stop_after,
                delete_after_stopped: was.delete_after_stopped.map(|_| self.hours(24, 96)),
                delete_after: was.delete_after.map(|_| self.hours(120, 400)),
                alerts,
                ..was
            };
            let minute = self.any_minute();
            self.at(minute, PlannedEvent::Edit(template, policy));
        }
        for namespace in 0..NAMESPACES.len() {
            if self.rng.permille(300) {
                let minute = self.any_minute();
                let opted_out = [self.rng.permille(700), self.rng.permille(500)];
                self.at(minute, PlannedEvent::OptOut(namespace, opted_out));
                let length = self.rng.between(60, 6 * MINUTES_A_DAY) / self.pace.times();
                let end = (minute + length).min(self.busy_minutes());
                self.at(end, PlannedEvent::OptOut(namespace, [false; 2]));
            }
        }
        for _ in 0..self.rng.below(3) {
            let options = Options {
                alerts: u32::try_from(self.rng.below(4)).unwrap_or(3),
                interval: self.hours(3, 12),
                expiration_interval: self.pace.of(EXPIRATION_INTERVAL),
                notify: !self.rng.permille(200),
            };
            let minute = self.any_minute();
            self.at(minute, PlannedEvent::Configure(options));
        }
    }

    /// A stretch of time, from a whole step to a whole step.
    fn stretch(&mut self, longest: u64, from: PlannedEvent, to: PlannedEvent) {
        let step = 5;
        let minute = self.any_minute() / step * step;
        let length = self.rng.between(1, longest / self.pace.times() / step) * step;
        self.at(minute, from);
        self.at((minute + length).min(self.busy_minutes()), to);
    }

    fn outages(&mut self) {
        for _ in 0..self.rng.below(6) {
            self.stretch(
                2 * MINUTES_A_DAY,
                PlannedEvent::IngressSees(false),
                PlannedEvent::IngressSees(true),
            );
        }
        for _ in 0..self.rng.below(4) {
            self.stretch(
                MINUTES_A_DAY,
                PlannedEvent::MetricsAway(true),
                PlannedEvent::MetricsAway(false),
            );
        }
        for _ in 0..self.rng.below(4) {
            let mail_mode =
                *self.rng.pick(&[MailMode::Down, MailMode::Flaky(300), MailMode::Flaky(700)]);
            self.stretch(
                3 * MINUTES_A_DAY,
                PlannedEvent::Mail(mail_mode),
                PlannedEvent::Mail(MailMode::Works),
            );
        }
        for _ in 0..self.rng.below(10) {
            let down = self.rng.pick(&[1, 60, 900, 14_400, 100_000]);
            let down = self.pace.of(SignedDuration::from_secs(*down));
            let event = if self.rng.permille(500) {
                PlannedEvent::Kill(down)
            } else {
                PlannedEvent::KillAfter(self.rng.between(1, 40), down)
            };
            let minute = self.any_minute();
            self.at(minute, event);
        }
    }

    /// With a generator of its own, so that the rest of a month does not depend on takeovers.
    fn takeovers(&mut self, mut rng: Rng) {
        for _ in 0..rng.below(4) {
            // Handed over, or waited for until the lease has run out.
            let after = SignedDuration::from_secs(*rng.pick(&[0, 2, 17]));
            let minute = rng.below(self.busy_minutes());
            self.at(minute, PlannedEvent::TakeOver(after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_for_a_usual_time_expires_in_a_hurry_too() {
        let lifespans = |days: u64| {
            let pace = Pace::for_days(days);
            let busy = SignedDuration::from_hours(24 * (days - pace.days_without_faults()) as i64);
            designs(pace).map(|design| design.policy.delete_after.is_none_or(|span| span <= busy))
        };
        assert_eq!((lifespans(4), lifespans(30)), ([true; TEMPLATES], [true; TEMPLATES]));
    }

    #[test]
    fn a_seed_draws_the_same_month() {
        let (one, two) = (MonthPlan::draw(3, 20, 30), MonthPlan::draw(3, 20, 30));
        assert_eq!(one.events, two.events);
        assert_ne!(one.events, MonthPlan::draw(4, 20, 30).events);
        assert!(one.events.is_sorted_by_key(|(at, _)| *at));
        let faults_stop =
            one.events.iter().position(|(_, event)| *event == PlannedEvent::FaultsStop).unwrap();
        assert!(
            one.events[faults_stop + 1..].iter().all(|(at, _)| *at <= one.events[faults_stop].0)
        );
    }
}
