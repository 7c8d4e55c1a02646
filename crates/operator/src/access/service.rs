//! What people do with sessions: they request them, and act on them. Every replica serves it.
//!
//! It reads what the API holds before it decides, and writes under the uid and version of what it read. Of two who
//! act at the same time one is refused, reads again and decides again.

mod http;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sojourn_api::access::{
    AccessConfig, BreakglassEscalation, BreakglassSession, BreakglassSessionSpec,
    BreakglassSessionStatus, check_session, escalation, session, spec_of, write_state,
};
use sojourn_core::access::act::{Recorded, Verb, act};
use sojourn_core::access::escalation::Approvers;
use sojourn_core::access::person::Person;
use sojourn_core::access::refusal::Refusal;
use sojourn_core::access::request::{ExistingSession, NewSession, Request, request, session_name};
use sojourn_core::access::session::{SessionState, State};
use sojourn_core::key::Key;
use sojourn_core::term::words;

use super::caches::{
    AccessCaches, USER_LABEL, lacks_user_label, read_state_of, read_usage_of, user_label,
};
use super::transition::{self, Transition};
use crate::api_error::api_error_message;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::family::FamilyCaller;
use crate::frame::status::Definitions;
use crate::frame::write::ObjectVersion;
use crate::frame::{Read, RequestError};

pub use self::http::router;
pub(super) use self::http::{only_known_callers, read_duration, state_named};

/// So often somebody who lost a race reads again.
const MAX_ATTEMPTS: u32 = 8;
/// So many choices a form has.
const MAX_OFFERS: usize = 500;
/// So long a session that was just created may take until somebody has looked at it.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests sessions and acts on them for people. Clones share everything.
#[derive(Clone)]
pub struct AccessService {
    /// Not fenced: what people decide needs no leader.
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) caches: Arc<AccessCaches>,
    pub(super) config: Arc<Configuration<AccessConfig>>,
    pub(super) events: Events,
    pub(super) definitions: Arc<Definitions>,
}

impl std::fmt::Debug for AccessService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessService").finish_non_exhaustive()
    }
}

/// Why somebody's wish was not done.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("{refusal}")]
    Refused {
        refusal: Refusal,
        /// The session that is in the way, where one is.
        existing: Option<Key>,
    },
    #[error("there is no session {0}")]
    NotFound(Key),
    #[error("too many change session {0} at the same time; try again")]
    Contended(Key),
    /// What the API refused.
    #[error("{message}")]
    Rejected { code: u16, message: String },
    #[error("cannot {what}: {message}")]
    Api { what: &'static str, message: String },
}

impl ServiceError {
    /// The status code of the answer.
    pub const fn code(&self) -> u16 {
        match self {
            Self::Refused { refusal, .. } => refusal.code(),
            Self::NotFound(_) => 404,
            Self::Contended(_) => 409,
            Self::Rejected { code, .. } => *code,
            Self::Api { .. } => 503,
        }
    }

    fn refused(refusal: Refusal) -> Self {
        Self::Refused { refusal, existing: None }
    }

    fn of(what: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if matches!(status.code, 403 | 404 | 422) => {
                Self::Rejected { code: status.code, message: api_error_message(error) }
            }
            _ => Self::Api { what, message: api_error_message(error) },
        }
    }
}

impl AccessService {
    /// Who asks, as the configuration has their review read.
    pub fn person(&self, caller: &FamilyCaller) -> Person {
        person(caller, &self.config.current())
    }

