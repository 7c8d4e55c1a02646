use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn wanted() -> TokenRequestKey {
    TokenRequestKey {
        namespace: "team".to_owned(),
        account: "default".to_owned(),
        pod_name: "web".to_owned(),
        pod_uid: "1234".to_owned(),
        audience: None,
        life_seconds: 3607,
    }
}

fn answer(text: &str, life: i64, expires: Timestamp) -> TokenRequest {
    let mut answer = wanted().request();
    answer.spec.as_mut().unwrap().expiration_seconds = Some(life);
    answer.status = Some(TokenRequestStatus {
        token: Some(text.to_owned()),
        expiration_timestamp: Some(Time(expires)),
    });
    answer
}

#[test]
fn a_token_is_renewed_before_its_last_fifth_or_daily() {
    let day = 24 * 3600;
    for (life, refreshed_after) in [(600, 480), (3600, 2880), (day, day * 4 / 5), (10 * day, day)] {
        let token = received(&wanted(), answer("t", life, at(life))).unwrap();
        let jitter = (at(refreshed_after).as_second() - token.refresh.as_second()) as u64;
        assert!(jitter < JITTER_SECONDS, "{life}: {jitter}");
        assert_eq!(token.expires, at(life));
    }
}

#[test]
fn an_old_token_is_used_while_it_is_good() {
    let old = || Token { text: "old".to_owned(), expires: at(100), refresh: at(80) };
    let refused = || Err("forbidden".to_owned());
    let used = |kept, answer, now| {
        after_request(&wanted(), kept, answer, now)
            .map(|token| token.text)
            .map_err(|error| error.to_string())
    };
    let new = || Ok(answer("new", 3600, at(3700)));
    assert_eq!(used(Some(old()), new(), at(90)), Ok("new".to_owned()));
    assert_eq!(used(None, new(), at(0)), Ok("new".to_owned()));
    assert_eq!(used(Some(old()), refused(), at(90)), Ok("old".to_owned()));
    let expired = r#"token of service account "default" expired and refresh failed: forbidden"#;
    assert_eq!(used(Some(old()), refused(), at(100)), Err(expired.to_owned()));
    assert_eq!(used(None, refused(), at(0)), Err("failed to fetch token: forbidden".to_owned()));
    let empty = Ok(answer("", 3600, at(3600)));
    let words = "failed to fetch token: the answer holds no token";
    assert_eq!(used(None, empty, at(0)), Err(words.to_owned()));

    // By the node's clock it is old already.
    let late = after_request(&wanted(), None, new(), at(3650)).unwrap();
    assert_eq!(late.refresh, at(3660));

    let kept = after_request(&wanted(), Some(old()), refused(), at(90)).unwrap();
    assert_eq!(kept.refresh, at(150), "it is tried again in a minute");
}

#[test]
fn a_request_is_bound_to_the_pod() {
    let request = serde_json::to_value(wanted().request()).unwrap();
    assert_eq!(
        request["spec"],
        serde_json::json!({
            "audiences": [],
            "expirationSeconds": 3607,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1234"},
        })
    );
}

#[test]
fn a_token_is_not_in_debug_output() {
    let token = Token { text: "eyJhbGciOi".to_owned(), expires: at(1), refresh: at(0) };
    assert!(!format!("{token:?}").contains("eyJ"));
}
