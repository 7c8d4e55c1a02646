use std::collections::BTreeMap;

use serde_json::{Value, json};
use sojourn_core::group::intent::Kept;
use sojourn_core::group::state::Cause;

use super::*;
use crate::config::parse;

const CREATED: &str = "2026-11-16T09:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn group(spec: Value) -> InstanceGroup {
    let mut whole = json!({ "size": 3, "template": { "provider": "fake", "config": {} } });
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    let metadata = json!({ "name": "web", "uid": "u", "creationTimestamp": CREATED });
    let object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
        "metadata": metadata, "spec": whole,
    });
    serde_json::from_value(object).expect("a group")
}

fn machine(spec: Value, annotations: Value) -> Machine {
    let mut whole = json!({ "group": "web", "template": { "provider": "fake", "config": {} } });
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    let mut object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web-abcde", "uid": "m", "creationTimestamp": CREATED },
        "spec": whole,
    });
    object["metadata"]["annotations"] = annotations;
    serde_json::from_value(object).expect("a machine")
}

fn config(text: &str) -> Result<GroupConfig, String> {
    let data = BTreeMap::from([("group.yaml".to_owned(), text.to_owned())]);
    parse(&data).map_err(|problems| problems.to_string())
}

fn wanted(spec: Value, defaults: &str) -> Wanted {
    group_intent(&group(spec), &config(defaults).expect("good defaults")).expect("a good group")
}

fn days(days: i64) -> Term {
    Term::Span(SignedDuration::from_hours(24 * days))
}

#[test]
fn nothing_said_means_the_defaults() {
    let Wanted { intent, ages, ignored } = wanted(json!({}), "");
    assert_eq!(
        intent,
        intent::Intent {
            name: "web".to_owned(),
            uid: "u".to_owned(),
            deleting: false,
            paused: false,
            observe: false,
            size: 3,
            surge: 1,
            min_healthy: 2,
            min_ready: SignedDuration::ZERO,
            trial: SignedDuration::from_secs(30),
            registration_timeout: SignedDuration::from_mins(5),
            unhealthy_after: SignedDuration::from_mins(3),
            max_unhealthy: 1,
            drain_timeout: SignedDuration::from_mins(5),
            expiry: intent::Expiry {
                eligible: Term::Never,
                forced: Term::Never,
                policy: intent::ForcedPolicy::ReplaceFirst,
                forced_surge: 1,
                jitter: SignedDuration::ZERO,
            },
            budgets: Vec::new(),
            freeze_until: None,
            rotate_before: None,
            fleet: None,
            template: template_hash(&group(json!({})).spec.template),
        }
    );
    assert_eq!((ages, ignored), (None, Vec::new()));
}

// case: group 2
#[test]
fn defaults_whose_ages_are_out_of_order_are_refused_with_the_field() {
    for text in [
        "expiry: { eligibleAge: 30d, forcedAge: 30d }",
        "expiry: { eligibleAge: 31d, forcedAge: 30d }",
    ] {
        let refused = config(text).expect_err("out of order");
        assert_eq!(refused, "data[group.yaml].expiry.eligibleAge: must be shorter than forcedAge");
    }
    for text in ["expiry: { eligibleAge: 31d }", "expiry: { eligibleAge: never, forcedAge: 1d }"] {
        config(text).expect("one of them alone is in order");
    }
}

// case: group 4, 5
#[test]
fn ages_and_drain_times_are_spans_with_units() {
    let span = |text: &str| config(&format!("defaultDrainTimeout: {text}"));
    let read = [
        ("30s", SignedDuration::from_secs(30)),
        ("5m", SignedDuration::from_mins(5)),
        ("1h30m", SignedDuration::from_mins(90)),
        ("0s", SignedDuration::ZERO),
        ("21d", SignedDuration::from_hours(504)),
    ];
    for (text, span_of) in read {
        assert_eq!(span(text).map(|config| config.default_drain_timeout), Ok(span_of), "{text}");
    }
    for text in ["30", "1.5", "soon", "-5m", "never", "''", "[]"] {
        let refused = span(text).expect_err("bad");
        assert!(refused.starts_with("data[group.yaml].defaultDrainTimeout: "), "{refused}");
    }
    let age = |text: &str| config(&format!("expiry: {{ eligibleAge: {text} }}"));
    assert_eq!(age("21d").map(|config| config.expiry.eligible_age), Ok(days(21)));
    assert_eq!(age("never").map(|config| config.expiry.eligible_age), Ok(Term::Never));
    for text in ["0s", "0d", "-1d", "21", "x"] {
        let refused = age(text).expect_err("bad");
        assert!(refused.contains("expiry"), "{refused}");
    }
    assert!(age("0s").expect_err("zero").contains("expiry.eligibleAge: must be longer than zero"));
    assert!(config("expiry: { forcedage: 1d }").is_err(), "names are checked inside, too");
}

