//! One-time links: whoever opens one and presses its button is signed in as the account that it
//! was made for.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::{Credentials, Identity};
use crate::secret::{Digest, Secret};

/// How long a link is good for.
pub(crate) const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// How many links are good at a time; one more ends the oldest.
const LINKS: usize = 64;

/// The links that nobody used yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SignIn(Arc<Mutex<HashMap<Digest, Link>>>);

#[derive(Debug)]
struct Link {
    credentials: Credentials,
    expires: Instant,
}

impl SignIn {
    /// A new link for this account; its address is [`SignIn::path`].
    pub fn mint(&self, credentials: Credentials) -> Secret {
        let secret = Secret::random();
        let now = Instant::now();
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.expires > now);
        if links.len() >= LINKS {
            let oldest = links.iter().min_by_key(|(_, link)| link.expires).map(|(key, _)| *key);
            oldest.and_then(|oldest| links.remove(&oldest));
        }
        links.insert(secret.digest(), Link { credentials, expires: now + LINK_LIFETIME });
        secret
    }

    /// Where a browser uses the link.
    pub fn path(secret: &Secret) -> String {
        format!("/sign-in/{}", secret.reveal())
    }

    /// For whom the link is, without using it.
    pub(crate) fn peek(&self, presented: &str) -> Option<Identity> {
        let digest = Digest::of_secret(presented)?;
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.get(&digest)?;
        (link.expires > Instant::now()).then(|| link.credentials.identity.clone())
    }

    /// Uses the link. Of several who try at once, one gets the account.
    pub(crate) fn redeem(&self, presented: &str) -> Option<Credentials> {
        let digest = Digest::of_secret(presented)?;
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.remove(&digest)?;
        (link.expires > Instant::now()).then_some(link.credentials)
    }

    /// Ends every link of a user.
    pub(crate) fn revoke_all(&self, user: &Identity) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| !link.credentials.identity.is_same_user(user));
    }
}
