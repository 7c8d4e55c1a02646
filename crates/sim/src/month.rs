//! The run of a plan, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sojourn_core::key::Key;
use sojourn_drivers::probe::Observation;
use sojourn_drivers::probe::fake::Step;

use crate::kubelet::Luck;
use crate::outside::Mood;
use crate::people::Design;
use crate::plan::{
    Act, EXAMS, NAMESPACES, Options, Pace, Plan, designs, namespace_of, template_of,
};
use crate::truth::Truth;
use crate::truth::property::{Property, Violation};
use crate::truth::tally::Tally;
use crate::world::{BEGIN, Operator, Setting, World};

/// Looks at one instance on one day, on average over the month.
const MOST_LOOKS: u64 = 150;
/// How often an exam's status is looked at.
const CHECK_EVERY: SignedDuration = SignedDuration::from_hours(2);

/// What came of a month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub violations: Vec<Violation>,
    pub log: Vec<String>,
    pub tally: Tally,
    pub looks: u64,
    /// How often the engine was written to.
    pub writes: u64,
    /// Of every write, notice and upload.
    pub fingerprint: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { violations, tally, looks, writes, fingerprint, .. } = self;
        writeln!(f, "{looks} looks, {writes} writes, {fingerprint:016x}: {tally}")?;
        for violation in violations {
            writeln!(f, "{violation}")?;
        }
        Ok(())
    }
}

/// Runs a plan on a clock of its own.
///
/// # Panics
/// If no runtime can be made, or people cannot do what they always can.
pub fn run(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    runtime.block_on(async {
        let mut month = Month::begin(plan).await;
        for (at, act) in &plan.acts {
            month.go_to(*at).await;
            month.act(*act).await;
        }
        let days = i64::try_from(plan.days).unwrap_or(30);
        month.go_to(SignedDuration::from_hours(24 * days)).await;
        month.end(plan)
    })
}

struct Month {
    world: World,
    _second: Option<Operator>,
    designs: Vec<Design>,
    pace: Pace,
    calm: Timestamp,
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
    async fn begin(plan: &Plan) -> Self {
        let setting = Setting {
            seed: plan.seed,
            rates: plan.rates,
            config: Options::usual(plan.pace).yaml(),
            ..Setting::default()
        };
        let world = World::new(setting).await;
        world.kubelet.set_luck(plan.luck);
        for namespace in NAMESPACES.into_iter().chain(["templates"]) {
            world.make_namespace(namespace).await;
        }
        world.make_tenant().await;
        let designs = designs(plan.pace).to_vec();
        for (index, design) in designs.iter().enumerate() {
            world.make_template(&template_key(index), design).await;
        }
        let second = plan.two_operators.then(|| world.second_operator());
        let ended = BTreeMap::new();
        let pace = plan.pace;
        let month = Self { world, _second: second, designs, pace, calm: BEGIN, ended };
        for instance in 0..plan.instances {
            month.lend(instance).await;
        }
        month
    }

    async fn lend(&self, instance: usize) {
        let key = instance_key(instance);
        if self.world.instance(&key).await.is_some() {
            return;
        }
        let template = template_of(instance);
        let spec = if template == EXAMS {
            let every = format!("{}s", self.pace.of(CHECK_EVERY).as_secs());
            json!({
                "statusCheck": {"url": exam_url(instance), "interval": every},
                "submission": {"url": "https://hand-in.example/", "when": "OnTermination"},
            })
        } else {
            json!({})
        };
        self.world.lend(&key, &template_key(template), spec).await;
    }

    async fn go_to(&self, at: SignedDuration) {
        let at = BEGIN.checked_add(at).unwrap_or(BEGIN);
        let span = at.duration_since(self.world.now());
        if let Ok(span) = Duration::try_from(span) {
            self.world.pass(span).await;
        }
    }

