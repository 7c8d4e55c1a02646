//! The run of a plan, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sojourn_core::key::Key;
use sojourn_drivers::probe::Observation;
use sojourn_drivers::probe::fake::Step;

use super::Lab;
use super::drivers::MailMode;
use super::invariants::InstanceChecker;
use super::people::Design;
use super::plan::{
    EXAMS, MonthPlan, NAMESPACES, Options, Pace, PlannedEvent, designs, namespace_of, template_of,
};
use super::simulation::{LabSimulation, Setting};
use crate::kubelet::PodFailureRates;
use crate::outcome::SimulationOutcome;
use crate::process::Process;
use crate::simulated_api::BEGIN;
use crate::simulation::{Checker as _, Replica, run_on_virtual_clock};

/// Looks at one instance on one day, on average over the month.
const MAX_LOOKS_PER_DAY: u64 = 150;
/// How often an exam's status is looked at.
const CHECK_INTERVAL: SignedDuration = SignedDuration::from_hours(2);

/// Runs a plan on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: &MonthPlan) -> SimulationOutcome {
    run_on_virtual_clock(async {
        let mut month = Month::begin(plan).await;
        for (at, event) in &plan.events {
            month.go_to(*at).await;
            month.apply(*event).await;
        }
        let days = i64::try_from(plan.days).unwrap_or(30);
        month.go_to(SignedDuration::from_hours(24 * days)).await;
        month.end(plan)
    })
}

struct Month {
    simulation: LabSimulation,
    _second: Option<Process<Replica<Lab>>>,
    designs: Vec<Design>,
    pace: Pace,
    faults_stopped_at: Timestamp,
    ended: BTreeMap<usize, bool>,
}

fn template_key(template: usize) -> Key {
    Key::new("templates", format!("t{template}"))
}

fn instance_key(instance: usize) -> Key {
    Key::new(NAMESPACES[namespace_of(instance)], format!("i{instance}"))
}

fn exam_url(instance: usize) -> String {
    format!("https://exam.example/{instance}")
}

impl Month {
    async fn begin(plan: &MonthPlan) -> Self {
        let setting = Setting {
            seed: plan.seed,
            rates: plan.rates,
            config: Options::usual(plan.pace).yaml(),
            ..Setting::default()
        };
        let simulation = LabSimulation::new(setting).await;
        simulation.kubelet.set_pod_failure_rates(plan.pod_failure_rates);
        for namespace in NAMESPACES.into_iter().chain(["templates"]) {
            simulation.make_namespace(namespace).await;
        }
        simulation.make_tenant().await;
        let designs = designs(plan.pace).to_vec();
        for (index, design) in designs.iter().enumerate() {
            simulation.make_template(&template_key(index), design).await;
        }
        let second = plan.two_operators.then(|| simulation.second_operator());
        let ended = BTreeMap::new();
        let pace = plan.pace;
        let month =
            Self { simulation, _second: second, designs, pace, faults_stopped_at: BEGIN, ended };
        for instance in 0..plan.instances {
            month.lend(instance).await;
        }
        month
    }

    async fn lend(&self, instance: usize) {
        let key = instance_key(instance);
        if self.simulation.instance(&key).await.is_some() {
            return;
        }
        let template = template_of(instance);
        let spec = if template == EXAMS {
            let every = format!("{}s", self.pace.of(CHECK_INTERVAL).as_secs());
            json!({
                "statusCheck": {"url": exam_url(instance), "interval": every},
                "submission": {"url": "https://hand-in.example/", "when": "OnTermination"},
            })
        } else {
            json!({})
        };
        self.simulation.lend(&key, &template_key(template), spec).await;
    }

    async fn go_to(&self, at: SignedDuration) {
        let at = BEGIN.checked_add(at).unwrap_or(BEGIN);
        let span = at.duration_since(self.simulation.now());
        if let Ok(span) = Duration::try_from(span) {
            self.simulation.pass(span).await;
        }
    }