    /// Creates a session in a namespace that offers it.
    pub async fn request(
        &self,
        person: &Person,
        namespace: &str,
        asked: Request,
    ) -> Result<BreakglassSession, ServiceError> {
        let mut made_before: Option<String> = None;
        for _ in 0..MAX_ATTEMPTS {
            let escalations = self.escalations(namespace).await?;
            let existing = self.sessions_of(&person.user).await?;
            let described: Vec<ExistingSession> = existing.iter().map(existing_session).collect();
            let now = self.clock.now();
            let new = request(person, &asked, &escalations, &described, now)
                .map_err(|refusal| self.in_the_way(refusal, &asked, &existing))?;
            let names: Vec<String> = existing
                .iter()
                .filter(|one| {
                    one.spec.cluster == new.cluster && one.spec.granted_group == new.granted_group
                })
                .map(ResourceExt::name_any)
                .chain(made_before.clone())
                .collect();
            let name = session_name(
                &new.cluster,
                &new.user,
                &new.granted_group,
                names.iter().map(String::as_str),
            );
            let spec = self.allowed_spec(&new)?;
            let object = BreakglassSession {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some(namespace.to_owned()),
                    labels: Some(BTreeMap::from([(USER_LABEL.to_owned(), user_label(&new.user))])),
                    ..ObjectMeta::default()
                },
                spec,
                status: None,
            };
            let api: Api<BreakglassSession> = Api::namespaced(self.client.clone(), namespace);
            match api.create(&PostParams::default(), &object).await {
                Ok(created) => {
                    let key = Key::new(namespace, name);
                    transition::tell(&self.events, &created, &Transition::requested(&created));
                    self.caches.record_act(&key, created.clone());
                    return Ok(self.first_look(&key, created).await);
                }
                // Somebody asked for the same a moment ago; or the name is another user's by a collision of hashes.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    made_before = Some(name);
                }
                Err(error) => return Err(ServiceError::of("create the session", &error)),
            }
        }
        Err(ServiceError::Contended(Key::new(namespace, made_before.unwrap_or_default())))
    }

    /// What is created, if the options allow it as they are now: a cluster does not ask about what we write.
    fn allowed_spec(&self, new: &NewSession) -> Result<BreakglassSessionSpec, ServiceError> {
        let config = self.config.current();
        let mut new = new.clone();
        new.terms.retain_for = config.retention.bounded(new.terms.retain_for);
        let spec = spec_of(&new);
        let problems = check_session(&spec, &config);
        if problems.is_empty() {
            return Ok(spec);
        }
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let words = format!("the configuration does not allow it: {}", words.join("; "));
        Err(ServiceError::refused(Refusal::Invalid(words)))
    }

    /// Names the session that is in the way of a request, if that is why it was refused.
    fn in_the_way(
        &self,
        refusal: Refusal,
        asked: &Request,
        existing: &[BreakglassSession],
    ) -> ServiceError {
        let conflicts = matches!(refusal, Refusal::Conflict(_));
        let occupies = |one: &&BreakglassSession| {
            let same = one.spec.cluster == asked.cluster && one.spec.granted_group == asked.group;
            same && !read_state_of(one).state.is_some_and(State::is_final)
        };
        let found = existing.iter().find(occupies).filter(|_| conflicts);
        let existing =
            found.map(|one| Key::new(one.namespace().unwrap_or_default(), one.name_any()));
        ServiceError::Refused { refusal, existing }
    }

    /// What somebody does to a session.
    pub async fn act(
        &self,
        person: &Person,
        key: &Key,
        verb: Verb,
        said: Option<&str>,
    ) -> Result<BreakglassSession, ServiceError> {
        self.act_as_expected(Act { person, key, verb, said, expected: None }).await
    }

    /// The same, if the session is as whoever acts expects it.
    pub(super) async fn act_as_expected(
        &self,
        asked: Act<'_>,
    ) -> Result<BreakglassSession, ServiceError> {
        let Act { person, key, verb, .. } = asked;
        for attempt in 0..MAX_ATTEMPTS {
            let decided = self.decide(asked).await?;
            let Decided { object, acted, was_new } = decided;
            let next = match acted {
                // The controller has not looked at it yet.
                Err(Refusal::Conflict(_)) if was_new && attempt == 0 => {
                    self.first_look(key, object).await;
                    continue;
                }
                acted => acted.map_err(ServiceError::refused)?,
            };
            let before = object.status.clone();
            let mut status = before.clone().unwrap_or_default();
            write_state(&next, &mut status);
            match self.write(key, &object, &status).await {
                Ok(written) => {
                    self.tell(&written, before.as_ref(), (person, verb));
                    self.caches.record_act(key, written.clone());
                    return Ok(written);
                }
                // Somebody else was faster: what they made of it is read next.
                Err(RequestError::Outdated { .. }) => {}
                Err(RequestError::Gone { .. }) => return Err(ServiceError::NotFound(key.clone())),
                Err(RequestError::Api { what, source }) => {
                    return Err(ServiceError::of(what, &source));
                }
                Err(error) => {
                    let message = error.to_string();
                    return Err(ServiceError::Api { what: "write the session", message });
                }
            }
        }
        Err(ServiceError::Contended(key.clone()))
    }

    /// Reads a session as it is now, and decides what somebody makes of it.
    async fn decide(&self, asked: Act<'_>) -> Result<Decided, ServiceError> {
        let Act { person, key, verb, said, expected } = asked;
        let object = self.get(key).await?;
        if let Some(expected) = expected {
            expected.check(&object, key)?;
        }
        let approvers = self.approvers(&object).await?;
        let read = session(&object).map_err(|problems| {
            let words = format!("the session cannot be read: {problems}");
            ServiceError::refused(Refusal::BadState(words))
        })?;
        let state = read_state_of(&object);
        let (was_new, now) = (state.state.is_none(), self.clock.now());
        let last_use = read_usage_of(&object).last_use();
        let recorded = Recorded { session: &read, state, last_use };
        let acted = act(verb, person, said, recorded, approvers.as_ref(), now);
        Ok(Decided { object, acted, was_new })
    }

    /// Whether somebody may do that to a session, whatever they say about it and whatever its state.
    async fn may_act(&self, person: &Person, key: &Key, verb: Verb) -> Result<(), ServiceError> {
        let asked = Act { person, key, verb, said: None, expected: None };
        match self.decide(asked).await?.acted {
            Err(refusal @ Refusal::Forbidden(_)) => Err(ServiceError::refused(refusal)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The sessions that somebody may see: their own, and those that they may approve.
    pub fn list(&self, person: &Person, filter: &SessionFilter) -> Vec<BreakglassSession> {
        let found = self.find(person, filter);
        found.iter().filter_map(|one| one.as_ref().as_ref().ok().cloned()).collect()
    }

    /// The same as they are cached, by key. Whether somebody approves for an escalation is asked once, however many
    /// sessions it has.
    pub(super) fn find(
        &self,
        person: &Person,
        filter: &SessionFilter,
    ) -> Vec<Arc<Read<BreakglassSession>>> {
        let mut approves: HashMap<Key, bool> = HashMap::new();
        let mut may_see = |key: &Key, object: &BreakglassSession| {
            is_own(person, object)
                || *approves
                    .entry(escalation_key(key, object))
                    .or_insert_with(|| self.is_approver(person, key, object))
        };
        let mut keys = self.caches.sessions.keys();
        keys.sort_unstable();
        keys.retain(|key| filter.namespace.as_deref().is_none_or(|one| one == &*key.namespace));
        let found = keys.iter().filter_map(|key| {
            let read = self.caches.sessions.get(key)?;
            let object = read.as_ref().as_ref().ok()?;
            let state = object.status.as_ref().and_then(|status| status.state);
            let state = state.map_or(State::Pending, State::from);
            let listed = filter.state.is_none_or(|one| one == state) && may_see(key, object);
            listed.then_some(read)
        });
        found.collect()
    }

    /// A session that somebody may see, with what they may do to it now.
    pub(super) fn visible(&self, person: &Person, key: &Key) -> Option<VisibleSession> {
        let object = self.caches.get(key)?;
        if !self.may_see(person, key, &object) {
            return None;
        }
        let approvers = self.caches.escalation(key, &object);
        let approvers = approvers.and_then(|one| escalation(&one).ok()).map(|one| one.approvers);
        let now = self.clock.now();
        let last_use = read_usage_of(&object).last_use();
        let may = |verb: &Verb| {
            let Ok(read) = session(&object) else { return false };
            let recorded = Recorded { session: &read, state: read_state_of(&object), last_use };
            act(*verb, person, None, recorded, approvers.as_ref(), now).is_ok()
        };
        let verbs = Verb::ALL.into_iter().filter(may).collect();
        Some(VisibleSession { object, verbs })
    }

    /// What somebody may ask for, in the order of names.
    pub(super) fn offers(&self, person: &Person) -> Vec<Offer> {
        let mut offers = Vec::new();
        for key in self.caches.escalations.keys() {
            let Some(read) = self.caches.escalations.get(&key) else { continue };
            let Ok(object) = read.as_ref().as_ref() else { continue };
            let Ok(offered) = escalation(object) else { continue };
            let clusters = offered.allowed.clusters.iter();
            let allowed = clusters.filter(|cluster| person.is_allowed(&offered.allowed, cluster));
            offers.extend(allowed.map(|cluster| Offer {
                namespace: key.namespace.to_string(),
                escalation: offered.name.clone(),
                group: offered.escalated_group.clone(),
                cluster: cluster.clone(),
                at_most: words(offered.terms.max_valid_for),
            }));
        }
        offers.sort_unstable();
        offers.truncate(MAX_OFFERS);
        offers
    }

    fn may_see(&self, person: &Person, key: &Key, object: &BreakglassSession) -> bool {
        is_own(person, object) || self.is_approver(person, key, object)
    }

    fn is_approver(&self, person: &Person, key: &Key, object: &BreakglassSession) -> bool {
        let read = self.caches.escalation(key, object).and_then(|one| escalation(&one).ok());
        read.is_some_and(|one| person.is_among(&one.approvers))
    }

    /// Waits a moment until the controller has looked at a session that was just created.
    async fn first_look(&self, key: &Key, created: BreakglassSession) -> BreakglassSession {
        let mut changes = self.caches.changes();
        let looked_at = || {
            let known = self.caches.get(key).filter(|known| known.uid() == created.uid());
            known.filter(|known| read_state_of(known).state.is_some())
        };
        let look = async {
            loop {
                if let Some(known) = looked_at() {
                    return Some(known);
                }
                changes.changed().await.ok()?;
            }
        };
        let looked = tokio::time::timeout(FIRST_LOOK_TIMEOUT, look).await;
        looked.ok().flatten().unwrap_or(created)
    }

    pub(super) async fn get(&self, key: &Key) -> Result<BreakglassSession, ServiceError> {
        let api: Api<BreakglassSession> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = api.get_opt(&key.name).await;
        let found = found.map_err(|error| ServiceError::of("read the session", &error))?;
        found.ok_or_else(|| ServiceError::NotFound(key.clone()))
    }

    /// What a namespace offers. Escalations that cannot be read offer nothing.
    async fn escalations(
        &self,
        namespace: &str,
    ) -> Result<Vec<sojourn_core::access::escalation::Escalation>, ServiceError> {
        let api: Api<BreakglassEscalation> = Api::namespaced(self.client.clone(), namespace);
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| ServiceError::of("list the escalations", &error))?;
        Ok(listed.items.iter().filter_map(|one| escalation(one).ok()).collect())
    }

    /// All sessions of a user, in every namespace: as the API has them, and those that only the cache knows to be
    /// theirs.
    async fn sessions_of(&self, user: &str) -> Result<Vec<BreakglassSession>, ServiceError> {
        let api: Api<BreakglassSession> = Api::all(self.client.clone());
        let params = ListParams::default().labels(&format!("{USER_LABEL}={}", user_label(user)));
        let listed = api.list(&params).await;
        let listed = listed.map_err(|error| ServiceError::of("list the sessions", &error))?;
        let mut sessions: Vec<BreakglassSession> =
            listed.items.into_iter().filter(|one| one.spec.user == user).collect();
        for (_, known) in self.caches.of_user(user) {
            if lacks_user_label(&known) && sessions.iter().all(|one| one.uid() != known.uid()) {
                sessions.push(known);
            }
        }
        Ok(sessions)
    }

    /// Who approves a session, as its escalation says now; nobody, if that is gone.
    pub(super) async fn approvers(
        &self,
        object: &BreakglassSession,
    ) -> Result<Option<Approvers>, ServiceError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<BreakglassEscalation> = Api::namespaced(self.client.clone(), &namespace);
        let found = api.get_opt(&object.spec.escalation_ref.name).await;
        let found = found.map_err(|error| ServiceError::of("read the escalation", &error))?;
        Ok(found.and_then(|one| escalation(&one).ok()).map(|one| one.approvers))
    }

    /// Writes the status of the very object that was read, if nobody has changed it since.
    async fn write(
        &self,
        key: &Key,
        read: &BreakglassSession,
        status: &BreakglassSessionStatus,
    ) -> Result<BreakglassSession, RequestError> {
        const WHAT: &str = "write the session";
        let api: Api<BreakglassSession> = Api::namespaced(self.client.clone(), &key.namespace);
        let (target, now) = (ObjectVersion::of(read), self.clock.now());
        let definitions = &self.definitions;
        let (object, written) =
            definitions.write_status((&api, WHAT), &target, status, &self.events, now).await;
        written?;
        object.ok_or(RequestError::Gone { what: WHAT })
    }

    fn tell(
        &self,
        written: &BreakglassSession,
        before: Option<&BreakglassSessionStatus>,
        (person, verb): (&Person, Verb),
    ) {
        match Transition::between(before, written) {
            Some(transition) => transition::tell(&self.events, written, &transition),
            None => {
                let acted = (person.user.as_str(), verb.as_str());
                transition::tell_act(&self.events, written, acted, self.clock.now());
            }
        }
    }
}