    async fn act(&mut self, act: Act) {
        let world = &self.world;
        match act {
            Act::Use(instance, source) => {
                let key = instance_key(instance);
                let runs = world.truth.lock().life(&key).is_some_and(|life| life.running);
                if runs {
                    world.use_it(&key, source);
                }
            }
            Act::Stop(instance) => world.stop(&instance_key(instance)).await,
            Act::Start(instance) => {
                if !self.ended.contains_key(&instance) {
                    world.start(&instance_key(instance)).await;
                }
            }
            Act::Keep(instance, span) => {
                let until = world.now().checked_add(span).unwrap_or(Timestamp::MAX);
                world.keep(&instance_key(instance), until).await;
            }
            Act::Delete(instance) => world.remove(&instance_key(instance)).await,
            Act::Lend(instance) => self.lend(instance).await,
            Act::Pause(instance, paused) => world.pause(&instance_key(instance), paused).await,
            Act::ExamEnds(instance) => {
                world.truth.lock().exam_ends(&instance_key(instance));
                world.outside.probe.set(exam_url(instance), Observation::Ends);
                self.ended.insert(instance, true);
            }
            Act::Stray(instance) => {
                if !self.ended.contains_key(&instance) {
                    let steps = [Observation::Ends, Observation::Keeps { deadline: None }];
                    world.outside.probe.script(exam_url(instance), steps.map(Step::answer));
                }
            }
            Act::Edit(template, policy) => {
                self.designs[template].policy = policy;
                world.edit_template(&template_key(template), &self.designs[template]).await;
            }
            Act::OptOut(namespace, opted_out) => {
                world.opt_out(NAMESPACES[namespace], opted_out).await;
            }
            Act::Configure(options) => world.configure(&options.yaml()).await,
            Act::IngressSees(sees) => world.set_ingress_sees(sees),
            Act::MetricsAway(away) => world.set_metrics_answer(!away),
            Act::Mail(mood) => world.outside.set_mood(mood),
            Act::Kill(down) => {
                world.set_down_for(Duration::try_from(down).unwrap_or_default());
                world.operator.kill();
            }
            Act::KillAfter(writes, down) => {
                world.set_down_for(Duration::try_from(down).unwrap_or_default());
                world.faults.kill_after(writes);
            }
            Act::TakeOver(after) => {
                self.world.take_over(Duration::try_from(after).unwrap_or_default()).await;
            }
            Act::Calm => self.calm_down(),
        }
    }

    fn calm_down(&mut self) {
        let world = &self.world;
        self.calm = world.now();
        world.faults.switch(false);
        world.faults.kill_after(0);
        world.kubelet.set_luck(Luck::default());
        world.outside.set_mood(Mood::Works);
        world.set_metrics_answer(true);
        world.set_down_for(Duration::from_secs(1));
        if !world.truth.lock().ingress_is_seeing() {
            world.set_ingress_sees(true);
        }
    }

    fn end(self, plan: &Plan) -> Outcome {
        let looks = self.world.reconciles();
        let fingerprint = self.world.trace.fingerprint();
        let mut truth = self.world.truth.lock();
        truth.judge_end(self.calm);
        for (path, last) in self.world.faults.hot() {
            truth.judge_hot(&path, &last);
        }
        let most = MOST_LOOKS * plan.days * plan.instances as u64;
        if looks > most {
            truth.judge_calm(looks, most);
        }
        Outcome {
            violations: truth.violations().to_vec(),
            log: truth.log().into_iter().chain(last_words(&truth)).collect(),
            tally: truth.tally(),
            looks,
            writes: self.world.engine.version(),
            fingerprint,
        }
    }
}

/// How the objects were in the end of which a promise was broken.
fn last_words(truth: &Truth) -> Vec<String> {
    let keys: BTreeSet<&Key> = truth.violations().iter().map(|violation| &violation.key).collect();
    let shown = |key: &Key| {
        let status = serde_json::to_string_pretty(&truth.last_seen(key)?.status).ok()?;
        Some(format!("{key}: {status}"))
    };
    keys.into_iter().filter_map(shown).collect()
}

impl Outcome {
    /// Which properties did not hold.
    pub fn broken(&self) -> Vec<Property> {
        let mut broken: Vec<_> = self.violations.iter().map(|one| one.property).collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    }
}
