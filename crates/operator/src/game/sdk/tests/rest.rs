//! Agones' SDK over REST.

use std::slice;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};

use super::client::text;
use super::{Served, until, within};
use crate::game::sdk::{CounterChange, GameServerView, SdkError, SdkRequest};

const SERVER: &str = concat!(
    r#"{"object_meta":{"name":"doom-x7","namespace":"arena","uid":"8f3a","resource_version":"42","#,
    r#""generation":"3","creation_timestamp":"1900000000","deletion_timestamp":"0","#,
    r#""annotations":{"note":"a"},"labels":{"fleet":"doom"}},"#,
    r#""spec":{"health":{"disabled":false,"period_seconds":5,"failure_threshold":3,"initial_delay_seconds":7}},"#,
    r#""status":{"state":"Scheduled","address":"192.0.2.7","addresses":[],"#,
    r#""ports":[{"name":"game","port":20001}],"#,
    r#""players":{"count":"1","capacity":"2","ids":["ada"]},"#,
    r#""counters":{"rooms":{"count":"1","capacity":"10"}},"#,
    r#""lists":{"guests":{"capacity":"4","values":["eve"]}}}}"#,
);

const BARE_SERVER: &str = concat!(
    r#"{"object_meta":{"name":"","namespace":"","uid":"","resource_version":"","#,
    r#""generation":"0","creation_timestamp":"0","deletion_timestamp":"1900000000","#,
    r#""annotations":{},"labels":{}},"#,
    r#""spec":{"health":{"disabled":false,"period_seconds":0,"failure_threshold":0,"initial_delay_seconds":0}},"#,
    r#""status":{"state":"PortAllocation","address":"","addresses":[],"ports":[],"#,
    r#""players":null,"counters":{},"lists":{}}}"#,
);

impl Served {
    async fn post(&self, path: &str, body: &'static str) -> (u16, String) {
        self.ask(Method::POST, path, body).await
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(Method::GET, path, "").await
    }

