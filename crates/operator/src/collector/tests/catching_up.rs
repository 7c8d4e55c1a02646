//! Looks always cover the time since the last one that worked.

use super::*;

const HOUR: i64 = 3600;

/// How many points each data question about Nginx was for.
fn data_points(bed: &Bed) -> Vec<usize> {
    let asked = bed.fake.asked();
    asked.iter().filter(|a| a.query == "web").map(|a| a.window.points().count()).collect()
}

fn too_much(more_than: usize) -> impl Fn(&Asked) -> Vec<Fault> + Send + Sync {
    move |asked| {
        let error = QueryError::TooMuch { server: "fake".into(), reason: "too many".into() };
        let refused = asked.query == "web" && asked.window.points().count() > more_than;
        if refused { vec![Fault::Fail(error)] } else { Vec::new() }
    }
}

// case: lab I21
#[tokio::test(start_paused = true)]
async fn use_an_hour_after_the_last_look_is_found_a_day_later() {
    let mut bed = Bed::new();
    bed.fake.set("web", &service("vm-1"), at(-5000), 3.0);
    bed.tick(0).await;
    bed.fake.set("web", &service("vm-1"), at(HOUR), 4.0);
    bed.tick(24 * HOUR).await;
    assert_eq!(bed.seen("vm-1"), Some((HOUR, Source::Nginx, 1)));
    assert_eq!(bed.observed(BOTH, 0, 24 * HOUR), 24 * HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn a_long_time_is_asked_for_in_parts_that_a_server_accepts() {
    let mut bed = Bed::new();
    bed.fake.set("web", &service("vm-1"), at(-5000), 3.0);
    bed.tick(0).await;
    bed.fake.set("web", &service("vm-1"), at(2 * 24 * HOUR), 4.0);
    let tally = bed.tick(10 * 24 * HOUR).await;
    let points = data_points(&bed);
    assert_eq!(points.len(), 4, "the first look, and 28,800 points in three parts: {points:?}");
    assert!(points.iter().all(|&points| points < 11_000), "{points:?}");
    assert_eq!(tally.queries, 2 * 2 * 3);
    assert_eq!(bed.seen("vm-1"), Some((2 * 24 * HOUR, Source::Nginx, 1)));
    assert_eq!(bed.observed(BOTH, 0, 10 * 24 * HOUR), 10 * 24 * HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_a_month_stays_unseen() {
    let mut bed = Bed::new();
    bed.tick(0).await;
    bed.tick(60 * 24 * HOUR).await;
    let month = 31 * 24 * HOUR;
    assert_eq!(bed.observed(BOTH, 0, 60 * 24 * HOUR), month - STEP);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_too_large_is_halved() {
    let mut bed = Bed::new();
    bed.tick(0).await;
    bed.fake.script(too_much(50));
    bed.fake.set("web", &service("vm-1"), at(HOUR), 1.0);
    bed.tick(2 * HOUR).await;
    assert_eq!(bed.seen("vm-1"), Some((HOUR, Source::Nginx, 1)));
    assert_eq!(bed.observed(BOTH, 0, 2 * HOUR), 2 * HOUR - STEP);
    let points = data_points(&bed);
    assert_eq!(points[1..5], [242, 121, 61, 31], "halved until it was accepted");
    assert!(points[5..].iter().all(|&points| points <= 31), "{points:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_finds_everything_too_large_is_not_asked_for_ever() {
    let mut bed = Bed::new();
    bed.tick(0).await;
    bed.fake.script(too_much(0));
    let tally = bed.tick(24 * HOUR).await;
    assert!(tally.queries < 20, "{tally:?}");
    assert_eq!((tally.failed, bed.observed(WEB, 0, 24 * HOUR)), (1, 0));
    let book = bed.ledger.read();
    assert!(book.trouble(Source::Nginx).unwrap().contains("finds the query too large"));
    bed.fake.script(too_much(2));
    let tally = bed.tick(24 * HOUR + 30).await;
    let trouble = bed.ledger.read().trouble(Source::Nginx).map(ToOwned::to_owned);
    assert!(trouble.unwrap().contains("the next look goes on"));
    assert!(tally.queries < 60 && bed.observed(WEB, 0, 24 * HOUR) > 600, "{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_answered_is_kept_when_the_next_is_not() {
    let mut bed = Bed::new();
    bed.tick(0).await;
    bed.fake.set("web", &service("vm-1"), at(HOUR), 1.0);
    bed.fake.set("web", &service("vm-2"), at(9 * 24 * HOUR), 1.0);
    let error = QueryError::TimedOut { server: "fake".into(), seconds: 1 };
    bed.fake.script(move |asked| {
        let late = asked.window.end > at(5 * 24 * HOUR) && asked.query == "web";
        if late { vec![Fault::Fail(error.clone())] } else { Vec::new() }
    });
    bed.tick(10 * 24 * HOUR).await;
    assert_eq!(bed.seen("vm-1"), Some((HOUR, Source::Nginx, 1)));
    let kept = bed.observed(WEB, 0, 10 * 24 * HOUR);
    assert_eq!(kept, 9_999 * 30 - 30, "the first part, which began a step before");
    bed.fake.heal();
    let tally = bed.tick(10 * 24 * HOUR + 30).await;
    assert_eq!(bed.observed(WEB, 0, 10 * 24 * HOUR + 30), 10 * 24 * HOUR);
    assert_eq!(bed.seen("vm-2"), Some((9 * 24 * HOUR, Source::Nginx, 1)));
    assert_eq!(tally.failed, 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_time_in_between_is_looked_at() {
    let mut bed = Bed::new();
    bed.fake.set("web", &service("vm-1"), at(-5000), 1.0);
    bed.run(0, 300).await;
    let mut bed = bed.restart(310);
    assert_eq!(bed.observed(BOTH, 0, 310), 270);
    bed.fake.set("web", &service("vm-1"), at(2000), 2.0);
    bed.tick(HOUR).await;
    assert_eq!(bed.seen("vm-1"), Some((2010, Source::Nginx, 1)));
    assert_eq!(bed.observed(BOTH, 0, HOUR), HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn use_that_was_found_but_not_written_is_found_again_after_a_restart() {
    let mut bed = Bed::new();
    bed.fake.set("web", &service("vm-1"), at(-5000), 1.0);
    bed.run(0, 300).await;
    bed.fake.set("web", &service("vm-1"), at(310), 2.0);
    bed.run(330, 900).await;
    assert_eq!(bed.seen("vm-1").map(|seen| seen.0), Some(330), "it waits; no status is written");
    let mut bed = bed.restart(910);
    assert_eq!(bed.observed(WEB, 0, 910), 329 - 62, "no time is claimed whose use may be lost");
    assert_eq!(bed.seen("vm-1"), None);
    bed.tick(930).await;
    assert_eq!(bed.seen("vm-1"), Some((330, Source::Nginx, 1)), "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_dark_still_finds_what_moved_meanwhile() {
    let mut bed = Bed::new();
    let series = service("vm-1");
    bed.fake.set("web", &series, at(-5000), 4.0);
    bed.fake.end("web", &series, at(70));
    bed.up("web up", 70, 0.0);
    bed.run(0, 600).await;
    let mut bed = bed.restart(600);
    bed.run(630, 900).await;
    bed.up("web up", 905, 1.0);
    bed.fake.set("web", &series, at(905), 5.0);
    bed.run(930, 1200).await;
    assert_eq!(bed.seen("vm-1"), Some((930, Source::Nginx, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_costs_nothing() {
    let mut bed = Bed::new();
    bed.run(0, 600).await;
    let asked = bed.fake.times_asked();
    let tally = bed.tick(100).await;
    assert_eq!((tally, bed.fake.times_asked()), (Tally::default(), asked));
    assert_eq!(bed.observed(BOTH, 0, 100), 100, "not more than the clock says");
    bed.tick(630).await;
    assert_eq!(bed.observed(BOTH, 0, 630), 600);
}

#[tokio::test(start_paused = true)]
async fn odd_intervals_and_steps_cover_all_time_too() {
    for (interval, step) in [(7, 30), (30, 7), (100, 30), (31, 31)] {
        let fake = Bed::new().fake;
        let options = Options { interval: secs(interval), step: secs(step), ..options() };
        let mut bed = Bed::with(fake, options, Objects::default(), Ledger::default());
        bed.fake.set("web", &service("vm-1"), at(-5000), 0.0);
        let (mut uses, mut counted) = (0_u32, 0_u64);
        for tick in 0..200 {
            let now = tick * interval;
            if tick % 3 == 1 {
                uses += 1;
                bed.fake.set("web", &service("vm-1"), at(now - 1), f64::from(uses));
            }
            bed.tick(now).await;
            if let Some((last, _, count)) = bed.take("vm-1") {
                assert!(last <= now && last > now - 2 * step - interval, "{interval}/{step}");
                counted += count;
            }
            assert_eq!(bed.observed(BOTH, 0, now), (now - step).max(0), "{interval}/{step}");
        }
        bed.tick(200 * interval + 2 * step).await;
        counted += bed.take("vm-1").map_or(0, |seen| seen.2);
        assert_eq!(counted, u64::from(uses), "{interval}/{step}");
    }
}
