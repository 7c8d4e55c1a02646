//! What the links in mails do: whoever got one approves, rejects, extends or drops a session, as themselves and under
//! every check that holds when they sign in. Groups are not known without signing in, so links act for those only
//! whom an escalation names as users.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::ResourceExt as _;
use sojourn_api::access::{AccessConfig, BreakglassSession, escalation, session};
use sojourn_core::access::act::{Recorded, Verb, act};
use sojourn_core::access::escalation::Approvers;
use sojourn_core::access::person::Person;
use sojourn_core::access::session::State;
use sojourn_core::moment::Utc;

use super::caches::{read_state_of, read_usage_of};
use super::service::{AccessService, Act, Expected, ServiceError};
use crate::link::{LinkClaim, LinkHandler, LinkOutcome, LinkStatus, LinkVerb};

/// What stands for a verb in a link.
pub(super) const fn code(verb: Verb) -> u8 {
    match verb {
        Verb::Approve => b'a',
        Verb::Reject => b'r',
        Verb::Withdraw => b'w',
        Verb::Drop => b'd',
        Verb::Cancel => b'c',
        Verb::Extend => b'e',
    }
}

const VERBS: &[LinkVerb] = &[
    LinkVerb { code: code(Verb::Approve), title: "Approve this session", button: "Approve it" },
    LinkVerb { code: code(Verb::Reject), title: "Reject this session", button: "Reject it" },
    LinkVerb { code: code(Verb::Extend), title: "Extend your session", button: "Extend it" },
    LinkVerb { code: code(Verb::Drop), title: "Give your session back", button: "Give it back" },
];

#[derive(Debug)]
pub(super) struct SessionLinkHandler(pub(super) AccessService);

impl LinkHandler for SessionLinkHandler {
    fn verbs(&self) -> &'static [LinkVerb] {
        VERBS
    }

    fn status(&self, claim: &LinkClaim) -> LinkStatus {
        let service = &self.0;
        let object = service.caches.get(&claim.key);
        let escalation_of = |object| service.caches.escalation(&claim.key, object);
        let escalated = object.as_ref().and_then(escalation_of);
        let approvers = escalated.and_then(|one| escalation(&one).ok()).map(|one| one.approvers);
        self.decide(object.as_ref(), approvers.as_ref(), claim)
    }

    fn execute(&self, claim: LinkClaim) -> BoxFuture<'_, LinkOutcome> {
        async move { self.act(&claim).await }.boxed()
    }
}

impl SessionLinkHandler {
    async fn act(&self, claim: &LinkClaim) -> LinkOutcome {
        let service = &self.0;
        let read = match service.get(&claim.key).await {
            Ok(object) => Some(object),
            Err(ServiceError::NotFound(_)) => None,
            Err(error) => return not_now(claim, &error),
        };
        let approvers = match &read {
            Some(object) => match service.approvers(object).await {
                Ok(approvers) => approvers,
                Err(error) => return not_now(claim, &error),
            },
            None => None,
        };
        let (verb, object) = match (self.decide(read.as_ref(), approvers.as_ref(), claim), &read) {
            (LinkStatus::Used(words), _) => return LinkOutcome::Used(words),
            (LinkStatus::Refused(words), _) => return LinkOutcome::Refused(words),
            (LinkStatus::Open(_), Some(object)) => match verb_of(claim) {
                Some(verb) => (verb, object),
                None => return LinkOutcome::Refused(unknown_verb(claim)),
            },
            (LinkStatus::Open(_), None) => return LinkOutcome::Refused(gone(claim)),
        };
        let person = person(claim, object, &service.config.current());
        let expected = Some(Expected { uid: &claim.uid, extensions: claim.count });
        let asked = Act { person: &person, key: &claim.key, verb, said: None, expected };
        match service.act_as_expected(asked).await {
            Ok(written) => LinkOutcome::Done(done(verb, &written)),
            Err(ServiceError::Refused { refusal, .. }) => LinkOutcome::Refused(sentence(&refusal)),
            Err(ServiceError::NotFound(_)) => LinkOutcome::Refused(gone(claim)),
            Err(error) => not_now(claim, &error),
        }
    }

    /// What its button does, or why nothing.
    fn decide(
        &self,
        object: Option<&BreakglassSession>,
        approvers: Option<&Approvers>,
        claim: &LinkClaim,
    ) -> LinkStatus {
        let (config, now) = (self.0.config.current(), self.0.clock.now());
        decide_link(object, approvers, claim, &config, now)
    }
}

