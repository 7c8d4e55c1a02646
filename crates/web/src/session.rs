//! Who is signed in. Sessions live in memory: a restart signs everybody out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::Identity;
use crate::secret::{Digest, Secret};

/// A session that nobody uses ends after this.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// Every session ends after this; also what the browser is told.
pub(crate) const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many there may be; one more ends the one that was used longest ago.
const SESSIONS: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, Kept>>);

#[derive(Debug)]
struct Kept {
    session: Session,
    began: Instant,
    used: Instant,
}

impl Kept {
    fn is_good(&self, now: Instant) -> bool {
        now < self.began + LIFE && now < self.used + IDLE
    }
}

/// One browser of one person.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    id: Digest,
    pub identity: Arc<Identity>,
    /// What the forms of our own pages carry. A page from elsewhere cannot read it, so what comes
    /// with it comes from our own.
    pub form_token: Secret,
}

impl Session {
    pub(crate) fn sent_form(&self, token: &str) -> bool {
        Digest::of_secret(token) == Some(self.form_token.digest())
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Sessions {
    /// A new session; the secret is for the browser's cookie.
    pub(crate) fn open(&self, identity: Identity) -> Secret {
        let secret = Secret::random();
        let now = Instant::now();
        let session = Session {
            id: secret.digest(),
            identity: Arc::new(identity),
            form_token: Secret::random(),
        };
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, kept| kept.is_good(now));
        if sessions.len() >= SESSIONS {
            let stalest = sessions.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            stalest.and_then(|stalest| sessions.remove(&stalest));
        }
        sessions.insert(session.id, Kept { session, began: now, used: now });
        secret
    }

    /// The session of a cookie, which is used by this.
    pub(crate) fn find(&self, presented: &str) -> Option<Session> {
        let digest = Digest::of_secret(presented)?;
        let now = Instant::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = sessions.get_mut(&digest)?;
        if !kept.is_good(now) {
            sessions.remove(&digest);
            return None;
        }
        kept.used = now;
        Some(kept.session.clone())
    }

    pub(crate) fn close(&self, session: &Session) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&session.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Identity {
        Identity { name: "ada".to_owned(), ..Identity::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lives_while_it_is_used_but_not_for_ever() {
        let sessions = Sessions::default();
        let (used, unused) = (sessions.open(ada()), sessions.open(ada()));
        let step = IDLE - Duration::from_secs(1);
        let mut lived = Duration::ZERO;
        while lived + step < LIFE {
            tokio::time::advance(step).await;
            lived += step;
            assert!(sessions.find(used.reveal()).is_some(), "after {lived:?}");
        }
        assert!(sessions.find(unused.reveal()).is_none());
        tokio::time::advance(LIFE.checked_sub(lived).unwrap()).await;
        assert!(sessions.find(used.reveal()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_sessions_end_the_stalest() {
        let sessions = Sessions::default();
        let first = sessions.open(ada());
        let second = sessions.open(ada());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.find(first.reveal()).is_some());
        let others: Vec<_> = (0..SESSIONS - 1).map(|_| sessions.open(ada())).collect();
        assert!(sessions.find(first.reveal()).is_some());
        assert!(sessions.find(second.reveal()).is_none());
        assert!(others.iter().all(|other| sessions.find(other.reveal()).is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_its_own_form_token_is_taken() {
        let sessions = Sessions::default();
        let secret = sessions.open(ada());
        let session = sessions.find(secret.reveal()).unwrap();
        assert!(session.sent_form(session.form_token.reveal()));
        assert!(!session.sent_form(secret.reveal()));
        assert!(!session.sent_form(""));
        sessions.close(&session);
        assert!(sessions.find(secret.reveal()).is_none());
    }
}
