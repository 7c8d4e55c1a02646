use futures::future::BoxFuture;
use serde_json::{Value, json};
use sojourn_core::cluster::{MachineState, Stopped};
use sojourn_core::key::Key;
use sojourn_drivers::actuator::Account;
use sojourn_drivers::actuator::fake::{Fake, Script};
use tokio::sync::broadcast;

use super::*;

fn platform(name: &str) -> Platform {
    Platform { name: name.to_owned(), config: json!({}) }
}

fn cluster(platform_name: &str) -> Cluster {
    Cluster {
        key: Key::new("team", "one"),
        infra_id: "one-x7k2p".to_owned(),
        platform: platform(platform_name),
        account: Account::default(),
    }
}

fn machine(id: &str) -> ActuatedMachine {
    ActuatedMachine {
        id: id.to_owned(),
        state: MachineState::Running,
        spot: true,
        node_name: Some("node".to_owned()),
        addresses: vec!["10.0.0.1".to_owned()],
    }
}

/// Answers every list with the same, or breaks.
#[derive(Debug)]
struct Scripted(Option<Result<Vec<ActuatedMachine>, ActuatorError>>);

impl Scripted {
    fn answer(&self) -> Result<(), ActuatorError> {
        self.0.clone().expect("it breaks").map(drop)
    }
}

impl Actuator for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == self.name()
    }

    fn check(&self, _: &Value) -> Vec<String> {
        Vec::new()
    }

    fn list<'a>(
        &'a self,
        _: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        async { self.0.clone().expect("it breaks") }.boxed()
    }

    fn stop<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async { self.answer() }.boxed()
    }

    fn start<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async { self.answer() }.boxed()
    }

    fn end<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async { self.answer() }.boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(broadcast::channel(1).1)
    }

    fn records<'a>(
        &'a self,
        _: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<InventoryMachine>, ActuatorError>> {
        async {
            let machines = self.0.clone().expect("it breaks")?;
            Ok(machines
                .into_iter()
                .map(|one| InventoryMachine::from(&observed_machine(one)))
                .collect())
        }
        .boxed()
    }
}

fn scripted(answer: Option<Result<Vec<ActuatedMachine>, ActuatorError>>) -> Actuators {
    Actuators::default().with(Arc::new(Scripted(answer)))
}

#[test]
fn a_platform_is_its_actuators_if_that_can_handle_it() {
    let actuators = Actuators::default().with(Fake::new(Script::default()));
    assert_eq!(actuators.platform(&platform("fake")), decision::Platform::Actuated(Stopped::Kept));
    for name in ["vsphere", "none", "baremetal", "pod", ""] {
        assert_eq!(actuators.platform(&platform(name)), decision::Platform::Unsupported, "{name}");
        assert_eq!(actuators.check(&platform(name)), [""; 0], "{name}");
    }
}

