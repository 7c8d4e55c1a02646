use std::time::Duration;

use serde_json::json;
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::{Fake, Operation, Script};
use sojourn_drivers::actuator::{Account, ActuatedMachine, Actuator as _, ActuatorError, Platform};
use tokio::time::Instant;

use super::*;
use crate::clock::VirtualClock;
use crate::cluster::actuators::ANSWER_TIMEOUT;

const SECOND: Duration = Duration::from_secs(1);
const UID: &str = "u-one";
const ACCOUNT: &str = "cloud";

struct Stage {
    fake: Arc<Fake>,
    calls: Calls,
    _work: JoinSet<()>,
}

impl Stage {
    fn new(script: Script, limits: CallLimits) -> Self {
        let fake = Fake::new(script);
        fake.record();
        let actuators = Actuators::default().with(fake.clone());
        let clock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let (calls, work) = Calls::new(actuators, clock, limits, |_| {});
        let mut running = JoinSet::new();
        running.spawn(work);
        Self { fake, calls, _work: running }
    }

    /// A cluster with machines that run.
    fn cluster(&self, name: &str, machines: usize) -> Arc<Cluster> {
        let infra_id = format!("{name}-x7k2p");
        for id in ids(machines) {
            let (state, addresses) = (MachineState::Running, Vec::new());
            let machine = ActuatedMachine { id, state, spot: false, node_name: None, addresses };
            self.fake.put(&infra_id, machine);
        }
        Arc::new(Cluster {
            key: Key::new("team", name),
            infra_id,
            platform: Platform { name: "fake".to_owned(), config: json!({}) },
            account: Account::default(),
        })
    }

    fn submit(&self, cluster: &Arc<Cluster>, operation: i64, action: Action, machines: &[String]) {
        let calls = machines.iter().map(|id| MachineCall { machine: id.clone(), action });
        self.calls.submit(UID, ACCOUNT, cluster, OperationId(operation), calls.collect());
    }

    /// What came of calls, by machine; put on record.
    fn results(&self) -> Vec<(String, Result<(), ErrorClass>)> {
        let outcomes = self.calls.outcomes(UID);
        self.calls.acknowledge(UID, &outcomes);
        assert_eq!(self.calls.outcomes(UID), [], "they are on record");
        let result = |one: &CallOutcome| one.result.clone().map_err(|failure| failure.class);
        let mut results: Vec<_> =
            outcomes.iter().map(|one| (one.machine.clone(), result(one))).collect();
        results.sort();
        results
    }

    async fn states(&self, cluster: &Cluster) -> Vec<MachineState> {
        self.fake.script(|script| *script = Script::default());
        let machines = self.fake.list(cluster).await.expect("a list");
        machines.into_iter().map(|machine| machine.state).collect()
    }

    fn requests(&self, operation: Operation) -> usize {
        self.fake.requests().iter().filter(|request| request.operation == operation).count()
    }
}

