use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::*;
use crate::clock::SystemClock;

/// An API that takes a while for each Event.
#[derive(Debug, Default)]
struct Api {
    written: Mutex<Vec<(String, String)>>,
    under_way: AtomicUsize,
    max_waiting: AtomicUsize,
}

const TAKES: Duration = Duration::from_millis(10);
const ROOM: usize = 100;

impl Api {
    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let now = api.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                api.max_waiting.fetch_max(now, Ordering::SeqCst);
                let body = request.into_body().collect().await.unwrap().to_bytes();
                tokio::time::sleep(TAKES).await;
                let event: Value = serde_json::from_slice(&body).unwrap();
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let said = (text(&event["involvedObject"]["name"]), text(&event["message"]));
                api.written.lock().unwrap().push(said);
                api.under_way.fetch_sub(1, Ordering::SeqCst);
                let answer = Response::builder().status(201).body(Body::from(body.to_vec()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        Client::new(service, "default")
    }
}

fn object(number: usize) -> ObjectReference {
    ObjectReference {
        name: Some(format!("o-{number}")),
        namespace: Some("ns".to_owned()),
        uid: Some(format!("u-{number}")),
        ..ObjectReference::default()
    }
}

fn say(events: &Events, object: &ObjectReference, message: &str) {
    events.publish(object, Severity::Normal, "Said", message, message);
}

#[tokio::test(start_paused = true)]
async fn several_are_written_at_once_and_those_of_one_object_in_order() {
    let api = Arc::new(Api::default());
    let (events, work) = Events::new(api.client(), Arc::new(SystemClock), Counter::default());
    for message in ["one", "two", "three"] {
        for number in 0..100 {
            say(&events, &object(number), message);
        }
    }
    let started = tokio::time::Instant::now();
    drop(events);
    work.await;
    assert!(started.elapsed() < TAKES * 300 / 5, "{:?}", started.elapsed());
    assert_eq!(api.max_waiting.load(Ordering::SeqCst), EVENT_WRITERS);
    let mut said = BTreeMap::<String, Vec<String>>::new();
    for (object, message) in api.written.lock().unwrap().drain(..) {
        said.entry(object).or_default().push(message);
    }
    assert_eq!(said.len(), 100);
    assert!(said.values().all(|said| said == &["one", "two", "three"]), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn events_without_room_are_counted_and_logged_once() {
    let api = Arc::new(Api::default());
    let left_out = Counter::default();
    let (events, work) =
        Events::with_room(api.client(), Arc::new(SystemClock), left_out.clone(), ROOM);
    for number in 0..ROOM + 50 {
        say(&events, &object(number), "x");
    }
    assert_eq!(left_out.get(), 50);
    assert_eq!(events.left_out.unlogged.load(Ordering::Relaxed), 50);
    let unlogged = events.left_out.clone();
    drop(events);
    work.await;
    assert_eq!(api.written.lock().unwrap().len(), ROOM);
    assert_eq!(unlogged.unlogged.load(Ordering::Relaxed), 0, "the log has it");
}

#[tokio::test(start_paused = true)]
async fn there_is_room_again_when_some_are_written() {
    let api = Arc::new(Api::default());
    let left_out = Counter::default();
    let (events, work) =
        Events::with_room(api.client(), Arc::new(SystemClock), left_out.clone(), ROOM);
    let work = tokio::spawn(work);
    for round in 0..3 {
        for number in 0..ROOM {
            say(&events, &object(number), &format!("round {round}"));
        }
        while events.room.available_permits() < ROOM {
            tokio::time::sleep(TAKES).await;
        }
    }
    assert_eq!(left_out.get(), 0);
    assert_eq!(api.written.lock().unwrap().len(), 3 * ROOM);
    drop(events);
    work.await.unwrap();
}
