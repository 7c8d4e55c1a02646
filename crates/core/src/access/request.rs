//! A request: what somebody asks for, and the session that is made of it.
//!
//! The terms of the escalation are copied into the session, so that later edits of that do not reach it.

use jiff::{SignedDuration, Timestamp};

use super::escalation::Escalation;
use super::person::Person;
use super::refusal::{Refusal, check_reason};
use super::session::{State, Terms};
use crate::moment::{Utc, ceil_second, saturating_add};
use crate::term::{Term, words};

#[cfg(test)]
mod tests;

/// So long before it starts a session has to be requested.
const MIN_LEAD_TIME: SignedDuration = SignedDuration::from_mins(5);
/// Nobody can ask for less.
const MIN_DURATION: SignedDuration = SignedDuration::from_mins(1);
/// Of an idle timeout at most this part is a warning.
const WARNING_PART: i32 = 5;
/// The length of a DNS label.
const MAX_NAME_LENGTH: usize = 63;

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    pub cluster: String,
    pub group: String,
    pub reason: Option<String>,
    /// A shorter time than the escalation allows.
    pub duration: Option<SignedDuration>,
    pub scheduled_start: Option<Timestamp>,
    /// The name of the escalation, where several offer the group.
    pub escalation: Option<String>,
}

/// A session that the same user has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingSession {
    pub name: String,
    pub user: String,
    pub cluster: String,
    pub group: String,
    /// The name of its escalation.
    pub escalation: String,
    pub state: Option<State>,
    pub expires_at: Option<Timestamp>,
}

/// A session that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    pub cluster: String,
    pub user: String,
    /// Their address, if it is another than their name.
    pub email: Option<String>,
    pub granted_group: String,
    /// The name of its escalation.
    pub escalation: String,
    pub issuer: Option<String>,
    pub reason: Option<String>,
    pub scheduled_start: Option<Timestamp>,
    pub terms: Terms,
}

impl ExistingSession {
    /// Whether another one for the same cluster, user and group has to wait for it.
    fn occupies_slot(&self, now: Timestamp) -> bool {
        match self.state {
            None | Some(State::Pending) => true,
            Some(State::Approved | State::WaitingForScheduledTime) => {
                self.expires_at.is_none_or(|expires_at| now < expires_at)
            }
            Some(
                State::Rejected
                | State::Withdrawn
                | State::Expired
                | State::IdleExpired
                | State::ApprovalTimeout,
            ) => false,
        }
    }
}

/// What is created, or why not. `existing` are all sessions of that user.
pub fn request(
    person: &Person,
    asked: &Request,
    escalations: &[Escalation],
    existing: &[ExistingSession],
    now: Timestamp,
) -> Result<NewSession, Refusal> {
    let escalation = offered(person, asked, escalations)?;
    let reason = check_reason(asked.reason.as_deref())?;
    if escalation.require_reason && reason.is_none() {
        return Err(Refusal::Invalid(format!(
            "a reason is required to ask for the group {:?}",
            escalation.escalated_group
        )));
    }
    let terms = terms(&escalation.terms, asked.duration)?;
    check_start(asked.scheduled_start, now)?;
    check_slots(person, asked, escalation, existing, now)?;
    Ok(NewSession {
        cluster: asked.cluster.clone(),
        user: person.user.clone(),
        email: person.other_email().map(str::to_owned),
        granted_group: escalation.escalated_group.clone(),
        escalation: escalation.name.clone(),
        issuer: person.issuer.clone(),
        reason,
        scheduled_start: asked.scheduled_start.map(ceil_second),
        terms,
    })
}

/// The escalation that offers what they ask for. One that does not exist, and one that is not for them, are refused
/// in the same words.
fn offered<'a>(
    person: &Person,
    asked: &Request,
    escalations: &'a [Escalation],
) -> Result<&'a Escalation, Refusal> {
    let offers: Vec<&Escalation> = escalations
        .iter()
        .filter(|one| one.escalated_group == asked.group)
        .filter(|one| asked.escalation.as_ref().is_none_or(|name| one.name == *name))
        .filter(|one| person.is_allowed(&one.allowed, &asked.cluster))
        .collect();
    match offers[..] {
        [offer] => Ok(offer),
        [] => Err(Refusal::Forbidden(format!(
            "no escalation offers the group {:?} on the cluster {:?} to user {:?}",
            asked.group, asked.cluster, person.user
        ))),
        [..] => {
            let mut names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
            names.sort_unstable();
            Err(Refusal::Invalid(format!(
                "several escalations offer the group {:?}; name one of {}",
                asked.group,
                names.join(", ")
            )))
        }
    }
}

