//! Of which Pod a token is: the API is asked, and believed for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use sojourn_core::key::Key;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a good token is believed without asking again. Its Pod has to be there each time, so a revoked one works no
/// longer than its Pod does.
const ACCEPTED_TTL: Duration = Duration::from_secs(300);
/// How long a bad one is refused without asking again.
const REJECTED_TTL: Duration = Duration::from_secs(5);
/// More than one for each server of a large fleet.
const MAX_REMEMBERED: usize = 32_768;
/// Longer than any token of Kubernetes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// How many questions may be open at the API, and how long one may take, waiting included.
const MAX_REVIEWS: usize = 16;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// A Pod that shows its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenPod {
    pub(crate) key: Key,
    pub(crate) uid: String,
}

/// Why nobody knows whose token it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodTokenError {
    #[error("cannot ask the API whose token this is")]
    Review(#[source] Box<kube::Error>),
    #[error("the API did not say in time whose token this is")]
    Timeout,
}

/// Tokens of Pods, for one audience.
pub(crate) struct PodTokens {
    reviews: Api<TokenReview>,
    audience: &'static str,
    remembered: Mutex<HashMap<[u8; 32], Remembered>>,
    asking: Semaphore,
}

struct Remembered {
    pod: Option<TokenPod>,
    until: Instant,
}

impl std::fmt::Debug for PodTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodTokens").field("audience", &self.audience).finish_non_exhaustive()
    }
}

impl PodTokens {
    pub(crate) fn new(client: Client, audience: &'static str) -> Self {
        Self {
            reviews: Api::all(client),
            audience,
            remembered: Mutex::default(),
            asking: Semaphore::new(MAX_REVIEWS),
        }
    }

    /// Nothing, if it is no good token of a Pod.
    pub(crate) async fn identify(&self, token: &str) -> Result<Option<TokenPod>, PodTokenError> {
        // The API is not asked about what cannot be one: three parts with signs of base64.
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let has_form = token.split('.').count() == 3 && token.bytes().all(is_sign);
        if token.len() > MAX_TOKEN_BYTES || !has_form {
            return Ok(None);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(pod) = self.recall(&key) {
            return Ok(pod);
        }
        let asked = timeout(REVIEW_TIMEOUT, self.review(token)).await;
        let pod = asked.map_err(|_| PodTokenError::Timeout)??;
        self.remember(key, pod.clone());
        Ok(pod)
    }

    async fn review(&self, token: &str) -> Result<Option<TokenPod>, PodTokenError> {
        let _turn = self.asking.acquire().await.expect("nobody closes it");
        let audiences = Some(vec![self.audience.to_owned()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = self.reviews.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| PodTokenError::Review(Box::new(error)))?.status;
        let status = status.filter(|status| {
            let mut audiences = status.audiences.iter().flatten();
            // An API that knows nothing of audiences names none.
            status.authenticated == Some(true) && audiences.any(|one| one == self.audience)
        });
        Ok(status.and_then(|status| pod_of(&status.user?)))
    }

    fn recall(&self, key: &[u8; 32]) -> Option<Option<TokenPod>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let found = remembered.get(key)?;
        (found.until > Instant::now()).then(|| found.pod.clone())
    }

    fn remember(&self, key: [u8; 32], pod: Option<TokenPod>) {
        let now = Instant::now();
        let until = now + if pod.is_none() { REJECTED_TTL } else { ACCEPTED_TTL };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, one| one.until > now);
        }
        // Full of what still holds: asking again is all that it costs.
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(key, Remembered { pod, until });
        }
    }
}

/// The Pod that a user is, if it is one.
fn pod_of(user: &UserInfo) -> Option<TokenPod> {
    let account = user.username.as_deref()?.strip_prefix(ACCOUNT_PREFIX)?;
    let (namespace, _) = account.split_once(':')?;
    let only = |name: &str| match user.extra.as_ref()?.get(name)?.as_slice() {
        [value] if !value.is_empty() => Some(value.clone()),
        _ => None,
    };
    Some(TokenPod { key: Key::new(namespace, only(POD_NAME)?), uid: only(POD_UID)? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    const GOOD: &str = "head.good.tail";

    /// An API that knows one token, for these audiences, and counts how often it is asked.
    fn api(audiences: Value) -> (PodTokens, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let answer = move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let audiences = audiences.clone();
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!(review["spec"]["audiences"], json!(["ours"]));
                review["status"] = match review["spec"]["token"] == GOOD {
                    true => json!({"authenticated": true, "audiences": audiences, "user": {
                        "username": "system:serviceaccount:play:default",
                        "extra": {POD_NAME: ["arena-1"], POD_UID: ["u-1"]},
                    }}),
                    false => json!({"error": "expired"}),
                };
                Ok::<_, kube::Error>(Response::new(Body::from(review.to_string().into_bytes())))
            }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        (PodTokens::new(client, "ours"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_token_is_believed_for_a_while_and_a_bad_one_refused_for_a_moment() {
        let (tokens, asked) = api(json!(["ours"]));
        let pod = TokenPod { key: Key::new("play", "arena-1"), uid: "u-1".to_owned() };
        for _ in 0..3 {
            assert_eq!(tokens.identify(GOOD).await.expect("an answer"), Some(pod.clone()));
            assert_eq!(tokens.identify("head.bad.tail").await.expect("an answer"), None);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(REJECTED_TTL).await;
        tokens.identify("head.bad.tail").await.expect("an answer");
        tokens.identify(GOOD).await.expect("an answer");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        tokio::time::advance(ACCEPTED_TTL).await;
        tokens.identify(GOOD).await.expect("an answer");
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn what_has_not_the_form_of_a_token_is_not_asked_about() {
        let (tokens, asked) = api(json!(["ours"]));
        let long = format!("a.{}.c", "b".repeat(MAX_TOKEN_BYTES));
        for garbage in ["", "a", "a.b", "a.b.c.d", "a.b\u{e9}.c", "a.b c.d", &long] {
            assert_eq!(tokens.identify(garbage).await.expect("an answer"), None, "{garbage}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_token_that_nobody_says_to_be_for_us_is_none() {
        for audiences in [json!(["theirs"]), json!([]), Value::Null] {
            let (tokens, _) = api(audiences);
            assert_eq!(tokens.identify(GOOD).await.expect("an answer"), None);
        }
    }

    #[test]
    fn only_a_pods_own_token_is_a_pods() {
        let user = |name: &str, extra: Value| -> Option<TokenPod> {
            let user = json!({"username": name, "extra": extra});
            pod_of(&serde_json::from_value(user).expect("a user"))
        };
        let of_pod = json!({POD_NAME: ["arena-1"], POD_UID: ["u-1"]});
        assert!(user("system:serviceaccount:play:default", of_pod.clone()).is_some());
        assert_eq!(user("ada", of_pod), None);
        for extra in
            [json!({}), json!({POD_NAME: ["a"]}), json!({POD_NAME: ["a", "b"], POD_UID: ["u"]})]
        {
            assert_eq!(user("system:serviceaccount:play:default", extra), None);
        }
    }
}
