#[path = "../../../../../xtask/test_folder.rs"]
mod folder;
mod golden;
mod mail;

use serde_json::json;
use sojourn_core::lab::source;
use sojourn_core::lab::state::Stage;
use sojourn_core::notice::{Delivery, NoticeId};
use sojourn_drivers::notify::Zone;
use sojourn_drivers::notify::template::Templates;

use super::*;
use crate::lab::sample::{self, at, key};

const ALL: [NoticeTemplate; 7] = [
    NoticeTemplate::InactivityWarning,
    NoticeTemplate::Stopped,
    NoticeTemplate::DeletionWarning,
    NoticeTemplate::Deleted,
    NoticeTemplate::ExpiryWarning,
    NoticeTemplate::Expired,
    NoticeTemplate::SubmissionFailed,
];

fn rome() -> Templates {
    Templates::load(&TEMPLATES, None, Zone::named("Europe/Rome").unwrap()).unwrap()
}

/// With no facts.
fn empty(template: NoticeTemplate) -> Notice {
    let facts = Facts::default();
    Notice {
        copies: Vec::new(),
        id: "empty".to_owned(),
        template: template.name(),
        to: Recipient::default(),
        summary: summary(template, &facts),
        facts,
    }
}

/// The notice in one sentence.
fn words(notice: &Notice) -> &str {
    &notice.summary.sentence
}

fn recorded(kind: NoticeKind, deadline: Option<Timestamp>) -> Recorded<NoticeKind> {
    Recorded {
        id: NoticeId::stored("u-1.warning-1.1800000900"),
        kind,
        alert: deadline.map(|_| (1, 3)),
        deadline,
        recorded_at: at(600),
        attempts: 1,
        delivery: Delivery::Waiting { next: at(630) },
        error: Some("connection refused".to_owned()),
    }
}

/// Started at 0, used at 60.
fn used() -> InstanceState {
    let mut state = InstanceState::default();
    state.power.started_at = Some(at(0));
    state.activity.last = Some(at(60));
    state.activity.source = Some(source::GATEWAY);
    state
}

/// Stopped at 120, too.
fn stopped() -> InstanceState {
    let mut state = used();
    state.power.stopped_at = Some(at(120));
    state.ladder.stage = Stage::DestroyGrace;
    state
}

fn made(
    kind: NoticeKind,
    deadline: Option<Timestamp>,
    state: &InstanceState,
    persistent: bool,
) -> Notice {
    let instance = sample::instance(json!({"spec": {"prettyName": "My notebook"}}));
    let (tenant, links) = (sample::tenant(), Links::new([7; 32]));
    let context = NoticeContext {
        key: &key(),
        instance: &instance,
        tenant: Some(&tenant),
        persistent,
        state,
        url: Some("https://lab.example/go/lab/course/ada/web/".to_owned()),
        links: &links,
        public_url: Some("https://lab.example".to_owned()),
        now: at(600),
    };
    notice(&recorded(kind, deadline), &context)
}

