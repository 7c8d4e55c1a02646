//! What holds whatever happens: random Pods with random fates.
//!
//! A model node does what it is told, publishes every status and lets time pass; each decision on
//! the way is checked.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::history::Role;
use super::*;

/// Decisions that follow from one event at most: more is a loop.
const ROUNDS: usize = 40;

#[derive(Debug, Clone)]
enum Event {
    Pass(i64),
    /// The container with this number, counted among all of them, ends if it runs.
    Exit(usize, i32),
    /// The next start of anything fails.
    StartFails,
    Started(usize),
    Unhealthy(usize),
    ShimDies,
    NodeRestarts,
    FolderLost,
    Prepared(bool),
    Delete(i64),
    Evict(Option<i64>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (1_i64..400).prop_map(Event::Pass),
        8 => (0_usize..6, prop_oneof![Just(0), Just(1), Just(143)])
            .prop_map(|(which, code)| Event::Exit(which, code)),
        2 => Just(Event::StartFails),
        4 => (0_usize..6).prop_map(Event::Started),
        2 => (0_usize..6).prop_map(Event::Unhealthy),
        1 => Just(Event::ShimDies),
        1 => Just(Event::NodeRestarts),
        1 => Just(Event::FolderLost),
        1 => any::<bool>().prop_map(Event::Prepared),
        1 => (0_i64..60).prop_map(Event::Delete),
        1 => proptest::option::of(0_i64..60).prop_map(Event::Evict),
    ];
    proptest::collection::vec(event, 0..40)
}

fn specs() -> impl Strategy<Value = Value> {
    let policy = || prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let own = || proptest::option::of(policy());
    let probe = || json!({ "tcpSocket": { "port": 80 } });
    let container = move |name: String, own: Option<&str>, probed: bool| {
        let mut container = json!({ "name": name });
        if let Some(own) = own {
            container["restartPolicy"] = json!(own);
        }
        if probed {
            container["startupProbe"] = probe();
            container["readinessProbe"] = probe();
        }
        container
    };
    let inits = proptest::collection::vec((own(), any::<bool>()), 0..4);
    let mains = proptest::collection::vec((own(), any::<bool>()), 1..3);
    let deadline = proptest::option::weighted(0.2, 1_i64..1000);
    (policy(), inits, mains, deadline).prop_map(move |(policy, inits, mains, deadline)| {
        let listed = |kind: &str, given: Vec<(Option<&str>, bool)>| -> Vec<Value> {
            let given = given.into_iter().enumerate();
            given.map(|(n, (own, probed))| container(format!("{kind}{n}"), own, probed)).collect()
        };
        let mut spec = json!({
            "restartPolicy": policy,
            "initContainers": listed("init", inits),
            "containers": listed("main", mains),
            "terminationGracePeriodSeconds": 20,
        });
        if let Some(deadline) = deadline {
            spec["activeDeadlineSeconds"] = json!(deadline);
        }
        spec
    })
}

/// A node in model: it does what decisions say, and distrusts them.
struct Model {
    fixture: PodFixture,
    clock: i64,
    containers: Vec<(String, Role)>,
    start_fails: bool,
    /// When running containers are killed at the latest.
    kills: BTreeMap<(String, u32), Timestamp>,
    /// What was said when the whole Pod was stopped.
    deadlines: BTreeMap<(String, u32), Timestamp>,
    removed: bool,
}

