//! What a page shows of a session, in words.

use jiff::Timestamp;
use kube::ResourceExt as _;
use minijinja::{Value, context};
use sojourn_api::access::status::NextAction;
use sojourn_api::access::{BreakglassSession, session};
use sojourn_core::access::act::Verb;
use sojourn_core::access::session::{ReasonEnded, SessionState, State};
use sojourn_core::key::Key;
use sojourn_core::moment::Utc;
use sojourn_core::term::{Term, words};

use super::ROOT;
use crate::access::caches::{read_state_of, read_usage_of};
use crate::access::service::{Offer, VisibleSession};

/// The choices of which sessions are listed.
pub(super) fn filters(chosen: Option<State>) -> Value {
    let all = context! { label => "All", address => ROOT, chosen => chosen.is_none() };
    let states = State::ALL.into_iter().map(|state| {
        let address = format!("{ROOT}?state={}", state.as_str());
        context! { label => state.as_str(), address, chosen => chosen == Some(state) }
    });
    Value::from_iter(std::iter::once(all).chain(states))
}

/// What can be asked for, as one choice of the form.
pub(super) fn offer(offer: &Offer) -> Value {
    let Offer { namespace, escalation, cluster, group, at_most } = offer;
    context! {
        value => offer.value(),
        namespace => namespace.as_str(),
        escalation => escalation.as_str(),
        cluster => cluster.as_str(),
        group => group.as_str(),
        at_most => at_most.as_str(),
    }
}

/// A session among others.
pub(super) fn row(object: &BreakglassSession) -> Value {
    let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
    let state = read_state_of(object);
    let (name, tone) = tag(state.state);
    let live = state.state.is_some_and(|state| !state.is_final());
    context! {
        title => title(object),
        address => super::session_path(&key),
        state => name,
        tone => tone,
        user => object.spec.user.as_str(),
        last_activity => last_activity(object, &state),
        idle_deadline => state.idle_deadline.filter(|_| live).map(time),
        expires_at => state.expires_at.map(time),
    }
}

/// One session, with everything, and what whoever looks at it may do.
pub(super) fn detail(key: &Key, visible: &VisibleSession) -> Value {
    let object = &visible.object;
    let state = read_state_of(object);
    let (name, tone) = tag(state.state);
    let facts = facts(key, object, &state).into_iter();
    let facts = facts.map(|(name, text)| context! { name, text });
    let actions = visible.verbs.iter().map(|verb| {
        context! {
            address => format!("{}/{}", super::session_path(key), verb.as_str()),
            button => button(*verb),
            speaks => matches!(verb, Verb::Approve | Verb::Reject),
        }
    });
    context! {
        title => title(object),
        state => name,
        tone => tone,
        facts => Value::from_iter(facts),
        actions => Value::from_iter(actions),
    }
}

fn facts(
    key: &Key,
    object: &BreakglassSession,
    state: &SessionState,
) -> Vec<(&'static str, String)> {
    let spec = &object.spec;
    let mut facts = vec![
        ("User", spec.user.clone()),
        ("Group", spec.granted_group.clone()),
        ("Cluster", spec.cluster.clone()),
        ("Escalation", spec.escalation_ref.name.clone()),
    ];
    facts.extend(spec.reason.clone().map(|reason| ("Reason", reason)));
    let created = object.metadata.creation_timestamp.as_ref();
    facts.extend(created.map(|at| ("Requested", time(at.0))));
    facts.extend(spec.scheduled_start_time.as_ref().map(|at| ("Begins", time(at.0))));
    for approval in &state.approvals {
        let reason = approval.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        facts.push(("Approved", format!("by {} at {}{reason}", approval.user, time(approval.at))));
    }
    facts.extend(state.activated_at.map(|at| ("Active since", time(at))));
    if state.activated_at.is_some() {
        facts.push(("Last activity", last_activity(object, state)));
        facts.push(("Uses", read_usage_of(object).count.to_string()));
    }
    if let Ok(read) = session(object) {
        facts.push(("Idle timeout", term(read.terms.idle_timeout)));
    }
    if let Some(at) = state.idle_deadline.filter(|_| state.state == Some(State::Approved)) {
        facts.push(("Idle deadline", time(at)));
    }
    facts.extend(state.expires_at.map(|at| ("Expires", time(at))));
    if let Some(at) = state.ended_at {
        facts.push(("Ended", ended(at, state)));
    }
    let next = object.status.as_ref().and_then(|status| status.next.as_ref());
    if let Some((next, action, at)) =
        next.and_then(|next| Some((next, next.action?, next.at.as_ref()?)))
    {
        facts.push(("Next", format!("{} at {}: {}", coming(action), time(at.0), next.why)));
    }
    facts.push(("Object", format!("{}/{}", key.namespace, key.name)));
    facts
}