#[test]
fn every_template_is_registered_under_its_own_name() {
    let registered: Vec<_> = TEMPLATES.templates.iter().map(|template| template.name).collect();
    assert_eq!(registered, ALL.map(NoticeTemplate::name));
    let names: std::collections::BTreeSet<_> = registered.into_iter().collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn a_notice_says_to_whom_what_and_until_when() {
    let told = made(NoticeKind::InactivityWarning, Some(at(900)), &used(), true);
    assert_eq!(told.id, "u-1.warning-1.1800000900");
    assert_eq!(told.template, NoticeTemplate::InactivityWarning.name());
    assert_eq!(
        (told.to.name.as_str(), told.to.email.as_str()),
        ("Ada Lovelace", "ada@example.org")
    );
    let facts = told.facts;
    assert_eq!((facts.object.name.as_str(), facts.object.namespace.as_str()), ("ada", "course"));
    assert_eq!((facts.text(PRETTY_NAME), facts.text(TEMPLATE)), ("My notebook", "notebook"));
    assert_eq!((facts.deadline, facts.alert), (Some(at(900)), Some((1, 3))));
    assert_eq!(facts.remaining, Some(SignedDuration::from_mins(5)));
    assert_eq!(facts.detail, None, "why an earlier attempt failed is not the owner's affair");
}

#[test]
fn the_reason_is_a_clause_that_follows_because() {
    let mut unused = used();
    unused.activity.last = None;
    let mut restarted = used();
    restarted.power.started_at = Some(at(90));
    let mut expired = used();
    expired.expiration.expires_at = Some(at(300));
    for (kind, state, reason) in [
        (NoticeKind::InactivityWarning, used(), "it has not been used since 2027-01-15T08:01:00Z"),
        (
            NoticeKind::InactivityWarning,
            unused,
            "it has not been used since it was started at 2027-01-15T08:00:00Z",
        ),
        (
            NoticeKind::InactivityWarning,
            restarted,
            "it has not been used since it was started at 2027-01-15T08:01:30Z",
        ),
        (NoticeKind::Stopped, stopped(), "it had not been used since 2027-01-15T08:01:00Z"),
        (NoticeKind::DeletionWarning, stopped(), "it has been stopped since 2027-01-15T08:02:00Z"),
        (NoticeKind::Deleted, stopped(), "it had been stopped since 2027-01-15T08:02:00Z"),
        (NoticeKind::Deleted, used(), "it had not been used since 2027-01-15T08:01:00Z"),
        (NoticeKind::ExpiryWarning, expired.clone(), "its lifespan ended at 2027-01-15T08:05:00Z"),
        (NoticeKind::Expired, expired, "its lifespan ended at 2027-01-15T08:05:00Z"),
        (NoticeKind::InactivityWarning, InstanceState::default(), ""),
    ] {
        let (reason_words, reason_time) = because(kind, &state);
        let facts = Facts { reason: reason_words, reason_time, ..Facts::default() };
        assert_eq!(facts.reason(|at| format!("{at:.0}")), reason, "{kind:?}");
    }
}

#[test]
fn what_keeps_nothing_is_warned_of_its_deletion() {
    let told = made(NoticeKind::InactivityWarning, Some(at(900)), &used(), false);
    assert_eq!(told.template, NoticeTemplate::DeletionWarning.name());
    assert_eq!(told.facts.reason, "it has not been used since");
    assert_eq!(told.facts.reason_time, Some(at(60)));
    assert_eq!(
        words(&told),
        "Warning 1 of 3: it will be deleted with everything in it at 2027-01-15T08:15:00Z, because \
         it has not been used since 2027-01-15T08:01:00Z"
    );
}

#[test]
fn only_warnings_carry_links_and_only_what_runs_can_be_stopped() {
    for (kind, keep, stop) in [
        (NoticeKind::InactivityWarning, true, true),
        (NoticeKind::DeletionWarning, true, false),
        (NoticeKind::ExpiryWarning, true, false),
        (NoticeKind::Stopped, false, false),
        (NoticeKind::Deleted, false, false),
        (NoticeKind::Expired, false, false),
        (NoticeKind::SubmissionFailed, false, false),
    ] {
        let facts = made(kind, Some(at(900)), &used(), true).facts;
        assert_eq!(facts.link(KEEP_HOUR).is_some(), keep, "{kind:?}");
        assert_eq!(facts.link(KEEP_TOMORROW).is_some(), keep, "{kind:?}");
        assert_eq!(facts.link(STOP).is_some(), stop, "{kind:?}");
    }
    let links = Links::new([7; 32]);
    let told = made(NoticeKind::InactivityWarning, Some(at(900)), &used(), true);
    let token = told.facts.link(STOP).and_then(|url| url.rsplit('/').next()).expect("a link");
    let claim = links.verify(token, at(899)).expect("it holds until the deadline");
    assert_eq!(
        (claim.key, claim.uid.as_str(), claim.verb),
        (key(), "u-1", LinkAction::Stop.code())
    );
    assert!(links.verify(token, at(901)).is_err());
}

#[test]
fn a_failed_submission_says_what_went_wrong_where() {
    let entry = |environment: &str, state, error: Option<&str>| SubmissionEntry {
        environment: environment.to_owned(),
        state,
        series: 1,
        asked_at: None,
        earlier: false,
        attempts: 10,
        retry_at: None,
        size: None,
        sha256: None,
        receipt: None,
        submitted_at: None,
        error: error.map(str::to_owned),
    };
    let mut state = stopped();
    state.submissions.entries = vec![
        entry("web", SubmissionState::Failed, Some("answered 500")),
        entry("db", SubmissionState::Done, None),
    ];
    let told = made(NoticeKind::SubmissionFailed, None, &state, true);
    assert_eq!(told.facts.reason, "10 attempts failed");
    assert_eq!(told.facts.detail.as_deref(), Some("web: answered 500"));
    assert_eq!(
        words(&told),
        "Its data could not be handed in, because 10 attempts failed: web: answered 500"
    );
}

#[test]
fn every_notice_is_a_sentence_as_an_event() {
    for (kind, deadline, state, sentence) in [
        (
            NoticeKind::InactivityWarning,
            Some(at(900)),
            used(),
            "Warning 1 of 3: it will be stopped at 2027-01-15T08:15:00Z, because it has not been used \
             since 2027-01-15T08:01:00Z",
        ),
        (
            NoticeKind::Stopped,
            None,
            stopped(),
            "It was stopped, because it had not been used since 2027-01-15T08:01:00Z",
        ),
        (
            NoticeKind::Deleted,
            None,
            stopped(),
            "It is deleted with everything in it, because it had been stopped since \
             2027-01-15T08:02:00Z",
        ),
        (NoticeKind::Expired, None, used(), "It is deleted with everything in it"),
    ] {
        assert_eq!(words(&made(kind, deadline, &state, true)), sentence);
    }
}

#[test]
fn without_a_tenant_there_is_nobody_to_write_to() {
    let instance = sample::instance(json!({}));
    let state = used();
    let context = NoticeContext {
        key: &key(),
        instance: &instance,
        tenant: None,
        persistent: true,
        state: &state,
        url: None,
        links: &Links::new([7; 32]),
        public_url: None,
        now: at(600),
    };
    let told = notice(&recorded(NoticeKind::ExpiryWarning, Some(at(900))), &context);
    assert_eq!(told.to, Recipient::default());
    assert_eq!(told.facts.link(KEEP_HOUR), None, "nobody knows where links lead");
}