impl Model {
    fn new(spec: &Value) -> Self {
        let fixture = PodFixture::new(spec);
        let spec = fixture.pod.spec.as_ref().expect("a spec");
        let inits = spec.init_containers.iter().flatten().map(|container| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            (container.name.clone(), if sidecar { Role::Sidecar } else { Role::Init })
        });
        let mains = spec.containers.iter().map(|main| (main.name.clone(), Role::Main));
        let containers = inits.chain(mains).collect();
        Self {
            fixture,
            clock: 0,
            containers,
            start_fails: false,
            kills: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            removed: false,
        }
    }

    fn role(&self, container: &str) -> Role {
        let found = self.containers.iter().find(|(name, _)| name == container);
        found.map(|(_, role)| *role).expect("a container of the Pod")
    }

    fn running(&self) -> Vec<(String, u32)> {
        let runs = self.fixture.runs.iter();
        runs.filter(|run| matches!(run.state, RunState::Running { .. }))
            .map(|run| (run.container.clone(), run.attempt))
            .collect()
    }

    fn end(&mut self, container: &str, code: i32, unseen: bool) {
        let now = at(self.clock);
        for run in self.fixture.runs.iter_mut().filter(|run| run.container == container) {
            if let RunState::Running { started_at } = run.state {
                let end = Exit { started_at, finished_at: now, unseen, ..exit(0, 0, code) };
                run.state = RunState::Ended(end);
            }
        }
    }

    fn shim_dies(&mut self) {
        if matches!(self.fixture.shim, ShimState::Running { .. }) {
            self.fixture.shim = ShimState::Ended;
            for (container, _) in self.running() {
                self.end(&container, 137, true);
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        let named = |which: usize| self.containers[which % self.containers.len()].0.clone();
        match *event {
            Event::Pass(seconds) => self.pass(seconds),
            Event::Exit(which, code) => self.end(&named(which), code, false),
            Event::StartFails => self.start_fails = true,
            Event::Started(which) => self.probe(&named(which), true),
            Event::Unhealthy(which) => self.probe(&named(which), false),
            Event::ShimDies => self.shim_dies(),
            Event::NodeRestarts => self.fixture.probes.clear(),
            Event::FolderLost => {
                self.shim_dies();
                self.fixture.shim = ShimState::Absent;
                self.fixture.runs.clear();
            }
            Event::Prepared(true) => self.fixture.preparation = Preparation::Ready,
            Event::Prepared(false) => {
                self.fixture.preparation = Preparation::Waiting {
                    container: None,
                    reason: "ContainerCreating",
                    message: "not yet".to_owned(),
                };
            }
            Event::Delete(grace) => {
                let meta = &mut self.fixture.pod.metadata;
                let end = at(self.clock + grace);
                // As the API server does: a deletion is only ever brought forward.
                if meta.deletion_timestamp.as_ref().is_none_or(|before| end < before.0) {
                    meta.deletion_timestamp = Some(end.into());
                    meta.deletion_grace_period_seconds = Some(grace);
                }
            }
            Event::Evict(grace) => {
                if self.fixture.node_termination.is_none() {
                    self.fixture = self.fixture.clone().evicted(self.clock, grace);
                }
            }
        }
    }

    /// Time goes by; whoever should have been killed by then is.
    fn pass(&mut self, seconds: i64) {
        self.clock += seconds;
        for (container, attempt) in self.running() {
            let deadline = self.kills.get(&(container.clone(), attempt));
            if deadline.is_some_and(|deadline| *deadline <= at(self.clock)) {
                self.end(&container, 137, false);
            }
        }
    }

    fn probe(&mut self, container: &str, healthy: bool) {
        for (running, attempt) in self.running() {
            if running == container {
                self.fixture = if healthy {
                    self.fixture.clone().probed(container, attempt, Some(true), Some(true))
                } else {
                    self.fixture.clone().unhealthy(container, attempt, Some(4))
                };
            }
        }
    }

    /// Decides and acts until there is nothing more to do now.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.fixture.pod.status.clone().expect("a status");
            let decision = self.fixture.publish(self.clock);
            self.check(&before, &decision);
            assert_eq!(self.fixture.decide(self.clock).status, decision.status, "it is stable");
            let quiet = decision.actions.iter().all(|action| matches!(action, Action::Stop { .. }));
            for action in decision.actions {
                self.act(action);
            }
            if quiet || self.removed {
                return;
            }
        }
        panic!("there is always more to do");
    }

    fn act(&mut self, action: Action) {
        // Nothing happens at the very same moment.
        match action {
            Action::Launch => {
                self.clock += 1;
                self.fixture.shim = ShimState::Running { since: at(self.clock) };
            }
            Action::Start { container, attempt } => {
                self.clock += 1;
                let state = if std::mem::take(&mut self.start_fails) {
                    let message = "no such file".to_owned();
                    RunState::Failed { at: at(self.clock), reason: "RunContainerError", message }
                } else {
                    RunState::Running { started_at: at(self.clock) }
                };
                self.fixture.set(&container, attempt, state);
            }
            Action::Stop { ref container, attempt, deadline, .. } => {
                let container = container.clone();
                if is_of_the_whole_pod(&action) {
                    self.deadlines.insert((container.clone(), attempt), deadline);
                }
                let kill = self.kills.entry((container, attempt)).or_insert(deadline);
                *kill = deadline.min(*kill);
            }
            Action::Conclude => self.fixture.shim = ShimState::Ended,
            Action::Remove => self.removed = true,
        }
    }

    fn check(&self, before: &PodStatus, decision: &Decision) {
        let PodFixture { pod, runs, shim, preparation, .. } = &self.fixture;
        let running = self.running();
        let deleted = pod.metadata.deletion_timestamp.is_some();
        let terminal = |status: &PodStatus| matches!(phase(status), "Succeeded" | "Failed");
        let lives = match shim {
            ShimState::Running { since } => Some(*since),
            ShimState::Absent | ShimState::Ended => None,
        };
        let attempts = |container: &str| {
            let known = runs.iter().filter(|run| run.container == container);
            known.map(|run| run.attempt).max()
        };
        let mut started = Vec::new();
        for action in &decision.actions {
            match action {
                Action::Launch => {
                    assert!(lives.is_none() && !deleted && !terminal(before));
                    assert_eq!(*preparation, Preparation::Ready);
                }
                Action::Start { container, attempt } => {
                    let since = lives.expect("only a living shim starts anything");
                    assert!(!deleted && !terminal(before), "nothing starts at the end");
                    assert_eq!(*preparation, Preparation::Ready);
                    assert!(running.iter().all(|(other, _)| other != container), "never twice");
                    assert!(!started.contains(container), "never twice at once");
                    if let Some(known) = attempts(container) {
                        assert_eq!(*attempt, known + 1);
                    }
                    if self.role(container) == Role::Init {
                        let main_began = runs.iter().any(|run| {
                            self.role(&run.container) == Role::Main && began(run) >= since
                        });
                        assert!(!main_began, "initialisation is over");
                    }
                    if self.role(container) == Role::Main {
                        let open = self.containers.iter().any(|(name, role)| {
                            *role == Role::Init && running.iter().any(|(other, _)| other == name)
                        });
                        assert!(!open, "initialisation goes on");
                    }
                    started.push(container.clone());
                }
                Action::Stop { container, attempt, deadline, .. } => {
                    let stopped = (container.clone(), *attempt);
                    assert!(running.contains(&stopped));
                    if is_of_the_whole_pod(action)
                        && let Some(before) = self.deadlines.get(&stopped)
                    {
                        assert!(deadline <= before, "a deadline does not move on");
                    }
                }
                Action::Conclude => {
                    assert!(running.is_empty() && lives.is_some());
                    assert!(deleted || terminal(&decision.status));
                }
                Action::Remove => assert!(deleted && running.is_empty() && lives.is_none()),
            }
        }
        if terminal(before) {
            assert_eq!(phase(before), phase(&decision.status), "nothing leads out of an end");
        } else if terminal(&decision.status) {
            assert!(running.is_empty(), "an end is told when nothing runs");
        }
        assert!(decision.wake.is_none_or(|wake| wake > at(self.clock)), "never in the past");
        for (name, _) in &self.containers {
            let count = |status: &PodStatus| {
                let inits = status.init_container_statuses.iter().flatten();
                let mains = status.container_statuses.iter().flatten();
                inits.chain(mains).find(|one| one.name == *name).map_or(0, |one| one.restart_count)
            };
            assert!(count(before) <= count(&decision.status), "restarts are never taken back");
        }
        if deleted && running.is_empty() {
            let expected = if lives.is_some() { Action::Conclude } else { Action::Remove };
            assert_eq!(decision.actions, [expected], "a deletion goes on");
        }
    }
}

