use std::sync::Mutex;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Request, StatusCode};
use proptest::prelude::*;
use tower::ServiceExt as _;

use super::*;

const URL: &str = "https://lab.example.org/";

const FAMILY: &str = "f";
const HOUR: u8 = b'h';
const TOMORROW: u8 = b't';
const STOP: u8 = b's';
const VERBS: &[LinkVerb] = &[
    LinkVerb { code: HOUR, title: "Keep it for an hour", button: "Keep it" },
    LinkVerb { code: TOMORROW, title: "Keep it until tomorrow", button: "Keep it" },
    LinkVerb { code: STOP, title: "Stop it now", button: "Stop it" },
];

fn about<'a>(key: &'a Key, uid: &'a str) -> LinkSubject<'a> {
    LinkSubject::of(FAMILY, key, uid)
}

fn links() -> Links {
    Links::new([7; 32])
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn token(links: &Links, verb: u8) -> String {
    let url = links.sign(URL, about(&Key::new("ns", "lab"), "uid-1"), verb, at(1_000));
    url.strip_prefix("https://lab.example.org/notice/").unwrap().to_owned()
}

#[test]
fn a_link_says_what_was_signed_until_it_ends() {
    for verb in [HOUR, TOMORROW, STOP] {
        let token = token(&links(), verb);
        let claim = links().verify(&token, at(999)).unwrap();
        assert_eq!((claim.family.as_str(), &claim.key), (FAMILY, &Key::new("ns", "lab")));
        assert_eq!((claim.uid.as_str(), claim.verb, claim.expires), ("uid-1", verb, at(1_000)));
        assert_eq!(links().verify(&token, at(999)).unwrap().id, claim.id);
        assert_eq!(links().verify(&token, at(1_000)), Err(LinkError::Expired));
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let token = token(&links(), STOP);
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let verified = links().verify(&URL_SAFE_NO_PAD.encode(&changed), at(0));
        // The other version is known, and its signature is another.
        let known = bit >= 8 || [2, 3].contains(&changed[0]);
        let expected = if known { LinkError::Forged } else { LinkError::Version };
        assert_eq!(verified, Err(expected), "bit {bit}");
    }
    for end in 0..bytes.len() {
        assert!(links().verify(&URL_SAFE_NO_PAD.encode(&bytes[..end]), at(0)).is_err());
    }
}

#[test]
fn a_link_acts_as_whom_it_was_sent_to() {
    let key = Key::new("ns", "lab");
    let subject = LinkSubject { recipient: "grace@example.org", count: 2, ..about(&key, "u") };
    let url = links().sign(URL, subject, STOP, at(1_000));
    let token = url.rsplit_once('/').unwrap().1;
    let claim = links().verify(token, at(0)).unwrap();
    assert_eq!((claim.recipient.as_str(), claim.count), ("grace@example.org", 2));
    assert_eq!((claim.key, claim.uid.as_str()), (key.clone(), "u"));
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    for end in 0..bytes.len() {
        assert!(links().verify(&URL_SAFE_NO_PAD.encode(&bytes[..end]), at(0)).is_err());
    }
    let other = LinkSubject { recipient: "grace@example.or", ..subject };
    assert_ne!(links().sign(URL, other, STOP, at(1_000)), url);
    let plain = links().sign(URL, about(&key, "u"), STOP, at(1_000));
    let plain = links().verify(plain.rsplit_once('/').unwrap().1, at(0)).unwrap();
    assert_eq!((plain.recipient.as_str(), plain.count), ("", 0));
}

#[test]
fn fields_cannot_slide_into_each_other_and_other_keys_do_not_fit() {
    let one = links().sign(URL, about(&Key::new("ab", "c"), "d"), STOP, at(1));
    let other = links().sign(URL, about(&Key::new("a", "bc"), "d"), STOP, at(1));
    assert_ne!(one, other);
    let foreign = Links::new([8; 32]);
    let verified = foreign.verify(&token(&links(), STOP), at(0));
    assert_eq!(verified, Err(LinkError::Forged));
    assert!(!format!("{:?}", links()).contains('7'));
}

proptest! {
    #[test]
    fn no_text_is_a_link_by_chance(text in "[A-Za-z0-9_-]{0,300}|.{0,100}") {
        prop_assert!(links().verify(&text, at(0)).is_err());
    }

    #[test]
    fn every_name_comes_back(
        namespace in "[a-z0-9-]{0,63}",
        name in "[a-z0-9.-]{1,253}",
        uid in "[a-f0-9-]{0,36}",
    ) {
        let key = Key::new(namespace, name);
        let url = links().sign(URL, about(&key, &uid), HOUR, at(5));
        let token = url.rsplit_once('/').unwrap().1;
        let claim = links().verify(token, at(4)).unwrap();
        prop_assert_eq!((claim.key, claim.uid), (key, uid));
    }
}

/// Remembers what it was asked to do.
#[derive(Default)]
struct Remembering(Mutex<Vec<LinkClaim>>);

impl LinkHandler for Remembering {
    fn verbs(&self) -> &'static [LinkVerb] {
        VERBS
    }

    fn status(&self, claim: &LinkClaim) -> LinkStatus {
        if self.0.lock().unwrap().contains(claim) {
            return LinkStatus::Used("It was pressed.".to_owned());
        }
        match &*claim.key.name {
            "gone" => LinkStatus::Refused("It is <i>nowhere</i>.".to_owned()),
            name => LinkStatus::Open(format!("{name} stays.")),
        }
    }

    fn execute(&self, claim: LinkClaim) -> BoxFuture<'_, LinkOutcome> {
        let mut done = self.0.lock().unwrap();
        let outcome = match claim.verb {
            STOP => LinkOutcome::Refused("It is <b>gone</b>.".to_owned()),
            TOMORROW => LinkOutcome::NotNow("Try again.".to_owned()),
            HOUR if done.contains(&claim) => LinkOutcome::Used("It was kept.".to_owned()),
            _ => LinkOutcome::Done("It stays until 10:00.".to_owned()),
        };
        done.push(claim);
        Box::pin(async move { outcome })
    }
}

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("accept", "text/html").body(Body::empty()).unwrap()
}

