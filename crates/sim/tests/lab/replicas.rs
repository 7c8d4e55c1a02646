//! Several replicas: one leads, all of them take reports.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use sojourn_api::lab::status::ActivityStatus;
use sojourn_core::lab::source;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::family::{ProgramPath, ServedFamily as _, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::GameSetup;
use sojourn_operator::gateway::Backend;
use sojourn_operator::group::Providers;
use sojourn_operator::lab::ServedLab;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::replica::ReplicaName;
use sojourn_sim::fault::{Connection, Faults, Rates};
use sojourn_sim::lab::simulation::LabSimulation;
use sojourn_sim::rng::Rng;

use crate::fixture::{DAY, HOUR, MINUTE, TICK, kept, key, simulation_with_one, status, told};

/// One process of the operator, with a connection to the API of its own.
struct Replica {
    served: ServedLab,
    tasks: Tasks,
    faults: Arc<Faults>,
    connection: Arc<Connection>,
    client: kube::Client,
}

impl Replica {
    async fn start(simulation: &LabSimulation, name: &str, rates: Rates) -> Self {
        let faults = Faults::new(rates, Rng::new(1), true, simulation.trace.clone());
        // A start that fails is another matter.
        faults.set_enabled(false);
        let connection = Connection::new(faults.clone());
        let client = connection.client(simulation.client.clone());
        let setup = Setup {
            clock: simulation.clock.clone(),
            watching: WatchSettings::default(),
            limits: Limits::default(),
            metrics: Metrics::default(),
            driver_factory: Arc::new(simulation.drivers.clone()),
            providers: Providers::default(),
            actuators: Actuators::default(),
            web: WebService { gateway: true, ..WebService::default() },
            game: GameSetup::default(),
            own_program: ProgramPath("/sojourn".to_owned()),
            replica: Some(ReplicaName::new(name)),
        };
        let mut tasks = Tasks::default();
        let served = ServedLab::start(client.clone(), setup, &mut tasks).await.expect("it serves");
        faults.set_enabled(true);
        Self { served, tasks, faults, connection, client }
    }

    /// The tasks of its term: stopping them ends it.
    async fn lead(&self) -> Tasks {
        let mut tasks = Tasks::default();
        self.served.lead(self.client.clone(), &mut tasks).await.expect("it leads");
        tasks
    }

    /// Somebody uses the instance through this replica.
    fn report(&self) {
        (self.served.activity(source::GATEWAY))(&key("one"));
    }

    /// It ends at once, and tells nobody.
    async fn kill(self) {
        self.connection.kill();
        self.tasks.stop().await;
    }

    async fn stop(self) {
        self.served.finish().await;
        self.tasks.stop().await;
    }
}

/// A simulation without its own operator, with one instance that two replicas serve; the first leads.
async fn two_replicas(rates: Rates) -> (LabSimulation, Replica, Tasks, Replica) {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.operator.want(false);
    let leader = Replica::start(&simulation, "leader", Rates::default()).await;
    let other = Replica::start(&simulation, "other", rates).await;
    let term = leader.lead().await;
    (simulation, leader, term, other)
}

async fn activity(simulation: &LabSimulation) -> ActivityStatus {
    let instance = simulation.instance(&key("one")).await.expect("it is there");
    status(&instance).activity.unwrap_or_default()
}

async fn is_running(simulation: &LabSimulation) -> bool {
    simulation.instance(&key("one")).await.expect("it is there").spec.running
}

async fn replicas(simulation: &LabSimulation) -> Vec<String> {
    let leases: Api<Lease> = Api::namespaced(simulation.client.clone(), "sojourn-system");
    let all = leases.list(&Default::default()).await.expect("a list").items;
    all.iter().filter_map(|lease| lease.labels().get("sojourn.dev/replica").cloned()).collect()
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_has_read_what_was_written_while_its_watches_were_silent() {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.operator.want(false);
    let next = Replica::start(&simulation, "next", Rates::default()).await;
    let found = || next.served.web().gateway.expect("a gateway").backends.find(&key("one"), "web");
    assert!(matches!(found(), Backend::Ready { .. }), "{:?}", found());
    next.faults.silence_watches();
    simulation.stop(&key("one")).await;
    simulation.pass(MINUTE).await;
    assert!(matches!(found(), Backend::Ready { .. }), "its watches are silent: {:?}", found());
    let term = next.lead().await;
    assert!(matches!(found(), Backend::Stopped { .. }), "{:?}", found());
    term.stop().await;
    next.kill().await;
}

/// Answers that are lost and writes that are refused change nothing of that.
#[tokio::test(start_paused = true)]
async fn use_that_was_reported_to_a_replica_that_does_not_lead_counts_and_counts_once() {
    let rates = Rates { before: 200, after: 400, conflict: 200, ..Rates::default() };
    let (simulation, leader, term, other) = two_replicas(rates).await;
    for _ in 0..20 {
        other.report();
        other.report();
        simulation.pass(HOUR * 5).await;
    }
    leader.report();
    simulation.pass(HOUR).await;
    assert!(is_running(&simulation).await, "somebody used it all the time");
    assert_eq!(told(&simulation), [""; 0], "nobody was warned");
    let found = activity(&simulation).await;
    assert_eq!(found.count, 41, "{found:?}");
    let entry = found.replicas["other"].as_ref().expect("what the other one wrote");
    assert_eq!((entry.count, entry.counted), (40, 40));
    other.stop().await;
    term.stop().await;
    leader.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_time_after_the_last_heartbeat_of_a_replica_that_was_killed_is_not_counted_as_unused() {
    let (simulation, leader, term, other) = two_replicas(Rates::default()).await;
    other.report();
    simulation.pass(HOUR * 20).await;
    let used = activity(&simulation).await.last.expect("a use").0;
    // It is used again; before that is written, the replica is gone.
    other.faults.hold(Method::PATCH);
    other.report();
    simulation.pass(MINUTE).await;
    other.kill().await;
    assert_eq!(activity(&simulation).await.last.expect("a use").0, used, "nobody knows of it");
    // Ten missed heartbeats of ten minutes each are waited for.
    for _ in 0..33 {
        simulation.pass(MINUTE * 10).await;
        assert_eq!(
            activity(&simulation).await.blind,
            None,
            "that would be written into every object"
        );
    }
    assert_eq!(told(&simulation), [""; 0], "25 hours have passed, almost two of them unseen");
    assert!(replicas(&simulation).await.iter().all(|name| name != "other"), "it was given up");
    simulation.pass(HOUR + TICK).await;
    assert_eq!(told(&simulation), ["inactivity-warning"], "the rest of the time was seen");
    term.stop().await;
    leader.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_ends_in_order_has_written_everything_and_leaves_no_gap() {
    let (simulation, leader, term, other) = two_replicas(Rates::default()).await;
    other.report();
    simulation.pass(MINUTE).await;
    let first = activity(&simulation).await.last.expect("a use");
    // The second use within a while waits for the next flush.
    other.report();
    other.stop().await;
    let found = activity(&simulation).await;
    assert!(found.last.as_ref().map(|last| last.0) > Some(first.0), "{found:?}");
    assert_eq!(replicas(&simulation).await, ["leader"]);
    simulation.pass(DAY + TICK * 2).await;
    assert_eq!(told(&simulation), ["inactivity-warning"], "there was no gap");
    term.stop().await;
    leader.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_where_the_old_one_was_and_forgets_who_is_gone() {
    let (simulation, leader, term, other) = two_replicas(Rates::default()).await;
    other.report();
    leader.report();
    simulation.pass(HOUR).await;
    assert_eq!(activity(&simulation).await.count, 2);
    term.stop().await;
    leader.report();
    leader.stop().await;
    let term = other.lead().await;
    simulation.pass(TICK).await;
    other.report();
    simulation.pass(HOUR).await;
    let found = activity(&simulation).await;
    assert_eq!(found.count, 4, "{found:?}");
    assert_eq!(found.replicas.keys().collect::<Vec<_>>(), ["other"], "the old leader is gone");
    simulation.pass(DAY).await;
    assert_eq!(told(&simulation), ["inactivity-warning"], "nobody was blind meanwhile");
    term.stop().await;
    other.stop().await;
}