/// The terms of the escalation, cut to the time that was asked for.
fn terms(offered: &Terms, asked: Option<SignedDuration>) -> Result<Terms, Refusal> {
    let mut terms = offered.clone();
    if let Some(duration) = asked {
        let most = terms.max_valid_for;
        if duration > most || duration < MIN_DURATION.min(most) {
            return Err(Refusal::Invalid(format!(
                "the duration must be between {} and {}, and is {}",
                words(MIN_DURATION.min(most)),
                words(most),
                words(duration)
            )));
        }
        terms.max_valid_for = duration;
        terms.idle_timeout = cut(terms.idle_timeout, duration);
        terms.first_use_timeout = terms.first_use_timeout.map(|term| cut(term, duration));
    }
    if let Term::Span(idle_timeout) = terms.idle_timeout {
        terms.warn_before = terms.warn_before.min(idle_timeout / WARNING_PART);
    }
    Ok(terms)
}

fn cut(term: Term, most: SignedDuration) -> Term {
    match term {
        Term::Span(span) => Term::Span(span.min(most)),
        Term::Never => Term::Never,
    }
}

fn check_start(start: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let earliest = saturating_add(now, MIN_LEAD_TIME);
    match start {
        Some(start) if start < earliest => Err(Refusal::Invalid(format!(
            "the scheduled start must be at least {} ahead, and is {}",
            words(MIN_LEAD_TIME),
            Utc(start)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Whether there is room for another session of that user.
fn check_slots(
    person: &Person,
    asked: &Request,
    escalation: &Escalation,
    existing: &[ExistingSession],
    now: Timestamp,
) -> Result<(), Refusal> {
    let mut of_escalation: u32 = 0;
    for other in existing {
        if other.user != person.user || !other.occupies_slot(now) {
            continue;
        }
        if other.cluster == asked.cluster && other.group == asked.group {
            return Err(Refusal::Conflict(format!(
                "there is a session for this cluster, user and group already: {} ({})",
                other.name,
                other.state.unwrap_or(State::Pending).as_str()
            )));
        }
        if other.escalation == escalation.name {
            of_escalation = of_escalation.saturating_add(1);
        }
    }
    match escalation.max_sessions_per_user {
        Some(most) if of_escalation >= most => Err(Refusal::Invalid(format!(
            "a user can have {most} sessions of the escalation {} at a time",
            escalation.name
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The name of the next session for a cluster, user and group: `<group>-<cluster>-<hash>-<n>`, a DNS label, with the
/// hash of all three and a number that is one more than the largest among `names`. Two who ask at the same time make
/// the same name, and the API takes one.
pub fn session_name<'a>(
    cluster: &str,
    user: &str,
    group: &str,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let ending = format!("{:016x}-", hash(&[cluster, user, group]));
    let number = |name: &str| {
        let at = name.rfind(&ending)?;
        name[at + ending.len()..].parse::<u64>().ok()
    };
    let last = names.filter_map(number).max().unwrap_or(0);
    let ending = format!("{ending}{}", last.saturating_add(1));
    let room = MAX_NAME_LENGTH.saturating_sub(ending.len() + 1);
    let mut label = dns_label(&format!("{group}-{cluster}"));
    label.truncate(room);
    let label = label.trim_end_matches('-');
    if label.is_empty() { format!("session-{ending}") } else { format!("{label}-{ending}") }
}

/// What of a text can be in a DNS label, with one hyphen for whatever else there is between.
fn dns_label(text: &str) -> String {
    let mut label = String::with_capacity(text.len());
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            label.push(c);
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    label
}

/// FNV-1a over all parts, each followed by a byte that no text has.
fn hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