// case: group 6
#[test]
fn a_drain_takes_what_the_group_says_or_else_the_installation() {
    let timeout = |spec: Value, defaults: &str| wanted(spec, defaults).intent.drain_timeout;
    assert_eq!(timeout(json!({}), ""), SignedDuration::from_mins(5));
    assert_eq!(timeout(json!({}), "defaultDrainTimeout: 7m"), SignedDuration::from_mins(7));
    let own = json!({ "drainTimeout": "1m" });
    assert_eq!(timeout(own, "defaultDrainTimeout: 7m"), SignedDuration::from_mins(1));
    // An explicit zero is no "left out".
    let none = json!({ "drainTimeout": "0s" });
    assert_eq!(timeout(none, "defaultDrainTimeout: 7m"), SignedDuration::ZERO);
    assert_eq!(timeout(json!({}), "defaultDrainTimeout: 0s"), SignedDuration::ZERO);
}

#[test]
fn a_group_overrides_ages_and_switches_them_off() {
    let defaults = "expiry: { eligibleAge: 21d, forcedAge: 30d, ondemandAge: 7d }";
    let ages = |expiry: Value| {
        let Wanted { intent, ages, .. } = wanted(json!({ "expiry": expiry }), defaults);
        (intent.expiry.eligible, intent.expiry.forced, ages.is_some())
    };
    assert_eq!(ages(json!({})), (days(21), days(30), false));
    assert_eq!(ages(json!({ "eligibleAge": "never" })), (Term::Never, days(30), false));
    assert_eq!(ages(json!({ "forcedAge": "never" })), (days(21), Term::Never, false));
    assert_eq!(ages(json!({ "eligibleAge": "1d", "forcedAge": "2d" })), (days(1), days(2), false));
    // Broken by what both say together: the forced one applies, and somebody is told.
    assert_eq!(ages(json!({ "eligibleAge": "40d" })), (Term::Never, days(30), true));
    assert_eq!(ages(json!({ "forcedAge": "21d" })), (Term::Never, days(21), true));
    let told = wanted(json!({ "expiry": { "forcedAge": "3w" } }), defaults).ages.expect("words");
    assert!(told.contains("eligibleAge") && told.contains("only forcedAge applies"), "{told}");
}

#[test]
fn shares_are_of_the_size_and_rounded_up() {
    let most = |size: i32, share: Value| {
        wanted(json!({ "size": size, "maxUnhealthy": share }), "").intent.max_unhealthy
    };
    assert_eq!(most(3, json!("20%")), 1);
    assert_eq!(most(10, json!("20%")), 2);
    assert_eq!(most(11, json!("20%")), 3);
    assert_eq!(most(3, json!("0%")), 0);
    assert_eq!(most(100_000, json!("100%")), 100_000);
    assert_eq!(most(3, json!(7)), 7);
    let least = |size: i32, least: Value| {
        wanted(json!({ "size": size, "minHealthy": least }), "").intent.min_healthy
    };
    assert_eq!(least(3, json!(3)), 3);
    assert_eq!(least(3, json!(8)), 3, "more than there are cannot be asked for");
    assert_eq!(wanted(json!({ "size": 0 }), "").intent.min_healthy, 0);
}

