use super::*;
use crate::lab::sample::{self, at, key};

fn claim(action: LinkAction) -> LinkClaim {
    LinkClaim {
        recipient: String::new(),
        count: 0,
        family: "lab".to_owned(),
        key: key(),
        uid: "u-1".to_owned(),
        verb: action.code(),
        expires: at(900),
        id: "l-1".to_owned(),
    }
}

/// How it stands with a link of an Instance with this change, at 2027-01-15T08:00:00Z.
fn decided(action: LinkAction, change: Value) -> LinkDecision {
    decide_link(Some(&sample::instance(change)), &claim(action), at(0), &Zone::utc())
}

fn open(decided: LinkDecision) -> LinkChange {
    match decided {
        LinkDecision::Open(change) => change,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_writes_one_change_to_the_object_it_means() {
    let instance = sample::instance(json!({}));
    let change = open(decided(LinkAction::KeepHour, json!({})));
    assert_eq!(
        patch(&instance, &claim(LinkAction::KeepHour), change.patch),
        json!({"metadata": {"uid": "u-1", "resourceVersion": "7", "annotations": {
            "sojourn.dev/keep-until": "2027-01-15T09:00:00Z", "sojourn.dev/links-used": "l-1",
        }}})
    );
    assert_eq!(
        change.after,
        "ada is neither stopped nor deleted before Friday 15 January 2027, 09:00 UTC."
    );
    let change = open(decided(LinkAction::KeepTomorrow, json!({})));
    let until = &change.patch["metadata"]["annotations"]["sojourn.dev/keep-until"];
    assert_eq!(until, "2027-01-16T09:00:00Z");
    let change = open(decided(LinkAction::Stop, json!({})));
    let written = patch(&instance, &claim(LinkAction::Stop), change.patch);
    assert_eq!(written["spec"], json!({"running": false}));
    assert_eq!(written["metadata"]["annotations"], json!({"sojourn.dev/links-used": "l-1"}));
}

#[test]
fn a_link_that_was_pressed_says_so_and_does_nothing() {
    let used = |running: bool, status: Value| {
        let change = json!({
            "metadata": {"annotations": {"sojourn.dev/links-used": "l-0,l-1,l-2"}},
            "spec": {"running": running}, "status": status,
        });
        match decided(LinkAction::Stop, change) {
            LinkDecision::Used(words) => words,
            other => panic!("{other:?}"),
        }
    };
    let said = "This link was used before and does nothing more.";
    assert_eq!(used(true, json!({})), format!("{said} ada is switched on."));
    assert_eq!(used(false, json!({})), format!("{said} ada is stopped."));
    let kept = json!({"keep": {"used": 1, "until": at(3600).to_string()}});
    assert_eq!(
        used(true, kept),
        format!("{said} ada is kept until Friday 15 January 2027, 09:00 UTC.")
    );
    let other = json!({"metadata": {"annotations": {"sojourn.dev/links-used": "l-0,l-11"}}});
    open(decided(LinkAction::Stop, other));
}

#[test]
fn only_so_many_pressed_links_are_remembered() {
    let old: Vec<String> = (0..40).map(|number| format!("o-{number}")).collect();
    let change = json!({"metadata": {"annotations": {"sojourn.dev/links-used": old.join(",")}}});
    let instance = sample::instance(change);
    let written = patch(&instance, &claim(LinkAction::Stop), json!({}));
    let used = written["metadata"]["annotations"]["sojourn.dev/links-used"].as_str();
    let used: Vec<&str> = used.expect("text").split(',').collect();
    assert_eq!((used.len(), used[0], used[15]), (16, "o-25", "l-1"));
}

#[test]
fn what_cannot_be_done_is_said_before_anybody_presses() {
    let refused = |action, change: Value| match decided(action, change) {
        LinkDecision::Refused(words) => words,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(LinkAction::Stop, json!({"spec": {"running": false}})),
        "ada is stopped already."
    );
    assert_eq!(
        refused(LinkAction::Stop, json!({"metadata": {"uid": "u-2"}})),
        "ada is not there any more."
    );
    assert_eq!(
        refused(LinkAction::Stop, json!({"metadata": {"deletionTimestamp": at(0).to_string()}})),
        "ada is being deleted already."
    );
    let keep = |used: u32, until: i64| json!({"status": {"keep": {"used": used, "until": at(until).to_string()}}});
    assert_eq!(
        refused(LinkAction::KeepHour, keep(3, 0)),
        "ada was kept 3 times already, which is as often as it can be."
    );
    assert_eq!(
        refused(LinkAction::KeepHour, keep(1, 7200)),
        "ada is kept until Friday 15 January 2027, 10:00 UTC anyhow."
    );
    open(decided(LinkAction::KeepTomorrow, keep(1, 7200)));
    let none = decide_link(None, &claim(LinkAction::Stop), at(0), &Zone::utc());
    assert_eq!(none, LinkDecision::Refused("ada is not there any more.".to_owned()));
}

#[test]
fn the_end_of_an_exam_is_not_put_off_and_the_page_says_so() {
    let exam = json!({"spec": {"statusCheck": {"url": "http://exam.example.org/"}}});
    let change = open(decided(LinkAction::KeepHour, exam));
    assert!(change.before.ends_with("09:00 UTC, unless its exam ends."), "{}", change.before);
}

/// Nine by the clock of the place, also where a day has 23 or 25 hours, and never today.
#[test]
fn tomorrow_at_nine_is_by_the_clock_of_the_mails_zone() {
    for (zone, now, nine) in [
        ("Europe/Rome", "2026-11-16T00:30:00+01:00", "2026-11-17T09:00:00+01:00"),
        ("Europe/Rome", "2026-11-16T08:59:00+01:00", "2026-11-17T09:00:00+01:00"),
        ("Europe/Rome", "2026-11-16T09:01:00+01:00", "2026-11-17T09:00:00+01:00"),
        ("Europe/Rome", "2026-11-16T23:59:59+01:00", "2026-11-17T09:00:00+01:00"),
        ("Europe/Rome", "2026-12-31T12:00:00+01:00", "2027-01-01T09:00:00+01:00"),
        // The clock goes back in the night: 25 hours.
        ("Europe/Rome", "2026-10-24T09:00:00+02:00", "2026-10-25T09:00:00+01:00"),
        ("Europe/Rome", "2026-10-25T02:30:00+02:00", "2026-10-26T09:00:00+01:00"),
        ("Europe/Rome", "2026-10-25T02:30:00+01:00", "2026-10-26T09:00:00+01:00"),
        // It goes forward: 23 hours.
        ("Europe/Rome", "2026-03-28T09:01:00+01:00", "2026-03-29T09:00:00+02:00"),
        // It is another day there than in UTC.
        ("Pacific/Kiritimati", "2026-11-16T12:00:00Z", "2026-11-18T09:00:00+14:00"),
        ("Pacific/Niue", "2026-11-16T08:00:00Z", "2026-11-16T09:00:00-11:00"),
        // A day that was left out of the calendar.
        ("Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T09:00:00+14:00"),
    ] {
        let time = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let found = tomorrow_morning(time(now), Zone::named(zone).expect("a zone").rules());
        assert_eq!(found, time(nine), "{zone} {now}");
    }
}

#[test]
fn it_is_called_as_mails_call_it() {
    let pretty = json!({"spec": {"prettyName": "Ada's notebook"}});
    let change = open(decided(LinkAction::Stop, pretty));
    assert_eq!(change.after, "Ada's notebook is being stopped; it can be started again.");
}

#[test]
fn the_page_and_the_change_are_of_the_same_zone() {
    let rome = Zone::named("Europe/Rome").expect("a zone");
    // 09:00 there.
    let instance = sample::instance(json!({}));
    let change = open(decide_link(Some(&instance), &claim(LinkAction::KeepTomorrow), at(0), &rome));
    let until = &change.patch["metadata"]["annotations"]["sojourn.dev/keep-until"];
    assert_eq!(until, "2027-01-16T08:00:00Z");
    assert_eq!(
        change.before,
        "ada is then neither stopped nor deleted before Saturday 16 January 2027, 09:00 Europe/Rome."
    );
}