    async fn apply(&mut self, event: PlannedEvent) {
        let simulation = &self.simulation;
        match event {
            PlannedEvent::Use(instance, source) => {
                let key = instance_key(instance);
                let runs =
                    simulation.checker.lock().history(&key).is_some_and(|history| history.running);
                if runs {
                    simulation.use_it(&key, source);
                }
            }
            PlannedEvent::Stop(instance) => simulation.stop(&instance_key(instance)).await,
            PlannedEvent::Start(instance) => {
                if !self.ended.contains_key(&instance) {
                    simulation.start(&instance_key(instance)).await;
                }
            }
            PlannedEvent::Keep(instance, span) => {
                let until = simulation.now().checked_add(span).unwrap_or(Timestamp::MAX);
                simulation.keep(&instance_key(instance), until).await;
            }
            PlannedEvent::Delete(instance) => simulation.remove(&instance_key(instance)).await,
            PlannedEvent::Lend(instance) => self.lend(instance).await,
            PlannedEvent::Pause(instance, paused) => {
                simulation.pause(&instance_key(instance), paused).await;
            }
            PlannedEvent::ExamEnds(instance) => {
                simulation.checker.lock().exam_ends(&instance_key(instance));
                simulation.drivers.probe.set(exam_url(instance), Observation::Ends);
                self.ended.insert(instance, true);
            }
            PlannedEvent::StrayAnswer(instance) => {
                if !self.ended.contains_key(&instance) {
                    let steps = [Observation::Ends, Observation::Keeps { deadline: None }];
                    simulation.drivers.probe.script(exam_url(instance), steps.map(Step::answer));
                }
            }
            PlannedEvent::Edit(template, policy) => {
                self.designs[template].policy = policy;
                simulation.edit_template(&template_key(template), &self.designs[template]).await;
            }
            PlannedEvent::OptOut(namespace, opted_out) => {
                simulation.opt_out(NAMESPACES[namespace], opted_out).await;
            }
            PlannedEvent::Configure(options) => simulation.configure(&options.yaml()).await,
            PlannedEvent::IngressSees(sees) => simulation.set_ingress_sees(sees),
            PlannedEvent::MetricsAway(away) => simulation.set_metrics_answer(!away),
            PlannedEvent::Mail(mail_mode) => simulation.drivers.set_mail_mode(mail_mode),
            PlannedEvent::Kill(down) => {
                simulation.kill(Duration::try_from(down).unwrap_or_default());
            }
            PlannedEvent::KillAfter(writes, down) => {
                simulation.kill_after(writes, Duration::try_from(down).unwrap_or_default());
            }
            PlannedEvent::TakeOver(after) => {
                self.simulation.take_over(Duration::try_from(after).unwrap_or_default()).await;
            }
            PlannedEvent::FaultsStop => self.stop_faults(),
        }
    }

    fn stop_faults(&mut self) {
        let simulation = &self.simulation;
        self.faults_stopped_at = simulation.now();
        simulation.stop_faults();
        simulation.kubelet.set_pod_failure_rates(PodFailureRates::default());
        simulation.drivers.set_mail_mode(MailMode::Works);
        simulation.set_metrics_answer(true);
        if !simulation.checker.lock().ingress_is_seeing() {
            simulation.set_ingress_sees(true);
        }
    }

    fn end(self, plan: &MonthPlan) -> SimulationOutcome {
        let reconciles = self.simulation.reconciles();
        let counts = {
            let mut checker = self.simulation.checker.lock();
            checker.check_end(self.faults_stopped_at);
            for (path, last) in self.simulation.faults.hot_objects() {
                checker.check_hot_object(&path, &last);
            }
            let most = MAX_LOOKS_PER_DAY * plan.days * plan.instances as u64;
            if reconciles > most {
                checker.check_reconciles(reconciles, most);
            }
            checker.counts()
        };
        let mut outcome = self.simulation.outcome(plan, counts);
        outcome.log.extend(final_statuses(&self.simulation.checker.lock()));
        outcome
    }
}

/// The last status of every object of which an invariant was violated.
fn final_statuses(checker: &InstanceChecker) -> Vec<String> {
    let violations = checker.log().violations().iter();
    let keys: BTreeSet<&Key> = violations.map(|violation| &violation.key).collect();
    let shown = |key: &Key| {
        let status = serde_json::to_string_pretty(&checker.last_seen(key)?.status).ok()?;
        Some(format!("{key}: {status}"))
    };
    keys.into_iter().filter_map(shown).collect()
}
