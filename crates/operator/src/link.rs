//! Signed links in mails: what a family lets the owner of an object do without signing in.
//!
//! The link names the family, the object, what is to be done and until when it holds, and carries a signature
//! over all of it; there is nothing to remember and nothing to look up. Mail programs and scanners
//! open links by themselves, so opening one shows a page, and only its button acts.

mod page;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use futures::future::BoxFuture;
use jiff::Timestamp;
use ring::hmac;
use sojourn_core::key::Key;

/// What links of a family can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkVerb {
    /// Stands for it in the link: mails outlive versions, so it never changes.
    pub code: u8,
    /// The title of its page.
    pub title: &'static str,
    /// What its button says.
    pub button: &'static str,
}

/// Whom a link is about.
#[derive(Debug, Clone, Copy)]
pub struct LinkSubject<'a> {
    pub family: &'a str,
    pub key: &'a Key,
    /// Of the object that is meant: another one may have its name later.
    pub uid: &'a str,
    /// Who gets it, as whom it acts; empty, if that makes no difference to what it does.
    pub recipient: &'a str,
    /// How often what it does was done to the object before, where the object counts that: a link acts once.
    pub count: u32,
}

impl<'a> LinkSubject<'a> {
    /// Of a link that acts as nobody in particular.
    pub const fn of(family: &'a str, key: &'a Key, uid: &'a str) -> Self {
        Self { family, key, uid, recipient: "", count: 0 }
    }
}

/// What a link says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkClaim {
    pub family: String,
    pub key: Key,
    /// Of the object that was meant: another one may have its name by now.
    pub uid: String,
    /// Who got it, as whom it acts; empty, if that makes no difference to what it does.
    pub recipient: String,
    /// How often what it does had been done when it was made, where the object counts that.
    pub count: u32,
    /// The code of what it does.
    pub verb: u8,
    pub expires: Timestamp,
    /// The same for every use of one link, and for no other link.
    pub id: String,
}

/// Why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("this link is not complete")]
    Malformed,
    #[error("this link is of a version that is not known here")]
    Version,
    #[error("this link was not made here, or was changed on its way")]
    Forged,
    #[error("this link holds no longer")]
    Expired,
}

/// What becomes of a link, in words for the person who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkStatus {
    /// Its button does this.
    Open(String),
    /// Its button was pressed before and does nothing more.
    Used(String),
    /// There is nothing that it could do.
    Refused(String),
}

/// What came of pressing a link's button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkOutcome {
    Done(String),
    /// It was done before, and was not done again.
    Used(String),
    /// It was not done, and will not be.
    Refused(String),
    /// It was not done, and may work in a moment.
    NotNow(String),
}

/// Does what a link says. It is called with good claims only, and may be called again with the
/// same one: a link acts once, however often its button is pressed.
pub trait LinkHandler: Send + Sync {
    /// What its links can do.
    fn verbs(&self) -> &'static [LinkVerb];

    /// What the button would do now.
    fn status(&self, claim: &LinkClaim) -> LinkStatus;

    fn execute(&self, claim: LinkClaim) -> BoxFuture<'_, LinkOutcome>;
}

/// Who does what the links of each family say.
pub type LinkHandlers = Vec<(&'static str, Arc<dyn LinkHandler>)>;

/// Tells the time; links end by it.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes and reads links. Clones have the same key.
#[derive(Clone)]
pub struct Links {
    key: hmac::Key,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl Links {
    /// `key` must outlive restarts, or the links in people's mail do not.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// The link's whole address, at the one where people reach us.
    pub fn sign(
        &self,
        public_url: &str,
        subject: LinkSubject<'_>,
        verb: u8,
        expires: Timestamp,
    ) -> String {
        let token = wire::encode(&self.key, subject, verb, expires);
        format!("{}/notice/{token}", public_url.trim_end_matches('/'))
    }

    /// What the link says, if it is ours and still holds.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<LinkClaim, LinkError> {
        let claim = wire::decode(&self.key, token)?;
        if claim.expires <= now { Err(LinkError::Expired) } else { Ok(claim) }
    }

    /// Serves `/notice/<token>` for every family, by its name; needs no sign-in.
    pub fn router(&self, handlers: LinkHandlers, now: Now) -> Router {
        let state = page::LinkPages { links: self.clone(), handlers, now };
        Router::new().route("/notice/{token}", get(page::show).post(page::follow)).with_state(state)
    }
}