// case: group K23
#[test]
fn a_budget_that_got_in_although_it_is_bad_counts_as_zero() {
    let good = json!({ "cron": "0 22 * * *", "duration": "2h", "timeZone": "Europe/Rome" });
    let budgets = |budget: Value| {
        let Wanted { intent, ignored, .. } = wanted(json!({ "budgets": [budget] }), "");
        let budget = intent.budgets.into_iter().next().expect("a budget");
        (budget, ignored.into_iter().map(|problem| problem.path).collect::<Vec<_>>())
    };
    let (budget, told) =
        budgets(json!({ "max": "50%", "per": "1h", "reasons": ["Expired"], "allow": [good] }));
    assert_eq!((budget.max, budget.per), (2, Some(SignedDuration::from_hours(1))));
    assert_eq!((budget.causes, budget.path.as_str()), (vec![Cause::Expired], "budgets[0]"));
    assert_eq!(budget.allow[0].zone.iana_name(), Some("Europe/Rome"));
    assert_eq!(budget.allow[0].duration, SignedDuration::from_hours(2));
    assert!(told.is_empty(), "{told:?}");

    let with = |field: &str, value: &str| {
        let mut window = good.clone();
        window[field] = json!(value);
        json!({ "max": 5, "reasons": ["Drifted"], "deny": [good, window] })
    };
    let bad = [
        (with("cron", "every day"), "spec.budgets[0].deny[1].cron"),
        (with("cron", "0 22 * * 5-1"), "spec.budgets[0].deny[1].cron"),
        (with("cron", "0 0 31 2 *"), "spec.budgets[0].deny[1].cron"),
        (with("duration", "0s"), "spec.budgets[0].deny[1].duration"),
        (with("timeZone", "Europe/Atlantis"), "spec.budgets[0].deny[1].timeZone"),
        (with("timeZone", "../../etc/passwd"), "spec.budgets[0].deny[1].timeZone"),
        (json!({ "max": "110%", "reasons": ["Drifted"] }), "spec.budgets[0].max"),
        (json!({ "max": -1, "reasons": ["Drifted"] }), "spec.budgets[0].max"),
        (json!({ "max": 1, "per": "never", "reasons": ["Drifted"] }), "spec.budgets[0].per"),
    ];
    for (budget, path) in bad {
        let (budget, told) = budgets(budget);
        assert_eq!((budget.max, budget.per), (0, None), "{path}");
        assert_eq!(budget.causes, [Cause::Drifted]);
        assert!(budget.deny.is_empty(), "zero holds at all times");
        assert_eq!(told, [path]);
    }
}

#[test]
fn a_budget_per_span_counts_no_more_starts_than_are_remembered() {
    let spec = json!({ "size": 100_000, "budgets": [{ "max": "90%", "per": "1d" }] });
    assert_eq!(wanted(spec, "").intent.budgets[0].max, 1000);
}

#[test]
fn marks_are_read_and_garbage_is_told() {
    let mut marked = group(json!({ "freezeUntil": "2026-11-20T00:00:00.2Z" }));
    let marks = [
        ("sojourn.dev/paused", "true"),
        ("sojourn.dev/observe", "yes"),
        ("group.sojourn.dev/rotate", "2026-11-17T09:00:00.7Z"),
    ];
    let marks = marks.map(|(name, value)| (name.to_owned(), value.to_owned()));
    marked.metadata.annotations = Some(marks.into());
    let config = GroupConfig::default();
    let Wanted { intent, ignored, .. } = group_intent(&marked, &config).expect("good");
    assert!(intent.paused && !intent.observe && ignored.is_empty());
    assert_eq!(intent.rotate_before, Some(at("2026-11-17T09:00:00Z")));
    assert_eq!(intent.freeze_until, Some(at("2026-11-20T00:00:01Z")));

    let annotations = marked.metadata.annotations.as_mut().expect("annotations");
    annotations.insert("group.sojourn.dev/rotate".to_owned(), "now".to_owned());
    let Wanted { intent, ignored, .. } = group_intent(&marked, &config).expect("good");
    assert_eq!(intent.rotate_before, None);
    assert_eq!(
        ignored[0].to_string(),
        "metadata.annotations[group.sojourn.dev/rotate]: \"now\" is not a time such as 2026-11-17T09:00:00Z and is ignored"
    );
}

#[test]
fn whoever_must_not_be_disturbed_is_kept() {
    let kept = |disrupt: &str, until: &str| {
        let annotations =
            json!({ "group.sojourn.dev/do-not-disrupt": disrupt, "sojourn.dev/keep-until": until });
        let wanted = machine_intent(&machine(json!({}), annotations)).expect("good");
        (wanted.machine.kept, wanted.ignored.len())
    };
    assert_eq!(kept("", ""), (Kept::No, 0));
    assert_eq!(kept("true", ""), (Kept::Always, 0));
    assert_eq!(kept("false", ""), (Kept::No, 0));
    assert_eq!(kept("4h", ""), (Kept::Until(at("2026-11-16T13:00:00Z")), 0));
    assert_eq!(kept("soon", ""), (Kept::No, 1), "garbage is ignored, and told");
    assert_eq!(kept("", "soon"), (Kept::No, 1));
    // The longer of the two.
    let later = "2026-11-16T14:00:00Z";
    assert_eq!(kept("4h", later), (Kept::Until(at(later)), 0));
    assert_eq!(kept("6h", later), (Kept::Until(at("2026-11-16T15:00:00Z")), 0));
    assert_eq!(kept("true", later), (Kept::Always, 0));
}

