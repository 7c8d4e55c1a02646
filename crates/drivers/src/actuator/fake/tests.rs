use serde_json::json;
use sojourn_core::key::Key;

use super::*;
use crate::actuator::Account;
use crate::actuator::contract::{ContractHarness, suite};

const SECOND: Duration = Duration::from_secs(1);

struct TestActuator(Arc<Fake>);

fn machine(id: &str) -> ActuatedMachine {
    ActuatedMachine {
        id: id.to_owned(),
        state: MachineState::Running,
        spot: false,
        node_name: None,
        addresses: Vec::new(),
    }
}

fn cluster(name: &str) -> Cluster {
    Cluster {
        key: Key::new("team", name),
        infra_id: format!("{name}-x7k2p"),
        platform: Platform { name: NAME.to_owned(), config: json!({}) },
        account: Account::default(),
    }
}

impl ContractHarness for TestActuator {
    fn actuator(&self) -> &dyn Actuator {
        &*self.0
    }

    fn good(&self) -> Value {
        json!({})
    }

    fn bad(&self) -> Value {
        json!({"colour": "blue"})
    }

    fn cluster<'a>(&'a self, name: &'a str, machines: usize) -> BoxFuture<'a, Cluster> {
        let cluster = cluster(name);
        for number in 0..machines {
            self.0.put(&cluster.infra_id, machine(&format!("{}-{number}", cluster.infra_id)));
        }
        std::future::ready(cluster).boxed()
    }

    fn lose<'a>(&'a self, cluster: &'a Cluster, machine: &'a str) -> BoxFuture<'a, ()> {
        self.0.lose(&cluster.infra_id, machine);
        std::future::ready(()).boxed()
    }

    fn set_outage(&self, outage: bool) -> BoxFuture<'_, ()> {
        self.0.script(|script| script.outage = outage);
        std::future::ready(()).boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        // It remembers nothing: what there is is the provider's.
        std::future::ready(()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract() {
    suite(&TestActuator(Fake::new(Script::default()))).await;
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract_when_everything_takes_its_time() {
    let script =
        Script { latency: 2 * SECOND, stop: 30 * SECOND, start: 60 * SECOND, ..Script::default() };
    suite(&TestActuator(Fake::new(script))).await;
}

#[tokio::test(start_paused = true)]
async fn failures_come_before_the_effect_and_lost_answers_after_it() {
    let fake = Fake::new(Script { failures: 1, ..Script::default() });
    fake.record();
    let cluster = cluster("one");
    fake.put(&cluster.infra_id, machine("m"));
    let quota = ActuatorError::failed(ErrorClass::Quota, "used up");
    fake.script(|script| script.failure = Some(quota.clone()));
    assert_eq!(fake.stop(&cluster, "m").await, Err(quota));
    let state = async || fake.list(&cluster).await.unwrap().remove(0).state;
    assert_eq!(state().await, MachineState::Running);
    fake.script(|script| script.lost_answers = 1);
    let lost = fake.stop(&cluster, "m").await;
    assert!(matches!(lost, Err(ActuatorError::Unknown(_))), "{lost:?}");
    assert_eq!(state().await, MachineState::Stopped);
    let requests = fake.requests();
    let told: Vec<_> = requests.iter().map(|one| (one.operation, one.succeeded)).collect();
    let expected = [
        (Operation::Stop, false),
        (Operation::List, true),
        (Operation::Stop, true),
        (Operation::List, true),
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_about_several_machines_does_all_of_it_or_nothing() {
    let fake = Fake::new(Script::default());
    assert_eq!(fake.max_batch(), 1);
    fake.script(|script| script.batch = 2);
    assert_eq!(fake.max_batch(), 2);
    let cluster = cluster("one");
    for id in ["a", "b"] {
        fake.put(&cluster.infra_id, machine(id));
    }
    let ids = |ids: [&str; 2]| ids.map(str::to_owned);
    let states = async || {
        let machines = fake.list(&cluster).await.unwrap();
        machines.into_iter().map(|machine| machine.state).collect::<Vec<_>>()
    };
    let failed = fake.act_on_all(&cluster, Action::Stop, &ids(["a", "gone"])).await;
    assert!(failed.is_err());
    assert_eq!(states().await, [MachineState::Running, MachineState::Running]);
    assert_eq!(fake.act_on_all(&cluster, Action::Stop, &ids(["a", "b"])).await, Ok(()));
    assert_eq!(states().await, [MachineState::Stopped, MachineState::Stopped]);
}