/// Machines of a program that is away, or of one that wants more of a config than before, are as they were.
#[tokio::test]
async fn an_actuator_that_is_away_or_refuses_is_an_outage_and_says_why() {
    let actuators = Actuators::default().with(Fake::new(Script::default()));
    let bad = Platform { config: json!({"colour": "blue"}), ..platform("fake") };
    for (platform, words) in
        [(bad, "colour: there is no such field"), (platform("exec"), "no program is run here")]
    {
        assert_eq!(actuators.platform(&platform), decision::Platform::Actuated(Stopped::Kept));
        let problems = actuators.check(&platform);
        assert!(problems[0].contains(words), "{problems:?}");
        let cluster = Cluster { platform, ..cluster("fake") };
        let Listing::Failed(listed) = actuators.list(&cluster).await else { panic!("nobody can") };
        let machines = ["i".to_owned()];
        let stopped = actuators.act(&cluster, Action::Stop, &machines).await.expect_err("as well");
        for failure in [listed, stopped] {
            assert_eq!(failure.class, ErrorClass::Refused);
            assert!(failure.message.contains(words), "{failure}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_complete_list_says_what_there_is() {
    let fake = Fake::new(Script::default());
    let actuators = Actuators::default().with(fake.clone());
    let cluster = cluster("fake");
    assert_eq!(actuators.list(&cluster).await, Listing::Listed(Vec::new()), "nothing matched");
    fake.put(&cluster.infra_id, machine("i-1"));
    let Listing::Listed(listed) = actuators.list(&cluster).await else { panic!("it is complete") };
    assert_eq!(listed, [observed_machine(machine("i-1"))]);
    assert_eq!(listed[0].name, "i-1");
    fake.script(|script| script.outage = true);
    let failed = actuators.list(&cluster).await;
    assert!(
        matches!(&failed, Listing::Failed(failure) if failure.class == ErrorClass::Transient),
        "{failed:?}"
    );
    fake.script(|script| *script = Script { lost_answers: 1, ..Script::default() });
    let failed = actuators.list(&cluster).await;
    assert!(matches!(failed, Listing::Failed(_)), "what is not known is not empty: {failed:?}");
    fake.script(|script| script.latency = ANSWER_TIMEOUT * 2);
    let failed = actuators.list(&cluster).await;
    assert!(
        matches!(&failed, Listing::Failed(failure) if failure.message.contains("no answer within 60 s")),
        "{failed:?}"
    );
    let failed = actuators.list(&Cluster { platform: platform("vsphere"), ..cluster }).await;
    assert!(
        matches!(&failed, Listing::Failed(failure) if failure.class == ErrorClass::Refused),
        "{failed:?}"
    );
}

#[tokio::test]
async fn what_breaks_or_never_ends_is_a_failure_and_ends_nobody_else() {
    let broken = scripted(None);
    let cluster = cluster("scripted");
    assert!(matches!(broken.list(&cluster).await, Listing::Failed(_)));
    assert_eq!(broken.records(&cluster).await, Known::Unknown);
    let machines = (0..=MAX_MACHINES).map(|number| machine(&number.to_string())).collect();
    let listed = scripted(Some(Ok(machines))).list(&cluster).await;
    assert!(
        matches!(&listed, Listing::Failed(failure) if failure.class == ErrorClass::Refused),
        "a cluster of so many machines is none"
    );
    let gone = ActuatedMachine { state: MachineState::Stopped, ..machine("i-1") };
    let twice = scripted(Some(Ok(vec![machine("i-1"), gone.clone()])));
    assert_eq!(twice.list(&cluster).await, Listing::Listed(vec![observed_machine(gone)]));
}

#[tokio::test]
async fn failures_keep_their_class_and_what_is_asked_for() {
    let cluster = cluster("scripted");
    for class in ErrorClass::ALL {
        let error = ActuatorError::Failed {
            class,
            message: "no\x1b[31m".repeat(1000),
            retry_after: Some(Duration::from_secs(5)),
        };
        let actuators = scripted(Some(Err(error)));
        for action in [Action::Stop, Action::Start, Action::End] {
            let failure = actuators.act(&cluster, action, &["i".to_owned()]).await.unwrap_err();
            assert_eq!(failure.class, class);
            assert_eq!(failure.retry_after, Some(SignedDuration::from_secs(5)));
            assert!(failure.message.len() <= 500 && !failure.message.contains('\x1b'));
        }
    }
    let unknown = scripted(Some(Err(ActuatorError::Unknown("the program ended".to_owned()))));
    let failure = unknown.act(&cluster, Action::Stop, &["i".to_owned()]).await.unwrap_err();
    assert_eq!(failure.class, ErrorClass::Transient, "the same can be sent again");
    assert!(failure.message.contains("unknown: the program ended"), "{failure}");
}

#[tokio::test]
async fn nothing_on_record_is_known_to_be_nothing() {
    let cluster = cluster("scripted");
    assert_eq!(scripted(Some(Ok(Vec::new()))).records(&cluster).await, Known::Absent);
    let one = scripted(Some(Ok(vec![machine("i-1")]))).records(&cluster).await;
    assert!(matches!(&one, Known::Is(records) if records[0].id == "i-1"), "{one:?}");
    let failed = scripted(Some(Err(ActuatorError::failed(ErrorClass::Auth, "401"))));
    assert_eq!(failed.records(&cluster).await, Known::Unknown);
}

#[tokio::test(start_paused = true)]
async fn changes_of_every_actuator_are_heard_and_one_that_is_gone_ends_nothing() {
    let fake = Fake::new(Script::default());
    // Its changes end at once.
    let actuators = scripted(Some(Ok(Vec::new()))).with(fake.clone());
    let (heard, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let follow = actuators.follow(|platform, change| drop(heard.send((platform, change.clone()))));
    let steps = async {
        tokio::task::yield_now().await;
        for name in ["a", "b"] {
            fake.put(name, machine("i-1"));
            let change = ActuatorChange::Cluster(name.into());
            assert_eq!(changes.recv().await, Some(("fake", change)));
        }
    };
    tokio::select! {
        () = follow => panic!("it goes on for ever"),
        () = steps => {}
    }
}
