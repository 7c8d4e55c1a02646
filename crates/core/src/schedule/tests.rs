use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window(cron: &str, hours: i64) -> Window {
    let duration = SignedDuration::from_hours(hours);
    Window { cron: cron.parse().unwrap(), duration, zone: TimeZone::UTC }
}

#[test]
fn a_window_is_open_from_its_first_moment_until_before_its_end() {
    let night = window("0 22 * * *", 4);
    let closed = |until: &str| WindowState::Closed { until: Some(at(until)) };
    let open = |until: &str| WindowState::Open { until: at(until) };
    for (now, edge) in [
        ("2026-01-01T21:59:59Z", closed("2026-01-01T22:00:00Z")),
        ("2026-01-01T22:00:00Z", open("2026-01-02T02:00:00Z")),
        ("2026-01-02T01:59:59Z", open("2026-01-02T02:00:00Z")),
        ("2026-01-02T02:00:00Z", closed("2026-01-02T22:00:00Z")),
    ] {
        assert_eq!(night.at(at(now)), edge, "{now}");
    }
}

#[test]
fn windows_that_touch_are_one() {
    let days = window("0 0 * * mon-fri", 24);
    let edge = days.at(at("2026-01-06T12:00:00Z"));
    assert_eq!(edge, WindowState::Open { until: at("2026-01-10T00:00:00Z") });
}

#[test]
fn a_window_without_length_is_never_open() {
    let none = window("* * * * *", 0);
    assert!(matches!(none.at(at("2026-01-06T12:00:00Z")), WindowState::Closed { .. }));
}

#[test]
fn a_window_lasts_as_long_as_it_says_whatever_clocks_do() {
    let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
    let night = Window { zone, ..window("0 0 * * *", 6) };
    let opened = at("2026-11-01T00:00:00-04:00");
    assert_eq!(
        night.at(opened),
        WindowState::Open { until: saturating_add(opened, SignedDuration::from_hours(6)) }
    );
}

// case: group K23
#[test]
fn deny_wins_over_allow_and_the_wait_is_for_the_later_of_both() {
    let night = [window("0 22 * * *", 4)];
    let friday = [window("0 0 * * fri", 24)];
    // A Thursday night that ends on Friday.
    assert_eq!(check_open(&night, &friday, at("2026-01-01T23:00:00Z")), Ok(()));
    let closed = |text: &str| Err(Closed { until: Some(at(text)), again: Some(at(text)) });
    let until = closed("2026-01-03T00:00:00Z");
    assert_eq!(check_open(&night, &friday, at("2026-01-02T01:00:00Z")), until);
    assert_eq!(check_open(&night, &friday, at("2026-01-02T12:00:00Z")), until);
    assert_eq!(check_open(&[], &friday, at("2026-01-02T12:00:00Z")), until);
    assert_eq!(check_open(&[], &[], at("2026-01-02T12:00:00Z")), Ok(()));
    let opens = closed("2026-01-03T22:00:00Z");
    assert_eq!(check_open(&night, &[], at("2026-01-03T12:00:00Z")), opens);
}

#[test]
fn what_never_opens_is_not_said_to_end() {
    let now = at("2026-01-02T12:00:00Z");
    let (night, always) = ([window("0 22 * * *", 4)], [window("* * * * *", 1)]);
    // Without length; no time at which it is not denied; two that exclude each other.
    let (empty, minutes) = ([window("0 0 * * *", 0)], [window("*/5 * * * *", 1)]);
    for (allow, deny, asked_again) in
        [(&empty[..], &[][..], false), (&[], &minutes, true), (&night, &night, true)]
    {
        let closed = check_open(allow, deny, now).unwrap_err();
        assert_eq!((closed.until, closed.again.is_some()), (None, asked_again));
    }
    assert_eq!(check_open(&always, &[], now), Ok(()));
}