/// Rather than of one container that a probe found unhealthy.
fn is_of_the_whole_pod(action: &Action) -> bool {
    matches!(action, Action::Stop { why, .. } if why.starts_with("Stopping"))
}

fn began(run: &Run) -> Timestamp {
    match &run.state {
        RunState::Running { started_at } => *started_at,
        RunState::Ended(exit) => exit.started_at,
        RunState::Failed { at, .. } => *at,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens(spec in specs(), events in events()) {
        let mut model = Model::new(&spec);
        model.settle();
        for event in &events {
            model.happen(event);
            model.settle();
            if model.removed {
                return Ok(());
            }
            model.clock += 1;
        }
        // In the end everything is deleted, whatever state it is in.
        model.happen(&Event::Delete(5));
        model.settle();
        for _ in 0..model.containers.len() + 1 {
            model.pass(60);
            model.settle();
        }
        prop_assert!(model.removed, "it was never removed: {:?}", model.fixture);
    }

    /// Nothing that is thinkable makes it panic, contradictions included.
    #[test]
    fn contradictions_are_no_reason_to_panic(
        spec in specs(),
        shim in 0_usize..3,
        runs in proptest::collection::vec((0_usize..6, 0_u32..4, 0_u8..4, -50_i64..50), 0..12),
        now in -10_i64..10_000,
        published in any::<bool>(),
    ) {
        let mut fixture = PodFixture::new(&spec);
        fixture.shim = [ShimState::Absent, ShimState::Running { since: at(0) }, ShimState::Ended][shim];
        let names = ["init0", "init1", "main0", "main1", "init2", "stranger"];
        for (name, attempt, kind, moment) in runs {
            let state = match kind {
                0 => RunState::Running { started_at: at(moment) },
                1 => RunState::Ended(exit(moment, -moment, i32::from(kind) - 1)),
                2 => RunState::Ended(exit(moment, moment, 1)),
                _ => RunState::Failed { at: at(moment), reason: "StartError", message: String::new() },
            };
            fixture.runs.push(Run { container: names[name].to_owned(), attempt, state });
        }
        if published {
            fixture.publish(now);
        }
        fixture.decide(now);
    }
}
