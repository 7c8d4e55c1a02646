use std::convert::Infallible;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use serde_json::json;

use super::*;
use crate::access::webhook::PeerCommonName;

/// An API with one Secret, which may fail.
#[derive(Default)]
struct FakeApi {
    token: Mutex<Option<&'static str>>,
    fails: Mutex<bool>,
}

impl FakeApi {
    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let list = request.uri().path().ends_with("/secrets");
            let api = api.clone();
            async move {
                if watch {
                    return std::future::pending().await;
                }
                let token = *api.token.lock().expect("unpoisoned");
                let fails = *api.fails.lock().expect("unpoisoned");
                let (code, answer) = match token {
                    _ if fails => {
                        (503, json!({"kind": "Status", "code": 503, "status": "Failure"}))
                    }
                    _ if list => {
                        let metadata = json!({"resourceVersion": "1"});
                        (200, json!({"kind": "SecretList", "metadata": metadata, "items": []}))
                    }
                    None => (404, json!({"kind": "Status", "code": 404, "status": "Failure"})),
                    Some(token) => {
                        let data = json!({"token": STANDARD.encode(token)});
                        (200, json!({"metadata": {"name": "callers"}, "data": data}))
                    }
                };
                let answer = Full::from(answer.to_string());
                Ok::<_, Infallible>(
                    Response::builder().status(code).body(answer).expect("an answer"),
                )
            }
        });
        Client::new(service, "default")
    }
}

fn config() -> AccessConfig {
    let text = json!({"clusters": {
        "prod": {"caller": {"tokenSecret": {"name": "callers", "key": "token"}}},
        "stage": {"caller": {"commonName": "stage-apiserver"}},
        "local": {},
    }});
    serde_json::from_value(text).expect("a configuration")
}

fn of_token(callers: &Callers, token: &str) -> Option<Arc<str>> {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
    callers.cluster_of(None, &HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

#[tokio::test(start_paused = true)]
async fn callers_follow_the_configuration_and_its_secrets() {
    let api = Arc::new(FakeApi::default());
    let configured = Arc::new(Mutex::new(Arc::new(config())));
    let (callers, changed) = (Callers::default(), Arc::new(Notify::new()));
    let watcher = CallerWatcher {
        client: api.client(),
        watching: WatchSettings::default(),
        callers: callers.clone(),
        config: {
            let configured = configured.clone();
            Box::new(move || configured.lock().expect("unpoisoned").clone())
        },
        changed: changed.clone(),
    };
    let settle = || async {
        changed.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let steps = async {
        settle().await;
        let stage = PeerCommonName("stage-apiserver".into());
        let cluster = callers.cluster_of(Some(&stage), &HeaderMap::new());
        assert_eq!(cluster.as_deref(), Some("stage"));
        assert_eq!(of_token(&callers, "first"), None, "there is no Secret");
        api.token.lock().expect("unpoisoned").replace("first\n");
        settle().await;
        assert_eq!(of_token(&callers, "first").as_deref(), Some("prod"));
        // What cannot be read stays, and is read again.
        *api.fails.lock().expect("unpoisoned") = true;
        api.token.lock().expect("unpoisoned").replace("second");
        settle().await;
        assert_eq!(of_token(&callers, "first").as_deref(), Some("prod"));
        *api.fails.lock().expect("unpoisoned") = false;
        tokio::time::sleep(RETRY_DELAY * 2).await;
        assert_eq!(of_token(&callers, "second").as_deref(), Some("prod"));
        assert_eq!(of_token(&callers, "first"), None);
        *configured.lock().expect("unpoisoned") = Arc::default();
        settle().await;
        assert_eq!(of_token(&callers, "second"), None);
        assert_eq!(callers.cluster_of(Some(&stage), &HeaderMap::new()), None);
    };
    tokio::select! {
        () = watcher.run() => panic!("it runs for ever"),
        () = steps => {}
    }
}
