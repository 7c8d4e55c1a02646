use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_api::game::DedicatedGameServerCollection;
use tokio::time::timeout;

use super::super::ports::PortRegistry;
use super::*;
use crate::clock::{Clock, VirtualClock};
use crate::frame::Queue;

const SECOND: Duration = Duration::from_secs(1);
const DEAD: &str = "https://dead.example.org/";
const LIVE: &str = "https://live.example.org/";

/// Says what it was told to, and to others nothing at all.
#[derive(Debug, Default)]
struct Script {
    says: Mutex<HashMap<String, Result<Value, String>>>,
    /// Which were asked, when, and with what.
    asked: Mutex<Vec<(String, Instant, Value)>>,
}

impl Script {
    fn say(&self, url: &str, answer: Result<Value, &str>) {
        let answer = answer.map_err(str::to_owned);
        self.says.lock().expect("unpoisoned").insert(url.to_owned(), answer);
    }

    /// When one was asked, in whole seconds from then on.
    fn asked(&self, url: &str, from: Instant) -> Vec<u64> {
        let asked = self.asked.lock().expect("unpoisoned");
        let of_url = asked.iter().filter(|one| one.0 == url);
        of_url.map(|(_, at, _)| at.duration_since(from).as_secs()).collect()
    }
}

impl ScalingWebhook for Script {
    fn ask<'a>(
        &'a self,
        url: &'a str,
        _: &'a [String],
        body: Value,
    ) -> BoxFuture<'a, Result<Value, String>> {
        self.asked.lock().expect("unpoisoned").push((url.to_owned(), Instant::now(), body));
        match self.says.lock().expect("unpoisoned").get(url).cloned() {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

/// Webhooks that are asked, and whom their answers wake.
struct Asked {
    webhooks: Arc<ScalingWebhooks>,
    caches: Arc<GameCaches>,
    script: Arc<Script>,
    began: Instant,
}

impl Asked {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
        let queue = || Arc::new(Queue::new(clock.clone()));
        let ports = PortRegistry::new(20_000..=20_001);
        Self {
            webhooks: Arc::default(),
            caches: Arc::new(GameCaches::new(queue(), queue(), ports)),
            script: Arc::default(),
            began: Instant::now(),
        }
    }

    /// Does something while they are asked.
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let (webhooks, caches) = (self.webhooks.clone(), self.caches.clone());
        let asking = webhooks.run(caches, Arc::default(), self.script.clone());
        tokio::select! {
            () = asking => panic!("they are asked for ever"),
            done = work => done,
        }
    }

    fn answer(&self, collection: &DedicatedGameServerCollection) -> Option<WebhookAnswer> {
        self.webhooks.answer(&key_of(collection), &collection.spec)
    }

    /// Which collection is woken within a time.
    async fn woken(&self, within: Duration) -> Option<String> {
        let key = timeout(within, self.caches.collection_queue.next()).await.ok()?;
        self.caches.collection_queue.done(&key, None);
        Some(key.name.to_string())
    }
}

fn collection(name: &str, url: &str, interval: &str) -> DedicatedGameServerCollection {
    let object = json!({
        "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
        "metadata": {"name": name, "namespace": "play"},
        "spec": {
            "replicas": 3, "template": {"spec": {"containers": [{"name": "game"}]}},
            "podAutoScalerDetails": {
                "enabled": true, "maximumReplicas": 9,
                "terms": [{"webhook": {"url": url, "interval": interval}}],
            },
        },
        "status": {"availableReplicas": 2},
    });
    serde_json::from_value(object).expect("a collection")
}

