//! Who sent a request, and for how long they are who they were.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::Authenticator;
use super::instance::ENTER;
use crate::account::{Account, RECHECK_INTERVAL};
use crate::identity::{Credentials, Identity};
use crate::origin::Site;
use crate::session::Session;

/// Who sent a request, in its extensions for whatever is mounted behind the authenticator.
#[derive(Clone)]
pub struct Caller {
    /// As the API knows them now.
    pub identity: Arc<Identity>,
    pub(super) site: Site,
    /// Of the instance at whose origin they are; at our own there is none.
    pub label: Option<String>,
    pub(super) account: Arc<Account>,
    /// A browser's; a program has none.
    pub(super) session: Option<Session>,
    pub(super) authenticator: Authenticator,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Caller {
    /// Shows the caller's own token: it has their rights and no others.
    pub fn client(&self) -> kube::Client {
        self.authenticator.0.clients.client_with(&self.account.credentials.token)
    }

    /// Whether the caller's browser talks TLS, to us or to somebody in front of us.
    pub const fn is_secure(&self) -> bool {
        self.site.secure
    }

    /// Where the caller, who is at our origin, finds an instance: a browser by a token that is good
    /// once, a program by its own. None where no name leads there.
    pub fn instance_address(&self, label: &str, path: &str) -> Option<String> {
        let origin = self.authenticator.names().instance_origin(&self.site, label)?;
        Some(match &self.session {
            Some(session) => {
                let token = self.authenticator.0.entries.hand_over(session.id, label, path);
                format!("{origin}{ENTER}?token={}", token.reveal())
            }
            None => format!("{origin}{path}"),
        })
    }

    /// Where the caller, who is at an instance's origin, finds ours.
    pub fn own_address(&self, path: &str) -> String {
        format!("{}{path}", self.authenticator.names().own_origin(&self.site))
    }

    /// With what another session of the caller can be opened. Only a program has it: a session
    /// never makes another.
    pub fn credentials(&self) -> Option<Credentials> {
        let token = self.account.credentials.token.clone();
        let credentials = Credentials { identity: (*self.identity).clone(), token };
        self.session.is_none().then_some(credentials)
    }

    /// Ends when the caller is not who they were any more: the session is over, or the API knows
    /// the account no longer, or as somebody else or in other groups.
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        let Self { identity, account, session, authenticator, .. } = self.clone();
        Box::pin(async move {
            let over = session.as_ref().map(|session| session.ended.clone());
            tokio::select! {
                () = async { match over {
                    Some(over) => over.cancelled().await,
                    None => std::future::pending().await,
                } } => {}
                () = authenticator.changed(&identity, &account, session.as_ref()) => {}
            }
        })
    }
}

impl Authenticator {
    /// Ends at the first look that finds the caller changed.
    async fn changed(&self, identity: &Identity, account: &Account, session: Option<&Session>) {
        loop {
            tokio::time::sleep(RECHECK_INTERVAL).await;
            let is_over = session.is_some_and(|one| self.0.sessions.touch(&one.id).is_none());
            if is_over {
                return;
            }
            let latest = account.confirm(&self.0.tokens).await;
            if latest.is_none_or(|latest| *latest != *identity) {
                return;
            }
        }
    }
}
