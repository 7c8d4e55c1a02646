use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// New York's rules: forward on the second Sunday of March at 2:00, back on the first of November.
fn new_york() -> TimeZone {
    TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap()
}

fn next(line: &str, after: &str) -> String {
    cron(line).next_after(at(after), &TimeZone::UTC).map_or("never".to_owned(), |at| at.to_string())
}

#[test]
fn the_first_time_after() {
    for (line, after, expected) in [
        ("0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"),
        ("0 3 * * *", "2026-01-01T02:59:59.999Z", "2026-01-01T03:00:00Z"),
        ("*/15 * * * *", "2026-01-01T00:01:00Z", "2026-01-01T00:15:00Z"),
        ("5/20 8-9 * * *", "2026-01-01T08:45:00Z", "2026-01-01T09:05:00Z"),
        ("0 22 * * fri", "2026-01-01T00:00:00Z", "2026-01-02T22:00:00Z"),
        ("0 0 * * Mon-Fri", "2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 * * 5-7", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 1 JAN *", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("30 4 1,15 * *", "2026-01-01T05:00:00Z", "2026-01-15T04:30:00Z"),
        // Either day field is enough when both name days; both are needed beside a star.
        ("0 0 13 * fri", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-12T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 */2 * mon", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 */2 * mon", "2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("  0  0  1  1  * ", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(next(line, after), expected, "{line} after {after}");
    }
}

// case: group K23
#[test]
fn what_is_no_cron_line_is_refused_with_the_field() {
    for (line, words) in [
        ("", "has 0 fields; write five: minute, hour, day of the month, month, day of the week"),
        (
            "* * * *",
            "has 4 fields; write five: minute, hour, day of the month, month, day of the week",
        ),
        ("60 * * * *", "\"60\" is no minute; write 0 to 59, such as 0,30 or */15"),
        ("* 24 * * *", "\"24\" is no hour; write 0 to 23, such as 9-17 or */2"),
        ("* * 0 * *", "\"0\" is no day of the month; write 1 to 31, such as 1,15"),
        ("* * * 13 *", "\"13\" is no month; write 1 to 12 or jan to dec"),
        ("* * * * 8", "\"8\" is no day of the week; write 0 to 7 or sun to sat, such as mon-fri"),
        ("*/0 * * * *", "\"*/0\" is no minute; write 0 to 59, such as 0,30 or */15"),
        ("5-1 * * * *", "\"5-1\" is no minute; write 0 to 59, such as 0,30 or */15"),
        ("1,,2 * * * *", "\"1,,2\" is no minute; write 0 to 59, such as 0,30 or */15"),
        ("+1 * * * *", "\"+1\" is no minute; write 0 to 59, such as 0,30 or */15"),
        ("0 0 30 2 *", "names a day that none of its months has"),
        ("0 0 31 4,6 *", "names a day that none of its months has"),
    ] {
        assert_eq!(line.parse::<Cron>().unwrap_err().to_string(), words, "{line}");
    }
    assert_eq!("* ".repeat(200).parse::<Cron>(), Err(CronError::TooLong));
}

#[test]
fn an_hour_that_is_skipped_begins_at_the_change() {
    // On 8 March 2026 the hour from 2:00 to 3:00 is missing; the change is at 7:00 UTC.
    let named = cron("30 2 * * *");
    let after = at("2026-03-08T00:00:00-05:00");
    let change = at("2026-03-08T07:00:00Z");
    assert_eq!(named.next_after(after, &new_york()), Some(change));
    assert_eq!(named.next_after(change, &new_york()), Some(at("2026-03-09T06:30:00Z")));
    let every = cron("30 * * * *");
    assert_eq!(
        every.next_after(at("2026-03-08T06:30:00Z"), &new_york()),
        Some(at("2026-03-08T07:30:00Z"))
    );
}

#[test]
fn an_hour_that_comes_twice_counts_once_unless_every_hour_does() {
    // On 1 November 2026 the hour from 1:00 to 2:00 comes twice, from 5:00 and from 6:00 UTC.
    let named = cron("0 1 * * *");
    let after = at("2026-11-01T00:30:00-04:00");
    let first = at("2026-11-01T05:00:00Z");
    assert_eq!(named.next_after(after, &new_york()), Some(first));
    assert_eq!(named.next_after(first, &new_york()), Some(at("2026-11-02T06:00:00Z")));
    let every = cron("*/30 * * * *");
    let mut times = vec![first];
    for _ in 0..4 {
        times.push(every.next_after(times[times.len() - 1], &new_york()).unwrap());
    }
    let expected: Vec<Timestamp> = [
        "2026-11-01T05:00:00Z",
        "2026-11-01T05:30:00Z",
        "2026-11-01T06:00:00Z",
        "2026-11-01T06:30:00Z",
        "2026-11-01T07:00:00Z",
    ]
    .map(at)
    .to_vec();
    assert_eq!(times, expected);
}

#[test]
fn the_ends_of_time_do_not_panic() {
    assert_eq!(cron("0 0 1 1 *").next_after(Timestamp::MAX, &new_york()), None);
    assert!(cron("0 0 1 1 *").next_after(Timestamp::MIN, &new_york()).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<Cron>();
    }

    /// Against the plain way: every minute asked in turn.
    #[test]
    fn the_next_time_is_the_first_minute_that_matches(
        minute in prop::sample::select(vec!["*", "0", "7,31", "*/20", "50-59/3"]),
        hour in prop::sample::select(vec!["*", "0", "9-17", "*/6", "1,2"]),
        day in prop::sample::select(vec!["*", "1", "*/3", "28-31"]),
        weekday in prop::sample::select(vec!["*", "mon", "sat,sun", "5-7"]),
        start in 1_767_225_600_i64..1_798_761_600,
    ) {
        let line = cron(&format!("{minute} {hour} {day} * {weekday}"));
        let start = Timestamp::from_second(start).unwrap();
        let found = line.next_after(start, &TimeZone::UTC).unwrap();
        prop_assert!(found > start);
        let minute_of = |at: Timestamp| at.as_second().div_euclid(60);
        let shows = |minute: i64| {
            let at = Timestamp::from_second(minute * 60).unwrap();
            let civil = TimeZone::UTC.to_datetime(at);
            holds(line.minutes, u32::from(civil.minute().unsigned_abs()))
                && holds(line.hours, u32::from(civil.hour().unsigned_abs()))
                && line.is_on(civil.date())
        };
        let first = (minute_of(start) + 1..).find(|minute| shows(*minute)).unwrap();
        prop_assert_eq!(minute_of(found), first);
        prop_assert_eq!(found.as_second() % 60, 0);
    }
}