fn post(path: &str, body: &str) -> Request<Body> {
    Request::post(path).header("accept", "text/html").body(Body::from(body.to_owned())).unwrap()
}

fn served() -> (Router, Arc<Remembering>) {
    let act = Arc::new(Remembering::default());
    (links().router(vec![(FAMILY, act.clone())], Arc::new(|| at(500))), act)
}

fn form_of(page: &str) -> String {
    let field = page.split("name=\"token\" value=\"").nth(1).unwrap();
    format!("token={}", field.split('"').next().unwrap())
}

#[tokio::test]
async fn opening_shows_and_only_the_button_acts() {
    let (router, act) = served();
    let path = format!("/notice/{}", token(&links(), HOUR));
    let mut page = String::new();
    for _ in 0..3 {
        let (status, shown) = send(&router, get(&path)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(shown.contains("lab stays."), "{shown}");
        page = shown;
    }
    assert!(act.0.lock().unwrap().is_empty());
    let (status, shown) = send(&router, post(&path, &form_of(&page))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(shown.contains("It stays until 10:00."), "{shown}");
    assert_eq!(act.0.lock().unwrap().len(), 1);
    assert_eq!(act.0.lock().unwrap()[0].uid, "uid-1");

    let (status, shown) = send(&router, post(&path, &form_of(&page))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(shown.contains("Done before") && shown.contains("It was kept."), "{shown}");
    let (status, shown) = send(&router, get(&path)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(shown.contains("It was pressed.") && !shown.contains("<form"), "{shown}");
}

#[tokio::test]
async fn a_post_without_the_pages_token_does_nothing() {
    let (router, act) = served();
    let path = format!("/notice/{}", token(&links(), HOUR));
    let other = format!("/notice/{}", token(&links(), STOP));
    let (_, page) = send(&router, get(&other)).await;
    let long = format!("token={}", "x".repeat(5_000));
    for body in ["", "token=", "token=abc", &form_of(&page), &long] {
        let (status, _) = send(&router, post(&path, body)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
    }
    let forged = format!("{path}x");
    assert_eq!(send(&router, post(&forged, &form_of(&page))).await.0, StatusCode::NOT_FOUND);
    assert!(act.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn refusals_and_ends_are_explained() {
    let (router, _) = served();
    let path = format!("/notice/{}", token(&links(), STOP));
    let (_, page) = send(&router, get(&path)).await;
    assert!(page.contains("Stop it"), "{page}");
    let (status, shown) = send(&router, post(&path, &form_of(&page))).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(shown.contains("It is &lt;b&gt;gone&lt;"), "{shown}");
    let later = format!("/notice/{}", token(&links(), TOMORROW));
    let (_, page) = send(&router, get(&later)).await;
    let (status, shown) = send(&router, post(&later, &form_of(&page))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{shown}");
    let gone = links().sign(URL, about(&Key::new("ns", "gone"), "u"), HOUR, at(900));
    let gone = gone.strip_prefix("https://lab.example.org").unwrap().to_owned();
    let (status, shown) = send(&router, get(&gone)).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(shown.contains("It is &lt;i&gt;nowhere&lt;") && !shown.contains("<form"), "{shown}");
    let over = links().sign(URL, about(&Key::new("ns", "lab"), "u"), STOP, at(500));
    let over = over.strip_prefix("https://lab.example.org").unwrap().to_owned();
    let (status, shown) = send(&router, get(&over)).await;
    assert_eq!(status, StatusCode::GONE);
    assert!(shown.contains("holds no longer"), "{shown}");
    assert_eq!(send(&router, get("/notice/nonsense")).await.0, StatusCode::NOT_FOUND);
    let key = Key::new("ns", "lab");
    let strange = links().sign(URL, about(&key, "u"), b'?', at(900));
    let foreign = LinkSubject { family: "another", ..about(&key, "u") };
    let foreign = links().sign(URL, foreign, HOUR, at(900));
    for unknown in [strange, foreign] {
        let path = unknown.strip_prefix("https://lab.example.org").unwrap();
        let (status, shown) = send(&router, get(path)).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(shown.contains("a version that is not known here"), "{shown}");
    }
}
