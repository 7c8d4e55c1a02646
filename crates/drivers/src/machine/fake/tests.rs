use futures::FutureExt as _;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::machine::contract::{Bench, suite};

struct Shop {
    fake: Arc<Fake>,
    uids: AtomicU64,
}

impl Shop {
    fn new(script: Script) -> Self {
        Self { fake: Fake::new(script), uids: AtomicU64::new(0) }
    }

    fn new_order(&self, name: &str) -> Order {
        let uid = format!("uid-{}", self.uids.fetch_add(1, Ordering::Relaxed));
        Order { key: Key::new("team", name), uid, group: None, config: self.good() }
    }

    fn power(&self, order: &Order) -> Known<Power> {
        match self.fake.look(order.which()) {
            Known::Is(sight) => Known::Is(sight.found.power),
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        }
    }
}

impl Bench for Shop {
    fn provider(&self) -> &dyn Provider {
        &*self.fake
    }

    fn good(&self) -> Value {
        json!({"image": "v1"})
    }

    fn bad(&self) -> Value {
        json!({"image": "v1", "colour": "blue"})
    }

    fn order<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Order> {
        std::future::ready(self.new_order(name)).boxed()
    }

    fn lose<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, ()> {
        self.fake.lose(&order.key);
        std::future::ready(()).boxed()
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        std::future::ready(self.fake.machines().len()).boxed()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract() {
    suite(&Shop::new(Script::default())).await;
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
    suite(&Shop::new(script)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_shows_after_a_while_and_runs_after_its_boot() {
    let script = Script { boot: 30 * SECOND, lag: 5 * SECOND, ..Script::default() };
    let shop = Shop::new(script);
    let order = shop.new_order("slow");
    shop.fake.create(&order).await.unwrap();
    assert_eq!(shop.power(&order), Known::Absent);
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(shop.power(&order), Known::Is(Power::Pending));
    tokio::time::sleep(25 * SECOND).await;
    assert_eq!(shop.power(&order), Known::Is(Power::Running));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_machine_and_a_refusal_leaves_none() {
    let shop = Shop::new(Script { lost_answers: 1, quota: Some(1), ..Script::default() });
    let order = shop.new_order("one");
    let lost = shop.fake.create(&order).await;
    assert!(matches!(lost, Err(ProviderError::Failed(_))), "{lost:?}");
    assert_eq!(shop.fake.machines(), std::slice::from_ref(&order.key));
    assert_eq!(shop.fake.create(&order).await, Ok("fake://1".to_owned()));
    let refused = shop.fake.create(&shop.new_order("two")).await;
    assert_eq!(refused, Err(ProviderError::Refused("the quota is used up".to_owned())));
    assert_eq!(shop.fake.machines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_nothing_is_known_and_nothing_is_done() {
    let shop = Shop::new(Script::default());
    let order = shop.new_order("one");
    shop.fake.create(&order).await.unwrap();
    let mut changes = shop.fake.changes();
    shop.fake.script(|script| script.outage = true);
    assert_eq!(changes.next().await, Some(Change::Anybody));
    assert_eq!(shop.power(&order), Known::Unknown);
    assert!(shop.fake.delete(order.which()).await.is_err());
    shop.fake.script(|script| script.outage = false);
    assert_eq!(shop.power(&order), Known::Is(Power::Running));
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_to_listen_is_told_that_it_may_be_anybody() {
    let shop = Shop::new(Script::default());
    let mut changes = shop.fake.changes();
    for _ in 0..=MOST_CHANGES {
        shop.fake.set_ready(&Key::new("team", "nobody"), true);
    }
    assert_eq!(changes.next().await, Some(Change::Anybody));
    assert_eq!(changes.next().await, Some(Change::Machine(Key::new("team", "nobody"))));
}
