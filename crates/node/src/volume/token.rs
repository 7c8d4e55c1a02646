//! Tokens of service accounts, each bound to one Pod: asked for once, kept in memory, renewed
//! before they end.
//!
//! As a kubelet does, a token is renewed when a fifth of its life is left or when it is a day old,
//! whichever comes first. The text of a token is in the Pod's volume and here, nowhere else.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

/// What an API server gives where no life is asked for.
const DEFAULT_LIFETIME_SECONDS: i64 = 3600;
/// However long a token lives, it is renewed daily: a key that signs may have been replaced.
const RENEWAL_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Tokens of Pods that started together are not renewed together.
const JITTER_SECONDS: u64 = 10;
/// When renewal failed and the token is still good.
const RETRY_DELAY: SignedDuration = SignedDuration::from_secs(60);
/// However soon a token ends, by the clocks of node and server: it is not asked for all the time.
const MIN_REQUEST_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Requests under way at once: a node that starts with hundreds of Pods is no flood.
const MAX_CONCURRENT_REQUESTS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("failed to fetch token: {0}")]
    Fetch(String),
    #[error("token of service account {account:?} expired and refresh failed: {why}")]
    Expired { account: String, why: String },
}

/// Which token: the same for the same question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TokenRequestKey {
    namespace: String,
    account: String,
    pod_name: String,
    pod_uid: String,
    audience: Option<String>,
    life_seconds: i64,
}

impl TokenRequestKey {
    pub(super) fn new(pod: &Pod, source: &ServiceAccountTokenProjection) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        Self {
            namespace: text(&pod.metadata.namespace),
            account: account.filter(|name| !name.is_empty()).unwrap_or("default".to_owned()),
            pod_name: text(&pod.metadata.name),
            pod_uid: text(&pod.metadata.uid),
            audience: source.audience.clone().filter(|audience| !audience.is_empty()),
            life_seconds: source.expiration_seconds.unwrap_or(DEFAULT_LIFETIME_SECONDS),
        }
    }

    fn request(&self) -> TokenRequest {
        TokenRequest {
            metadata: ObjectMeta::default(),
            spec: Some(TokenRequestSpec {
                audiences: Some(self.audience.iter().cloned().collect()),
                expiration_seconds: Some(self.life_seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(self.pod_name.clone()),
                    uid: Some(self.pod_uid.clone()),
                }),
            }),
            status: None,
        }
    }

    fn jitter(&self) -> SignedDuration {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        SignedDuration::from_secs((hasher.finish() % JITTER_SECONDS).cast_signed())
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    expires: Timestamp,
    /// When it is to be asked for again.
    pub(super) refresh: Timestamp,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a token until {}", self.expires)
    }
}

#[derive(Clone)]
pub(crate) struct Tokens {
    client: Client,
    kept: Arc<Mutex<HashMap<TokenRequestKey, Token>>>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(client: Client) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
        Self { client, kept: Arc::default(), permits }
    }

    /// The token, asked for if there is none or if it is old.
    pub(super) async fn get(
        &self,
        wanted: &TokenRequestKey,
        now: Timestamp,
    ) -> Result<Token, TokenError> {
        let kept = self.lock().get(wanted).cloned();
        if let Some(token) = kept.as_ref().filter(|token| now < token.refresh) {
            return Ok(token.clone());
        }
        let renewed = after_request(wanted, kept, self.ask(wanted).await, now)?;
        self.lock().insert(wanted.clone(), renewed.clone());
        Ok(renewed)
    }

    /// The Pod is gone, and its tokens with it.
    pub(super) fn forget(&self, pod_uid: &str) {
        self.lock().retain(|wanted, _| wanted.pod_uid != pod_uid);
    }

    async fn ask(&self, wanted: &TokenRequestKey) -> Result<TokenRequest, String> {
        let permit = self.permits.acquire().await;
        let _turn = permit.map_err(|_| "the node is stopping".to_owned())?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &wanted.namespace);
        accounts
            .create_token_request(&wanted.account, &PostParams::default(), &wanted.request())
            .await
            .map_err(|error| crate::objects::in_words(&error))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TokenRequestKey, Token>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be used after the API was asked: the new token, or the old one while it is good.
fn after_request(
    wanted: &TokenRequestKey,
    kept: Option<Token>,
    answer: Result<TokenRequest, String>,
    now: Timestamp,
) -> Result<Token, TokenError> {
    let why = match answer.map(|answer| received(wanted, answer)) {
        Ok(Some(token)) => {
            return Ok(Token {
                refresh: token.refresh.max(later(now, MIN_REQUEST_INTERVAL)),
                ..token
            });
        }
        Ok(None) => "the answer holds no token".to_owned(),
        Err(why) => why,
    };
    match kept {
        None => Err(TokenError::Fetch(why)),
        Some(token) if token.expires <= now => {
            Err(TokenError::Expired { account: wanted.account.clone(), why })
        }
        Some(token) => {
            tracing::warn!(
                account = wanted.account,
                pod = wanted.pod_name,
                why,
                "token not renewed"
            );
            Ok(Token { refresh: later(now, RETRY_DELAY), ..token })
        }
    }
}

fn received(wanted: &TokenRequestKey, answer: TokenRequest) -> Option<Token> {
    // The server may have given it another life than was asked for.
    let life = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(wanted.life_seconds);
    let status = answer.status?;
    let text = status.token.filter(|text| !text.is_empty())?;
    let expires = status.expiration_timestamp?.0;
    let life = SignedDuration::from_secs(life.max(0));
    let issued = later(expires, -life);
    let refresh = later(expires, -(life / 5)).min(later(issued, RENEWAL_AGE));
    Some(Token { text, expires, refresh: later(refresh, -wanted.jitter()) })
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests;
