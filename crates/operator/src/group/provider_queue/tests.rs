use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use sojourn_core::group::observed::Power;
use sojourn_drivers::machine::fake::{Fake, Script};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::operation_queue::{
    LOAD_THRESHOLD, MAX_CONCURRENT_PER_OWNER, OPERATION_TIMEOUT, VISIBILITY_TIMEOUT,
};

/// Everything is made from this.
#[derive(Debug)]
struct FixedTemplate(Value);

impl TemplateSource for FixedTemplate {
    fn create_request<'a>(
        &'a self,
        key: &'a Key,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<CreateRequest, String>> {
        let request = CreateRequest {
            key: key.clone(),
            uid: uid.to_owned(),
            group: None,
            config: self.0.clone(),
        };
        std::future::ready(Ok(request)).boxed()
    }
}

struct TestQueue {
    fake: Arc<Fake>,
    provider_queue: ProviderQueue,
    woken: mpsc::UnboundedReceiver<ReconcileKey>,
    _work: JoinSet<()>,
}

impl TestQueue {
    fn new(script: Script) -> Self {
        let (wake, woken) = mpsc::unbounded_channel();
        let (provider_queue, work) = ProviderQueue::new(move |owner| {
            wake.send(owner.clone()).expect("the test listens");
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        Self { fake: Fake::new(script), provider_queue, woken, _work: tasks }
    }

    fn submit(&self, group: &str, name: &str, kind: OperationKind) {
        self.provider_queue.submit(MachineOperation {
            owner: ReconcileKey::Group(Key::new("team", group)),
            machine: Key::new("team", name),
            uid: format!("uid-{name}"),
            id: None,
            kind,
            provider: self.fake.clone(),
            templates: Arc::new(FixedTemplate(json!({}))),
        });
    }

    fn status(&self, name: &str) -> ProviderObservation {
        let (key, uid) = (Key::new("team", name), format!("uid-{name}"));
        self.provider_queue.status(&*self.fake, MachineRef { key: &key, uid: &uid, id: None })
    }

    fn power(&self, name: &str) -> Option<Power> {
        self.status(name).status.is().map(|status| status.machine.power)
    }

    /// Waits for whoever is woken next.
    async fn woken(&mut self) -> String {
        let woken = tokio::time::timeout(Duration::from_secs(3600), self.woken.recv()).await;
        match woken.expect("somebody is woken").expect("the hands live") {
            ReconcileKey::Group(key) | ReconcileKey::Machine(key) => key.name.to_string(),
        }
    }
}

fn created(id: &str) -> Option<OperationResult> {
    Some(OperationResult::Created { id: id.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn a_result_stays_until_it_is_on_record() {
    let mut test = TestQueue::new(Script::default());
    test.submit("a", "one", OperationKind::Create);
    test.submit("a", "one", OperationKind::Create);
    assert!(test.status("one").in_flight);
    assert_eq!(test.woken().await, "a");
    let observation = test.status("one");
    assert_eq!((observation.result.clone(), observation.in_flight), (created("fake://1"), false));
    assert_eq!(test.status("one").result, observation.result, "looking takes nothing away");
    test.provider_queue.acknowledge("uid-one", &OperationResult::Deleted);
    assert_eq!(test.status("one").result, observation.result, "another answer was meant");
    test.provider_queue.acknowledge("uid-one", &observation.result.expect("there is one"));
    assert_eq!(test.status("one").result, None);
    assert!(test.provider_queue.is_empty(), "a machine at rest costs nothing");
    assert!(test.provider_queue.is_idle());
}

// case: group 45
#[tokio::test(start_paused = true)]
async fn a_slow_provider_in_one_group_delays_no_other() {
    let mut test = TestQueue::new(Script { latency: Duration::from_secs(20), ..Script::default() });
    for number in 0..1000 {
        test.submit("slow", &format!("slow-{number}"), OperationKind::Create);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(test.provider_queue.running(None), MAX_CONCURRENT_PER_OWNER);
    test.fake.script(|script| script.latency = Duration::ZERO);
    let asked = Instant::now();
    test.submit("quick", "quick-1", OperationKind::Create);
    assert_eq!(test.woken().await, "quick");
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn under_load_a_group_gets_a_few_operations() {
    let test = TestQueue::new(Script { latency: Duration::from_secs(20), ..Script::default() });
    for group in 0..8 {
        for number in 0..300 {
            test.submit(&format!("g{group}"), &format!("m{group}-{number}"), OperationKind::Create);
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(test.provider_queue.running(None), LOAD_THRESHOLD);
    test.submit("late", "late-1", OperationKind::Create);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = ReconcileKey::Group(Key::new("team", "late"));
    assert_eq!(test.provider_queue.running(Some(&late)), 1);
}

// case: group 77, 79
#[tokio::test(start_paused = true)]
async fn an_operation_that_hangs_times_out_and_can_be_submitted_again() {
    let mut test =
        TestQueue::new(Script { latency: Duration::from_secs(3600), ..Script::default() });
    let rotations_begun = Instant::now();
    test.submit("a", "one", OperationKind::Create);
    test.woken().await;
    assert_eq!(rotations_begun.elapsed(), OPERATION_TIMEOUT);
    let failed = OperationResult::Failed { message: "no answer within 30 s".to_owned() };
    assert_eq!(test.status("one").result, Some(failed));
    test.fake.script(|script| script.latency = Duration::ZERO);
    test.submit("a", "one", OperationKind::Create);
    test.woken().await;
    assert_eq!(test.status("one").result, created("fake://1"));
}

#[tokio::test(start_paused = true)]
async fn what_was_created_and_is_not_visible_yet_is_not_absent() {
    let mut test = TestQueue::new(Script { lag: Duration::from_secs(5), ..Script::default() });
    test.submit("a", "one", OperationKind::Create);
    test.woken().await;
    let observation = test.status("one");
    assert_eq!((observation.status, observation.in_flight), (Known::Unknown, true));
    test.submit("a", "one", OperationKind::Create);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let observation = test.status("one");
    assert!(!observation.in_flight);
    assert_eq!(test.power("one"), Some(Power::Running));
    tokio::time::sleep(VISIBILITY_TIMEOUT * 2).await;
    assert!(test.woken.try_recv().is_err(), "nothing happened since");
}

#[tokio::test(start_paused = true)]
async fn what_was_created_and_never_becomes_visible_is_absent_in_the_end() {
    let mut test = TestQueue::new(Script::default());
    test.fake.script(|script| script.lag = Duration::from_secs(100_000));
    let rotations_begun = Instant::now();
    test.submit("a", "one", OperationKind::Create);
    test.woken().await;
    assert_eq!(test.woken().await, "a");
    assert_eq!(rotations_begun.elapsed(), VISIBILITY_TIMEOUT);
    let observation = test.status("one");
    assert_eq!((observation.status, observation.in_flight), (Known::Absent, false));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_over_when_the_machine_is_gone() {
    let mut test = TestQueue::new(Script { stop: Duration::from_secs(10), ..Script::default() });
    test.submit("a", "one", OperationKind::Create);
    test.woken().await;
    test.submit("a", "one", OperationKind::Delete);
    test.woken().await;
    let observation = test.status("one");
    assert_eq!((observation.result, observation.in_flight), (None, true));
    assert_eq!(test.power("one"), Some(Power::Deleting));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let observation = test.status("one");
    assert_eq!((observation.status, observation.in_flight), (Known::Absent, false));
    test.submit("a", "one", OperationKind::Delete);
    test.woken().await;
    assert_eq!(test.status("one").result, Some(OperationResult::Deleted), "there was none");
}
