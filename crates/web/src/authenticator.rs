//! Authentication of every request: who may come in, and as whom.
//!
//! Everything passes one guard, which knows the host, where the request comes from and whose
//! session it has. What is mounted behind sign-in finds a [`Caller`] in the request's extensions.
//! Cookies and tokens that are ours end here: no handler behind this layer sees them.
//!
//! A session is made from a bearer token, by a one-time link that only the token can ask for; no
//! session makes another. It ends with the token's account.
//!
//! **Our origin serves nothing of instances.** Each of those has an origin of its own (`instance`),
//! to which we hand over with a one-time token. So whatever script runs at our origin is ours; what
//! pages of other origins send is refused, but for plain visits, and those bring no cookie along
//! (`SameSite=Strict`). Our pages answer visits only, cannot be framed, and their forms carry a
//! token of the session.
//!
//! Cookies know no ports: whatever listens on another port of the very host name that a browser
//! knows us by is sent our cookie, too. On a machine of one's own those are its other servers.

mod caller;
mod instance;
mod pages;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{StatusCode, Uri};

use crate::account::Account;
use crate::cookie;
use crate::entry::Entries;
use crate::identity::{BearerToken, Clients, Credentials, Identity};
use crate::origin::{self, Names, Refusal, Sender, Site, Zone};
use crate::page::Message;
use crate::session::{Session, Sessions};
use crate::sign_in::SignIn;
use crate::token::{self, Holder, Tokens};

pub use caller::Caller;
pub use instance::{InstancePath, InstanceSite};

/// The group whose members may do everything.
const SUPERUSERS: &str = "system:masters";

/// Under which names people reach us.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `publicURL` of the configuration.
    pub public_url: Option<String>,
    /// Further host names, such as those of the certificate.
    pub names: Vec<String>,
    /// `gateway.domain` of the configuration: instances are below it.
    pub domain: Option<String>,
    /// Where we are reached on this machine, such as `http://127.0.0.1:7080`.
    pub listener_url: Option<String>,
    /// As whom somebody in `system:masters` comes in, bound by a role. Without it they do not.
    pub superuser: Option<Credentials>,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the public URL {url:?} is not http:// or https:// and a host")]
    PublicUrl { url: String },
}

/// What is served behind the authenticator.
#[derive(Debug, Default)]
pub struct Routes {
    /// Only for callers that are signed in or show a good token.
    pub signed_in: Router,
    /// Only for callers that show a good token: no session does for these.
    pub by_token: Router,
    /// For everybody; these have proofs of their own, such as signed links.
    pub open: Router,
    /// What the origins of instances serve.
    pub instance: InstanceSite,
    /// Which of these the front page leads to.
    pub pages: Vec<FrontLink>,
}

/// A page that the front page leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontLink {
    pub title: &'static str,
    /// Within our origin.
    pub path: String,
}

/// Guards what is mounted behind it. Clones share one state.
#[derive(Clone)]
pub struct Authenticator(Arc<Inner>);

struct Inner {
    names: RwLock<Arc<Names>>,
    sign_in: SignIn,
    sessions: Sessions,
    entries: Entries,
    tokens: Tokens,
    clients: Arc<dyn Clients>,
    superuser: Option<Credentials>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// `reviewer` may create token reviews.
    pub fn new(
        settings: &Settings,
        clients: Arc<dyn Clients>,
        reviewer: kube::Client,
    ) -> Result<Self, SettingsError> {
        let public_url = settings.public_url.as_deref();
        let names = Names::new(public_url, &settings.names).ok_or_else(|| {
            SettingsError::PublicUrl { url: public_url.unwrap_or_default().to_owned() }
        })?;
        let names =
            names.with_instances(settings.domain.as_deref(), settings.listener_url.as_deref());
        Ok(Self(Arc::new(Inner {
            names: RwLock::new(Arc::new(names)),
            sign_in: SignIn::default(),
            sessions: Sessions::default(),
            entries: Entries::default(),
            tokens: Tokens::new(reviewer),
            clients,
            superuser: settings.superuser.clone(),
        })))
    }