fn ids(machines: usize) -> Vec<String> {
    (0..machines).map(|number| format!("m{number}")).collect()
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn every_call_has_an_outcome_in_its_operation() {
    let stage = Stage::new(Script::default(), CallLimits::default());
    let cluster = stage.cluster("one", 2);
    stage.submit(&cluster, 7, Action::Stop, &ids(2));
    assert_eq!(stage.calls.in_flight(UID), 2);
    seconds(1).await;
    assert_eq!(stage.calls.in_flight(UID), 0);
    assert!(stage.calls.outcomes(UID).iter().all(|one| one.operation == OperationId(7)));
    assert_eq!(stage.results(), [("m0".to_owned(), Ok(())), ("m1".to_owned(), Ok(()))]);
    assert_eq!(stage.states(&cluster).await, [MachineState::Stopped, MachineState::Stopped]);
}

/// Whichever call fails, and whether before its effect or after it: called again, everything is stopped.
#[tokio::test(start_paused = true)]
async fn a_failure_of_every_single_call_is_told_and_the_call_can_be_repeated() {
    for class in ErrorClass::ALL {
        for (failures, lost_answers) in [(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (1, 2)] {
            let failure = Some(ActuatorError::failed(class, "no"));
            let script = Script { failures, lost_answers, failure, ..Script::default() };
            let stage = Stage::new(script, CallLimits { per_account: 1, ..CallLimits::default() });
            let cluster = stage.cluster("one", 3);
            let mut left = ids(3);
            let mut failed = Vec::new();
            for _ in 0..3 {
                stage.submit(&cluster, 1, Action::Stop, &left);
                seconds(1).await;
                let results = stage.results();
                assert_eq!(results.len(), left.len(), "each has one outcome");
                left.clear();
                for (machine, result) in results {
                    if let Err(class) = result {
                        left.push(machine);
                        failed.push(class);
                    }
                }
            }
            let lost = lost_answers.min(3) as usize;
            assert_eq!(failed.len(), failures as usize + lost);
            let of_class = failed.iter().filter(|one| **one == class).count();
            assert!(of_class >= failures as usize);
            assert_eq!(stage.states(&cluster).await, vec![MachineState::Stopped; 3]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_is_not_waited_for() {
    let script = Script { latency: 2 * ANSWER_TIMEOUT, ..Script::default() };
    let stage = Stage::new(script, CallLimits::default());
    let cluster = stage.cluster("one", 1);
    stage.submit(&cluster, 1, Action::Stop, &ids(1));
    tokio::time::sleep(ANSWER_TIMEOUT + SECOND).await;
    assert_eq!(stage.results(), [("m0".to_owned(), Err(ErrorClass::Transient))]);
}

#[tokio::test(start_paused = true)]
async fn one_bad_machine_of_a_batch_keeps_no_other_from_being_stopped() {
    let stage = Stage::new(Script { batch: 4, ..Script::default() }, CallLimits::default());
    let cluster = stage.cluster("one", 6);
    let mut machines = ids(6);
    machines.insert(1, "gone".to_owned());
    stage.submit(&cluster, 1, Action::Stop, &machines);
    seconds(1).await;
    let results = stage.results();
    assert_eq!(results.len(), 7);
    for (machine, result) in results {
        let expected = if machine == "gone" { Err(ErrorClass::NotFound) } else { Ok(()) };
        assert_eq!(result, expected, "{machine}");
    }
    // One that failed as a whole, its four machines, and the other one.
    assert_eq!(stage.requests(Operation::Stop), 6);
    assert_eq!(stage.states(&cluster).await, vec![MachineState::Stopped; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_is_lost_is_sent_again_one_by_one() {
    let script = Script { batch: 10, lost_answers: 1, ..Script::default() };
    let stage = Stage::new(script, CallLimits::default());
    let cluster = stage.cluster("one", 3);
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    seconds(1).await;
    assert!(stage.results().iter().all(|(_, result)| result.is_ok()));
    assert_eq!(stage.requests(Operation::Stop), 4);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_is_not_asked_for_each_machine() {
    for class in [ErrorClass::Auth, ErrorClass::Throttled] {
        let failure = Some(ActuatorError::failed(class, "no"));
        let script = Script { batch: 10, failures: 1, failure, ..Script::default() };
        let stage = Stage::new(script, CallLimits::default());
        let cluster = stage.cluster("one", 3);
        stage.submit(&cluster, 1, Action::Stop, &ids(3));
        seconds(1).await;
        let results = stage.results();
        assert_eq!(results.len(), 3);
        assert!(results.iter().all(|(_, result)| *result == Err(class)));
        assert_eq!(stage.requests(Operation::Stop), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn machines_are_ended_stopped_and_started_as_it_was_decided() {
    let stage = Stage::new(Script { batch: 10, ..Script::default() }, CallLimits::default());
    let cluster = stage.cluster("one", 3);
    stage.submit(&cluster, 1, Action::Stop, &ids(1));
    seconds(1).await;
    let call = |machine: &str, action| MachineCall { machine: machine.to_owned(), action };
    let calls = vec![call("m0", Action::Start), call("m1", Action::Stop), call("m2", Action::End)];
    stage.calls.submit(UID, ACCOUNT, &cluster, OperationId(1), calls);
    seconds(1).await;
    assert!(stage.results().iter().all(|(_, result)| result.is_ok()));
    let expected = [MachineState::Running, MachineState::Stopped, MachineState::Missing];
    assert_eq!(stage.states(&cluster).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_machine_has_one_call_of_an_operation_at_a_time() {
    let script = Script { latency: 10 * SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits::default());
    let cluster = stage.cluster("one", 1);
    for _ in 0..3 {
        stage.submit(&cluster, 1, Action::Stop, &ids(1));
        seconds(1).await;
    }
    seconds(20).await;
    assert_eq!(stage.requests(Operation::Stop), 1);
    stage.submit(&cluster, 1, Action::Stop, &ids(1));
    seconds(20).await;
    assert_eq!(stage.requests(Operation::Stop), 2, "it is called again when it was decided again");
}

#[tokio::test(start_paused = true)]
async fn a_later_operation_takes_the_place_of_an_earlier_one() {
    let script = Script { latency: 10 * SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { per_account: 1, ..CallLimits::default() });
    let cluster = stage.cluster("one", 3);
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    seconds(5).await;
    stage.submit(&cluster, 2, Action::Start, &ids(3));
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    seconds(60).await;
    assert_eq!(stage.requests(Operation::Stop), 1, "what had not begun is not begun");
    assert_eq!(stage.requests(Operation::Start), 3);
    let outcomes = stage.calls.outcomes(UID);
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|one| one.operation == OperationId(2)), "{outcomes:?}");
    assert_eq!(stage.states(&cluster).await, vec![MachineState::Running; 3]);
}

#[tokio::test(start_paused = true)]
async fn an_account_has_no_more_calls_under_way_than_it_may() {
    let script = Script { latency: SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { per_account: 2, ..CallLimits::default() });
    let cluster = stage.cluster("one", 10);
    let since = Instant::now();
    stage.submit(&cluster, 1, Action::Stop, &ids(10));
    while stage.calls.in_flight(UID) > 0 {
        tokio::time::sleep(SECOND / 10).await;
    }
    let took = since.elapsed();
    assert!(took >= 5 * SECOND && took < 6 * SECOND, "{took:?}");
}

/// Hive's users see starvation from about 150 clusters on.
#[tokio::test(start_paused = true)]
async fn a_thousand_clusters_that_are_toggled_at_once_do_not_wait_for_each_other() {
    let script = Script { latency: SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits::default());
    let since = Instant::now();
    for number in 0..1000 {
        let cluster = stage.cluster(&number.to_string(), 3);
        let calls = ids(3).into_iter().map(|machine| MachineCall { machine, action: Action::Stop });
        stage.calls.submit(
            &number.to_string(),
            &number.to_string(),
            &cluster,
            OperationId(1),
            calls.collect(),
        );
    }
    let in_flight =
        || (0..1000).map(|uid: i32| stage.calls.in_flight(&uid.to_string())).sum::<usize>();
    assert_eq!(in_flight(), 3000);
    while in_flight() > 0 {
        tokio::time::sleep(SECOND / 20).await;
    }
    assert!(since.elapsed() <= SECOND * 12 / 10, "{:?}", since.elapsed());
    assert_eq!(stage.requests(Operation::Stop), 3000);
}

#[tokio::test(start_paused = true)]
async fn one_slow_cluster_delays_no_other_when_few_calls_may_be_under_way() {
    let script = Script { latency: SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { concurrent: 4, per_account: 3 });
    let (large, small) = (stage.cluster("large", 100), stage.cluster("small", 1));
    stage.submit(&large, 1, Action::Stop, &ids(100));
    let call = MachineCall { machine: "m0".to_owned(), action: Action::Stop };
    stage.calls.submit("small", "small", &small, OperationId(1), vec![call]);
    tokio::time::sleep(SECOND * 3 / 2).await;
    assert_eq!(stage.calls.outcomes("small").len(), 1);
    assert!(stage.calls.in_flight(UID) > 90);
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_operation_that_is_over_are_not_begun() {
    let script = Script { latency: 10 * SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { per_account: 1, ..CallLimits::default() });
    let cluster = stage.cluster("one", 3);
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    stage.calls.keep_only(UID, Some(OperationId(1)));
    seconds(5).await;
    assert_eq!(stage.calls.in_flight(UID), 3);
    stage.calls.keep_only(UID, None);
    assert_eq!(stage.calls.in_flight(UID), 1, "one was begun");
    seconds(60).await;
    assert_eq!((stage.requests(Operation::Stop), stage.calls.in_flight(UID)), (1, 0));
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    seconds(60).await;
    assert_eq!(stage.requests(Operation::Stop), 4, "it was decided again");
}

#[tokio::test(start_paused = true)]
async fn clusters_of_one_account_take_turns() {
    let script = Script { latency: SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { per_account: 3, ..CallLimits::default() });
    let (large, small) = (stage.cluster("large", 100), stage.cluster("small", 1));
    stage.submit(&large, 1, Action::Stop, &ids(100));
    let call = MachineCall { machine: "m0".to_owned(), action: Action::Stop };
    stage.calls.submit("small", ACCOUNT, &small, OperationId(1), vec![call]);
    tokio::time::sleep(SECOND * 5 / 2).await;
    assert_eq!(stage.calls.outcomes("small").len(), 1, "it had its turn after the first three");
    assert!(stage.calls.in_flight(UID) > 90);
    assert!(!stage.calls.is_idle());
    stage.calls.limit_accounts(1000);
    tokio::time::sleep(SECOND * 5 / 2).await;
    assert_eq!(stage.calls.in_flight(UID), 0, "more may be under way now");
    assert!(stage.calls.is_idle());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_called_at_all_has_failed_and_a_later_operation_counts() {
    let stage = Stage::new(Script::default(), CallLimits::default());
    let cluster = stage.cluster("one", 1);
    let call = || vec![MachineCall { machine: "m0".to_owned(), action: Action::Stop }];
    let failure = CallFailure::new(ErrorClass::Auth, "there is no Secret");
    stage.calls.refuse(UID, ACCOUNT, &cluster, OperationId(2), call(), &failure);
    let outcomes = stage.calls.outcomes(UID);
    assert_eq!((outcomes.len(), outcomes[0].operation), (1, OperationId(2)));
    assert_eq!(outcomes[0].result, Err(failure.clone()));
    stage.calls.acknowledge(UID, &outcomes);
    stage.calls.refuse(UID, ACCOUNT, &cluster, OperationId(1), call(), &failure);
    assert!(stage.calls.outcomes(UID).is_empty(), "an earlier operation calls nobody any more");
}

#[tokio::test(start_paused = true)]
async fn of_what_is_gone_nothing_is_called_and_nothing_is_left() {
    let script = Script { latency: 10 * SECOND, ..Script::default() };
    let stage = Stage::new(script, CallLimits { per_account: 1, ..CallLimits::default() });
    let cluster = stage.cluster("one", 3);
    stage.submit(&cluster, 1, Action::Stop, &ids(3));
    seconds(5).await;
    stage.calls.forget(UID);
    seconds(60).await;
    assert_eq!(stage.requests(Operation::Stop), 1);
    assert!(stage.calls.is_empty());
    stage.submit(&cluster, 1, Action::Stop, &ids(1));
    seconds(60).await;
    stage.calls.forget(UID);
    assert!(stage.calls.is_empty());
}
