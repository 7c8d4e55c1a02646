//! Who is signed in. Sessions live in memory: a restart signs everybody out.
//!
//! A session ends when nobody uses it, at a fixed age however often it is used, when somebody signs
//! out, and with the account it belongs to (`account`). Whatever is open for it ends with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::identity::{Credentials, Identity};
use crate::secret::{Digest, Secret};

/// A session that nobody uses ends after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 60 * 60);
/// Every session ends after this; also what the browser is told.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many there may be; one more ends the one that was used longest ago.
const SESSIONS: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, StoredSession>>);

#[derive(Debug)]
struct StoredSession {
    session: Session,
    began: Instant,
    used: Instant,
}

impl StoredSession {
    fn is_good(&self, now: Instant) -> bool {
        now < self.began + SESSION_LIFETIME && now < self.used + IDLE_TIMEOUT
    }
}

impl Drop for StoredSession {
    /// A session that is not kept any more is over, for whatever reason.
    fn drop(&mut self) {
        self.session.ended.cancel();
    }
}

/// One browser of one person.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub id: Digest,
    pub account: Arc<Account>,
    /// What the forms of our own pages carry. A page from elsewhere cannot read it, so what comes
    /// with it comes from our own.
    pub form_token: Secret,
    /// Cancelled when the session is over.
    pub ended: CancellationToken,
}

impl Session {
    pub(crate) fn is_form_token(&self, token: &str) -> bool {
        Digest::of_secret(token) == Some(self.form_token.digest())
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Sessions {
    /// A new session; the secret is for the browser's cookie.
    pub(crate) fn open(&self, credentials: Credentials) -> Secret {
        let secret = Secret::random();
        let now = Instant::now();
        let session = Session {
            id: secret.digest(),
            account: Arc::new(Account::new(credentials)),
            form_token: Secret::random(),
            ended: CancellationToken::new(),
        };
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, kept| kept.is_good(now));
        if sessions.len() >= SESSIONS {
            let stalest = sessions.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            stalest.and_then(|stalest| sessions.remove(&stalest));
        }
        sessions.insert(session.id, StoredSession { session, began: now, used: now });
        secret
    }

    /// The session of a cookie, which is used by this.
    pub(crate) fn find(&self, presented: &str) -> Option<Session> {
        self.touch(&Digest::of_secret(presented)?)
    }

    /// The session, which is used by this.
    pub(crate) fn touch(&self, id: &Digest) -> Option<Session> {
        let now = Instant::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = sessions.get_mut(id)?;
        if !kept.is_good(now) {
            sessions.remove(id);
            return None;
        }
        kept.used = now;
        Some(kept.session.clone())
    }

    /// Whether the session goes on, without using it.
    pub(crate) fn is_open(&self, id: &Digest) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).is_some_and(|kept| kept.is_good(Instant::now()))
    }

    pub(crate) fn close(&self, session: &Session) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&session.id);
    }

    /// Ends every session of a user.
    pub(crate) fn close_all(&self, user: &Identity) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, kept| !kept.session.account.credentials.identity.is_same_user(user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::BearerToken;

    fn of(name: &str) -> Credentials {
        let identity = Identity { name: name.to_owned(), ..Identity::default() };
        Credentials { identity, token: BearerToken::new(format!("{name}'s")) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lives_while_it_is_used_but_not_for_ever() {
        let sessions = Sessions::default();
        let (used, unused) = (sessions.open(of("ada")), sessions.open(of("ada")));
        let open = sessions.find(used.reveal()).unwrap();
        let step = IDLE_TIMEOUT - Duration::from_secs(1);
        let mut lived = Duration::ZERO;
        while lived + step < SESSION_LIFETIME {
            tokio::time::advance(step).await;
            lived += step;
            assert!(sessions.find(used.reveal()).is_some(), "after {lived:?}");
        }
        assert!(sessions.find(unused.reveal()).is_none());
        assert!(!open.ended.is_cancelled());
        tokio::time::advance(SESSION_LIFETIME.checked_sub(lived).unwrap()).await;
        assert!(!sessions.is_open(&open.id));
        assert!(sessions.find(used.reveal()).is_none());
        assert!(open.ended.is_cancelled(), "what is open for it ends with it");
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_sessions_end_the_stalest() {
        let sessions = Sessions::default();
        let first = sessions.open(of("ada"));
        let second = sessions.open(of("ada"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.find(first.reveal()).is_some());
        let others: Vec<_> = (0..SESSIONS - 1).map(|_| sessions.open(of("ada"))).collect();
        assert!(sessions.find(first.reveal()).is_some());
        assert!(sessions.find(second.reveal()).is_none());
        assert!(others.iter().all(|other| sessions.find(other.reveal()).is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_its_own_form_token_is_taken() {
        let sessions = Sessions::default();
        let secret = sessions.open(of("ada"));
        let session = sessions.find(secret.reveal()).unwrap();
        assert!(session.is_form_token(session.form_token.reveal()));
        assert!(!session.is_form_token(secret.reveal()));
        assert!(!session.is_form_token(""));
        sessions.close(&session);
        assert!(sessions.find(secret.reveal()).is_none());
        assert!(session.ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn all_sessions_of_one_user_end_and_nobody_elses() {
        let sessions = Sessions::default();
        let hers = [sessions.open(of("ada")), sessions.open(of("ada"))];
        let his = sessions.open(of("bob"));
        let open = sessions.find(hers[1].reveal()).unwrap();
        sessions.close_all(&of("ada").identity);
        assert!(hers.iter().all(|one| sessions.find(one.reveal()).is_none()));
        assert!(open.ended.is_cancelled());
        assert!(sessions.find(his.reveal()).is_some());
    }
}
