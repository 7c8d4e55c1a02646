use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use sojourn_drivers::notify::{Facts, Recipient, Summary};

use super::*;
use crate::clock::SystemClock;

/// A client of an API that answers with `answer`, and the last body that it was sent.
fn api(status: u16, answer: Value) -> (Client, Arc<Mutex<Value>>) {
    let sent: Arc<Mutex<Value>> = Arc::default();
    let taken = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (taken, answer) = (taken.clone(), answer.to_string());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            *taken.lock().unwrap() = serde_json::from_slice(&body).unwrap_or_default();
            let response = Response::builder().status(status).body(Body::from(answer.into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), sent)
}

/// A channel of a family that knows the object `ns/known` alone.
fn channel(client: Client) -> EventChannel {
    let clock = Arc::new(SystemClock);
    let (events, _) =
        Events::new(client, clock, prometheus_client::metrics::counter::Counter::default());
    EventChannel::new(events, |object| {
        (object.name == "known").then(|| ObjectReference {
            kind: Some(object.kind.to_owned()),
            namespace: Some(object.namespace.clone()),
            name: Some(object.name.clone()),
            ..ObjectReference::default()
        })
    })
}

fn notice(name: &str, warning: bool) -> Notice {
    let object = ObjectName { kind: "Loan", namespace: "ns".to_owned(), name: name.to_owned() };
    let sentence = "It is due tomorrow".to_owned();
    Notice {
        copies: Vec::new(),
        id: "u-1.due".to_owned(),
        template: "due",
        to: Recipient::default(),
        facts: Facts { object, ..Facts::default() },
        summary: Summary { reason: "DueSoon", warning, sentence },
    }
}

#[tokio::test]
async fn an_event_says_what_the_family_summarized_about_its_object() {
    for (warning, severity) in [(true, "Warning"), (false, "Normal")] {
        let (client, sent) = api(201, json!({"metadata": {}, "involvedObject": {}}));
        assert_eq!(channel(client).send(&notice("known", warning)).await, Ok(()));
        let event = sent.lock().unwrap().clone();
        assert_eq!(
            event["involvedObject"],
            json!({"kind": "Loan", "namespace": "ns", "name": "known"})
        );
        assert_eq!(event["type"], severity);
        assert_eq!(event["reason"], "DueSoon");
        assert_eq!(event["message"], "It is due tomorrow");
    }
}

#[tokio::test]
async fn what_cannot_be_said_now_may_be_said_later() {
    let (client, _) = api(500, json!({"kind": "Status", "code": 500, "message": "no disk"}));
    let channel = channel(client);
    let error = channel.send(&notice("gone", true)).await.unwrap_err();
    assert_eq!(error, SendError::Transient("ns/gone is not there to be spoken of".to_owned()));
    let error = channel.send(&notice("known", true)).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot write the Event: "), "{error}");
    assert!(!error.is_permanent());
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_a_channel_that_says_so() {
    let secret = json!({"metadata": {"name": "hooks"}, "data": {"url": "aHR0cHM6Ly94Cg=="}});
    let (client, _) = api(200, secret);
    let key = |key: &str| SecretKey { name: "hooks".to_owned(), key: key.to_owned() };
    let (good, bad) = (key("url"), key("uri"));
    let (secrets, broken) = ChannelSecrets::read(&client, Some(&good), Some(&bad)).await;
    assert_eq!((secrets.webhook_url.as_deref(), secrets.slack_url), (Some("https://x"), None));
    let [broken] = &broken[..] else { panic!("{broken:?}") };
    let error = broken.send(&notice("known", true)).await.unwrap_err();
    let problem = "sojourn-system/hooks has no key uri";
    assert_eq!((broken.name(), error), ("slack", SendError::Transient(problem.to_owned())));
    let (none, broken) = ChannelSecrets::read(&client, None, None).await;
    assert!(none.webhook_url.is_none() && broken.is_empty());
}
