//! Programs show a bearer token; the API says whose it is.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::Api;
use kube::api::PostParams;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::identity::Identity;
use crate::secret::Digest;

/// How long a good token is believed without asking again: so long may a revoked one work.
const ACCEPTED_TTL: Duration = Duration::from_secs(60);
/// How long a bad one is refused without asking again.
const REJECTED_TTL: Duration = Duration::from_secs(5);
const MAX_REMEMBERED: usize = 4096;
/// Longer than any token of Kubernetes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// How many questions may be open at the API, and how long one may take, waiting included.
const ASKING: usize = 16;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Why nobody knows whose token it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("cannot ask the API whose token this is: {0}")]
    Review(#[source] Box<kube::Error>),
    #[error("the API did not say in time whose token this is")]
    Timeout,
}

pub(crate) struct Tokens {
    reviews: Api<TokenReview>,
    remembered: Mutex<HashMap<Digest, CachedReview>>,
    asking: Semaphore,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

struct CachedReview {
    holder: Holder,
    until: Instant,
}

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    Ordinary(Arc<Identity>),
    /// Somebody whom a group of Kubernetes' own gives rights that no role gave them.
    Privileged {
        group: String,
    },
}

/// The token of a request, if it shows one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Tokens {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            reviews: Api::all(client),
            remembered: Mutex::default(),
            asking: Semaphore::new(ASKING),
        }
    }

    pub(crate) async fn identify(&self, token: &str) -> Result<Holder, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Ok(Holder::Nobody);
        }
        let digest = Digest::of(token.as_bytes());
        if let Some(holder) = self.recall(&digest) {
            return Ok(holder);
        }
        let asked = tokio::time::timeout(REVIEW_TIMEOUT, self.review(token)).await;
        let holder = asked.map_err(|_| TokenError::Timeout)??;
        self.remember(digest, holder.clone());
        Ok(holder)
    }

    async fn review(&self, token: &str) -> Result<Holder, TokenError> {
        let _slot = self.asking.acquire().await.expect("nobody closes it");
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = self.reviews.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| TokenError::Review(Box::new(error)))?.status;
        Ok(status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user)
            .map_or(Holder::Nobody, holder))
    }

    fn recall(&self, digest: &Digest) -> Option<Holder> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = remembered.get(digest)?;
        (cached.until > Instant::now()).then(|| cached.holder.clone())
    }

    fn remember(&self, digest: Digest, holder: Holder) {
        let now = Instant::now();
        let until = now + if holder == Holder::Nobody { REJECTED_TTL } else { ACCEPTED_TTL };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, cached| cached.until > now);
        }
        // Full of what still holds: somebody tries many. Asking again is all that it costs.
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(digest, CachedReview { holder, until });
        }
    }
}

fn holder(user: UserInfo) -> Holder {
    let Some(name) = user.username.filter(|name| !name.is_empty()) else {
        return Holder::Nobody;
    };
    let mut identity = Identity {
        name,
        groups: user.groups.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    };
    match identity.remove_system_groups() {
        Some(group) => Holder::Privileged { group },
        None => Holder::Ordinary(Arc::new(identity)),
    }
}