    /// People reach us at another address from now on; what is none changes nothing. Sessions
    /// belong to the name that they began under, so whoever comes to the new one signs in anew.
    pub fn set_public_url(&self, public_url: Option<&str>) -> Result<(), SettingsError> {
        let names = self.names().with_public_url(public_url).ok_or_else(|| {
            SettingsError::PublicUrl { url: public_url.unwrap_or_default().to_owned() }
        })?;
        *self.0.names.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        Ok(())
    }

    fn names(&self) -> Arc<Names> {
        self.0.names.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where one-time links are made.
    pub fn sign_in(&self) -> &SignIn {
        &self.0.sign_in
    }

    /// Everything that the listener serves.
    pub fn router(&self, routes: Routes) -> Router {
        let signed_in = routes.signed_in.layer(from_fn_with_state(self.clone(), authenticate));
        let by_token =
            routes.by_token.layer(from_fn_with_state(self.clone(), authenticate_by_token));
        pages::router(self, routes.pages)
            .merge(routes.open)
            .merge(signed_in)
            .merge(by_token)
            .fallback(pages::not_found)
            .layer(from_fn_with_state((self.clone(), routes.instance), guard))
    }

    /// The session that the request's cookie names. A page may have added cookies of our name, but
    /// none that we gave out: with two good ones nobody can say who is meant.
    fn session(&self, request: &Request, site: &Site) -> Option<Session> {
        let name = cookie::name(site.secure, site.port);
        let mut good = cookie::values(request.headers(), &name)
            .into_iter()
            .filter_map(|value| self.0.sessions.find(value));
        let session = good.next()?;
        good.all(|other| other.is_same(&session)).then_some(session)
    }

    /// The identity that a session has by now. It ends here with its account.
    async fn confirm(&self, session: &Session) -> Option<Arc<Identity>> {
        let identity = session.account.confirm(&self.0.tokens).await;
        if identity.is_none() {
            tracing::info!(
                user = session.account.credentials.identity.name,
                "a session ends with its account"
            );
            self.0.sessions.close(session);
        }
        identity
    }

    /// The account that a token stands for.
    async fn account(&self, token: &str) -> Result<Account, TokenRejection> {
        let credentials = match self.0.tokens.identify(token).await {
            Ok(Holder::Ordinary(identity)) => {
                Credentials { identity: (*identity).clone(), token: BearerToken::new(token) }
            }
            Ok(Holder::Privileged { group }) => match &self.0.superuser {
                Some(stand_in) if group == SUPERUSERS => stand_in.clone(),
                Some(_) | None => return Err(TokenRejection::Privileged(group)),
            },
            Ok(Holder::Nobody) => return Err(TokenRejection::Nobody),
            Err(error) => {
                tracing::warn!(%error, "a caller could not be identified");
                return Err(TokenRejection::ApiUnavailable);
            }
        };
        Ok(Account::new(credentials))
    }
}

/// Why a token is not accepted.
enum TokenRejection {
    Nobody,
    /// Rights that no role gave do not come in.
    Privileged(String),
    ApiUnavailable,
}

/// What the guard found out about a request; in its extensions.
#[derive(Debug, Clone)]
struct CheckedRequest {
    site: Site,
    sender: Sender,
    /// With who its user is by now.
    session: Option<(Session, Arc<Identity>)>,
}

/// Refuses what may not come in at all, and finds out whose session it is.
async fn guard(
    State((authenticator, instance)): State<(Authenticator, InstanceSite)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let site = match authenticator.names().site(&parts) {
        Ok(site) => site,
        Err(refusal) => return refused(refusal).answer(&parts.headers),
    };
    if let Zone::Instance { label, .. } = &site.zone {
        let (label, request) = (label.clone(), Request::from_parts(parts, body));
        return instance::serve(&authenticator, &instance, site, &label, request).await;
    }
    let sender = match origin::sender(&parts, &site) {
        Ok(sender) => sender,
        Err(refusal) => return refused(refusal).answer(&parts.headers),
    };
    let mut request = Request::from_parts(parts, body);
    let session = sender.may_use_cookie().then(|| authenticator.session(&request, &site)).flatten();
    let session = match session {
        Some(session) => authenticator.confirm(&session).await.map(|identity| (session, identity)),
        None => None,
    };
    cookie::remove_reserved(request.headers_mut());
    request.extensions_mut().insert(CheckedRequest { site, sender, session });
    next.run(request).await
}

/// Lets in who is signed in or shows a good token, and says who it is. A session comes first: with
/// one, an `Authorization` is between the page and whatever it talks to.
async fn authenticate(
    State(authenticator): State<Authenticator>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(checked) = request.extensions_mut().remove::<CheckedRequest>() else {
        return unguarded(&request);
    };
    let CheckedRequest { site, session: Some((session, identity)), .. } = checked else {
        return with_token(authenticator, checked, request, next).await;
    };
    let account = session.account.clone();
    let caller =
        Caller { identity, site, label: None, account, session: Some(session), authenticator };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Lets in who shows a good token; a session counts for nothing.
async fn authenticate_by_token(
    State(authenticator): State<Authenticator>,
    mut request: Request,
    next: Next,
) -> Response {
    match request.extensions_mut().remove::<CheckedRequest>() {
        Some(checked) => with_token(authenticator, checked, request, next).await,
        None => unguarded(&request),
    }
}

async fn with_token(
    authenticator: Authenticator,
    checked: CheckedRequest,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(token) = token::bearer(request.headers()).map(str::to_owned) else {
        return unknown(&request, checked.sender);
    };
    request.headers_mut().remove(AUTHORIZATION);
    let account = match authenticator.account(&token).await {
        Ok(account) => Arc::new(account),
        Err(TokenRejection::Nobody) => return unknown(&request, checked.sender),
        Err(TokenRejection::Privileged(group)) => {
            return privileged(&group).answer(request.headers());
        }
        Err(TokenRejection::ApiUnavailable) => return api_unavailable().answer(request.headers()),
    };
    let identity = Arc::new(account.credentials.identity.clone());
    let site = checked.site;
    let caller = Caller { identity, site, label: None, account, session: None, authenticator };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

fn unguarded(request: &Request) -> Response {
    tracing::error!("a request came in without passing the guard");
    pages::internal_error().answer(request.headers())
}

fn privileged(group: &str) -> OwnedMessage {
    let text = format!(
        "This account is in the group {group}, whose rights no role gave and none can take away. \
         Show the token of an account that is bound by a role."
    );
    OwnedMessage { status: StatusCode::FORBIDDEN, title: "Refused", text }
}

const fn api_unavailable() -> Message<'static> {
    Message {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Not now",
        paragraphs: &["The API does not say who you are. Try again in a moment."],
        link: None,
    }
}

/// For somebody whom we do not know: how to sign in.
fn unknown(request: &Request, sender: Sender) -> Response {
    let mut response = match sender {
        // The browser kept our cookie back, as it should; a click on our own page brings it along.
        Sender::Link => Message {
            status: StatusCode::UNAUTHORIZED,
            title: "Go on to Sojourn?",
            paragraphs: &["You followed a link on another site."],
            link: Some((local(request.uri()), "Go on")),
        }
        .page(),
        Sender::Ours | Sender::Unsaid => pages::not_signed_in().answer(request.headers()),
    };
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// The address within our site. Two slashes at its beginning would lead to another one.
fn local(uri: &Uri) -> &str {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let leads_away = path.starts_with("//") || path.starts_with("/\\");
    if leads_away || !path.starts_with('/') { "/" } else { path }
}

fn refused(refusal: Refusal) -> OwnedMessage {
    OwnedMessage { status: refusal.status(), title: "Refused", text: refusal.to_string() }
}

/// A message whose text is made at run time.
struct OwnedMessage {
    status: StatusCode,
    title: &'static str,
    text: String,
}

impl OwnedMessage {
    fn answer(&self, headers: &http::HeaderMap) -> Response {
        let paragraphs = [self.text.as_str()];
        let Self { status, title, .. } = *self;
        Message { status, title, paragraphs: &paragraphs, link: None }.answer(headers)
    }
}
