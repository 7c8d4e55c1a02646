use serde_json::{Value, json};
use sojourn_core::group::observed::Power;
use sojourn_drivers::machine::fake::{Fake, Script};
use tokio::sync::mpsc;

use super::*;

/// Everything is made from this.
#[derive(Debug)]
struct Plain(Value);

impl Blueprints for Plain {
    fn order<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<Order, String>> {
        let order =
            Order { key: key.clone(), uid: uid.to_owned(), group: None, config: self.0.clone() };
        std::future::ready(Ok(order)).boxed()
    }
}

struct Shop {
    fake: Arc<Fake>,
    hands: Hands,
    woken: mpsc::UnboundedReceiver<Owner>,
    _work: JoinSet<()>,
}

impl Shop {
    fn new(script: Script) -> Self {
        let (wake, woken) = mpsc::unbounded_channel();
        let blueprints = Arc::new(Plain(json!({})));
        let (hands, work) = Hands::new(blueprints, move |owner| {
            wake.send(owner.clone()).expect("the test listens");
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        Self { fake: Fake::new(script), hands, woken, _work: tasks }
    }

    fn give(&self, group: &str, name: &str, deed: Deed) {
        self.hands.give(Job {
            owner: Owner::Group(Key::new("team", group)),
            machine: Key::new("team", name),
            uid: format!("uid-{name}"),
            id: None,
            deed,
            provider: self.fake.clone(),
        });
    }

    fn feel(&self, name: &str) -> Grip {
        let (key, uid) = (Key::new("team", name), format!("uid-{name}"));
        self.hands.feel(&*self.fake, Which { key: &key, uid: &uid, id: None })
    }

    fn power(&self, name: &str) -> Option<Power> {
        self.feel(name).sight.is().map(|sight| sight.found.power)
    }

    /// Waits for whoever is woken next.
    async fn woken(&mut self) -> String {
        let woken = tokio::time::timeout(Duration::from_secs(3600), self.woken.recv()).await;
        match woken.expect("somebody is woken").expect("the hands live") {
            Owner::Group(key) | Owner::Itself(key) => key.name.to_string(),
        }
    }
}

fn created(id: &str) -> Option<Answer> {
    Some(Answer::Created { id: id.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn an_answer_stays_until_it_is_on_record() {
    let mut shop = Shop::new(Script::default());
    shop.give("a", "one", Deed::Create);
    shop.give("a", "one", Deed::Create);
    assert!(shop.feel("one").asked);
    assert_eq!(shop.woken().await, "a");
    let grip = shop.feel("one");
    assert_eq!((grip.answer.clone(), grip.asked), (created("fake://1"), false));
    assert_eq!(shop.feel("one").answer, grip.answer, "looking takes nothing away");
    shop.hands.taken("uid-one", &Answer::Deleted);
    assert_eq!(shop.feel("one").answer, grip.answer, "another answer was meant");
    shop.hands.taken("uid-one", &grip.answer.expect("there is one"));
    assert_eq!(shop.feel("one").answer, None);
    assert!(shop.hands.0.lock().slots.is_empty(), "a machine at rest costs nothing");
    assert!(shop.hands.is_idle() && shop.hands.0.lock().lines.is_empty());
}

// case: group 45
#[tokio::test(start_paused = true)]
async fn a_slow_provider_in_one_group_delays_no_other() {
    let mut shop = Shop::new(Script { latency: Duration::from_secs(20), ..Script::default() });
    for number in 0..1000 {
        shop.give("slow", &format!("slow-{number}"), Deed::Create);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shop.hands.0.lock().running, MOST_OF_A_GROUP);
    shop.fake.script(|script| script.latency = Duration::ZERO);
    let asked = Instant::now();
    shop.give("quick", "quick-1", Deed::Create);
    assert_eq!(shop.woken().await, "quick");
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn while_many_are_under_way_a_group_gets_a_few() {
    let shop = Shop::new(Script { latency: Duration::from_secs(20), ..Script::default() });
    for group in 0..8 {
        for number in 0..300 {
            shop.give(&format!("g{group}"), &format!("m{group}-{number}"), Deed::Create);
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shop.hands.0.lock().running, MANY_AT_ONCE);
    shop.give("late", "late-1", Deed::Create);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = shop.hands.0.lock();
    assert_eq!(state.lines[&Owner::Group(Key::new("team", "late"))].running, 1);
}

// case: group 77, 79
#[tokio::test(start_paused = true)]
async fn an_order_that_hangs_is_given_up_and_can_be_given_again() {
    let mut shop = Shop::new(Script { latency: Duration::from_secs(3600), ..Script::default() });
    let begun = Instant::now();
    shop.give("a", "one", Deed::Create);
    shop.woken().await;
    assert_eq!(begun.elapsed(), PATIENCE);
    let failed = Answer::Failed { message: "no answer within 30 s".to_owned() };
    assert_eq!(shop.feel("one").answer, Some(failed));
    shop.fake.script(|script| script.latency = Duration::ZERO);
    shop.give("a", "one", Deed::Create);
    shop.woken().await;
    assert_eq!(shop.feel("one").answer, created("fake://1"));
}

#[tokio::test(start_paused = true)]
async fn what_was_made_and_is_not_seen_yet_is_not_absent() {
    let mut shop = Shop::new(Script { lag: Duration::from_secs(5), ..Script::default() });
    shop.give("a", "one", Deed::Create);
    shop.woken().await;
    let grip = shop.feel("one");
    assert_eq!((grip.sight, grip.asked), (Known::Unknown, true));
    shop.give("a", "one", Deed::Create);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let grip = shop.feel("one");
    assert!(!grip.asked);
    assert_eq!(shop.power("one"), Some(Power::Running));
    tokio::time::sleep(SETTLING * 2).await;
    assert!(shop.woken.try_recv().is_err(), "nothing happened since");
}

#[tokio::test(start_paused = true)]
async fn what_was_made_and_never_shows_is_absent_in_the_end() {
    let mut shop = Shop::new(Script::default());
    shop.fake.script(|script| script.lag = Duration::from_secs(100_000));
    let begun = Instant::now();
    shop.give("a", "one", Deed::Create);
    shop.woken().await;
    assert_eq!(shop.woken().await, "a");
    assert_eq!(begun.elapsed(), SETTLING);
    let grip = shop.feel("one");
    assert_eq!((grip.sight, grip.asked), (Known::Absent, false));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_over_when_the_machine_is_gone() {
    let mut shop = Shop::new(Script { stop: Duration::from_secs(10), ..Script::default() });
    shop.give("a", "one", Deed::Create);
    shop.woken().await;
    shop.give("a", "one", Deed::Delete);
    shop.woken().await;
    let grip = shop.feel("one");
    assert_eq!((grip.answer, grip.asked), (None, true));
    assert_eq!(shop.power("one"), Some(Power::Deleting));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let grip = shop.feel("one");
    assert_eq!((grip.sight, grip.asked), (Known::Absent, false));
    shop.give("a", "one", Deed::Delete);
    shop.woken().await;
    assert_eq!(shop.feel("one").answer, Some(Answer::Deleted), "there was none");
}
