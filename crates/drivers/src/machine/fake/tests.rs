use futures::FutureExt as _;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::machine::contract::{ContractHarness, suite};

struct TestProvider {
    fake: Arc<Fake>,
    uids: AtomicU64,
}

impl TestProvider {
    fn new(script: Script) -> Self {
        Self { fake: Fake::new(script), uids: AtomicU64::new(0) }
    }

    fn new_request(&self, name: &str) -> CreateRequest {
        let uid = format!("uid-{}", self.uids.fetch_add(1, Ordering::Relaxed));
        CreateRequest { key: Key::new("team", name), uid, group: None, config: self.good() }
    }

    fn power(&self, request: &CreateRequest) -> Known<Power> {
        match self.fake.status(request.machine()) {
            Known::Is(status) => Known::Is(status.machine.power),
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        }
    }
}

impl ContractHarness for TestProvider {
    fn provider(&self) -> &dyn Provider {
        &*self.fake
    }

    fn good(&self) -> Value {
        json!({"image": "v1"})
    }

    fn bad(&self) -> Value {
        json!({"image": "v1", "colour": "blue"})
    }

    fn request<'a>(&'a self, name: &'a str) -> BoxFuture<'a, CreateRequest> {
        std::future::ready(self.new_request(name)).boxed()
    }

    fn lose<'a>(&'a self, request: &'a CreateRequest) -> BoxFuture<'a, ()> {
        self.fake.lose(&request.key);
        std::future::ready(()).boxed()
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        std::future::ready(self.fake.machines().len()).boxed()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract() {
    suite(&TestProvider::new(Script::default())).await;
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract_when_everything_takes_its_time() {
    let script = Script {
        latency: 2 * SECOND,
        boot: 30 * SECOND,
        stop: 10 * SECOND,
        lag: 5 * SECOND,
        ..Script::default()
    };
    suite(&TestProvider::new(script)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_shows_after_a_while_and_runs_after_its_boot() {
    let script = Script { boot: 30 * SECOND, lag: 5 * SECOND, ..Script::default() };
    let test = TestProvider::new(script);
    let request = test.new_request("slow");
    test.fake.create(&request).await.unwrap();
    assert_eq!(test.power(&request), Known::Absent);
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(test.power(&request), Known::Is(Power::Pending));
    tokio::time::sleep(25 * SECOND).await;
    assert_eq!(test.power(&request), Known::Is(Power::Running));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_machine_and_a_refusal_leaves_none() {
    let test = TestProvider::new(Script { lost_answers: 1, quota: Some(1), ..Script::default() });
    let request = test.new_request("one");
    let lost = test.fake.create(&request).await;
    assert!(matches!(lost, Err(ProviderError::Failed(_))), "{lost:?}");
    assert_eq!(test.fake.machines(), std::slice::from_ref(&request.key));
    assert_eq!(test.fake.create(&request).await, Ok("fake://1".to_owned()));
    let refused = test.fake.create(&test.new_request("two")).await;
    assert_eq!(refused, Err(ProviderError::Refused("the quota is used up".to_owned())));
    assert_eq!(test.fake.machines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_nothing_is_known_and_nothing_is_done() {
    let test = TestProvider::new(Script::default());
    let request = test.new_request("one");
    test.fake.create(&request).await.unwrap();
    let mut changes = test.fake.changes();
    test.fake.script(|script| script.outage = true);
    assert_eq!(changes.next().await, Some(ProviderChange::All));
    assert_eq!(test.power(&request), Known::Unknown);
    assert!(test.fake.delete(request.machine()).await.is_err());
    test.fake.script(|script| script.outage = false);
    assert_eq!(test.power(&request), Known::Is(Power::Running));
}

#[tokio::test(start_paused = true)]
async fn a_slow_receiver_is_told_that_everything_may_have_changed() {
    let test = TestProvider::new(Script::default());
    let mut changes = test.fake.changes();
    for _ in 0..=MAX_PENDING_CHANGES {
        test.fake.set_ready(&Key::new("team", "nobody"), true);
    }
    assert_eq!(changes.next().await, Some(ProviderChange::All));
    assert_eq!(changes.next().await, Some(ProviderChange::Machine(Key::new("team", "nobody"))));
}
