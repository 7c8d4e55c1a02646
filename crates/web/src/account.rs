//! An account behind something that is open: a session, or the connection of a program. It ends
//! with the account, so the API is asked about the account's token again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::identity::{Credentials, Identity};
use crate::token::{Holder, Tokens};

/// How often what is open is looked at. The API is asked as often: its answers are believed for
/// as long.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_secs(60);
/// While the API does not answer, an account counts as valid for so long after its last
/// confirmation.
const MAX_UNCONFIRMED_AGE: Duration = Duration::from_secs(10 * 60);
/// After a question without an answer, how long not to ask again: others would wait in line.
const RETRY_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Account {
    /// As they were when it began.
    pub credentials: Credentials,
    latest: Mutex<Latest>,
}

/// The API's last word.
#[derive(Debug)]
struct Latest {
    identity: Arc<Identity>,
    at: Instant,
    unanswered: Option<Instant>,
}

impl Account {
    pub(crate) fn new(credentials: Credentials) -> Self {
        let identity = Arc::new(credentials.identity.clone());
        let latest = Latest { identity, at: Instant::now(), unanswered: None };
        Self { credentials, latest: Mutex::new(latest) }
    }

    /// The identity as the API knows it now; nothing when the token is nobody's any more, or
    /// somebody else's, or the API has said nothing for too long.
    pub(crate) async fn confirm(&self, tokens: &Tokens) -> Option<Arc<Identity>> {
        // One asks, the others wait for the answer.
        let mut latest = self.latest.lock().await;
        let now = Instant::now();
        if latest.unanswered.is_none_or(|at| now >= at + RETRY_DELAY) {
            match tokens.identify(self.credentials.token.reveal()).await {
                Ok(Holder::Ordinary(identity))
                    if identity.is_same_user(&self.credentials.identity) =>
                {
                    *latest = Latest { identity, at: Instant::now(), unanswered: None };
                }
                Ok(_) => return None,
                Err(error) => {
                    tracing::warn!(%error, "an account could not be confirmed");
                    latest.unanswered = Some(Instant::now());
                }
            }
        }
        let is_believed = Instant::now() < latest.at + MAX_UNCONFIRMED_AGE;
        is_believed.then(|| latest.identity.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex as Shared;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::identity::BearerToken;

    /// What the API says of every token; nothing is an error of its own.
    type Word = Arc<Shared<Option<Value>>>;

    fn api(word: Word, asked: Arc<AtomicUsize>) -> Tokens {
        let service = tower::service_fn(move |_: Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            let word = word.lock().unwrap().clone();
            async move {
                let Some(status) = word else {
                    let broken = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR);
                    return Ok::<_, Infallible>(broken.body(Body::from(Vec::new())).unwrap());
                };
                let answer = json!({"apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenReview", "metadata": {}, "spec": {}, "status": status});
                Ok(Response::new(Body::from(serde_json::to_vec(&answer).unwrap())))
            }
        });
        Tokens::new(kube::Client::new(service, "default"))
    }

    fn known(name: &str, groups: &[&str]) -> Option<Value> {
        Some(json!({"authenticated": true, "user": {"username": name, "groups": groups}}))
    }

    fn ada() -> Account {
        let identity = Identity { name: "ada".to_owned(), ..Identity::default() };
        Account::new(Credentials { identity, token: BearerToken::new("t") })
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_is_asked_about_once_a_minute_and_ends_by_the_apis_word() {
        for end in [Some(json!({"authenticated": false})), known("bob", &[])] {
            let (word, asked) = (Arc::new(Shared::new(known("ada", &["staff"]))), Arc::default());
            let (tokens, account) = (api(word.clone(), Arc::clone(&asked)), ada());
            for _ in 0..3 {
                let identity = account.confirm(&tokens).await.unwrap();
                assert_eq!(identity.groups, ["staff"], "as the API has it now");
            }
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            *word.lock().unwrap() = end;
            assert!(account.confirm(&tokens).await.is_some(), "within the minute");
            tokio::time::advance(RECHECK_INTERVAL).await;
            assert!(account.confirm(&tokens).await.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_the_api_ends_an_account_only_after_a_while() {
        let (word, asked) = (Arc::new(Shared::new(known("ada", &[]))), Arc::default());
        let (tokens, account) = (api(word.clone(), Arc::clone(&asked)), ada());
        assert!(account.confirm(&tokens).await.is_some());
        *word.lock().unwrap() = None;
        tokio::time::advance(MAX_UNCONFIRMED_AGE - Duration::from_secs(1)).await;
        assert!(account.confirm(&tokens).await.is_some());
        let before = asked.load(Ordering::Relaxed);
        assert!(account.confirm(&tokens).await.is_some());
        assert_eq!(asked.load(Ordering::Relaxed), before, "it is not asked in vain at once");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(account.confirm(&tokens).await.is_none());
        *word.lock().unwrap() = known("ada", &[]);
        tokio::time::advance(RETRY_DELAY).await;
        assert!(account.confirm(&tokens).await.is_some(), "the API speaks again");
    }
}