fn decide_link(
    object: Option<&BreakglassSession>,
    approvers: Option<&Approvers>,
    claim: &LinkClaim,
    config: &AccessConfig,
    now: Timestamp,
) -> LinkStatus {
    let meant = |object: &&BreakglassSession| object.uid().as_deref() == Some(&claim.uid);
    let Some(object) = object.filter(meant) else { return LinkStatus::Refused(gone(claim)) };
    let Some(verb) = verb_of(claim) else { return LinkStatus::Refused(unknown_verb(claim)) };
    let person = person(claim, object, config);
    let state = read_state_of(object);
    let used = match verb {
        Verb::Approve => state.approvals.iter().any(|approval| approval.may_be_of(&person)),
        Verb::Extend => state.extensions > claim.count,
        Verb::Reject | Verb::Withdraw | Verb::Drop | Verb::Cancel => {
            state.ended_by.as_ref() == Some(&person.user)
        }
    };
    if used {
        let is = state.state.map_or("", State::as_str);
        let words =
            format!("This was done before and is not done again. {} is {is}.", title(object));
        return LinkStatus::Used(words);
    }
    let Ok(read) = session(object) else {
        return LinkStatus::Refused(format!("{} cannot be read.", title(object)));
    };
    let recorded = Recorded { session: &read, state, last_use: read_usage_of(object).last_use() };
    match act(verb, &person, None, recorded, approvers, now) {
        Ok(_) => LinkStatus::Open(before(verb, object)),
        Err(refusal) => LinkStatus::Refused(sentence(&refusal)),
    }
}

/// Whoever got the link. The mail about a session goes to its user, whoever vouched for them.
fn person(claim: &LinkClaim, object: &BreakglassSession, config: &AccessConfig) -> Person {
    let user = claim.recipient.clone();
    let issuer = object.spec.issuer.as_deref().filter(|_| object.spec.user == user);
    let issuer = issuer.map(str::to_owned);
    let email = config.address_of_user(&user).map(str::to_owned);
    Person { user, email, groups: Vec::new(), issuer }
}

fn verb_of(claim: &LinkClaim) -> Option<Verb> {
    let offered = |verb: &Verb| VERBS.iter().any(|known| known.code == code(*verb));
    Verb::ALL.into_iter().find(|verb| code(*verb) == claim.verb && offered(verb))
}

fn title(object: &BreakglassSession) -> String {
    let spec = &object.spec;
    format!("The session of {} for {} on {}", spec.user, spec.granted_group, spec.cluster)
}

fn before(verb: Verb, object: &BreakglassSession) -> String {
    let title = title(object);
    let reason = object.spec.reason.as_deref().filter(|reason| !reason.is_empty());
    match verb {
        Verb::Approve => {
            let why = reason.map_or("No reason was given".to_owned(), |r| format!("Reason: {r}"));
            format!("{title} is then approved by you. {why}.")
        }
        Verb::Reject => format!("{title} is then rejected, and its user is told."),
        Verb::Extend => format!("{title} then ends later, and its idle time begins anew."),
        Verb::Drop | Verb::Withdraw | Verb::Cancel => {
            format!("{title} then ends at once. Whoever needs it again asks again.")
        }
    }
}

fn done(verb: Verb, object: &BreakglassSession) -> String {
    let (title, state) = (title(object), read_state_of(object));
    let ends = state.expires_at.map(|at| format!(" It ends at {}.", Utc(at))).unwrap_or_default();
    match (verb, state.state) {
        (Verb::Approve, Some(State::Pending)) => {
            format!("You approved it. {title} needs the approval of somebody else, too.")
        }
        (Verb::Approve, _) => format!("{title} is approved.{ends}"),
        (Verb::Extend, _) => format!("{title} is extended.{ends}"),
        (Verb::Reject, _) => format!("{title} is rejected."),
        (Verb::Drop | Verb::Withdraw | Verb::Cancel, _) => format!("{title} has ended."),
    }
}

fn gone(claim: &LinkClaim) -> String {
    format!("The session {} is not there any more.", claim.key.name)
}

fn unknown_verb(claim: &LinkClaim) -> String {
    format!("The session {} cannot do what this link asks for.", claim.key.name)
}

/// A refusal as a sentence.
fn sentence(refusal: &impl std::fmt::Display) -> String {
    let words = refusal.to_string();
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn not_now(claim: &LinkClaim, error: &ServiceError) -> LinkOutcome {
    tracing::warn!(session = %claim.key, %error, "a link did nothing");
    LinkOutcome::NotNow("It did not work this time. Please try again in a minute.".to_owned())
}

#[cfg(test)]
mod tests;
