//! What is decided without the API: who somebody is, and what their requests say.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use http::{Request as HttpRequest, StatusCode};
use sojourn_api::access::AccessConfig;
use tower::ServiceExt as _;

use super::person;
use crate::family::FamilyCaller;

fn caller(extra: &[(&str, &[&str])]) -> FamilyCaller {
    let extra = extra.iter().map(|(key, values)| {
        ((*key).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
    });
    FamilyCaller {
        user: "ada".to_owned(),
        groups: vec!["dev".to_owned()],
        extra: extra.collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn a_person_has_the_issuer_and_the_address_that_the_configured_extras_name() {
    let config = AccessConfig {
        issuer: Some("example.org/issuer".to_owned()),
        email: Some("example.org/email".to_owned()),
        ..AccessConfig::default()
    };
    let known = caller(&[
        ("example.org/issuer", &["https://id.example.org"]),
        ("example.org/email", &["ada@example.org"]),
    ]);
    let read = person(&known, &config);
    assert_eq!(read.issuer.as_deref(), Some("https://id.example.org"));
    assert_eq!(read.email.as_deref(), Some("ada@example.org"));
    assert_eq!(read.groups, ["dev"]);
    let two = caller(&[("example.org/issuer", &["one", "two"])]);
    assert_eq!(person(&two, &config).issuer, None, "two that vouch are nobody");
    assert_eq!(person(&known, &AccessConfig::default()).issuer, None, "nobody asked for one");
}

// case: access 29
#[tokio::test]
async fn nobody_is_served_who_is_not_signed_in() {
    let served: Router = super::http::only_known_callers(
        Router::new().route("/sessions", axum::routing::post(async || "served")),
    );
    let ask = |caller: Option<FamilyCaller>| {
        let mut request = HttpRequest::post("/sessions").body(Body::empty()).expect("a request");
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let served = served.clone();
        async move { served.oneshot(request).await.expect("infallible").status() }
    };
    assert_eq!(ask(None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Some(FamilyCaller::default())).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Some(caller(&[]))).await, StatusCode::OK);
}