fn key_of(collection: &DedicatedGameServerCollection) -> Key {
    Key::new("play", collection.metadata.name.as_deref().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_at_its_interval_and_wakes_its_collection_when_it_says_something_else() {
    let asked = Asked::new();
    let arena = collection("arena", LIVE, "30s");
    asked.caches.collections.admit(&key_of(&arena), Some("1"), Ok(arena.clone()), |_| {});
    asked.script.say(LIVE, Ok(json!({"replicas": 5})));
    let story = async {
        assert_eq!(asked.answer(&arena), Some(WebhookAnswer::Unknown), "nobody was asked yet");
        assert_eq!(asked.woken(SECOND).await.as_deref(), Some("arena"));
        assert_eq!(asked.answer(&arena), Some(WebhookAnswer::Replicas(5)));
        assert_eq!(asked.woken(94 * SECOND).await, None, "it says the same");
        assert_eq!(asked.script.asked(LIVE, asked.began), [0, 30, 60, 90]);
        let told = asked.script.asked.lock().expect("unpoisoned")[0].2.clone();
        let wanted = json!({
            "namespace": "play", "collection": "arena", "replicas": 3, "availableReplicas": 2,
            "health": null,
        });
        assert_eq!(told, wanted);
        // What it leaves to others, what cannot be read, and an error.
        for (says, means) in [
            (Ok(json!({})), WebhookAnswer::Abstains),
            (Ok(json!({"replicas": -1})), WebhookAnswer::Unknown),
            (Ok(json!({"replicas": 0})), WebhookAnswer::Replicas(0)),
            (Err("it is on fire"), WebhookAnswer::Unknown),
        ] {
            asked.script.say(LIVE, says);
            assert_eq!(asked.woken(31 * SECOND).await.as_deref(), Some("arena"), "{means:?}");
            assert_eq!(asked.answer(&arena), Some(means));
        }
        // It is switched off, and asked no more.
        let mut off = arena.clone();
        off.spec.pod_auto_scaler_details.as_mut().expect("details").enabled = false;
        assert_eq!(asked.answer(&off), None);
        let before = asked.script.asked(LIVE, asked.began).len();
        assert_eq!(asked.woken(95 * SECOND).await, None);
        assert_eq!(asked.script.asked(LIVE, asked.began).len(), before);
    };
    asked.during(story).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_says_nothing_delays_no_other_and_is_not_asked_twice_at_a_time() {
    let asked = Asked::new();
    let (dead, live) = (collection("dead", DEAD, "1s"), collection("live", LIVE, "1s"));
    asked.script.say(LIVE, Ok(json!({"replicas": 2})));
    let story = async {
        assert_eq!(asked.answer(&dead), Some(WebhookAnswer::Unknown));
        assert_eq!(asked.woken(2 * SECOND).await, None);
        assert_eq!(asked.answer(&live), Some(WebhookAnswer::Unknown));
        assert_eq!(asked.woken(SECOND).await.as_deref(), Some("live"), "the other one is silent");
        assert_eq!(asked.answer(&live), Some(WebhookAnswer::Replicas(2)));
        assert_eq!(asked.script.asked(DEAD, asked.began), [0]);
        assert_eq!(asked.woken(TIMEOUT + SECOND).await, None);
        assert_eq!(asked.script.asked(DEAD, asked.began), [0, 10], "after it had its time");
        assert!(asked.script.asked(LIVE, asked.began).len() >= 10, "every second");
        assert_eq!(asked.answer(&dead), Some(WebhookAnswer::Unknown));
    };
    asked.during(story).await;
}

#[tokio::test(start_paused = true)]
async fn not_more_than_so_many_are_asked_at_a_time_and_everybody_has_a_turn() {
    let asked = Asked::new();
    let url = |number: usize| format!("https://{number}.example.org/");
    let all = 0..MAX_CONCURRENT_REQUESTS + 5;
    let story = async {
        for number in all.clone() {
            asked.answer(&collection(&format!("c{number}"), &url(number), "1s"));
        }
        assert_eq!(asked.woken(TIMEOUT / 2).await, None);
        let once = |number: &usize| !asked.script.asked(&url(*number), asked.began).is_empty();
        assert_eq!(all.clone().filter(once).count(), MAX_CONCURRENT_REQUESTS);
        assert_eq!(asked.woken(TIMEOUT).await, None);
        assert_eq!(all.clone().filter(once).count(), all.len(), "those who waited come first");
    };
    asked.during(story).await;
}