    async fn ask(&self, method: Method, path: &str, body: &'static str) -> (u16, String) {
        let (status, text) = self.send(method, path, body).await;
        (status.as_u16(), text)
    }
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

fn refused(status: u16, code: u8, message: &str) -> (u16, String) {
    (status, format!(r#"{{"code":{code},"message":"{message}","details":[]}}"#))
}

#[tokio::test]
async fn a_server_says_in_which_state_it_is() {
    let served = Served::start().await;
    for (path, request) in [
        ("/ready", SdkRequest::Ready),
        ("/health", SdkRequest::Health),
        ("/allocate", SdkRequest::Allocate),
        ("/shutdown", SdkRequest::Shutdown),
    ] {
        for body in ["{}", "", r#"{"unknown":[1]}"#] {
            assert_eq!(served.post(path, body).await, ok("{}"), "{path} {body}");
            assert_eq!(served.backend.heard(), slice::from_ref(&request), "{path} {body}");
        }
        for body in ["[]", "5", "null", "{", r#"{"a":}"#] {
            let (status, text) = served.post(path, body).await;
            assert_eq!(status, 400, "{path} {body}");
            assert!(text.starts_with(r#"{"code":3,"message":"the body: "#), "{text}");
        }
        assert_eq!(served.backend.heard(), [], "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn signs_of_life_may_come_several_in_a_body() {
    let served = Served::start().await;
    assert_eq!(served.post("/health", "{}\n{} {}").await, ok("{}"));
    assert_eq!(served.backend.heard(), [SdkRequest::Health]);
    served.stop().await;
}

#[tokio::test]
async fn a_reservation_takes_seconds_as_a_string_or_a_number() {
    let served = Served::start().await;
    for (body, seconds) in
        [(r#"{"seconds":"5"}"#, 5), (r#"{"seconds":5}"#, 5), ("{}", 0), (r#"{"seconds":null}"#, 0)]
    {
        assert_eq!(served.post("/reserve", body).await, ok("{}"), "{body}");
        let reserve = SdkRequest::Reserve(SignedDuration::from_secs(seconds));
        assert_eq!(served.backend.heard(), [reserve], "{body}");
    }
    for body in [r#"{"seconds":"five"}"#, r#"{"seconds":1.5}"#, r#"{"seconds":[]}"#] {
        assert_eq!(served.post("/reserve", body).await.0, 400, "{body}");
    }
    for body in [r#"{"seconds":-1}"#, r#"{"seconds":"9223372036854775807"}"#] {
        let out_of_range = refused(400, 11, "seconds: must be from 0 to 3162240000");
        assert_eq!(served.post("/reserve", body).await, out_of_range, "{body}");
    }
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

#[tokio::test]
async fn a_server_is_told_in_agones_json() {
    let served = Served::start().await;
    assert_eq!(served.get("/gameserver").await, ok(SERVER));
    let request = Request::builder().uri("/gameserver").body(Full::default()).unwrap();
    let response = served.exchange(request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    served.backend.change(|server| {
        let deleted = Some(Timestamp::constant(1_900_000_000, 0));
        *server = GameServerView { deleted, ..GameServerView::default() };
    });
    assert_eq!(served.get("/gameserver").await, ok(BARE_SERVER));
    served.backend.forget();
    assert_eq!(served.get("/gameserver").await, refused(404, 5, "the server is not known"));
    assert_eq!(served.get("/watch/gameserver").await, refused(404, 5, "the server is not known"));
    served.stop().await;
}

/// One line, as a chunk of its own.
async fn line(body: &mut Incoming) -> String {
    let frame = within(body.frame()).await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_watch_has_a_line_for_now_and_one_for_each_change_until_the_end() {
    let served = Served::start().await;
    let request = Request::builder().uri("/watch/gameserver").body(Full::default()).unwrap();
    let response = served.exchange(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let mut body = response.into_body();
    assert_eq!(line(&mut body).await, format!("{{\"result\":{SERVER}}}\n"));
    assert_eq!(served.post("/ready", "{}").await, ok("{}"));
    let ready = SERVER.replace("Scheduled", "Ready");
    assert_eq!(line(&mut body).await, format!("{{\"result\":{ready}}}\n"));
    served.backend.change(|server| server.resource_version = "43".to_owned());
    let changed = ready.replace("42", "43");
    assert_eq!(line(&mut body).await, format!("{{\"result\":{changed}}}\n"));
    let backend = served.backend.clone();
    served.stop().await;
    assert_eq!(text(body).await, "", "it ends with the listener");
    assert_eq!(backend.watches(), 0);
}

#[tokio::test]
async fn a_watch_ends_with_its_server_and_when_its_reader_goes() {
    let served = Served::start().await;
    let watch = || Request::builder().uri("/watch/gameserver").body(Full::default()).unwrap();
    let mut stays = served.exchange(watch()).await.into_body();
    let mut goes = served.exchange(watch()).await.into_body();
    line(&mut stays).await;
    line(&mut goes).await;
    assert_eq!(served.backend.watches(), 2);
    drop(goes);
    until("the reader's watch ends", || served.backend.watches() == 1).await;
    served.backend.forget();
    assert_eq!(text(stays).await, "");
    assert_eq!(served.backend.watches(), 0);
    served.stop().await;
}

#[tokio::test]
async fn labels_and_annotations_get_agones_prefix() {
    let served = Served::start().await;
    let put = async |path, body| served.ask(Method::PUT, path, body).await;
    let body = r#"{"key":"map","value":"e1m1"}"#;
    let key = || "agones.dev/sdk-map".to_owned();
    let value = || "e1m1".to_owned();
    assert_eq!(put("/metadata/label", body).await, ok("{}"));
    assert_eq!(served.backend.heard(), [SdkRequest::SetLabel { key: key(), value: value() }]);
    assert_eq!(put("/metadata/annotation", body).await, ok("{}"));
    assert_eq!(served.backend.heard(), [SdkRequest::SetAnnotation { key: key(), value: value() }]);
    let any = r#"{"key":"map","value":"any text: {}"}"#;
    assert_eq!(put("/metadata/annotation", any).await, ok("{}"));
    assert_eq!(put("/metadata/label", r#"{"key":"map"}"#).await, ok("{}"));
    assert_eq!(served.backend.heard().len(), 2);
    let bad_value = "value: a label has at most 63 letters, digits, -, _ and .";
    assert_eq!(put("/metadata/label", any).await, refused(400, 3, bad_value));
    let bad_key = "key: must be at most 59 letters, digits, -, _ and .";
    for body in ["{}", r#"{"key":"a/b"}"#, r#"{"key":"a b"}"#, r#"{"key":"ends-"}"#] {
        assert_eq!(put("/metadata/label", body).await, refused(400, 3, bad_key), "{body}");
        assert_eq!(put("/metadata/annotation", body).await, refused(400, 3, bad_key), "{body}");
    }
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

#[tokio::test]
async fn players_come_and_go() {
    let served = Served::start().await;
    let bob = r#"{"playerID":"bob"}"#;
    assert_eq!(served.get("/alpha/player/count").await, ok(r#"{"count":"1"}"#));
    assert_eq!(served.get("/alpha/player/capacity").await, ok(r#"{"count":"2"}"#));
    assert_eq!(served.get("/alpha/player/connected/bob").await, ok(r#"{"bool":false}"#));
    assert_eq!(served.post("/alpha/player/connect", bob).await, ok(r#"{"bool":true}"#));
    assert_eq!(served.post("/alpha/player/connect", bob).await, ok(r#"{"bool":false}"#));
    assert_eq!(served.get("/alpha/player/connected/b%6Fb").await, ok(r#"{"bool":true}"#));
    assert_eq!(served.get("/alpha/player/connected").await, ok(r#"{"list":["ada","bob"]}"#));
    let full = refused(400, 11, "out of range: the server is full");
    assert_eq!(served.post("/alpha/player/connect", r#"{"playerID":"eve"}"#).await, full);
    assert_eq!(served.ask(Method::PUT, "/alpha/player/capacity", r#"{"count":5}"#).await, ok("{}"));
    assert_eq!(served.get("/alpha/player/capacity").await, ok(r#"{"count":"5"}"#));
    assert_eq!(served.post("/alpha/player/disconnect", bob).await, ok(r#"{"bool":true}"#));
    assert_eq!(served.post("/alpha/player/disconnect", bob).await, ok(r#"{"bool":false}"#));
    let missing = refused(400, 3, "playerID: is missing");
    assert_eq!(served.post("/alpha/player/connect", "{}").await, missing);
    assert_eq!(served.post("/alpha/player/disconnect", "").await, missing);
    served.backend.change(|server| server.players = None);
    assert_eq!(served.get("/alpha/player/connected").await, ok(r#"{"list":[]}"#));
    assert_eq!(served.get("/alpha/player/count").await, ok(r#"{"count":"0"}"#));
    served.stop().await;
}

#[tokio::test]
async fn counters_are_read_and_changed() {
    let served = Served::start().await;
    let path = "/v1beta1/counters/rooms";
    let patch = async |body| served.ask(Method::PATCH, path, body).await;
    assert_eq!(served.get(path).await, ok(r#"{"name":"rooms","count":"1","capacity":"10"}"#));
    let changed = patch(r#"{"count":"5","capacity":11,"name":"another"}"#).await;
    assert_eq!(changed, ok(r#"{"name":"rooms","count":"5","capacity":"11"}"#));
    let change = CounterChange { count: Some(5), capacity: Some(11), diff: 0 };
    let name = "rooms".to_owned();
    assert_eq!(served.backend.heard(), [SdkRequest::UpdateCounter { name, change }]);
    let changed = patch(r#"{"countDiff":"-2","count":null}"#).await;
    assert_eq!(changed, ok(r#"{"name":"rooms","count":"3","capacity":"11"}"#));
    let out_of_range = refused(400, 11, "out of range: count -7");
    assert_eq!(patch(r#"{"countDiff":-10}"#).await, out_of_range);
    let nothing = refused(400, 3, "one of count, capacity and countDiff must be given");
    assert_eq!(patch("{}").await, nothing);
    let unknown = refused(404, 5, "not found: counter halls");
    assert_eq!(served.get("/v1beta1/counters/halls").await, unknown);
    served.stop().await;
}

#[tokio::test]
async fn lists_are_read_and_changed() {
    let served = Served::start().await;
    let path = "/v1beta1/lists/guests";
    let list = |capacity, values| {
        ok(&format!(r#"{{"name":"guests","capacity":"{capacity}","values":{values}}}"#))
    };
    assert_eq!(served.get(path).await, list(4, r#"["eve"]"#));
    let added = served.post("/v1beta1/lists/guests:addValue", r#"{"value":"ada"}"#).await;
    assert_eq!(added, list(4, r#"["eve","ada"]"#));
    let again = served.post("/v1beta1/lists/guests:addValue", r#"{"value":"ada"}"#).await;
    assert_eq!(again, refused(409, 6, "already exists: ada"));
    let removed = served.post("/v1beta1/lists/guests:removeValue", r#"{"value":"eve"}"#).await;
    assert_eq!(removed, list(4, r#"["ada"]"#));
    let gone = served.post("/v1beta1/lists/guests:removeValue", r#"{"value":"eve"}"#).await;
    assert_eq!(gone, refused(404, 5, "not found: eve"));
    let verb = served.post("/v1beta1/lists/guests:clear", "{}").await;
    assert_eq!(verb, refused(404, 5, "Not Found"));
    let unknown = served.get("/v1beta1/lists/halls").await;
    assert_eq!(unknown, refused(404, 5, "not found: list halls"));
    served.stop().await;
}

#[tokio::test]
async fn of_a_list_only_what_is_meant_is_changed() {
    let served = Served::start().await;
    let values = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect());
    for (query, body, capacity, values) in [
        ("", r#"{"capacity":"9"}"#, Some(9), None),
        ("", r#"{"capacity":0,"values":[],"other":1}"#, Some(0), values(&[])),
        ("", r#"{"values":["x","y"]}"#, None, values(&["x", "y"])),
        ("", "{}", None, None),
        ("?updateMask=capacity", r#"{"capacity":8,"values":["z"]}"#, Some(8), None),
        ("?update_mask=values", r#"{"capacity":8}"#, None, values(&[])),
        ("?updateMask=capacity%2Cvalues", r#"{"values":["z"]}"#, Some(0), values(&["z"])),
    ] {
        let path = format!("/v1beta1/lists/guests{query}");
        assert_eq!(served.ask(Method::PATCH, &path, body).await.0, 200, "{query} {body}");
        let update = SdkRequest::UpdateList { name: "guests".to_owned(), capacity, values };
        assert_eq!(served.backend.heard(), [update], "{query} {body}");
    }
    let path = "/v1beta1/lists/guests?updateMask=size";
    let unknown = refused(400, 3, r#"update_mask: a list has no field \"size\""#);
    assert_eq!(served.ask(Method::PATCH, path, "{}").await, unknown);
    served.stop().await;
}

#[tokio::test]
async fn refusals_have_the_numbers_of_agones_gateway() {
    let served = Served::start().await;
    for (error, status, code) in [
        (SdkError::UnknownServer, 404, 5),
        (SdkError::NotFound("x".to_owned()), 404, 5),
        (SdkError::AlreadyExists("x".to_owned()), 409, 6),
        (SdkError::OutOfRange("x".to_owned()), 400, 11),
        (SdkError::Invalid("x".to_owned()), 400, 3),
        (SdkError::Unavailable("x".to_owned()), 503, 14),
        (SdkError::Conflict, 409, 10),
    ] {
        served.backend.refuse(error.clone());
        let answer = served.post("/ready", "{}").await;
        assert_eq!(answer, refused(status, code, &error.to_string()), "{error:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn paths_and_methods_that_agones_does_not_have_are_refused() {
    let served = Served::start().await;
    for path in ["/", "/readyz", "/ready/", "//ready", "/watch", "/v1beta1/lists", "/alpha/player"]
    {
        assert_eq!(served.get(path).await, refused(404, 5, "Not Found"), "{path}");
    }
    assert_eq!(served.get("/%ff").await, refused(400, 3, "the path cannot be read"));
    for path in [
        "/ready",
        "/health",
        "/metadata/label",
        "/alpha/player/connect",
        "/v1beta1/counters/rooms",
        "/v1beta1/lists/guests",
    ] {
        let answer = served.ask(Method::DELETE, path, "").await;
        assert_eq!(answer, refused(501, 12, "Method Not Allowed"), "{path}");
    }
    assert_eq!(served.post("/gameserver", "").await.0, 501);
    assert_eq!(served.post("/v1beta1/lists/guests", "{}").await.0, 501);
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

#[tokio::test]
async fn a_body_has_a_bound_and_its_type_does_not_matter() {
    let served = Served::start().await;
    let long = format!(r#"{{"key":"k","value":"{}"}}"#, "x".repeat(64 << 10));
    let (status, text) = served.send(Method::PUT, "/metadata/annotation", long).await;
    assert_eq!((status.as_u16(), text), refused(413, 8, "the body is too long"));
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "image/png"] {
        let request = Request::post("/ready").header("content-type", content_type);
        let body = Full::new(Bytes::from_static(b"{}"));
        let response = served.exchange(request.body(body).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK, "{content_type}");
    }
    served.stop().await;
}