/// What somebody does, and to which session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act<'a> {
    pub(super) person: &'a Person,
    pub(super) key: &'a Key,
    pub(super) verb: Verb,
    /// Their reason.
    pub(super) said: Option<&'a str>,
    pub(super) expected: Option<Expected<'a>>,
}

/// What a session must still be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) uid: &'a str,
    /// How often it was extended: whoever extends it by a link does so once.
    pub(super) extensions: u32,
}

impl Expected<'_> {
    fn check(self, object: &BreakglassSession, key: &Key) -> Result<(), ServiceError> {
        if object.uid().as_deref() != Some(self.uid) {
            return Err(ServiceError::NotFound(key.clone()));
        }
        if read_state_of(object).extensions > self.extensions {
            let words = "the session was extended in the meantime".to_owned();
            return Err(ServiceError::refused(Refusal::Conflict(words)));
        }
        Ok(())
    }
}

/// What somebody's act comes to.
struct Decided {
    object: BreakglassSession,
    acted: Result<SessionState, Refusal>,
    /// The controller has not looked at it yet.
    was_new: bool,
}

/// A session that somebody may see.
#[derive(Debug)]
pub(super) struct VisibleSession {
    pub(super) object: BreakglassSession,
    /// What they may do to it now.
    pub(super) verbs: Vec<Verb>,
}

