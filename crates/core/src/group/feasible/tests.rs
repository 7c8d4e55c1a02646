use jiff::tz::TimeZone;

use super::super::test_group::{DAY, HOUR, TestGroup, start};
use super::*;
use crate::schedule::Window;
use crate::term::Term;

fn group(size: u32) -> Intent {
    Intent { size, ..TestGroup::empty().intent }
}

fn budget(max: u32) -> Budget {
    Budget {
        max,
        per: None,
        causes: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        path: "budgets[0]".to_owned(),
    }
}

#[test]
fn nine_days_carry_1851_machines_of_seven_minutes_each() {
    assert_eq!(shortfall(&group(1851), start()), None);
    let short = shortfall(&group(2000), start()).unwrap();
    assert_eq!((short.managed, short.between), (1851, Some(DAY * 9)));
    assert_eq!(
        short.to_string(),
        "1851 of 2000 machines of one age can be replaced in the 9d between eligibleAge and \
         forcedAge, one at a time, each taking about 7m; 149 would be forced: 17h20m more are \
         needed, or a shorter drainTimeout, or smaller groups"
    );
}

#[test]
fn windows_and_rates_take_time_away() {
    let mut intent = group(100);
    // One hour a day for nine days: nine begin in each.
    let window = Window { cron: "0 3 * * *".parse().unwrap(), duration: HOUR, zone: TimeZone::UTC };
    intent.budgets = vec![Budget { allow: vec![window.clone()], ..budget(1) }];
    let short = shortfall(&intent, start()).unwrap();
    assert_eq!(short.managed, 81);
    intent.size = 81;
    assert_eq!(shortfall(&intent, start()), None);
    // Five per day.
    intent.budgets = vec![Budget { per: Some(DAY), ..budget(5) }];
    assert_eq!(shortfall(&intent, start()).unwrap().managed, 45);
    // Never.
    intent.budgets = vec![Budget { allow: vec![window.clone()], deny: vec![window], ..budget(1) }];
    assert_eq!(shortfall(&intent, start()).unwrap().managed, 0);
    intent.budgets = vec![budget(0)];
    assert_eq!(shortfall(&intent, start()).unwrap().managed, 0);
    // Others' budgets do not matter.
    intent.budgets = vec![Budget { causes: vec![Cause::Unhealthy], ..budget(0) }];
    assert_eq!(shortfall(&intent, start()), None);
}

#[test]
fn without_an_eligible_age_all_are_forced_together() {
    let mut intent = group(3);
    intent.expiry.eligible = Term::Never;
    let short = shortfall(&intent, start()).unwrap();
    assert_eq!((short.managed, short.between), (2, None));
    intent.size = 2;
    assert_eq!(shortfall(&intent, start()), None);
}

#[test]
fn without_a_forced_age_there_is_nothing_to_miss() {
    let mut intent = group(1_000_000);
    intent.expiry.forced = Term::Never;
    assert_eq!(shortfall(&intent, start()), None);
    assert_eq!(shortfall(&group(0), start()), None);
}