fn ended(at: Timestamp, state: &SessionState) -> String {
    let mut words = time(at);
    if let Some(reason) = state.reason_ended {
        words.push_str(&format!(", {}", reason_ended(reason)));
    }
    if let Some(by) = &state.ended_by {
        words.push_str(&format!(", by {by}"));
    }
    if let Some(because) = &state.ended_because {
        words.push_str(&format!(": {because}"));
    }
    words
}

/// What comes by itself.
const fn coming(action: NextAction) -> &'static str {
    match action {
        NextAction::TimeOut => "Nobody can approve it any more",
        NextAction::Activate => "It begins",
        NextAction::Warn => "Its user is warned",
        NextAction::IdleExpire => "It ends for want of use",
        NextAction::Expire => "It expires",
        NextAction::Delete => "Its record is deleted",
    }
}

const fn reason_ended(reason: ReasonEnded) -> &'static str {
    match reason {
        ReasonEnded::TimeExpired => "its time was over",
        ReasonEnded::ApprovalTimeout => "nobody approved it in time",
        ReasonEnded::Canceled => "canceled",
        ReasonEnded::Dropped => "given back",
        ReasonEnded::Withdrawn => "withdrawn",
        ReasonEnded::Rejected => "rejected",
        ReasonEnded::DuplicateCleanup => "there is another one for the same",
        ReasonEnded::IdleTimeout => "nobody used it",
        ReasonEnded::NeverUsed => "it was never used",
        ReasonEnded::MissingScheduledStartTime => "it had no time to begin at",
    }
}

/// The name of a state, and how it is marked.
const fn tag(state: Option<State>) -> (&'static str, &'static str) {
    match state {
        None => ("Requested", "waits"),
        Some(state) => {
            let tone = match state {
                State::Approved => "live",
                State::Pending | State::WaitingForScheduledTime => "waits",
                State::Rejected
                | State::Withdrawn
                | State::Expired
                | State::IdleExpired
                | State::ApprovalTimeout => "over",
            };
            (state.as_str(), tone)
        }
    }
}

const fn button(verb: Verb) -> &'static str {
    match verb {
        Verb::Approve => "Approve",
        Verb::Reject => "Reject",
        Verb::Withdraw => "Withdraw",
        Verb::Drop => "Give back",
        Verb::Cancel => "Cancel",
        Verb::Extend => "Extend",
    }
}

fn title(object: &BreakglassSession) -> String {
    format!("{} on {}", object.spec.granted_group, object.spec.cluster)
}

fn last_activity(object: &BreakglassSession, state: &SessionState) -> String {
    match (read_usage_of(object).last_use(), state.activated_at) {
        (Some(at), _) => time(at),
        (None, Some(_)) => "never used".to_owned(),
        (None, None) => "not active".to_owned(),
    }
}

fn term(term: Term) -> String {
    match term {
        Term::Never => "never".to_owned(),
        Term::Span(span) => words(span),
    }
}

fn time(at: Timestamp) -> String {
    Utc(at).to_string()
}
