//! What commands tell about a session, and what people do with sessions.

mod verb;

use clap::{ArgMatches, Subcommand as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use sojourn_api::access::{BreakglassSession, read_state, read_usage, session};
use sojourn_api::family::{FAMILIES, Family};
use sojourn_core::access::{self, forecast};

use self::verb::Verb;
use super::super::connect::ApiContext;
use super::{FamilyCommands, NamedObject, StatusLines, UpcomingAction, verb};
use crate::args::{Extend, Named};
use crate::exit::Failure;
use crate::printer::Printer;

pub(super) struct AccessCommands;

impl FamilyCommands for AccessCommands {
    fn name(&self) -> &'static str {
        "access"
    }

    fn forecast<'a>(
        &'a self,
        _: &'a ApiContext,
        of: NamedObject<'a>,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Vec<UpcomingAction>>> {
        std::future::ready(upcoming(of, now)).boxed()
    }

    fn explain(&self, lines: &mut StatusLines<'_>) {
        lines.next(&["/next/action", "/next/at"]);
        for approval in lines.list("/approvals") {
            let text =
                |field: &str| approval.get(field).and_then(Value::as_str).unwrap_or_default();
            let parts = [("by ", text("user")), ("at ", text("at")), ("", text("reason"))];
            lines.parts("approved", &parts);
        }
        lines.text_field("active", "/activatedAt");
        lines.field("last used", &last_used(lines));
        lines.parts("blind", &[("since ", lines.text("/activity/blind"))]);
        lines.text_field("idle end", "/idleDeadline");
        lines.text_field("expires", "/expiresAt");
        let ended = [
            ("", lines.text("/reasonEnded")),
            ("at ", lines.text("/endedAt")),
            ("by ", lines.text("/endedBy")),
            ("", lines.text("/endedBecause")),
        ];
        lines.parts("ended", &ended);
        lines.parts("on record", &[("until ", lines.text("/retainedUntil"))]);
        for notice in lines.list("/notices") {
            let text = |field: &str| notice.get(field).and_then(Value::as_str).unwrap_or_default();
            let at = super::or(text("deliveredAt"), text("recordedAt"));
            let parts = [("", text("kind")), ("", text("state")), ("", at), ("", text("error"))];
            lines.parts("notice", &parts);
        }
    }

    fn instead_of_keeping(&self, of: NamedObject<'_>) -> Option<String> {
        let named = of.named;
        Some(if is_session(named) {
            format!("Its user may have it end later: sojourn extend {named}.")
        } else {
            "Name something that is lent, such as bgs/admins-local-1.".to_owned()
        })
    }

    fn extend<'a>(
        &'a self,
        asked: &'a Extend,
        printer: Printer,
    ) -> Option<BoxFuture<'a, Result<(), Failure>>> {
        is_session(&asked.object).then(|| verb::extend(asked, printer).boxed())
    }

    fn add_verbs(&self, command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn run_verb(&self, asked: &ArgMatches, printer: Printer) -> Option<Result<(), Failure>> {
        verb::<Verb>(asked).map(|verb| verb.run(printer))
    }
}

fn is_session(named: &Named) -> bool {
    is_session_kind(&named.kind)
}

/// Whether this is a name of the kind of sessions: in the singular, the plural, or shortened.
fn is_session_kind(kind: &str) -> bool {
    let mut kinds = FAMILIES.iter().flat_map(Family::kinds);
    let session = kinds.find(|names| names.kind == *BreakglassSession::kind(&()));
    session.is_some_and(|names| {
        names.kind.eq_ignore_ascii_case(kind)
            || names.plural == kind
            || names.short.iter().any(|short| short == kind)
    })
}

/// When a session was last used, and how often.
fn last_used(lines: &StatusLines<'_>) -> String {
    let count = lines.value("/activityCount").and_then(Value::as_u64).unwrap_or_default();
    match (lines.text("/lastActivity"), count) {
        ("", _) if lines.text("/activatedAt").is_empty() => String::new(),
        ("", _) => "never".to_owned(),
        (last, 1) => format!("{last}, once in all"),
        (last, count) => format!("{last}, {count} times in all"),
    }
}

/// The controllers' own decision, with time passing, as if nobody used it.
fn upcoming(of: NamedObject<'_>, now: Timestamp) -> Option<Vec<UpcomingAction>> {
    let stored: BreakglassSession = of.object.clone().try_parse().ok()?;
    let session = session(&stored).ok()?;
    let (state, usage) = (read_state(stored.status.as_ref()), read_usage(stored.status.as_ref()));
    let upcoming = |step: access::UpcomingAction| UpcomingAction {
        at: Some(step.at),
        action: format!("{:?}", step.action),
        object: of.named.to_string(),
        namespace: stored.namespace().unwrap_or_default(),
        why: step.why.to_string(),
    };
    let steps = forecast(state, &session, &usage, now);
    Some(steps.into_iter().map(upcoming).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(status: &Value) -> String {
        let mut lines = StatusLines::of(status);
        AccessCommands.explain(&mut lines);
        lines.finish().join("\n")
    }

    #[test]
    fn a_session_is_named_by_its_kind_in_every_form() {
        for text in ["bgs/a", "breakglasssession/a", "BreakglassSessions/a"] {
            assert!(is_session(&text.parse().expect("a name")), "{text}");
        }
        for text in ["bge/a", "instance/a", "session/a"] {
            assert!(!is_session(&text.parse().expect("a name")), "{text}");
        }
    }

    #[test]
    fn a_session_in_use_says_when_it_ends_and_why() {
        let status = json!({
            "state": "Approved",
            "approvals": [{"user": "ben", "at": "2030-01-01T00:00:00Z", "reason": "go on"}],
            "activatedAt": "2030-01-01T00:00:00Z", "expiresAt": "2030-01-01T01:00:00Z",
            "lastActivity": "2030-01-01T00:10:00Z", "activityCount": 3,
            "idleDeadline": "2030-01-01T00:25:00Z",
            "next": {"action": "Warn", "at": "2030-01-01T00:22:00Z", "why": "nobody used it"},
        });
        assert_eq!(
            explained(&status),
            "  next       Warn 2030-01-01T00:22:00Z\n  why        nobody used it\n  \
             approved   by ben, at 2030-01-01T00:00:00Z, go on\n  \
             active     2030-01-01T00:00:00Z\n  \
             last used  2030-01-01T00:10:00Z, 3 times in all\n  \
             idle end   2030-01-01T00:25:00Z\n  expires    2030-01-01T01:00:00Z"
        );
    }

    #[test]
    fn a_session_that_was_never_used_says_so() {
        let status = json!({
            "state": "IdleExpired", "activatedAt": "2030-01-01T00:00:00Z",
            "reasonEnded": "neverUsed", "endedAt": "2030-01-01T00:15:00Z",
            "retainedUntil": "2030-01-31T00:15:00Z",
        });
        assert_eq!(
            explained(&status),
            "  active     2030-01-01T00:00:00Z\n  last used  never\n  \
             ended      neverUsed, at 2030-01-01T00:15:00Z\n  \
             on record  until 2030-01-31T00:15:00Z"
        );
    }
}
