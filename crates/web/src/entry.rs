//! The way from our origin to an instance's: a one-time token, and the cookie that it is exchanged
//! for there. Both belong to a session and are nothing without it.
//!
//! The token is in an address of the instance's origin, so a service worker that the instance itself
//! left in that browser may see it. It gains nothing by that: the token is good once, for seconds,
//! and for that very instance.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::secret::{Digest, Secret};

/// How long a browser may take from one origin to the other.
const HANDOVER_LIFETIME: Duration = Duration::from_secs(30);
/// How many of each one session may have; one more ends its oldest.
const HANDOVERS_PER_SESSION: usize = 16;
const ENTRIES_PER_SESSION: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Entries {
    handovers: Mutex<HashMap<Digest, Grant>>,
    entered: Mutex<HashMap<Digest, Grant>>,
}

/// The grant of one session for one instance.
#[derive(Debug)]
struct Grant {
    /// The session's id.
    session: Digest,
    label: String,
    /// Where a handover leads.
    path: String,
    made: Instant,
}

impl Entries {
    /// A token that lets the session in at the instance with this label, to this path, once.
    pub(crate) fn hand_over(&self, session: Digest, label: &str, path: &str) -> Secret {
        let now = Instant::now();
        let grant = Grant { session, label: label.to_owned(), path: path.to_owned(), made: now };
        let mut handovers = self.handovers.lock().unwrap_or_else(PoisonError::into_inner);
        handovers.retain(|_, grant| now < grant.made + HANDOVER_LIFETIME);
        insert(&mut handovers, grant, HANDOVERS_PER_SESSION)
    }

    /// Uses a token: the session that it is of, and the path. At another instance it is used up.
    pub(crate) fn redeem(&self, presented: &str, label: &str) -> Option<(Digest, String)> {
        let digest = Digest::of_secret(presented)?;
        let mut handovers = self.handovers.lock().unwrap_or_else(PoisonError::into_inner);
        let grant = handovers.remove(&digest)?;
        let is_good = grant.label == label && Instant::now() < grant.made + HANDOVER_LIFETIME;
        is_good.then_some((grant.session, grant.path))
    }

    /// The secret of a cookie with which the session is known at that instance. There is one: it
    /// takes the place of an earlier one. Those of sessions that are over are forgotten.
    pub(crate) fn enter(
        &self,
        session: Digest,
        label: &str,
        is_open: impl Fn(&Digest) -> bool,
    ) -> Secret {
        let (label, path) = (label.to_owned(), String::new());
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        entered.retain(|_, grant| {
            is_open(&grant.session) && (grant.session != session || grant.label != label)
        });
        let grant = Grant { session, label, path, made: Instant::now() };
        insert(&mut entered, grant, ENTRIES_PER_SESSION)
    }

    /// The id of the session that a cookie lets in at that instance.
    pub(crate) fn find(&self, presented: &str, label: &str) -> Option<Digest> {
        let digest = Digest::of_secret(presented)?;
        let entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        entered.get(&digest).filter(|grant| grant.label == label).map(|grant| grant.session)
    }
}

fn insert(grants: &mut HashMap<Digest, Grant>, grant: Grant, max: usize) -> Secret {
    let of_session = |(_, other): &(&Digest, &Grant)| other.session == grant.session;
    if grants.iter().filter(of_session).count() >= max {
        let oldest = grants.iter().filter(of_session).min_by_key(|(_, other)| other.made);
        let oldest = oldest.map(|(digest, _)| *digest);
        oldest.and_then(|oldest| grants.remove(&oldest));
    }
    let secret = Secret::random();
    grants.insert(secret.digest(), grant);
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_good_once_at_its_instance_and_for_seconds() {
        let entries = Entries::default();
        let token = |label: &str| entries.hand_over(session("s"), label, "/x?y");
        let good = token("a");
        let expected = Some((session("s"), "/x?y".to_owned()));
        assert_eq!(entries.redeem(good.reveal(), "a"), expected);
        assert_eq!(entries.redeem(good.reveal(), "a"), None, "once");
        let elsewhere = token("a");
        assert_eq!(entries.redeem(elsewhere.reveal(), "b"), None);
        assert_eq!(entries.redeem(elsewhere.reveal(), "a"), None, "it is used up");
        let late = token("a");
        tokio::time::advance(HANDOVER_LIFETIME).await;
        assert_eq!(entries.redeem(late.reveal(), "a"), None);
        assert_eq!(entries.redeem("short", "a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cookie_is_known_at_its_instance_only() {
        let entries = Entries::default();
        let first = entries.enter(session("s"), "a", |_| true);
        let other = entries.enter(session("s"), "b", |_| true);
        assert_eq!(entries.find(first.reveal(), "a"), Some(session("s")));
        assert_eq!(entries.find(first.reveal(), "b"), None);
        let again = entries.enter(session("s"), "a", |_| true);
        assert_eq!(entries.find(first.reveal(), "a"), None, "there is one");
        assert_eq!(entries.find(again.reveal(), "a"), Some(session("s")));
        assert_eq!(entries.find(other.reveal(), "b"), Some(session("s")));
        entries.enter(session("t"), "a", |one| *one == session("t"));
        assert_eq!(entries.entered.lock().unwrap().len(), 1, "what is over is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn no_session_fills_the_memory_or_ends_what_others_have() {
        let entries = Entries::default();
        let theirs = entries.hand_over(session("t"), "a", "/");
        for _ in 0..HANDOVERS_PER_SESSION + 5 {
            entries.hand_over(session("s"), "a", "/");
        }
        assert_eq!(entries.handovers.lock().unwrap().len(), HANDOVERS_PER_SESSION + 1);
        assert!(entries.redeem(theirs.reveal(), "a").is_some());
        for n in 0..ENTRIES_PER_SESSION + 5 {
            entries.enter(session("s"), &n.to_string(), |_| true);
        }
        assert_eq!(entries.entered.lock().unwrap().len(), ENTRIES_PER_SESSION);
    }
}