/// What somebody may ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    pub(super) namespace: String,
    pub(super) escalation: String,
    pub(super) cluster: String,
    pub(super) group: String,
    /// For how long, in words.
    pub(super) at_most: String,
}

impl Offer {
    /// As a form names it. A group may have a slash in its name, the others have none.
    pub(super) fn value(&self) -> String {
        let Self { namespace, escalation, cluster, group, .. } = self;
        format!("{namespace}/{escalation}/{cluster}/{group}")
    }

    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut parts = value.splitn(4, '/').map(str::to_owned);
        let (namespace, escalation) = (parts.next()?, parts.next()?);
        let (cluster, group) = (parts.next()?, parts.next()?);
        Some(Self { namespace, escalation, cluster, group, at_most: String::new() })
    }
}

/// Which sessions are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub namespace: Option<String>,
    pub state: Option<State>,
}

/// Whether it is somebody's own, and not that of one of the same name whom somebody else vouched for.
fn is_own(person: &Person, object: &BreakglassSession) -> bool {
    let spec = &object.spec;
    let vouched = |pinned| person.issuer.as_deref() == Some(pinned);
    spec.user == person.user && spec.issuer.as_deref().is_none_or(vouched)
}

fn escalation_key(key: &Key, object: &BreakglassSession) -> Key {
    Key::new(key.namespace.clone(), object.spec.escalation_ref.name.as_str())
}

fn existing_session(object: &BreakglassSession) -> ExistingSession {
    let state = read_state_of(object);
    let spec = &object.spec;
    ExistingSession {
        name: object.name_any(),
        user: spec.user.clone(),
        cluster: spec.cluster.clone(),
        group: spec.granted_group.clone(),
        escalation: spec.escalation_ref.name.clone(),
        state: state.state,
        expires_at: state.expires_at,
    }
}

/// Who somebody is, by what the configuration says about their review.
pub(super) fn person(caller: &FamilyCaller, config: &AccessConfig) -> Person {
    let extra = |key: &Option<String>| match caller.extra.get(key.as_ref()?)?.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    let address = || config.address_of_user(&caller.user).map(str::to_owned);
    Person {
        user: caller.user.clone(),
        email: extra(&config.email).or_else(address),
        groups: caller.groups.clone(),
        issuer: extra(&config.issuer),
    }
}

/// What an error says over HTTP.
fn error_body(error: &ServiceError) -> serde_json::Value {
    let mut body = json!({ "error": error.to_string(), "code": error.code() });
    if let ServiceError::Refused { existing: Some(key), .. } = error {
        body["session"] = json!({ "namespace": &*key.namespace, "name": &*key.name });
    }
    body
}