#[test]
fn a_machine_says_what_was_said_about_it() {
    let reply = json!({ "id": "d1", "outcome": "Refused", "message": "not now" });
    let spec = json!({ "templateHash": "abc", "drainReply": reply });
    let drain = json!({ "group.sojourn.dev/drain": "2026-11-17T09:00:00.2Z" });
    let MachineWanted { machine: wanted, .. } =
        machine_intent(&machine(spec, drain)).expect("good");
    assert_eq!(
        wanted,
        intent::Machine {
            name: "web-abcde".into(),
            uid: "m".into(),
            created_at: at(CREATED),
            deleting: false,
            template: "abc".into(),
            kept: Kept::No,
            drain: Some(at("2026-11-17T09:00:01Z")),
            reply: Some(intent::Reply {
                id: "d1".to_owned(),
                outcome: intent::ReplyOutcome::Refused,
                message: "not now".to_owned(),
            }),
        }
    );
    let bare = machine(json!({}), json!({}));
    let made_from = machine_intent(&bare).expect("good").machine.template;
    assert_eq!(*made_from, *template_hash(&group(json!({})).spec.template), "it has not drifted");
    let mut unborn = bare;
    unborn.metadata.creation_timestamp = None;
    let refused = machine_intent(&unborn).expect_err("of no age");
    assert_eq!(refused.to_string(), "metadata.creationTimestamp: is missing");
}

#[test]
fn machines_on_demand_take_ages_from_their_group_or_the_installation() {
    let defaults = config("expiry: { ondemandAge: 7d }").expect("good");
    let asked =
        machine(json!({ "onDemand": true, "renewedUntil": "2026-11-20T00:00:00Z" }), json!({}));
    let alone = on_demand_intent(&asked, None, &defaults).expect("good").intent;
    assert_eq!((alone.age, alone.max_age), (days(7), days(7)), "it cannot be renewed");
    assert_eq!(alone.drain_timeout, SignedDuration::from_mins(5));
    assert_eq!(alone.registration_timeout, SignedDuration::from_mins(5));
    assert_eq!(alone.renewed_until, Some(at("2026-11-20T00:00:00Z")));

    let expiry = json!({
        "ondemandAge": "2d", "ondemandMaxAge": "9d", "ondemandWarnBefore": "1h",
    });
    let group = group(json!({
        "expiry": expiry, "drainTimeout": "0s", "registrationTimeout": "1m",
    }));
    let of_group = on_demand_intent(&asked, Some(&group), &defaults).expect("good").intent;
    assert_eq!((of_group.age, of_group.max_age), (days(2), days(9)));
    assert_eq!(of_group.warn_before, SignedDuration::from_hours(1));
    assert_eq!(of_group.drain_timeout, SignedDuration::ZERO);
    assert_eq!(of_group.registration_timeout, SignedDuration::from_mins(1));
}

#[test]
fn the_template_is_its_own_or_the_groups() {
    let group = group(json!({ "template": { "provider": "fake", "config": { "of": "group" } } }));
    let own = machine(json!({ "onDemand": true }), json!({}));
    assert_eq!(template_of(&own, Some(&group)), own.spec.template.as_ref());
    let bare = machine(json!({ "onDemand": true, "template": null }), json!({}));
    assert_eq!(template_of(&bare, Some(&group)), Some(&group.spec.template));
    assert_eq!(template_of(&bare, None), None);
}

#[test]
fn what_got_in_around_the_schema_is_told_with_its_path() {
    let refused = |spec: Value| {
        let refused = group_intent(&group(spec), &GroupConfig::default()).expect_err("bad");
        refused.0.into_iter().map(|problem| problem.path).collect::<Vec<_>>()
    };
    assert_eq!(refused(json!({ "size": -1, "surge": 5000 })), ["spec.size", "spec.surge"]);
    assert_eq!(refused(json!({ "drainTimeout": "never" })), ["spec.drainTimeout"]);
    assert_eq!(refused(json!({ "freezeUntil": "later" })), ["spec.freezeUntil"]);
    let both = json!({ "expiry": { "eligibleAge": "2d", "forcedAge": "2d", "jitter": "x" } });
    assert_eq!(refused(both), ["spec.expiry.eligibleAge", "spec.expiry.jitter"]);
    let pod = json!({ "template": { "provider": "pod", "config": {} } });
    assert_eq!(refused(pod), ["spec.template.pod", "spec.template.config"]);
    let not_pod = json!({ "template": { "provider": "fake", "pod": {} } });
    assert_eq!(refused(not_pod), ["spec.template.pod", "spec.template.config"]);
}
